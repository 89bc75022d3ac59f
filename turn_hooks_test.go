package agentd_test

import (
	"context"
	"encoding/json"
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
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/store/storetest"
	"agentd/tool"
)

// hooks answer by a function and remember what they were told.
type hooks struct {
	points []hook.Point
	answer func(ctx context.Context, in *hook.Input, point string) (string, error)

	mu   sync.Mutex
	told []string
	ins  []hook.Input
	n    int
}

func (h *hooks) exec(ctx context.Context, c hook.Command) (hook.Exit, error) {
	var in struct {
		Point string `json:"point"`
		hook.Input
	}
	if err := json.Unmarshal(c.Stdin, &in); err != nil {
		return hook.Exit{}, err
	}
	h.mu.Lock()
	h.told = append(h.told, in.Point)
	h.ins = append(h.ins, in.Input)
	h.mu.Unlock()
	out, err := h.answer(ctx, &in.Input, in.Point)
	return hook.Exit{Stdout: []byte(out)}, err
}

func (h *hooks) use(t *testing.T) func(*agentd.Options) {
	return func(o *agentd.Options) {
		var list []hook.Hook
		for _, p := range h.points {
			list = append(list, hook.Hook{Name: "test_" + string(p), Point: p, Command: []string{"test"}})
		}
		r, err := hook.New(hook.Options{Hooks: list, Exec: h.exec, NewID: func() string {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.n++
			return fmt.Sprintf("hook_%d", h.n)
		}})
		if err != nil {
			t.Fatal(err)
		}
		o.Loop.Hooks = r
	}
}

func (h *hooks) count(point hook.Point) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, p := range h.told {
		if p == string(point) {
			n++
		}
	}
	return n
}

func always(answer string) func(context.Context, *hook.Input, string) (string, error) {
	return func(context.Context, *hook.Input, string) (string, error) { return answer, nil }
}

// TestHooksRunAtEveryPoint in the order of a turn, each a fact with an end.
func TestHooksRunAtEveryPoint(t *testing.T) {
	h := &hooks{points: hook.Points(), answer: always(`{}`)}
	fail := func(context.Context, *tool.Call) (*tool.Result, error) {
		return nil, tool.Errorf(tool.Execution, "broken")
	}
	k := newKitWith(t, all(h.use(t), withTools(t, reads("bad", fail))), wants("write_file", map[string]any{"path": "a", "content": "x"}), wants("bad", nil), says("done"))
	r := k.submit("sess_a", "go")
	action, _ := k.required("sess_a", 1)
	k.respond(action, "allow")
	k.completes(r)
	want := []string{
		"session_start", "user_prompt_submit", "post_sampling", "pre_tool_use", "permission_request", "post_tool_use",
		"post_sampling", "pre_tool_use", "post_tool_failure", "post_sampling", "stop",
	}
	if !slices.Equal(h.told, want) {
		t.Errorf("told %v", h.told)
	}
	if s, c := k.count("sess_a", event.TypeHookStarted), k.count("sess_a", event.TypeHookCompleted); s != len(want) || c != len(want) {
		t.Errorf("%d started, %d completed", s, c)
	}
	for i, in := range h.ins {
		if in.SessionID != "sess_a" || in.TurnID != r.TurnID || in.Workspace == "" {
			t.Errorf("%s: %+v", want[i], in)
		}
	}
	k.completes(k.submit("sess_a", "again"))
	if h.count(hook.SessionStart) != 1 {
		t.Error("the session started twice")
	}
}

