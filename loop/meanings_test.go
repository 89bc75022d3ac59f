package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/hook"
	"agentd/internal/runtimetest"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/redact"
	"agentd/store"
)

// This file holds the runtime against the meanings and the payload fields that
// clients rely on, one sentence after the other.

// TestModesMean: what each mode says about each kind of call. a is allow, ? is ask,
// d is deny.
func TestModesMean(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	outside := filepath.Join(outsideDir(t), "f")
	asks := []event.PolicyRule{{RuleID: "r", Decision: "ask", Tool: "write_file", Match: "asked", Source: "host"}}
	denies := []event.PolicyRule{{RuleID: "r", Decision: "deny", Tool: "write_file", Match: "denied", Source: "host"}}
	modes := []string{"default", "untrusted", "auto", "on_request", "on_failure", "never", "plan", "bypass"}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.WithShell, func(o *agentd.Options) {
		o.Loop.Host.Rules = slices.Concat(asks, denies)
		o.Loop.Sandbox.Hidden = []string{filepath.Dir(outside) + "-data"}
	}))
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	for _, c := range []struct{ tool, input, want string }{
		{"read_file", `{"path":"a"}`, "aaaaaaaa"},
		{"list_files", `{"path":"."}`, "aaaaaaaa"},
		{"shell", `{"command":"cat a"}`, "aaaaaada"}, // commands that only read are reads
		{"shell", `{"command":"cat /etc/hostname"}`, "a?aaaada"},
		{"update_plan", `{"items":[]}`, "a?aaaada"},          // only default names both beside reads
		{"request_input", `{"prompt":"which?"}`, "a?aaadda"}, // nothing waits for a person who isn't asked
		{"write_file", `{"path":"b","content":""}`, "??aaaada"},
		{"edit_file", `{"path":"b","old":"x","new":"y"}`, "??aaaada"},
		{"shell", `{"command":"touch b"}`, "??aaaada"},
		{"shell", `{"command":"echo x > ` + outside + `"}`, "?????dda"},
		{"spawn_agent", `{"role":"r","input":"x"}`, "??aaaada"},
		{"write_file", `{"path":"asked","content":""}`, "?????dd?"},
		{"write_file", `{"path":"denied","content":""}`, "dddddddd"},
	} {
		got := ""
		for _, m := range modes {
			res := runtimetest.Do[command.EvaluatePermissionResult](k, &command.EvaluatePermission{SessionID: "sess_a", ToolName: c.tool, Input: event.Raw(c.input), PermissionMode: m})
			got += map[string]string{"allow": "a", "ask": "?", "deny": "d"}[res.PermissionDecision.Decision]
		}
		if got != c.want {
			t.Errorf("%s %s: %s, want %s in %v", c.tool, c.input, got, c.want, modes)
		}
	}
}

// TestRulesMean: globs over tools, over simple commands, over paths, over inputs.
func TestRulesMean(t *testing.T) {
	for _, c := range []struct {
		tool, match, call, input string
		denied                   bool
	}{
		{"shell", "git push *", "shell", `{"command":"git push origin main"}`, true},
		{"shell", "git push *", "shell", `{"command":"true && git push origin main"}`, true},
		{"shell", "git push *", "shell", `{"command":"git pull"}`, false},
		{"write_file", "docs/*", "write_file", `{"path":"docs/a.md","content":""}`, true},
		{"write_file", "docs/*", "write_file", `{"path":"docs/b/a.md","content":""}`, false},
		{"write_file", "docs/**", "write_file", `{"path":"docs/b/a.md","content":""}`, true},
		{"*_file", "", "read_file", `{"path":"a"}`, true},
		{"*_file", "", "list_files", `{"path":"."}`, false},
		{"spawn_agent", `*"role":"danger"*`, "spawn_agent", `{"role":"danger","input":"x"}`, true},
		{"spawn_agent", `*"role":"danger"*`, "spawn_agent", `{"role":"safe","input":"x"}`, false},
	} {
		rule := event.PolicyRule{RuleID: "r", Decision: "deny", Tool: c.tool, Match: c.match, Source: "host"}
		k := runtimetest.NewWith(t, func(o *agentd.Options) { o.Loop.Host.Rules = []event.PolicyRule{rule} })
		res := runtimetest.Do[command.EvaluatePermissionResult](k, &command.EvaluatePermission{ToolName: c.call, Input: event.Raw(c.input)})
		if d := res.PermissionDecision; (d.Decision == "deny") != c.denied || (d.Decision == "deny" && d.DecisionSource != "rule") {
			t.Errorf("%+v: %+v", c, d)
		}
	}
}

