package evidence_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/hook"
	"agentd/model/provider/script"
	"agentd/tool"
)

// mutant is a change of a case that a replay must find.
type mutant struct {
	change func(*evidence.Case)
	says   string
}

// finds runs a case as it is, which must be the same, and with each change, which must
// not.
func finds(k *kit, sessionID string, mutants map[string]mutant) {
	k.Helper()
	scope := command.ExportScope{SessionID: sessionID}
	c := caseOf(k, scope)
	if c.Determinism != "deterministic" {
		k.Fatalf("limits %v", c.Limits)
	}
	if d := replayed(k, c); d != nil {
		k.Fatal(d.Says)
	}
	for name, m := range mutants {
		c := caseOf(k, scope)
		m.change(c)
		switch d := replayed(k, c); {
		case d == nil:
			k.Errorf("%s: nothing was found", name)
		case !strings.Contains(d.Says, m.says):
			k.Errorf("%s: %s", name, d.Says)
		}
	}
	endsWhenDamaged(k.TB, c)
}

// hooked gives a runtime hooks that answer by their name. An answer that begins with
// an exclamation mark is a failure.
func hooked(t testing.TB, answers map[string]string, list ...hook.Hook) func(*agentd.Options) {
	t.Helper()
	var n atomic.Int64
	for i := range list {
		list[i].Command = []string{list[i].Name}
	}
	r, err := hook.New(hook.Options{Hooks: list, NewID: func() string { return fmt.Sprintf("hook_%d", n.Add(1)) }, Exec: func(_ context.Context, c hook.Command) (hook.Exit, error) {
		var in hook.Input
		if err := json.Unmarshal(c.Stdin, &in); err != nil {
			return hook.Exit{}, err
		}
		said, ok := answers[c.Argv[0]+" "+string(in.Input)]
		if !ok {
			said = answers[c.Argv[0]]
		}
		if why, failed := strings.CutPrefix(said, "!"); failed {
			return hook.Exit{}, fmt.Errorf("%s", why)
		}
		return hook.Exit{Stdout: []byte(said)}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *agentd.Options) { o.Loop.Hooks = r }
}

// TestReplayPlaysHooks: what hooks answered, rewrote, added and failed at is played
// through the loop, and another answer shows.
func TestReplayPlaysHooks(t *testing.T) {
	use := hooked(t, map[string]string{
		"prompt":                               `{"updatedInput":[{"type":"text","text":"something else"}],"additionalContext":["It is Monday.","It rains."]}`,
		"rewrite":                              `{"updatedInput":{"path":"b.txt","content":"safe"},"reason":"safer"}`,
		`judge {"path":"c.txt","content":"x"}`: `{"decision":"deny","reason":"not that one"}`,
		"after":                                `{"updatedOutput":"seen","auditRefs":["audit:1"]}`,
		"flaky":                                "!no such program",
		"stop":                                 `{"decision":"continue"}`,
	},
		hook.Hook{Name: "prompt", Point: hook.UserPromptSubmit},
		hook.Hook{Name: "rewrite", Point: hook.PreToolUse, Match: hook.Match{Tool: "write_*"}},
		hook.Hook{Name: "judge", Point: hook.PreToolUse, Match: hook.Match{Tool: "edit_*"}},
		hook.Hook{Name: "judge", Point: hook.PermissionRequest},
		hook.Hook{Name: "after", Point: hook.PostToolUse},
		hook.Hook{Name: "flaky", Point: hook.PostSampling},
		hook.Hook{Name: "stop", Point: hook.Stop})
	k := newKit(t, use,
		script.Answer{Tools: []script.Tool{
			{Name: "write_file", Arguments: map[string]any{"path": "a.txt", "content": "x"}},
			{Name: "read_file", Arguments: map[string]any{"path": "b.txt"}},
		}},
		script.Answer{Text: "done"})
	k.turn("sess_hooks", "go", nil)
	hooks := caseOf(k, command.ExportScope{SessionID: "sess_hooks"}).Parties.Hooks
	at := func(name string) int {
		i := slices.IndexFunc(hooks, func(h evidence.CaseHook) bool { return h.HandlerRef == name })
		if i < 0 {
			t.Fatalf("%s never ran: %+v", name, hooks)
		}
		return i
	}
	if h := hooks[at("prompt")]; len(h.Context) != 2 || !strings.Contains(string(h.UpdatedInput), "something else") {
		t.Errorf("%+v", h)
	}
	if h := hooks[at("flaky")]; h.ErrorCategory != "spawn" || h.FailureBehavior != "open" {
		t.Errorf("%+v", h)
	}
	finds(k, "sess_hooks", map[string]mutant{
		"a hook denies": {func(c *evidence.Case) {
			c.Parties.Hooks[at("rewrite")].Decision = "deny"
		}, `decision was "continue" and is "deny"`},
		"it has another reason": {func(c *evidence.Case) {
			c.Parties.Hooks[at("rewrite")].Reason = "because"
		}, `reason was "safer" and is "because"`},
		"it rewrites into nonsense": {func(c *evidence.Case) {
			c.Parties.Hooks[at("rewrite")].UpdatedInput = event.Raw(`{"nope":1}`)
		}, "turn 1, call 1"},
		"it blocks the prompt": {func(c *evidence.Case) {
			c.Parties.Hooks[at("prompt")].Decision = "block"
		}, `is "block"`},
		"it fails": {func(c *evidence.Case) {
			h := &c.Parties.Hooks[at("after")]
			h.ErrorCategory, h.ErrorMessage = "timeout", "too slow"
		}, "hook.failed (category timeout"},
		"it doesn't fail": {func(c *evidence.Case) {
			h := &c.Parties.Hooks[at("flaky")]
			h.ErrorCategory, h.Decision = "", "continue"
		}, "hook.completed"},
		"its answer is missing": {func(c *evidence.Case) {
			i := slices.IndexFunc(c.Parties.Hooks, func(h evidence.CaseHook) bool { return h.ToolName == "read_file" && h.HandlerRef == "after" })
			c.Parties.Hooks = slices.Delete(c.Parties.Hooks, i, i+1)
		}, "turn 1, call 2: the recording has hook.completed"},
		"nobody is asked": {func(c *evidence.Case) { c.Parties = nil }, "hook.completed"},
	})
}

// TestReplayKeepsHooksApart: of two calls of the same tool at once one is refused, and
// the order in which hooks were asked doesn't matter.
func TestReplayKeepsHooksApart(t *testing.T) {
	use := hooked(t, map[string]string{
		`judge {"path":"a.txt"}`: `{"decision":"deny","reason":"no"}`,
		`judge {"path":"b.txt"}`: `{}`,
	}, hook.Hook{Name: "judge", Point: hook.PreToolUse})
	k := newKit(t, use, script.Answer{Tools: []script.Tool{
		{Name: "read_file", Arguments: map[string]any{"path": "a.txt"}}, {Name: "read_file", Arguments: map[string]any{"path": "b.txt"}},
	}}, script.Answer{Text: "done"})
	k.turn("sess_apart", "go", nil)
	finds(k, "sess_apart", map[string]mutant{
		"the other one is refused": {func(c *evidence.Case) {
			for i := range c.Parties.Hooks {
				h := &c.Parties.Hooks[i]
				if h.Reason = ""; h.Decision == "deny" {
					h.Decision = "continue"
				} else {
					h.Decision = "deny"
				}
			}
		}, `turn 1, call 1: hook.completed: decision was "deny"`},
	})
	// The recording may have them in any order.
	c := caseOf(k, command.ExportScope{SessionID: "sess_apart"})
	slices.Reverse(c.Parties.Hooks)
	if d := replayed(t, c); d != nil {
		t.Error(d.Says)
	}
}

// TestReplayWithOtherRulesThanAHook: a rule is stronger than what a hook allowed, also
// when it is tried afterwards.
func TestReplayWithOtherRulesThanAHook(t *testing.T) {
	use := hooked(t, map[string]string{"judge": `{"decision":"allow","reason":"fine"}`}, hook.Hook{Name: "judge", Point: hook.PermissionRequest})
	k := newKit(t, func(o *agentd.Options) { use(o); o.Loop.Host.Mode = "default" },
		wants("write_file", map[string]any{"path": "a.txt", "content": "x"}), script.Answer{Text: "done"})
	k.turn("sess_rule", "go", nil)
	finds(k, "sess_rule", map[string]mutant{
		"a rule denies": {func(c *evidence.Case) {
			c.Environment.Rules = append(c.Environment.Rules, event.PolicyRule{RuleID: "r1", Decision: "deny", Tool: "write_file", Source: "host"})
		}, "turn 1, call 1: the recording has hook.completed"},
		"the hook says nothing": {func(c *evidence.Case) {
			c.Parties.Hooks[0].Decision = "continue"
		}, `hook.completed: decision was "allow" and is "continue"`},
	})
}

// needy is a tool that lacks a credential until one is named.
type needy struct{}

func (needy) Info() event.ToolInfo {
	return event.ToolInfo{ToolName: "sign_in", Description: "signs in", InputSchema: event.Raw(`{"type":"object"}`), RuntimeOwner: "mcp_server", InterruptBehavior: "cancel", IsReadOnly: true}
}

func (needy) Run(_ context.Context, c *tool.Call) (*tool.Result, error) {
	if c.Credentials["mcp:signed"] == "" {
		err := tool.Errorf(tool.Unavailable, "401 Unauthorized")
		err.Credential = &tool.Need{Name: "mcp:signed", For: "signed", References: []string{"env:ONE", "env:TWO"}}
		return nil, err
	}
	return &tool.Result{Output: []byte("signed in")}, nil
}

// TestReplayPlaysAServerThatLacksACredential: the call is refused, somebody names a
// credential, and the call is run again.
func TestReplayPlaysAServerThatLacksACredential(t *testing.T) {
	k := newKit(t, func(o *agentd.Options) {
		r, err := tool.NewRegistry(append(tool.Builtins(nil), needy{})...)
		if err != nil {
			t.Fatal(err)
		}
		o.Loop.Tools = r
	}, wants("sign_in", nil), script.Answer{Text: "done"})
	sub := do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_needy", Create: true, Input: event.Raw(`"go"`)})
	k.until("sess_needy", func(e *event.Event) bool {
		if e.Type == event.TypeActionRequired {
			do[command.RespondActionResult](k, &command.RespondAction{ActionID: e.ActionID, Decision: "submit", Payload: event.Raw(`"env:TWO"`)})
		}
		return e.TurnID == sub.TurnID && (e.Type == event.TypeTurnCompleted || e.Type == event.TypeTurnFailed)
	})
	finds(k, "sess_needy", map[string]mutant{
		"nobody names one":   {func(c *evidence.Case) { c.Decisions[0].Decision, c.Decisions[0].Payload = "cancel", nil }, `decision was "submit" and is "cancel"`},
		"it isn't asked for": {func(c *evidence.Case) { c.Results = c.Results[1:] }, "action.required"},
		"it is asked for twice": {func(c *evidence.Case) {
			c.Results = append([]evidence.CaseResult{c.Results[0]}, c.Results...)
		}, "turn 1, call 1"},
	})
}
