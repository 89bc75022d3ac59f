package agentd_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/process"
	"agentd/sandbox"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
	"agentd/tool"
)

// fakeModel answers by a function.
type fakeModel struct {
	name   string
	answer func(ctx context.Context, r *model.Request, send func(model.Chunk) bool) error
}

func (m *fakeModel) Name() string { return m.name }

func (m *fakeModel) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		open := true
		err := m.answer(ctx, r, func(c model.Chunk) bool {
			open = open && yield(c, nil)
			return open
		})
		if err != nil && open {
			yield(model.Chunk{}, err)
		}
	}
}

// end is the last chunk of an answer that used so many tokens.
func end(stop string, in, out int64) model.Chunk {
	return model.Chunk{Done: &model.Done{StopReason: stop, Usage: event.Usage{InputTokens: in, OutputTokens: out}}}
}

// listener passes requests on and remembers them.
type listener struct {
	model.Provider
	mu       sync.Mutex
	requests []*model.Request
}

func (l *listener) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	l.mu.Lock()
	heard := *r
	heard.Messages = slices.Clone(r.Messages)
	l.requests = append(l.requests, &heard)
	l.mu.Unlock()
	return l.Provider.Stream(ctx, r)
}

func (l *listener) heard() []*model.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.requests)
}

// listened puts a listener in front of the kit's own provider.
func listened(into *listener) func(*agentd.Options) {
	return func(o *agentd.Options) {
		into.Provider = o.Provider
		o.Provider = into
	}
}

// halting sends the first piece of each answer and then nothing more, until it goes
// on.
type halting struct {
	model.Provider
	goesOn atomic.Bool
}

func (h *halting) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		for c, err := range h.Provider.Stream(ctx, r) {
			if !yield(c, err) {
				return
			}
			if !h.goesOn.Load() {
				<-ctx.Done()
				yield(model.Chunk{}, ctx.Err())
				return
			}
		}
	}
}

// use puts it in front of the kit's own provider.
func (h *halting) use(o *agentd.Options) {
	h.Provider = o.Provider
	o.Provider = h
}

// fakeTool runs a function.
type fakeTool struct {
	info event.ToolInfo
	run  func(ctx context.Context, c *tool.Call) (*tool.Result, error)
}

func (f *fakeTool) Info() event.ToolInfo { return f.info }

func (f *fakeTool) Run(ctx context.Context, c *tool.Call) (*tool.Result, error) { return f.run(ctx, c) }

func reads(name string, run func(context.Context, *tool.Call) (*tool.Result, error)) tool.Tool {
	return &fakeTool{info: event.ToolInfo{
		ToolName: name, Description: "reads", InputSchema: event.Raw(`{"type":"object"}`), RuntimeOwner: "local",
		IsReadOnly: true, IsConcurrencySafe: true, InterruptBehavior: "cancel",
	}, run: run}
}

func writes(name string, run func(context.Context, *tool.Call) (*tool.Result, error)) tool.Tool {
	return &fakeTool{info: event.ToolInfo{
		ToolName: name, Description: "writes", InputSchema: event.Raw(`{"type":"object"}`), RuntimeOwner: "local", InterruptBehavior: "cancel",
	}, run: run}
}

func gives(text string) func(context.Context, *tool.Call) (*tool.Result, error) {
	return func(context.Context, *tool.Call) (*tool.Result, error) {
		return &tool.Result{Output: []byte(text)}, nil
	}
}

// withTools adds tools to the built-in ones.
func withTools(tb testing.TB, tools ...tool.Tool) func(*agentd.Options) {
	return func(o *agentd.Options) {
		r, err := tool.NewRegistry(append(tool.Builtins(nil), tools...)...)
		if err != nil {
			tb.Fatal(err)
		}
		o.Loop.Tools = r
	}
}

// probe says once what the kernel offers.
var probe = sync.OnceValue(sandbox.Probe)

// withShell lets the runtime run commands.
func withShell(o *agentd.Options) {
	o.Loop.Processes = sync.OnceValue(func() *process.Manager { return process.New(process.Options{Report: probe()}) })
}

// needsSandbox skips a test where the kernel can't confine commands.
func needsSandbox(t *testing.T) {
	t.Helper()
	p, err := sandbox.Prepare(sandbox.Profile{Root: t.TempDir()}, probe())
	if err != nil || p.Enforcement.Filesystem == sandbox.None || p.Enforcement.Network == sandbox.None {
		t.Skipf("skipped: sandboxed commands; the kernel doesn't confine them here: %v", err)
	}
}

// mode sets the host's permission mode.
func mode(m string) func(*agentd.Options) {
	return func(o *agentd.Options) { o.Loop.Host.Mode = m }
}

// all makes one change of many.
func all(changes ...func(*agentd.Options)) func(*agentd.Options) {
	return func(o *agentd.Options) {
		for _, c := range changes {
			c(o)
		}
	}
}

// wants is an answer that asks for one tool call.
func wants(name string, args map[string]any) script.Answer {
	return script.Answer{Tools: []script.Tool{{Name: name, Arguments: args}}}
}

func says(text string) script.Answer { return script.Answer{Text: text} }

// ask submits a turn with options.
func (k *kit) ask(sessionID, text string, o *event.TurnOptions) *command.SubmitTurnResult {
	k.Helper()
	return do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: sessionID, Create: true, Input: quoted(text), Options: o})
}

func quoted(text string) event.Raw {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always encodes
	}
	return b
}

// refused carries out a command that must fail, and returns what it was told.
func refused(k *kit, p command.Params, kind fault.Kind) string {
	k.Helper()
	res, err := k.r.Do(context.Background(), command.Local(), p)
	if fault.KindOf(err) != kind {
		k.Fatalf("%s: got %v, %v; want %v", p.Command(), res, err, kind)
	}
	return err.Error()
}

