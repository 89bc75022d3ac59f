package atif_test

import (
	"testing"

	"agentd/evidence/atif"
)

const seedTrajectory = `{"schema_version":"ATIF-v1.5","session_id":"s","agent":{"name":"agentd","version":"1","model_name":"m"},` +
	`"steps":[{"step_id":1,"source":"user","message":"hello"},{"step_id":2,"source":"agent","message":[{"type":"text","text":"x"}],` +
	`"tool_calls":[{"tool_call_id":"c","function_name":"shell","arguments":{"command":"ls"}}],"observation":{"results":[{"source_call_id":"c","content":"a"}]},` +
	`"metrics":{"prompt_tokens":1}}],"final_metrics":{"total_steps":2},"notes":"n"}`

// Whatever a trajectory is, it is valid or not, and brought down to the older
// version or refused.
func FuzzTrajectory(f *testing.F) {
	f.Add([]byte(seedTrajectory))
	f.Add([]byte(`{"schema_version":"ATIF-v1.7","steps":[null],"subagent_trajectories":[{}]}`))
	f.Add([]byte(`{"steps":[{"message":{}}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		_ = atif.Validate(doc)
		out, err := atif.Downlevel(doc)
		if err == nil && len(out) == 0 {
			t.Errorf("%q became nothing", doc)
		}
	})
}