// TestSandboxMeans: the data directory can't be read, /tmp is private, nothing
// outside is signalled, the environment is clean.
func TestSandboxMeans(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	t.Setenv("PLANTED_SECRET", "planted")
	data := outsideDir(t)
	if err := os.WriteFile(filepath.Join(data, "token"), []byte("planted"), 0o600); err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(os.TempDir(), "agentd-meanings-"+filepath.Base(data))
	hides := func(o *agentd.Options) {
		o.Loop.Sandbox.Hidden, o.Loop.Sandbox.Env = []string{data}, []string{"GIVEN=yes"}
	}
	line := fmt.Sprintf("env | cut -d= -f1 | sort | tr '\\n' ' '; cat %s/token; touch %s; kill -0 %d && echo reached", data, mark, os.Getpid())
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), runtimetest.WithShell, hides), runtimetest.CallsTool("shell", runtimetest.ShellArgs(line)), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	var said string
	for _, p := range runtimetest.Payloads[*event.ProcessOutput](k, "sess_a") {
		said += p.Text
	}
	for _, name := range []string{"GIVEN", "HOME", "LANG", "PATH", "TERM", "TMPDIR"} {
		if !strings.Contains(said, name+" ") {
			t.Errorf("%s is missing: %s", name, said)
		}
	}
	if strings.Contains(said, "PLANTED") || strings.Contains(said, "planted") || strings.Contains(said, "reached") {
		t.Errorf("it reached outside: %s", said)
	}
	if _, err := os.Stat(mark); err == nil {
		_ = os.Remove(mark)
		t.Error("/tmp is not private")
	}
}

// TestRedactionMeans: known values and shapes are gone before anything is stored or
// sent to a model.
func TestRedactionMeans(t *testing.T) {
	key := strings.Repeat("k3y", 8)
	shape := "ghp" + "_" + strings.Repeat("aB3", 12)
	var heard runtimetest.Listener
	with := func(o *agentd.Options) { o.Loop.Redact = redact.New(redact.Options{Values: []string{key}}) }
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), with, runtimetest.ListenedBy(&heard), runtimetest.WithTools(t, runtimetest.ReadOnlyTool("look", runtimetest.GivesText("key "+key+" shape "+shape)))), runtimetest.CallsTool("look", nil), runtimetest.Says("the key is "+key))
	k.Completes(k.Submit("sess_a", "use "+key))
	for rec, err := range k.Store.Read(context.Background(), "sess_a", store.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(rec.Data), key) || strings.Contains(string(rec.Data), shape) {
			t.Errorf("a fact tells: %s", rec.Data)
		}
	}
	for _, r := range heard.Heard() {
		if got := runtimetest.Conversation(r); strings.Contains(got, key) || strings.Contains(got, shape) {
			t.Errorf("the model heard:\n%s", got)
		}
	}
}

// TestRuntimeSessionMeans: facts without a session are in one that only an admin
// sees.
func TestRuntimeSessionMeans(t *testing.T) {
	k := runtimetest.New(t)
	runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{Mode: "auto"})
	runtimetest.Do[command.EvaluatePermissionResult](k, &command.EvaluatePermission{ToolName: "read_file", Input: event.Raw(`{"path":"a"}`)})
	for _, typ := range []event.Type{event.TypePolicyChanged, event.TypePermissionEvaluated} {
		if k.CountFacts(event.RuntimeSession, typ) != 1 {
			t.Errorf("no %s in %s", typ, event.RuntimeSession)
		}
	}
	user := command.Caller{Account: "someone", Actor: event.Actor{Kind: "user"}}
	for _, p := range []command.Params{&command.GetSession{SessionID: event.RuntimeSession}, &command.GetPolicy{SessionID: event.RuntimeSession}} {
		if _, err := k.Runtime.Do(context.Background(), user, p); p.Command() == "get_session" && fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s: %v", p.Command(), err)
		}
	}
	if _, err := k.Runtime.Subscribe(context.Background(), user, event.RuntimeSession, 0); fault.KindOf(err) != fault.NotFound {
		t.Errorf("subscribe: %v", err)
	}
}

