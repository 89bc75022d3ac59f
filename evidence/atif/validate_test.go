package atif

import (
	"errors"
	"strings"
	"testing"
)

// legal is a document that uses every member of the format.
const legal = `{
 "schema_version": "ATIF-v1.8", "session_id": "sess_1", "trajectory_id": "t", "notes": "n", "continued_trajectory_ref": "next.json", "extra": {"any": 1},
 "agent": {"name": "agentd", "version": "1", "model_name": "m", "tool_definitions": [{"type": "function"}], "extra": {}},
 "final_metrics": {"total_prompt_tokens": 1, "total_completion_tokens": 2, "total_cached_tokens": 0, "total_cost_usd": 0.1, "total_steps": 3, "extra": {}},
 "steps": [
  {"step_id": 1, "timestamp": "2026-01-02T03:04:05.678Z", "source": "user", "message": [{"type": "text", "text": "Look."}, {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}, {"type": "audio", "source": {"media_type": "audio/wav", "path": "a.wav", "duration_sec": 1.5}}]},
  {"step_id": 2, "source": "agent", "message": "", "model_name": "m", "reasoning_effort": 0.5, "reasoning_content": "hm", "llm_call_count": 1, "is_copied_context": false,
   "tool_calls": [{"tool_call_id": "c1", "function_name": "f", "arguments": {}, "extra": {"permission": "allow"}}, {"tool_call_id": "c2", "function_name": "g", "arguments": {"a": 1}}],
   "observation": {"results": [{"source_call_id": "c1", "content": null, "extra": {}}, {"source_call_id": "c2", "content": "ok", "subagent_trajectory_ref": [{"trajectory_id": "sub_1", "session_id": "sess_1", "extra": {}}, {"trajectory_path": "other.json"}]}, {"content": [{"type": "text", "text": ""}]}]},
   "metrics": {"prompt_tokens": 1, "completion_tokens": 2, "cached_tokens": 0, "cost_usd": 0.1, "prompt_token_ids": [1], "completion_token_ids": [2], "logprobs": [-0.5], "extra": {}}, "extra": {}},
  {"step_id": 3, "timestamp": "2026-01-02", "source": "system", "message": "compacted", "observation": {"results": [{"content": "summary"}]}, "extra": {"context_management": {"type": "compaction", "boundary": "replace"}}}
 ],
 "subagent_trajectories": [{"schema_version": "ATIF-v1.8", "trajectory_id": "sub_1", "agent": {"name": "agentd", "version": "1"}, "steps": [{"step_id": 1, "source": "user", "message": "go"}]}]
}`