// inTime tries with a time limit, then with longer ones, until what must happen
// before the limit passes did: on a busy machine a short one passes too early. The
// try says whether it did.
func inTime(t *testing.T, limit time.Duration, try func(limit time.Duration) bool) {
	t.Helper()
	for ; limit < 5*time.Minute; limit *= 4 {
		if try(limit) {
			return
		}
	}
	t.Fatal("the limit passed too early, however long it was")
}

// ends waits for the end of a turn, and of its task.
func (k *kit) ends(sessionID, turnID string) *event.Event {
	k.Helper()
	var last *event.Event
	k.until(sessionID, func(e *event.Event) bool {
		if e.TurnID == turnID && (e.Type == event.TypeTurnCompleted || e.Type == event.TypeTurnFailed) {
			last = e
		}
		return last != nil && e.TurnID == turnID &&
			(e.Type == event.TypeTaskCompleted || e.Type == event.TypeTaskFailed || e.Type == event.TypeTaskCancelled || e.Type == event.TypeTaskTimedOut)
	})
	return last
}

// completes waits for a turn that must end well.
func (k *kit) completes(r *command.SubmitTurnResult) *event.TurnCompleted {
	k.Helper()
	e := k.ends(r.SessionID, r.TurnID)
	p, ok := e.Payload.(*event.TurnCompleted)
	if !ok {
		k.Fatalf("the turn failed: %+v, %+v", e.Payload, e.Payload.(*event.TurnFailed).Error)
	}
	return p
}

// fails waits for a turn that must fail with a category.
func (k *kit) fails(r *command.SubmitTurnResult, category string) *event.TurnFailed {
	k.Helper()
	e := k.ends(r.SessionID, r.TurnID)
	p, ok := e.Payload.(*event.TurnFailed)
	if !ok || p.FailureCategory != category {
		k.Fatalf("the turn ended with %+v, want %s", e.Payload, category)
	}
	return p
}

// facts returns the session's facts.
func (k *kit) facts(sessionID string) []*event.Event {
	k.Helper()
	return factsOf(k, k.store, sessionID)
}

func factsOf(tb testing.TB, s store.Store, sessionID string) []*event.Event {
	tb.Helper()
	return storetest.Facts(tb, s, sessionID)
}

// payloads returns the payloads of one kind, in order.
func payloads[P event.Payload](k *kit, sessionID string) []P {
	k.Helper()
	var out []P
	for _, e := range k.facts(sessionID) {
		if p, ok := e.Payload.(P); ok {
			out = append(out, p)
		}
	}
	return out
}

// count counts the facts of a type.
func (k *kit) count(sessionID string, typ event.Type) int {
	k.Helper()
	n := 0
	for _, e := range k.facts(sessionID) {
		if e.Type == typ {
			n++
		}
	}
	return n
}

// required waits for the n-th action of a session, from 1.
func (k *kit) required(sessionID string, n int) (string, *event.ActionRequired) {
	k.Helper()
	e := k.until(sessionID, func(e *event.Event) bool {
		if e.Type == event.TypeActionRequired {
			n--
		}
		return n == 0
	})
	return e.ActionID, e.Payload.(*event.ActionRequired)
}

func (k *kit) respond(actionID, decision string) {
	k.Helper()
	do[command.RespondActionResult](k, &command.RespondAction{ActionID: actionID, Decision: decision})
}

func (k *kit) thread(r *command.SubmitTurnResult) *state.ThreadReadModel {
	k.Helper()
	return do[state.ThreadReadModel](k, &command.GetThreadRead{SessionID: r.SessionID, ThreadID: r.ThreadID})
}

// output reads what is behind a reference.
func (k *kit) output(ref string) string {
	k.Helper()
	b, _, err := k.r.Output(context.Background(), command.Local(), ref)
	if err != nil {
		k.Fatal(err)
	}
	defer b.Close()
	all, err := io.ReadAll(b)
	if err != nil {
		k.Fatal(err)
	}
	return string(all)
}

// file returns a file of the workspace; "-" if it isn't there.
func (k *kit) file(name string) string {
	k.Helper()
	b, err := os.ReadFile(filepath.Join(k.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return "-"
	}
	if err != nil {
		k.Fatal(err)
	}
	return string(b)
}

func (k *kit) write(name, content string) {
	k.Helper()
	if err := os.WriteFile(filepath.Join(k.dir, name), []byte(content), 0o644); err != nil {
		k.Fatal(err)
	}
}

// transcript is a request's conversation in words.
func transcript(r *model.Request) string {
	var b strings.Builder
	for _, m := range r.Messages {
		b.WriteString(m.Role + ": " + m.Text)
		for _, c := range m.ToolCalls {
			b.WriteString(" <" + c.Name + " " + c.ProviderID + " " + string(c.Arguments) + ">")
		}
		if m.Role == model.RoleTool {
			b.WriteString(" [" + m.ToolName + " " + m.ToolCallID + "]")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// withoutNamespaces lets the runtime run commands on a kernel that hides nothing.
func withoutNamespaces(o *agentd.Options) {
	o.Loop.Processes = sync.OnceValue(func() *process.Manager {
		report := probe()
		report.MountNamespace = sandbox.Feature{Reason: "switched off for a test"}
		return process.New(process.Options{Report: report})
	})
}

// schemaOf is what a model is told of a tool's input.
func schemaOf(t *testing.T, tools []model.ToolSpec, name string) string {
	t.Helper()
	for _, s := range tools {
		if s.Name == name {
			return string(s.Schema)
		}
	}
	t.Fatalf("there is no tool %s", name)
	return ""
}
