package loop_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/hook"
	"agentd/internal/runtimetest"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/store/storetest"
	"agentd/tool"
)

// TestHooksRunAtEveryPoint in the order of a turn, each a fact with an end.
func TestHooksRunAtEveryPoint(t *testing.T) {
	h := &runtimetest.Hooks{Points: hook.Points(), Answer: runtimetest.AlwaysAnswer(`{}`)}
	fail := func(context.Context, *tool.Call) (*tool.Result, error) {
		return nil, tool.Errorf(tool.Execution, "broken")
	}
	k := runtimetest.NewWith(t, runtimetest.AllOf(h.Use(t), runtimetest.WithTools(t, runtimetest.ReadOnlyTool("bad", fail))), runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "x"}), runtimetest.CallsTool("bad", nil), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	action, _ := k.WaitForAction("sess_a", 1)
	k.Respond(action, "allow")
	k.Completes(r)
	want := []string{
		"session_start", "user_prompt_submit", "post_sampling", "pre_tool_use", "permission_request", "post_tool_use",
		"post_sampling", "pre_tool_use", "post_tool_failure", "post_sampling", "stop",
	}
	if !slices.Equal(h.Told, want) {
		t.Errorf("told %v", h.Told)
	}
	if s, c := k.CountFacts("sess_a", event.TypeHookStarted), k.CountFacts("sess_a", event.TypeHookCompleted); s != len(want) || c != len(want) {
		t.Errorf("%d started, %d completed", s, c)
	}
	for i, in := range h.Inputs {
		if in.SessionID != "sess_a" || in.TurnID != r.TurnID || in.Workspace == "" {
			t.Errorf("%s: %+v", want[i], in)
		}
	}
	k.Completes(k.Submit("sess_a", "again"))
	if h.Count(hook.SessionStart) != 1 {
		t.Error("the session started twice")
	}
}

func TestHooksBlock(t *testing.T) {
	no := runtimetest.AlwaysAnswer(`{"decision":"block","reason":"not here"}`)
	for _, point := range []hook.Point{hook.SessionStart, hook.UserPromptSubmit, hook.PostSampling} {
		t.Run(string(point), func(t *testing.T) {
			h := &runtimetest.Hooks{Points: []hook.Point{point}, Answer: no}
			k := runtimetest.NewWith(t, h.Use(t), runtimetest.WritesFile("a", "x"), runtimetest.Says("done"))
			if p := k.Fails(k.Submit("sess_a", "go"), "hook_blocked"); !strings.Contains(p.Error.Message, "not here") || !strings.Contains(p.Error.Message, "test_"+string(point)) {
				t.Errorf("%+v", p.Error)
			}
			if point != hook.PostSampling && k.CountFacts("sess_a", event.TypeModelRequested) != 0 {
				t.Error("the model was asked")
			}
			if k.CountRuns("sess_a") != 0 {
				t.Error("a call of a blocked answer was carried out")
			}
		})
	}
	for _, point := range []hook.Point{hook.PreToolUse, hook.PermissionRequest} {
		t.Run(string(point), func(t *testing.T) {
			h := &runtimetest.Hooks{Points: []hook.Point{point}, Answer: runtimetest.AlwaysAnswer(`{"decision":"deny","reason":"not here"}`)}
			k := runtimetest.NewWith(t, h.Use(t), runtimetest.WritesFile("a", "x"), runtimetest.Says("done"))
			k.Completes(k.Submit("sess_a", "go"))
			failed, judged := runtimetest.Payloads[*event.ToolFailed](k, "sess_a"), runtimetest.Payloads[*event.PermissionEvaluated](k, "sess_a")
			if len(failed) != 1 || k.ReadFile("a") != "-" || !strings.Contains(failed[0].Message, "not here") {
				t.Errorf("%+v", failed)
			}
			if len(judged) != 1 || judged[0].Decision != "deny" || judged[0].DecisionSource != "hook" {
				t.Errorf("%+v", judged)
			}
		})
	}
}