func TestHooksBlock(t *testing.T) {
	no := always(`{"decision":"block","reason":"not here"}`)
	for _, point := range []hook.Point{hook.SessionStart, hook.UserPromptSubmit, hook.PostSampling} {
		t.Run(string(point), func(t *testing.T) {
			h := &hooks{points: []hook.Point{point}, answer: no}
			k := newKitWith(t, h.use(t), writing("a", "x"), says("done"))
			if p := k.fails(k.submit("sess_a", "go"), "hook_blocked"); !strings.Contains(p.Error.Message, "not here") || !strings.Contains(p.Error.Message, "test_"+string(point)) {
				t.Errorf("%+v", p.Error)
			}
			if point != hook.PostSampling && k.count("sess_a", event.TypeModelRequested) != 0 {
				t.Error("the model was asked")
			}
			if k.count("sess_a", event.TypeToolStarted) != 0 {
				t.Error("a call of a blocked answer was carried out")
			}
		})
	}
	for _, point := range []hook.Point{hook.PreToolUse, hook.PermissionRequest} {
		t.Run(string(point), func(t *testing.T) {
			h := &hooks{points: []hook.Point{point}, answer: always(`{"decision":"deny","reason":"not here"}`)}
			k := newKitWith(t, h.use(t), writing("a", "x"), says("done"))
			k.completes(k.submit("sess_a", "go"))
			failed, judged := payloads[*event.ToolFailed](k, "sess_a"), payloads[*event.PermissionEvaluated](k, "sess_a")
			if len(failed) != 1 || k.file("a") != "-" || !strings.Contains(failed[0].Message, "not here") {
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
	h := &hooks{points: []hook.Point{hook.PermissionRequest}, answer: always(`{"decision":"allow","reason":"fine"}`)}
	rule := func(o *agentd.Options) {
		o.Loop.Host.Rules = []event.PolicyRule{{RuleID: "r1", Decision: "deny", Tool: "write_file", Match: "secret/**", Source: "host"}}
	}
	k := newKitWith(t, all(h.use(t), rule), writing("a", "x"), writing("secret/b", "x"), says("done"))
	k.completes(k.submit("sess_a", "go"))
	if k.file("a") != "x" || k.file("secret/b") != "-" || k.count("sess_a", event.TypeActionRequired) != 0 {
		t.Errorf("%q %q", k.file("a"), k.file("secret/b"))
	}
	if judged := payloads[*event.PermissionEvaluated](k, "sess_a"); judged[0].DecisionSource != "hook" || judged[1].DecisionSource != "rule" {
		t.Errorf("%+v", judged)
	}
}

// TestHookRewritesInput: both versions are kept, and an approval is about the new
// one, also after a restart.
func TestHookRewritesInput(t *testing.T) {
	h := &hooks{points: []hook.Point{hook.PreToolUse}, answer: always(`{"updatedInput":{"path":"b","content":"safe"}}`)}
	k := newKitWith(t, h.use(t), writing("a", "x"), says("done"))
	r := k.submit("sess_a", "go")
	action, asked := k.required("sess_a", 1)
	if !strings.Contains(string(asked.SafeArgs), "safe") {
		t.Errorf("asked about %s", asked.SafeArgs)
	}
	k.close()
	k.open()
	k.respond(action, "allow")
	k.completes(r)
	if k.file("a") != "-" || k.file("b") != "safe" {
		t.Errorf("%q %q", k.file("a"), k.file("b"))
	}
	done := payloads[*event.HookCompleted](k, "sess_a")[0]
	if before, after := k.output(done.OriginalInputRef), k.output(done.UpdatedInputRef); !strings.Contains(before, `"x"`) || !strings.Contains(after, "safe") {
		t.Errorf("%s became %s", before, after)
	}
}

func TestHookRewritesIntoNonsense(t *testing.T) {
	h := &hooks{points: []hook.Point{hook.PreToolUse}, answer: always(`{"updatedInput":{"nope":1}}`)}
	k := newKitWith(t, all(mode("bypass"), h.use(t)), writing("a", "x"), says("done"))
	k.completes(k.submit("sess_a", "go"))
	if p := payloads[*event.ToolFailed](k, "sess_a"); len(p) != 1 || p[0].ErrorCategory != "hook_blocked" || k.file("a") != "-" {
		t.Errorf("%+v", p)
	}
}

func TestHookRewritesThePrompt(t *testing.T) {
	var heard listener
	h := &hooks{points: []hook.Point{hook.UserPromptSubmit}, answer: always(`{"updatedInput":[{"type":"text","text":"something else"}],"additionalContext":"It is Monday."}`)}
	k := newKitWith(t, all(h.use(t), listened(&heard)))
	k.completes(k.submit("sess_a", "original"))
	if got := transcript(heard.heard()[0]); got != "user: something else\nuser: It is Monday.\n" {
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
		var heard listener
		h := &hooks{points: []hook.Point{hook.PostToolUse}, answer: always(answer)}
		k := newKitWith(t, all(h.use(t), listened(&heard), withTools(t, reads("look", gives("plain")))), wants("look", nil), says("done"))
		k.completes(k.submit("sess_a", "go"))
		if got := transcript(heard.heard()[1]); !strings.Contains(got, want) {
			t.Errorf("%s: the model heard:\n%s", answer, got)
		}
	}
}

// TestStopHookKeepsATurnGoing at most three times.
func TestStopHookKeepsATurnGoing(t *testing.T) {
	var heard listener
	h := &hooks{points: []hook.Point{hook.Stop}, answer: always(`{"decision":"block","reason":"tests are red"}`)}
	k := newKitWith(t, all(h.use(t), listened(&heard)))
	k.completes(k.submit("sess_a", "go"))
	if n := len(heard.heard()); n != 4 || h.count(hook.Stop) != 3 {
		t.Errorf("%d requests, %d hooks", n, h.count(hook.Stop))
	}
	if got := transcript(heard.heard()[1]); !strings.Contains(got, "tests are red") {
		t.Errorf("the model heard:\n%s", got)
	}
}

// TestStopHookOfATurnWithASchema: an answer in a form ends a turn as any other.
func TestStopHookOfATurnWithASchema(t *testing.T) {
	h := &hooks{points: []hook.Point{hook.Stop}, answer: always(`{}`)}
	k := newKitWith(t, h.use(t), says(`{"n":1}`))
	k.completes(k.ask("sess_a", "go", &event.TurnOptions{OutputSchema: event.Raw(numberSchema)}))
	if h.count(hook.Stop) != 1 {
		t.Errorf("the stop hook ran %d times", h.count(hook.Stop))
	}
}

func TestHookThatFails(t *testing.T) {
	broken := func(context.Context, *hook.Input, string) (string, error) { return "", fmt.Errorf("no such file") }
	for point, blocked := range map[hook.Point]bool{hook.UserPromptSubmit: true, hook.PostSampling: false, hook.Stop: false, hook.SessionStart: false} {
		h := &hooks{points: []hook.Point{point}, answer: broken}
		k := newKitWith(t, h.use(t))
		r := k.submit("sess_a", "go")
		if blocked {
			k.fails(r, "hook_blocked")
		} else {
			k.completes(r)
		}
		if k.count("sess_a", event.TypeHookFailed) == 0 {
			t.Errorf("%s: no hook.failed", point)
		}
	}
}

// TestInterruptWhileAHookRuns cancels the turn; it isn't an internal failure.
func TestInterruptWhileAHookRuns(t *testing.T) {
	asked := make(chan struct{})
	h := &hooks{points: []hook.Point{hook.PreToolUse}, answer: func(ctx context.Context, _ *hook.Input, _ string) (string, error) {
		close(asked)
		<-ctx.Done()
		return "", ctx.Err()
	}}
	k := newKitWith(t, h.use(t), writing("a", "x"), says("done"))
	r := k.submit("sess_a", "go")
	<-asked
	do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a", Reason: "enough"})
	if p := k.fails(r, "interrupted"); p.Error.Message != "enough" {
		t.Errorf("%+v", p)
	}
}

// TestInterruptBeforeATurnBegins: what was decided before an interrupt isn't done
// after it.
func TestInterruptBeforeATurnBegins(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	h := &hooks{points: []hook.Point{hook.UserPromptSubmit}, answer: func(context.Context, *hook.Input, string) (string, error) {
		close(asked)
		<-release
		return `{}`, nil
	}}
	k := newKitWith(t, h.use(t))
	r := k.submit("sess_a", "go")
	<-asked
	do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a"})
	close(release)
	k.fails(r, "interrupted")
	if k.count("sess_a", event.TypeTurnStarted) != 0 {
		t.Error("the turn was started")
	}
}

// TestStopWhileAHookRuns: the next process runs the hook again and goes on.
func TestStopWhileAHookRuns(t *testing.T) {
	for _, point := range []hook.Point{hook.UserPromptSubmit, hook.PreToolUse, hook.Stop} {
		asked := make(chan struct{})
		var once sync.Once
		h := &hooks{points: []hook.Point{point}, answer: func(ctx context.Context, _ *hook.Input, _ string) (string, error) {
			first := false
			once.Do(func() { first = true })
			if first {
				close(asked)
				<-ctx.Done()
				return "", ctx.Err()
			}
			return `{}`, nil
		}}
		k := newKitWith(t, all(mode("bypass"), h.use(t)), writing("a", string(point)), says("done"))
		r := k.submit("sess_a", "go")
		<-asked
		hurry, cancel := context.WithCancel(context.Background())
		cancel() // nobody waits for tools
		if err := k.r.Close(hurry); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		k.open()
		k.completes(r)
		if k.file("a") != string(point) || h.count(point) != 2 {
			t.Errorf("%s: %q after %d runs", point, k.file("a"), h.count(point))
		}
	}
}

// TestQueueGoesOnAfterATurnThatCantGoOn: a turn that an error of the runtime ends
// doesn't take the next one with it.
func TestQueueGoesOnAfterATurnThatCantGoOn(t *testing.T) {
	gate, asked := make(chan struct{}), make(chan struct{})
	slow := &fakeModel{name: "slow", answer: func(_ context.Context, r *model.Request, send func(model.Chunk) bool) error {
		if r.CacheKey == "thread_a" && r.Call == 0 {
			close(asked)
			<-gate
			send(model.Chunk{ToolCall: &model.ToolCall{Name: "list_files", Arguments: event.Raw(`{"path":"."}`)}})
			send(end("tool_use", 1, 1))
			return nil
		}
		send(end("end_turn", 1, 1))
		return nil
	}}
	weak := &weakStore{Store: storetest.NewMem()}
	k := &kit{T: t, store: weak, dir: t.TempDir(), change: func(o *agentd.Options) { o.Provider, o.Loop.MaxTranscripts = slow, 1 }}
	k.open()
	t.Cleanup(k.close)
	first := do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_a", Create: true, ThreadID: "thread_a", Input: event.Raw(`"one"`)})
	<-asked
	second := k.submit("sess_a", "two")
	k.completes(k.submit("sess_b", "takes the place of the other conversation"))
	weak.fail.Store(true)
	close(gate)
	k.fails(first, "internal")
	k.completes(second)
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
	hang := &fakeModel{name: "old", answer: func(ctx context.Context, _ *model.Request, _ func(model.Chunk) bool) error {
		asked <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}
	k := newKitWith(t, func(o *agentd.Options) { o.Provider = hang })
	r := k.submit("sess_a", "one")
	<-asked
	k.close()
	k.change = func(o *agentd.Options) { o.Provider, o.Model = script.New("new", nil), "other" }
	k.open()
	k.completes(r)
	if done := payloads[*event.ModelCompleted](k, "sess_a"); len(done) != 1 || done[0].Provider != "new" {
		t.Errorf("%+v", done)
	}
}