func TestLegalDocumentsAreAccepted(t *testing.T) {
	if err := Validate([]byte(legal)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"the least":                      {legal, `{"schema_version":"ATIF-v1.0","agent":{"name":"a","version":"1"},"steps":[{"step_id":1,"source":"user","message":""}]}`},
		"an older version with new ones": {`"ATIF-v1.8", "session_id"`, `"ATIF-v1.4", "session_id"`},
		"null where nothing is required": {`"notes": "n"`, `"notes": null`},
		"a time without a zone":          {`"2026-01-02T03:04:05.678Z"`, `"2026-01-02T03:04:05"`},
		"a time with an offset":          {`"2026-01-02T03:04:05.678Z"`, `"2026-01-02 03:04:05,5+01:00"`},
		"agent-only members that are null": {
			`"source": "system", "message"`,
			`"source": "system", "tool_calls": null, "metrics": null, "message"`,
		},
		"no call of a model":      {`"step_id": 3, "timestamp": "2026-01-02", "source": "system"`, `"step_id": 3, "source": "agent", "llm_call_count": 0`},
		"an effort in words":      {`"reasoning_effort": 0.5`, `"reasoning_effort": "high"`},
		"a whole number as 1.0":   {`"step_id": 1, "timestamp"`, `"step_id": 1.0, "timestamp"`},
		"another name of a sound": {`"audio/wav"`, `"audio/x-wav"`},
		"the same call id in another step": {
			`"step_id": 3, "timestamp": "2026-01-02", "source": "system"`,
			`"step_id": 3, "source": "agent", "tool_calls": [{"tool_call_id": "c1", "function_name": "f", "arguments": {}}]`,
		},
	} {
		doc := strings.Replace(legal, change[0], change[1], 1)
		if doc == legal {
			t.Errorf("%s: the case changes nothing", name)
		}
		if err := Validate([]byte(doc)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMalformedDocumentsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		rule           Rule
		path           string
	}{
		{"no JSON", legal, `{"schema_version"`, RuleShape, "$"},
		{"two documents", legal, legal + "{}", RuleShape, "$"},
		{"a list", legal, `[]`, RuleShape, "$"},
		{"no version", `"schema_version": "ATIF-v1.8", "session_id"`, `"session_id"`, RuleShape, "$.schema_version"},
		{"the standard's own word", `"ATIF-v1.8", "session_id"`, `"ATIF-v1.4-compatible", "session_id"`, RuleVersion, "$.schema_version"},
		{"a version to come", `"ATIF-v1.8", "session_id"`, `"ATIF-v1.9", "session_id"`, RuleVersion, "$.schema_version"},
		{"a version as a number", `"ATIF-v1.8", "session_id"`, `1.8, "session_id"`, RuleVersion, "$.schema_version"},
		{"an unknown member", `"notes": "n"`, `"note": "n"`, RuleClosed, "$.note"},
		{"an unknown member of the agent", `"model_name": "m", "tool_definitions"`, `"model": "m", "tool_definitions"`, RuleClosed, "$.agent.model"},
		{"an unknown member of a step", `"is_copied_context"`, `"copied"`, RuleClosed, "$.steps[1].copied"},
		{"permission beside a call", `"extra": {"permission": "allow"}`, `"permission": "allow"`, RuleClosed, "$.steps[1].tool_calls[0].permission"},
		{"an unknown member of a result", `"content": null, "extra"`, `"content": null, "status"`, RuleClosed, "$.steps[1].observation.results[0].status"},
		{"an unknown member of an observation", `"observation": {"results": [{"content": "summary"}]}`, `"observation": {"results": [], "more": 1}`, RuleClosed, "$.steps[2].observation.more"},
		{"an unknown metric", `"logprobs"`, `"log_probs"`, RuleClosed, "$.steps[1].metrics.log_probs"},
		{"an unknown final metric", `"total_steps"`, `"steps"`, RuleClosed, "$.final_metrics.steps"},
		{"an unknown member of a reference", `"session_id": "sess_1", "extra": {}}, {"trajectory_path"`, `"thread": "x"}, {"trajectory_path"`, RuleClosed, "$.steps[1].observation.results[1].subagent_trajectory_ref[0].thread"},
		{"an unknown member of an embedded one", `"trajectory_id": "sub_1", "agent"`, `"trajectory_id": "sub_1", "x": 1, "agent"`, RuleClosed, "$.subagent_trajectories[0].x"},
		{"no agent", `"agent": {"name": "agentd", "version": "1", "model_name"`, `"extra": {"name": "agentd", "version": "1", "model_name"`, RuleShape, "$.agent"},
		{"an agent without a version", `"version": "1", "model_name"`, `"model_name"`, RuleShape, "$.agent.version"},
		{"no steps", `"steps": [{"step_id": 1, "source": "user", "message": "go"}]`, `"steps": []`, RuleShape, "$.subagent_trajectories[0].steps"},
		{"steps that are none", `"steps": [{"step_id": 1, "source": "user", "message": "go"}]`, `"steps": {}`, RuleShape, "$.subagent_trajectories[0].steps"},
		{"from zero", `"step_id": 1, "timestamp"`, `"step_id": 0, "timestamp"`, RuleStepIDs, "$.steps[0].step_id"},
		{"a gap", `"step_id": 3`, `"step_id": 4`, RuleStepIDs, "$.steps[2].step_id"},
		{"the same number twice", `"step_id": 2`, `"step_id": 1`, RuleStepIDs, "$.steps[1].step_id"},
		{"a number in words", `"step_id": 3`, `"step_id": "3"`, RuleShape, "$.steps[2].step_id"},
		{"no source", `"source": "system", `, ``, RuleShape, "$.steps[2].source"},
		{"another source", `"source": "system"`, `"source": "tool"`, RuleShape, "$.steps[2].source"},
		{"no message", `"message": "compacted", `, ``, RuleShape, "$.steps[2].message"},
		{"a message that is null", `"message": "compacted"`, `"message": null`, RuleShape, "$.steps[2].message"},
		{"a message that is an object", `"message": "compacted"`, `"message": {}`, RuleShape, "$.steps[2].message"},
		{"a user with a model", `"source": "user", "message": [`, `"source": "user", "model_name": "m", "message": [`, RuleAgentOnly, "$.steps[0].model_name"},
		{"a system with reasoning", `"source": "system"`, `"source": "system", "reasoning_content": "hm"`, RuleAgentOnly, "$.steps[2].reasoning_content"},
		{"a system with effort", `"source": "system"`, `"source": "system", "reasoning_effort": 1`, RuleAgentOnly, "$.steps[2].reasoning_effort"},
		{"a user with calls", `"source": "user", "message": [`, `"source": "user", "tool_calls": [], "message": [`, RuleAgentOnly, "$.steps[0].tool_calls"},
		{"a system with metrics", `"source": "system"`, `"source": "system", "metrics": {}`, RuleAgentOnly, "$.steps[2].metrics"},
		{"a time in words", `"2026-01-02T03:04:05.678Z"`, `"yesterday"`, RuleTimestamp, "$.steps[0].timestamp"},
		{"a day that isn't", `"2026-01-02T03:04:05.678Z"`, `"2026-02-30T00:00:00Z"`, RuleTimestamp, "$.steps[0].timestamp"},
		{"a time as a number", `"2026-01-02T03:04:05.678Z"`, `1767323045`, RuleTimestamp, "$.steps[0].timestamp"},
		{"a result of another step's call", `{"content": "summary"}`, `{"source_call_id": "c1", "content": "summary"}`, RuleSourceCall, "$.steps[2].observation.results[0].source_call_id"},
		{"a result of no call", `"source_call_id": "c2"`, `"source_call_id": "c3"`, RuleSourceCall, "$.steps[1].observation.results[1].source_call_id"},
		{"two calls with one id", `"tool_call_id": "c2"`, `"tool_call_id": "c1"`, RuleDuplicateCall, "$.steps[1].tool_calls[1].tool_call_id"},
		{"a call without a name", `"function_name": "g", `, ``, RuleShape, "$.steps[1].tool_calls[1].function_name"},
		{"arguments as a text", `"arguments": {"a": 1}`, `"arguments": "{\"a\": 1}"`, RuleShape, "$.steps[1].tool_calls[1].arguments"},
		{"no arguments", `, "arguments": {"a": 1}`, ``, RuleShape, "$.steps[1].tool_calls[1].arguments"},
		{"metrics without a call", `"llm_call_count": 1`, `"llm_call_count": 0`, RuleNoCall, "$.steps[1].metrics"},
		{"fewer calls than none", `"llm_call_count": 1`, `"llm_call_count": -1`, RuleShape, "$.steps[1].llm_call_count"},
		{"half a call", `"llm_call_count": 1`, `"llm_call_count": 0.5`, RuleShape, "$.steps[1].llm_call_count"},
		{"an embedded one without an id", `"trajectory_id": "sub_1", "agent"`, `"agent"`, RuleEmbedded, "$.subagent_trajectories[0].trajectory_id"},
		{"an embedded one with a blank id", `"trajectory_id": "sub_1", "agent"`, `"trajectory_id": " ", "agent"`, RuleEmbedded, "$.subagent_trajectories[0].trajectory_id"},
		{"two embedded ones with one id", `"subagent_trajectories": [`, `"subagent_trajectories": [{"schema_version": "ATIF-v1.8", "trajectory_id": "sub_1", "agent": {"name": "a", "version": "1"}, "steps": [{"step_id": 1, "source": "user", "message": "go"}]},`, RuleEmbedded, "$.subagent_trajectories[1].trajectory_id"},
		{"a reference to nothing", `{"trajectory_id": "sub_1", "session_id"`, `{"trajectory_id": "sub_2", "session_id"`, RuleDangling, "$.steps[1].observation.results[1].subagent_trajectory_ref[0].trajectory_id"},
		{"an empty reference", `{"trajectory_path": "other.json"}`, `{"session_id": "sess_1"}`, RuleEmptyRef, "$.steps[1].observation.results[1].subagent_trajectory_ref[1]"},
		{"a blank reference", `{"trajectory_path": "other.json"}`, `{"trajectory_path": ""}`, RuleEmptyRef, "$.steps[1].observation.results[1].subagent_trajectory_ref[1]"},
		{"a text with a source", `{"type": "text", "text": "Look."}`, `{"type": "text", "text": "Look.", "source": {}}`, RulePart, "$.steps[0].message[0]"},
		{"a text without one", `{"type": "text", "text": "Look."}`, `{"type": "text"}`, RulePart, "$.steps[0].message[0]"},
		{"a picture with a text", `{"type": "image", "source"`, `{"type": "image", "text": "x", "source"`, RulePart, "$.steps[0].message[1]"},
		{"a picture without a source", `{"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}`, `{"type": "image"}`, RulePart, "$.steps[0].message[1]"},
		{"a picture that is a sound", `"image/png"`, `"audio/wav"`, RulePart, "$.steps[0].message[1].source.media_type"},
		{"a picture that takes time", `"path": "a.png"`, `"path": "a.png", "duration_sec": 1`, RuleClosed, "$.steps[0].message[1].source.duration_sec"},
		{"a sound that ends before it begins", `"duration_sec": 1.5`, `"duration_sec": -1`, RuleShape, "$.steps[0].message[2].source.duration_sec"},
		{"another kind of part", `{"type": "audio"`, `{"type": "video"`, RulePart, "$.steps[0].message[2].type"},
		{"extra that is no object", `"extra": {"any": 1}`, `"extra": [1]`, RuleShape, "$.extra"},
		{"tokens in words", `"prompt_tokens": 1, "completion_tokens": 2, "cached_tokens"`, `"prompt_tokens": "1", "completion_tokens": 2, "cached_tokens"`, RuleShape, "$.steps[1].metrics.prompt_tokens"},
		{"fewer steps than none", `"total_steps": 3`, `"total_steps": -1`, RuleShape, "$.final_metrics.total_steps"},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := strings.Replace(legal, c.old, c.new, 1)
			if doc == legal {
				t.Fatal("the case changes nothing")
			}
			err := Validate([]byte(doc))
			var bad *Invalid
			if !errors.As(err, &bad) {
				t.Fatalf("accepted: %v", err)
			}
			if bad.Rule != c.rule || bad.Path != c.path {
				t.Errorf("refused as %s at %s (%s), want %s at %s", bad.Rule, bad.Path, bad.Reason, c.rule, c.path)
			}
		})
	}
}

func TestDeeplyEmbeddedDocumentsAreRefused(t *testing.T) {
	open := `{"schema_version":"ATIF-v1.8","trajectory_id":"t","agent":{"name":"a","version":"1"},"steps":[{"step_id":1,"source":"user","message":""}],"subagent_trajectories":[`
	doc := strings.Repeat(open, maxDepth+2) + strings.Repeat("]}", maxDepth+2)
	if err := Validate([]byte(doc)); err == nil {
		t.Error("accepted")
	}
}