// TestHookAllowsWhatAModeAsks, but not what a rule says.
func TestHookAllows(t *testing.T) {
	h := &runtimetest.Hooks{Points: []hook.Point{hook.PermissionRequest}, Answer: runtimetest.AlwaysAnswer(`{"decision":"allow","reason":"fine"}`)}
	rule := func(o *agentd.Options) {
		o.Loop.Host.Rules = []event.PolicyRule{{RuleID: "r1", Decision: "deny", Tool: "write_file", Match: "secret/**", Source: "host"}}
	}
	k := runtimetest.NewWith(t, runtimetest.AllOf(h.Use(t), rule), runtimetest.WritesFile("a", "x"), runtimetest.WritesFile("secret/b", "x"), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	if k.ReadFile("a") != "x" || k.ReadFile("secret/b") != "-" || k.CountFacts("sess_a", event.TypeActionRequired) != 0 {
		t.Errorf("%q %q", k.ReadFile("a"), k.ReadFile("secret/b"))
	}
	if judged := runtimetest.Payloads[*event.PermissionEvaluated](k, "sess_a"); judged[0].DecisionSource != "hook" || judged[1].DecisionSource != "rule" {
		t.Errorf("%+v", judged)
	}
}

// TestHookRewritesInput: both versions are kept, and an approval is about the new
// one, also after a restart.
func TestHookRewritesInput(t *testing.T) {
	h := &runtimetest.Hooks{Points: []hook.Point{hook.PreToolUse}, Answer: runtimetest.AlwaysAnswer(`{"updatedInput":{"path":"b","content":"safe"}}`)}
	k := runtimetest.NewWith(t, h.Use(t), runtimetest.WritesFile("a", "x"), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	action, asked := k.WaitForAction("sess_a", 1)
	if !strings.Contains(string(asked.SafeArgs), "safe") {
		t.Errorf("asked about %s", asked.SafeArgs)
	}
	k.Close()
	k.Open()
	k.Respond(action, "allow")
	k.Completes(r)
	if k.ReadFile("a") != "-" || k.ReadFile("b") != "safe" {
		t.Errorf("%q %q", k.ReadFile("a"), k.ReadFile("b"))
	}
	done := runtimetest.Payloads[*event.HookCompleted](k, "sess_a")[0]
	if before, after := k.ReadOutput(done.OriginalInputRef), k.ReadOutput(done.UpdatedInputRef); !strings.Contains(before, `"x"`) || !strings.Contains(after, "safe") {
		t.Errorf("%s became %s", before, after)
	}
}

func TestHookRewritesIntoNonsense(t *testing.T) {
	h := &runtimetest.Hooks{Points: []hook.Point{hook.PreToolUse}, Answer: runtimetest.AlwaysAnswer(`{"updatedInput":{"nope":1}}`)}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), h.Use(t)), runtimetest.WritesFile("a", "x"), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	if p := runtimetest.Payloads[*event.ToolFailed](k, "sess_a"); len(p) != 1 || p[0].ErrorCategory != "hook_blocked" || k.ReadFile("a") != "-" {
		t.Errorf("%+v", p)
	}
}

func TestHookRewritesThePrompt(t *testing.T) {
	var heard runtimetest.Listener
	h := &runtimetest.Hooks{Points: []hook.Point{hook.UserPromptSubmit}, Answer: runtimetest.AlwaysAnswer(`{"updatedInput":[{"type":"text","text":"something else"}],"additionalContext":"It is Monday."}`)}
	k := runtimetest.NewWith(t, runtimetest.AllOf(h.Use(t), runtimetest.ListenedBy(&heard)))
	k.Completes(k.Submit("sess_a", "original"))
	if got := runtimetest.Conversation(heard.Heard()[0]); got != "user: something else\nuser: It is Monday.\n" {
		t.Errorf("the model heard:\n%s", got)
	}
}

func TestHookChangesAResult(t *testing.T) {
	for answer, want := range map[string]string{
		`{"updatedOutput":"nothing to see"}`:          "nothing to see",
		`{"suppressOutput":true}`:                     "withheld",
		`{"decision":"block","reason":"look closer"}`: "look closer",
		`{"additionalContext":"mind the gap"}`:        "mind the gap",
	} {
		var heard runtimetest.Listener
		h := &runtimetest.Hooks{Points: []hook.Point{hook.PostToolUse}, Answer: runtimetest.AlwaysAnswer(answer)}
		k := runtimetest.NewWith(t, runtimetest.AllOf(h.Use(t), runtimetest.ListenedBy(&heard), runtimetest.WithTools(t, runtimetest.ReadOnlyTool("look", runtimetest.GivesText("plain")))), runtimetest.CallsTool("look", nil), runtimetest.Says("done"))
		k.Completes(k.Submit("sess_a", "go"))
		if got := runtimetest.Conversation(heard.Heard()[1]); !strings.Contains(got, want) {
			t.Errorf("%s: the model heard:\n%s", answer, got)
		}
	}
}

