package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
)

// creates names the parameters by which a command gives something new its id.
var creates = map[command.Name]string{
	"create_session": "sessionId", "submit_turn": "sessionId turnId", "create_task": "taskId", "create_job": "jobId",
	"create_schedule": "scheduleId", "spawn_subagent": "subagentId", "connect_channel": "channelId",
}

// TestIDsOfOthersLookUnknown gives every command of the catalogue the ids of another
// account, one at a time, and ids that nobody has: the answers are the same.
func TestIDsOfOthersLookUnknown(t *testing.T) {
	k := runtimetest.New(t)
	acme := command.Caller{Account: "acme", Actor: event.Actor{Kind: "user"}}
	stranger := command.Caller{Account: "stranger", Actor: event.Actor{Kind: "user"}}
	run := func(c command.Caller, p command.Params) error {
		_, err := k.Runtime.Do(t.Context(), c, p)
		return err
	}
	ids := map[string]string{
		"sessionId": "sess_acme", "turnId": "turn_acme", "taskId": "task_acme", "jobId": "job_acme", "scheduleId": "schedule_acme", "channelId": "chan_acme",
	}
	mustRun(t, run, acme, "create_session", `{"sessionId":"sess_acme"}`)
	mustRun(t, run, acme, "submit_turn", `{"sessionId":"sess_acme","turnId":"turn_acme","input":"hello"}`)
	mustRun(t, run, acme, "create_task", `{"sessionId":"sess_acme","taskId":"task_acme","objective":"x"}`)
	mustRun(t, run, acme, "create_job", `{"sessionId":"sess_acme","jobId":"job_acme","instruction":"x","items":[{"itemId":"a","input":"x"}],"start":false}`)
	mustRun(t, run, acme, "create_schedule", `{"sessionId":"sess_acme","scheduleId":"schedule_acme","everyMs":3600000,"task":{"objective":"x"}}`)
	mustRun(t, run, acme, "connect_channel", `{"sessionId":"sess_acme","channelId":"chan_acme","transport":"sse","peerRole":"client"}`)

	for _, d := range command.Catalog() {
		var example map[string]any
		if err := json.Unmarshal([]byte(d.Example), &example); err != nil {
			t.Fatal(err)
		}
		for field, theirs := range ids {
			if _, has := example[field]; !has || strings.Contains(creates[d.Name], field) || command.Need(mustDecode(t, d.Name, d.Example)) == command.RoleAdmin {
				continue
			}
			ask := func(id string) string {
				with := map[string]any{}
				maps.Copy(with, example)
				with[field] = id
				body, _ := json.Marshal(with)
				p, err := command.Decode(d.Name, body)
				if err == nil {
					err = run(stranger, p)
				}
				f, ok := errors.AsType[*fault.Error](err)
				if !ok {
					return fmt.Sprint(err)
				}
				return fmt.Sprintf("%s %q retry %v elsewhere %q", f.Kind, strings.ReplaceAll(f.Detail, id, "ID"), f.RetryAfter, f.Elsewhere)
			}
			foreign, unknown := ask(theirs), ask(strings.Replace(theirs, "acme", string(d.Name), 1))
			if foreign != unknown {
				t.Errorf("%s with %s of another account: %s\n of nobody: %s", d.Name, field, foreign, unknown)
			}
		}
	}
}

// TestTakenIDSaysNothingOfItsOwner creates things under ids that another account
// has: the answer is one and the same, whatever has the id.
func TestTakenIDSaysNothingOfItsOwner(t *testing.T) {
	k := runtimetest.New(t)
	acme := command.Caller{Account: "acme", Actor: event.Actor{Kind: "user"}}
	stranger := command.Caller{Account: "stranger", Actor: event.Actor{Kind: "user"}}
	run := func(c command.Caller, p command.Params) error {
		_, err := k.Runtime.Do(t.Context(), c, p)
		return err
	}
	mustRun(t, run, acme, "create_session", `{"sessionId":"sess_acme"}`)
	mustRun(t, run, stranger, "create_session", `{"sessionId":"sess_own"}`)
	bodies := map[command.Name]string{
		"create_session":  `{"sessionId":"ID"}`,
		"create_task":     `{"taskId":"ID","objective":"x"SESSION}`,
		"create_job":      `{"jobId":"ID","instruction":"x","items":[{"input":"x"}],"start":false SESSION}`,
		"create_schedule": `{"scheduleId":"ID","everyMs":3600000,"task":{"objective":"x"}SESSION}`,
		"connect_channel": `{"channelId":"ID","transport":"sse","peerRole":"client"SESSION}`,
	}
	for name, body := range bodies {
		id := "taken_" + string(name)
		fill := func(session string) string {
			return strings.NewReplacer("ID", id, "SESSION", session).Replace(body)
		}
		mustRun(t, run, acme, name, fill(""))
		for _, session := range []string{"", `,"sessionId":"sess_own"`} {
			if name == "create_session" && session != "" {
				continue
			}
			err := run(stranger, mustDecode(t, name, fill(session)))
			f, ok := errors.AsType[*fault.Error](err)
			if want := "the id " + id + " can't be used here; choose another one"; !ok || f.Kind != fault.Conflict || f.Detail != want {
				t.Errorf("%s %s: %v, want a conflict: %s", name, fill(session), err, want)
			}
		}
	}
}

func mustDecode(t *testing.T, name command.Name, body string) command.Params {
	t.Helper()
	p, err := command.Decode(name, []byte(body))
	if err != nil {
		t.Fatalf("%s %s: %v", name, body, err)
	}
	return p
}

func mustRun(t *testing.T, run func(command.Caller, command.Params) error, c command.Caller, name command.Name, body string) {
	t.Helper()
	if err := run(c, mustDecode(t, name, body)); err != nil {
		t.Fatalf("%s %s: %v", name, body, err)
	}
}
