package telemetry_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/event/eventtest"
	"agentd/evidence/replaytest"
	"agentd/hook"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/process"
	"agentd/sandbox"
	"agentd/store"
	"agentd/store/storetest"
	"agentd/telemetry"
	"agentd/tool"
)

// kit is a real runtime whose facts are projected.
type kit struct {
	*testing.T
	store   store.Store
	runtime *agentd.Runtime
	// told is what others were told of the trace, by what it was told to.
	told *told
}

// told remembers trace contexts.
type told struct {
	mu sync.Mutex
	by map[string][]string
}

func (t *told) hear(who, traceParent string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.by[who] = append(t.by[who], traceParent)
}

func (t *told) all(who string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.by[who])
}

// listening is a provider that remembers the trace context of requests.
type listening struct {
	model.Provider
	told *told
}

func (l listening) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	l.told.hear("model", r.TraceParent)
	return l.Provider.Stream(ctx, r)
}

// world says how a kit is set up.
type world struct {
	answers []script.Answer
	points  []hook.Point
	// reason is what hooks answer with.
	reason string
	mode   string
	shell  bool
	env    []string
	tools  []tool.Tool
}

func newKit(t *testing.T, w world) *kit {
	t.Helper()
	k := &kit{T: t, store: storetest.NewMem(), told: &told{by: map[string][]string{}}}
	opt := agentd.Options{
		Store: k.store, Provider: listening{script.New("script", &script.Script{Answers: w.answers}), k.told}, Model: "test", RuntimeID: "runtime_test",
	}
	opt.Loop.Workspace = t.TempDir()
	opt.Loop.Host.Mode = w.mode
	opt.Loop.Host.Rules = []event.PolicyRule{{Decision: "allow", Tool: "shell"}}
	opt.Loop.Backoff.Base = time.Millisecond
	opt.Loop.Sandbox.Env = w.env
	if w.shell {
		report := sandbox.Probe()
		if p, err := sandbox.Prepare(sandbox.Profile{Root: t.TempDir()}, report); err != nil || p.Enforcement.Filesystem == sandbox.None {
			t.Skipf("skipped: the spans of commands; the kernel doesn't confine them here: %v", err)
		}
		opt.Loop.Processes = sync.OnceValue(func() *process.Manager { return process.New(process.Options{Report: report}) })
	}
	opt.Loop.Hooks = k.hooks(w)
	var err error
	if opt.Loop.Tools, err = tool.NewRegistry(append(tool.Builtins(nil), w.tools...)...); err != nil {
		t.Fatal(err)
	}
	if k.runtime, err = agentd.Open(t.Context(), opt); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.runtime.Close(context.Background()); err != nil {
			t.Error(err)
		}
		replaytest.Recorded(t, opt.Store)
	})
	return k
}

func (k *kit) hooks(w world) *hook.Runner {
	k.Helper()
	ids := event.NewIDs(nil, nil)
	opt := hook.Options{
		NewID: func() string { return ids.New(event.PrefixHook) },
		Exec: func(_ context.Context, c hook.Command) (hook.Exit, error) {
			k.told.hear("hook", strings.TrimPrefix(strings.Join(c.Env, " "), "TRACEPARENT="))
			return hook.Exit{Stdout: []byte(`{"decision":"continue","reason":"` + w.reason + `"}`)}, nil
		},
	}
	for _, p := range w.points {
		opt.Hooks = append(opt.Hooks, hook.Hook{Name: "check", Point: p, Command: []string{"check"}})
	}
	r, err := hook.New(opt)
	if err != nil {
		k.Fatal(err)
	}
	return r
}

func (k *kit) runCommand(caller command.Caller, p command.Params) any {
	k.Helper()
	res, err := k.runtime.Do(k.Context(), caller, p)
	if err != nil {
		k.Fatalf("%s: %v", p.Command(), err)
	}
	return res
}

// submit submits a turn as a caller with a trace, or none.
func (k *kit) submit(tr event.Trace, text string) *command.SubmitTurnResult {
	k.Helper()
	caller := command.Local()
	caller.TraceID, caller.SpanID = tr.TraceID, tr.SpanID
	return k.runCommand(caller, &command.SubmitTurn{SessionID: "sess_a", Create: true, Input: event.Raw(fmt.Sprintf("%q", text))}).(*command.SubmitTurnResult)
}

// until follows the session to a fact.
func (k *kit) until(ok func(*event.Event) bool) *event.Event {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), 5*time.Minute) // so that a broken test ends
	defer cancel()
	sub, err := k.runtime.Subscribe(ctx, command.Local(), "sess_a", 0)
	if err != nil {
		k.Fatal(err)
	}
	defer sub.Close()
	for {
		records, err := sub.Next(ctx)
		if err != nil {
			k.Fatal(err)
		}
		for _, r := range records {
			if e := decode(k, r.Data); ok(e) {
				return e
			}
		}
	}
}

// ends waits for the end of a turn and its task.
func (k *kit) ends(r *command.SubmitTurnResult) {
	k.Helper()
	k.until(func(e *event.Event) bool {
		return e.TurnID == r.TurnID && (e.Type == event.TypeTaskCompleted || e.Type == event.TypeTaskFailed || e.Type == event.TypeTaskCancelled)
	})
}

func decode(tb testing.TB, data []byte) *event.Event {
	tb.Helper()
	e, err := event.Decode(data)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// facts returns the session's facts, which satisfy the schemas.
func (k *kit) facts() []*event.Event {
	k.Helper()
	var out []*event.Event
	schema := eventtest.Own(k)
	for rec, err := range k.store.Read(k.Context(), "sess_a", store.Range{}) {
		if err != nil {
			k.Fatal(err)
		}
		schema.Accept(k, rec.Data)
		out = append(out, decode(k, rec.Data))
	}
	return out
}

// project projects facts.
func project(facts []*event.Event) (spans []telemetry.Span, measures []telemetry.Measure, open int) {
	p := telemetry.New("sess_a")
	for _, e := range facts {
		out := p.Apply(e)
		spans, measures = append(spans, out.Spans...), append(measures, out.Measures...)
	}
	return spans, measures, p.Open()
}

// tree draws spans as a tree: children below their parent, in the order in which
// they began.
func tree(spans []telemetry.Span) string {
	children := map[string][]telemetry.Span{}
	ids := map[string]bool{}
	for _, s := range spans {
		ids[s.SpanID] = true
	}
	for _, s := range spans {
		parent := s.ParentID
		if !ids[parent] {
			parent = ""
		}
		children[parent] = append(children[parent], s)
	}
	var b strings.Builder
	var draw func(parent, indent string)
	draw = func(parent, indent string) {
		list := children[parent]
		slices.SortStableFunc(list, func(a, b telemetry.Span) int { return a.Start.Compare(b.Start) })
		for _, s := range list {
			b.WriteString(indent + s.Name)
			if s.Failed {
				fmt.Fprintf(&b, " !%v", s.Get(telemetry.AttrErrorType))
			}
			b.WriteString("\n")
			draw(s.SpanID, indent+"  ")
		}
	}
	draw("", "")
	return b.String()
}

func named(spans []telemetry.Span, name string) []telemetry.Span {
	var out []telemetry.Span
	for _, s := range spans {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

func asks(name string, args map[string]any) script.Answer {
	return script.Answer{Tools: []script.Tool{{Name: name, Arguments: args}}}
}