// TestStopHookKeepsATurnGoing at most three times.
func TestStopHookKeepsATurnGoing(t *testing.T) {
	var heard runtimetest.Listener
	h := &runtimetest.Hooks{Points: []hook.Point{hook.Stop}, Answer: runtimetest.AlwaysAnswer(`{"decision":"block","reason":"tests are red"}`)}
	k := runtimetest.NewWith(t, runtimetest.AllOf(h.Use(t), runtimetest.ListenedBy(&heard)))
	k.Completes(k.Submit("sess_a", "go"))
	if n := len(heard.Heard()); n != 4 || h.Count(hook.Stop) != 3 {
		t.Errorf("%d requests, %d hooks", n, h.Count(hook.Stop))
	}
	if got := runtimetest.Conversation(heard.Heard()[1]); !strings.Contains(got, "tests are red") {
		t.Errorf("the model heard:\n%s", got)
	}
}

// TestStopHookOfATurnWithASchema: an answer in a form ends a turn as any other.
func TestStopHookOfATurnWithASchema(t *testing.T) {
	h := &runtimetest.Hooks{Points: []hook.Point{hook.Stop}, Answer: runtimetest.AlwaysAnswer(`{}`)}
	k := runtimetest.NewWith(t, h.Use(t), runtimetest.Says(`{"n":1}`))
	k.Completes(k.SubmitWith("sess_a", "go", &event.TurnOptions{OutputSchema: event.Raw(numberSchema)}))
	if h.Count(hook.Stop) != 1 {
		t.Errorf("the stop hook ran %d times", h.Count(hook.Stop))
	}
}

func TestHookThatFails(t *testing.T) {
	broken := func(context.Context, *hook.Input, string) (string, error) { return "", fmt.Errorf("no such file") }
	for point, blocked := range map[hook.Point]bool{hook.UserPromptSubmit: true, hook.PostSampling: false, hook.Stop: false, hook.SessionStart: false} {
		h := &runtimetest.Hooks{Points: []hook.Point{point}, Answer: broken}
		k := runtimetest.NewWith(t, h.Use(t))
		r := k.Submit("sess_a", "go")
		if blocked {
			k.Fails(r, "hook_blocked")
		} else {
			k.Completes(r)
		}
		if k.CountFacts("sess_a", event.TypeHookFailed) == 0 {
			t.Errorf("%s: no hook.failed", point)
		}
	}
}

// TestInterruptWhileAHookRuns cancels the turn; it isn't an internal failure.
func TestInterruptWhileAHookRuns(t *testing.T) {
	asked := make(chan struct{})
	h := &runtimetest.Hooks{Points: []hook.Point{hook.PreToolUse}, Answer: func(ctx context.Context, _ *hook.Input, _ string) (string, error) {
		close(asked)
		<-ctx.Done()
		return "", ctx.Err()
	}}
	k := runtimetest.NewWith(t, h.Use(t), runtimetest.WritesFile("a", "x"), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	<-asked
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a", Reason: "enough"})
	if p := k.Fails(r, "interrupted"); p.Error.Message != "enough" {
		t.Errorf("%+v", p)
	}
}

// TestInterruptBeforeATurnBegins: what was decided before an interrupt isn't done
// after it.
func TestInterruptBeforeATurnBegins(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	h := &runtimetest.Hooks{Points: []hook.Point{hook.UserPromptSubmit}, Answer: func(context.Context, *hook.Input, string) (string, error) {
		close(asked)
		<-release
		return `{}`, nil
	}}
	k := runtimetest.NewWith(t, h.Use(t))
	r := k.Submit("sess_a", "go")
	<-asked
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a"})
	close(release)
	k.Fails(r, "interrupted")
	if k.CountFacts("sess_a", event.TypeTurnStarted) != 0 {
		t.Error("the turn was started")
	}
}

// TestStopWhileAHookRuns: the next process runs the hook again and goes on.
func TestStopWhileAHookRuns(t *testing.T) {
	for _, point := range []hook.Point{hook.UserPromptSubmit, hook.PreToolUse, hook.Stop} {
		asked := make(chan struct{})
		var once sync.Once
		h := &runtimetest.Hooks{Points: []hook.Point{point}, Answer: func(ctx context.Context, _ *hook.Input, _ string) (string, error) {
			first := false
			once.Do(func() { first = true })
			if first {
				close(asked)
				<-ctx.Done()
				return "", ctx.Err()
			}
			return `{}`, nil
		}}
		k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), h.Use(t)), runtimetest.WritesFile("a", string(point)), runtimetest.Says("done"))
		r := k.Submit("sess_a", "go")
		<-asked
		hurry, cancel := context.WithCancel(context.Background())
		cancel() // nobody waits for tools
		if err := k.Runtime.Close(hurry); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		k.Open()
		k.Completes(r)
		if k.ReadFile("a") != string(point) || h.Count(point) != 2 {
			t.Errorf("%s: %q after %d runs", point, k.ReadFile("a"), h.Count(point))
		}
	}
}