// TestModelsMean: an unknown model is a mistake of the caller, one that can't be
// used a fact.
func TestModelsMean(t *testing.T) {
	locked := func(o *agentd.Options) {
		o.Loop.Models = append(o.Loop.Models, model.Info{Provider: "script", Model: "locked", NeedsCredential: true, CredentialHint: "set KEY"})
	}
	k := runtimetest.NewWith(t, locked)
	runtimetest.Refused(k, &command.SubmitTurn{SessionID: "sess_a", Create: true, Input: runtimetest.Quoted("x"), Options: &event.TurnOptions{Model: "script/none"}}, fault.InvalidParams)
	k.Fails(k.SubmitWith("sess_a", "x", &event.TurnOptions{Model: "script/locked"}), "routing_not_possible")
	if p := runtimetest.Payloads[*event.RoutingCandidates](k, "sess_a"); len(p) == 0 || p[len(p)-1].DecisionReason == "" {
		t.Errorf("%+v", p)
	}
}

// TestBudgetMeans: checked before each call, whatever the model costs.
func TestBudgetMeans(t *testing.T) {
	talk := &runtimetest.TalkingModel{Tokens: 100}
	k := runtimetest.NewWith(t, runtimetest.AllOf(priced(talk, 100e-6), func(o *agentd.Options) {
		o.Loop.Models = append(o.Loop.Models, model.Info{Provider: "talker", Model: "free", HasCredential: true, Capabilities: []string{model.CapTools}, ContextWindow: 1000, Price: &model.Price{Row: "free"}})
	}))
	k.Completes(k.Submit("sess_a", "one"))
	for _, m := range []string{"talker/m", "talker/free"} {
		r := k.SubmitWith("sess_a", "two", &event.TurnOptions{Model: m})
		k.Fails(r, "quota_blocked")
		var order []event.Type
		for _, e := range k.Facts("sess_a") {
			if e.TurnID == r.TurnID && (e.Type == event.TypeQuotaBlocked || e.Type == event.TypeTurnFailed || e.Type == event.TypeModelRequested) {
				order = append(order, e.Type)
			}
		}
		if !slices.Equal(order, []event.Type{event.TypeQuotaBlocked, event.TypeTurnFailed}) {
			t.Errorf("%s: %v", m, order)
		}
	}
}

// TestSpawnMeans: the tool waits for the child unless it is told not to.
func TestSpawnMeans(t *testing.T) {
	for _, wait := range []bool{true, false} {
		args := map[string]any{"role": "helper", "input": "child work"}
		if !wait {
			args["wait"] = false
		}
		k := runtimetest.NewWith(t, runtimetest.InMode("auto"),
			script.Answer{When: &script.When{Contains: "parent"}, Tools: []script.Tool{{Name: "spawn_agent", Arguments: args}}},
			script.Answer{When: &script.When{Contains: "parent"}, Text: "done"},
			script.Answer{When: &script.When{Contains: "child work"}, Text: "child done"})
		k.Completes(k.Submit("sess_a", "parent"))
		var childEnd, result uint64
		k.WaitFor("sess_a", func(e *event.Event) bool {
			switch p := e.Payload.(type) {
			case *event.TurnCompleted:
				if e.SubagentID != "" {
					childEnd = e.Sequence
				}
			case *event.ToolResult:
				if p.ToolName == "spawn_agent" {
					result = e.Sequence
				}
			}
			return childEnd > 0 && result > 0
		})
		if wait && result < childEnd {
			t.Errorf("it did not wait: result %d, child's end %d", result, childEnd)
		}
	}
}