// TestQueueGoesOnAfterATurnThatCantGoOn: a turn that an error of the runtime ends
// doesn't take the next one with it.
func TestQueueGoesOnAfterATurnThatCantGoOn(t *testing.T) {
	gate, asked := make(chan struct{}), make(chan struct{})
	slow := &runtimetest.FakeModel{ProviderName: "slow", Answer: func(_ context.Context, r *model.Request, send func(model.Chunk) bool) error {
		if r.CacheKey == "thread_a" && r.Call == 0 {
			close(asked)
			<-gate
			send(model.Chunk{ToolCall: &model.ToolCall{Name: "list_files", Arguments: event.Raw(`{"path":"."}`)}})
			send(runtimetest.AnswerEnd("tool_use", 1, 1))
			return nil
		}
		send(runtimetest.AnswerEnd("end_turn", 1, 1))
		return nil
	}}
	weak := &weakStore{Store: storetest.NewMem()}
	k := &runtimetest.Kit{T: t, Store: weak, Dir: t.TempDir(), Change: func(o *agentd.Options) { o.Provider, o.Loop.MaxTranscripts = slow, 1 }}
	k.Open()
	t.Cleanup(k.Close)
	first := runtimetest.Do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_a", Create: true, ThreadID: "thread_a", Input: event.Raw(`"one"`)})
	<-asked
	second := k.Submit("sess_a", "two")
	k.Completes(k.Submit("sess_b", "takes the place of the other conversation"))
	weak.fail.Store(true)
	close(gate)
	k.Fails(first, "internal")
	k.Completes(second)
}

// weakStore fails to read a bounded part of the facts once, which is what deriving
// a conversation does.
type weakStore struct {
	store.Store
	fail atomic.Bool
}

func (s *weakStore) Read(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
	if r.Before > 0 && r.Limit == 0 && s.fail.CompareAndSwap(true, false) {
		return func(yield func(store.Record, error) bool) { yield(store.Record{}, store.ErrCorrupt) }
	}
	return s.Store.Read(ctx, id, r)
}

// TestModelThatIsGone: a turn goes on with another model if its own was taken out
// of the configuration.
func TestModelThatIsGone(t *testing.T) {
	asked := make(chan struct{}, 1)
	hang := &runtimetest.FakeModel{ProviderName: "old", Answer: func(ctx context.Context, _ *model.Request, _ func(model.Chunk) bool) error {
		asked <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}
	k := runtimetest.NewWith(t, func(o *agentd.Options) { o.Provider = hang })
	r := k.Submit("sess_a", "one")
	<-asked
	k.Close()
	k.Change = func(o *agentd.Options) { o.Provider, o.Model = script.New("new", nil), "other" }
	k.Open()
	k.Completes(r)
	if done := runtimetest.Payloads[*event.ModelCompleted](k, "sess_a"); len(done) != 1 || done[0].Provider != "new" {
		t.Errorf("%+v", done)
	}
}