// relied are the fields that each payload has at least; a|b is one of the two.
var relied = map[event.Type][]string{
	event.TypeTurnSubmitted:              {"inputRef|input", "source", "status"},
	event.TypeTurnCompleted:              {"status", "outcome"},
	event.TypeTurnFailed:                 {"status", "outcome", "failureCategory", "error.message", "error.retryable"},
	event.TypeRoutingCandidatesResolved:  {"candidateCount", "candidates", "excluded"},
	event.TypeRoutingNotPossible:         {"candidateCount", "candidates", "excluded", "decisionReason", "capabilityGap"},
	event.TypeRoutingSingleCandidate:     {"candidateCount", "candidates", "excluded", "selectedProvider", "selectedModel", "decisionSource", "decisionReason", "capabilityGap", "fallbackChain"},
	event.TypeRoutingDecided:             {"candidateCount", "candidates", "excluded", "selectedProvider", "selectedModel", "decisionSource", "decisionReason", "capabilityGap", "fallbackChain"},
	event.TypeRoutingFallbackApplied:     {"candidateCount", "candidates", "excluded", "selectedProvider", "selectedModel", "decisionSource", "decisionReason", "capabilityGap", "fallbackChain"},
	event.TypeModelRequested:             {"provider", "model", "modelRequestId"},
	event.TypeModelDelta:                 {"text", "index"},
	event.TypeReasoningDelta:             {"text", "index"},
	event.TypeModelCompleted:             {"modelRequestId", "usage.inputTokens", "usage.outputTokens", "stopReason", "message|messageRef"},
	event.TypeModelFailed:                {"modelRequestId", "errorCategory", "message", "retryable"},
	event.TypeToolStarted:                {"toolName", "safeArgs|inputRef", "policy"},
	event.TypeToolResult:                 {"toolName", "status", "preview", "durationMs"},
	event.TypeToolFailed:                 {"toolName", "errorCategory", "message", "retryable"},
	event.TypePermissionEvaluated:        {"decision", "decisionSource", "decisionReason", "ruleRefs", "scope", "destructive", "toolName"},
	event.TypeActionRequired:             {"actionType", "prompt|schema", "decisions", "scope"},
	event.TypeProcessStarted:             {"processId", "command", "cwd", "tty"},
	event.TypeProcessOutput:              {"stream", "text|outputRef", "offset"},
	event.TypeProcessCompleted:           {"exitCode", "durationMs"},
	event.TypeOutputSpilled:              {"outputRef", "sizeBytes", "mediaType", "preview"},
	event.TypeCostRecorded:               {"costUSD", "currency", "basis", "modelRequestId"},
	event.TypeRateLimitHit:               {"provider", "modelRequestId"},
	event.TypeQuotaLow:                   {"limit", "used", "remaining"},
	event.TypeQuotaBlocked:               {"limit", "used", "remaining"},
	event.TypeQueueChanged:               {"queue", "reason"},
	event.TypeContextCompactionCompleted: {"trigger", "affectedTurns", "summaryRef", "tokensBefore", "tokensAfter", "preserved.actions", "preserved.incidents", "preserved.evidenceRefs", "preserved.artifactRefs"},
}

// hasField says whether a payload has a field; dots lead into objects.
func hasField(p map[string]any, field string) bool {
	for one := range strings.SplitSeq(field, "|") {
		at, ok := any(p), true
		for name := range strings.SplitSeq(one, ".") {
			object, is := at.(map[string]any)
			if !is {
				ok = false
				break
			}
			if at, ok = object[name]; !ok {
				break
			}
		}
		if ok {
			return true
		}
	}
	return false
}

// holdPayloads holds a session's facts against what is relied on, and notes which
// types were there.
func holdPayloads(k *runtimetest.Kit, sessionID string, seen map[event.Type]bool) {
	k.Helper()
	for rec, err := range k.Store.Read(context.Background(), sessionID, store.Range{}) {
		if err != nil {
			k.Fatal(err)
		}
		var e struct {
			Type                                         event.Type
			TurnID, TaskID, RunID, ToolCallID, ProcessID string
			Payload                                      map[string]any
		}
		if err := json.Unmarshal(rec.Data, &e); err != nil {
			k.Fatal(err)
		}
		seen[e.Type] = true
		for _, f := range relied[e.Type] {
			compaction := e.Payload["purpose"] == "compaction" && f == "message|messageRef"
			if !hasField(e.Payload, f) && !compaction {
				k.Errorf("%s has no %s: %s", e.Type, f, rec.Data)
			}
		}
		family, _, _ := strings.Cut(string(e.Type), ".")
		if slices.Contains([]string{"permission", "sandbox", "process", "output", "action"}, family) && e.ToolCallID == "" {
			k.Errorf("%s has no toolCallId: %s", e.Type, rec.Data)
		}
		if family == "process" && e.ProcessID == "" {
			k.Errorf("%s has no processId on the envelope: %s", e.Type, rec.Data)
		}
		if family == "turn" && (e.TaskID == "" || e.RunID == "") {
			k.Errorf("%s has no taskId or runId: %s", e.Type, rec.Data)
		}
	}
}

// TestPayloadsHaveWhatIsReliedOn runs turns of many kinds and looks at every fact.
func TestPayloadsHaveWhatIsReliedOn(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	seen := map[event.Type]bool{}
	tools := func(t *testing.T) {
		big := strings.Repeat("line\n", 2000)
		k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.QuickBackoff, runtimetest.WithShell, runtimetest.WithTools(t, runtimetest.ReadOnlyTool("big", runtimetest.GivesText(big))), runtimetest.InMode("auto")),
			script.Answer{Text: "I look.", Reasoning: "hm", Tools: []script.Tool{{Name: "big"}, {Name: "read_file", Arguments: map[string]any{"path": "none"}}}},
			script.Answer{Error: &script.Error{Category: "rate_limited", Message: "slow down", Retryable: true}},
			runtimetest.CallsTool("shell", runtimetest.ShellArgs("echo out; exit 3")),
			runtimetest.CallsTool("shell", map[string]any{"command": "cat", "background": true}),
			runtimetest.CallsTool("request_input", map[string]any{"prompt": "which?"}),
			runtimetest.CallsTool("shell", runtimetest.ShellArgs(`f=/etc/agentd-test; touch "$f"`)),
			runtimetest.Says("done"))
		r := k.Submit("sess_a", "go")
		k.Submit("sess_a", "queued")
		action, _ := k.WaitForAction("sess_a", 1)
		runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: action, Decision: "submit", Payload: event.Raw(`"blue"`)})
		e := k.WaitFor("sess_a", func(e *event.Event) bool {
			return e.Type == event.TypeTurnCompleted || (e.Type == event.TypeActionRequired && e.ActionID != action)
		})
		if e.Type == event.TypeActionRequired {
			k.Respond(e.ActionID, "deny")
		}
		k.Completes(r)
		runtimetest.Do[command.CompactThreadResult](k, &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID})
		for _, p := range runtimetest.Payloads[*event.ToolResult](k, "sess_a") {
			switch {
			case p.ToolName == "shell" && p.Status == "background" && (p.ExitCode != event.NullInt() || p.ProcessID == ""):
				t.Errorf("in the background: %+v", p)
			case p.ToolName == "shell" && p.Status != "background" && p.ExitCode != event.Int(3):
				t.Errorf("exit code: %+v", p)
			case p.ToolName == "big" && (p.OutputRef == "" || p.SizeBytes != int64(len(big))):
				t.Errorf("large: %+v", p)
			}
		}
		holdPayloads(k, "sess_a", seen)
	}
	t.Run("tools", tools)
	t.Run("models", func(t *testing.T) {
		k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.QuickBackoff, models(scriptOf(failing("overloaded", true), failing("overloaded", true)), scriptOf(runtimetest.Says("other")))))
		k.Completes(k.Submit("sess_a", "go"))
		holdPayloads(k, "sess_a", seen)
	})
	t.Run("routing", func(t *testing.T) {
		k := runtimetest.NewWith(t, func(o *agentd.Options) {
			o.Loop.Models = append(o.Loop.Models, model.Info{Provider: "script", Model: "locked", NeedsCredential: true})
		})
		k.Fails(k.SubmitWith("sess_a", "x", &event.TurnOptions{Model: "script/locked"}), "routing_not_possible")
		holdPayloads(k, "sess_a", seen)
	})
	t.Run("budget", func(t *testing.T) {
		talk := &runtimetest.TalkingModel{Tokens: 100}
		k := runtimetest.NewWith(t, priced(talk, 200e-6))
		for range 2 {
			k.Completes(k.Submit("sess_a", "x"))
		}
		k.Fails(k.Submit("sess_a", "x"), "quota_blocked")
		holdPayloads(k, "sess_a", seen)
	})
	t.Run("hooks", func(t *testing.T) {
		h := &runtimetest.Hooks{Points: []hook.Point{hook.PreToolUse}, Answer: runtimetest.AlwaysAnswer(`{}`)}
		k := runtimetest.NewWith(t, runtimetest.AllOf(h.Use(t), runtimetest.InMode("bypass")), runtimetest.WritesFile("a", "x"), runtimetest.Says("done"))
		k.Completes(k.Submit("sess_a", "x"))
		for _, e := range k.Facts("sess_a") {
			if strings.HasPrefix(string(e.Type), "hook.") && e.ToolCallID == "" {
				t.Errorf("%s of a tool call has no toolCallId", e.Type)
			}
		}
	})
	for typ := range relied {
		if !seen[typ] {
			t.Errorf("no turn led to %s", typ)
		}
	}
}

func scriptOf(answers ...script.Answer) *script.Script { return &script.Script{Answers: answers} }
