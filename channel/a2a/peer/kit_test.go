package peer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agentd"
	"agentd/channel/a2a/peer"
	"agentd/command"
	"agentd/event"
	"agentd/event/eventtest"
	"agentd/evidence/replaytest"
	"agentd/loop"
	"agentd/model"
	"agentd/store"
	"agentd/store/storetest"
	"agentd/tool"
	"agentd/tool/toolkind"
)

// mute is a model that answers with what it was told last, or gives it to a peer if
// it begins with "PEER: ".
type mute struct{}

func (mute) Name() string { return "mute" }

func (mute) Stream(_ context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		text, last := "nothing", &model.Message{}
		for _, m := range r.Messages {
			last = m
			if m.Role == model.RoleUser {
				text = "heard " + m.Text
			}
		}
		if id, what, ok := strings.Cut(last.Text, ": "); ok && last.Role == model.RoleUser {
			args, _ := json.Marshal(map[string]string{"role": "counter", "input": what, "peer": id})
			if yield(model.Chunk{ToolCall: &model.ToolCall{ProviderID: "c1", Name: string(toolkind.SpawnAgent), Arguments: args}}, nil) {
				yield(model.Chunk{Done: &model.Done{StopReason: "tool_use", Usage: event.Usage{InputTokens: 1, OutputTokens: 1}}}, nil)
			}
			return
		}
		if yield(model.Chunk{Text: text}, nil) {
			yield(model.Chunk{Done: &model.Done{StopReason: "end_turn", Usage: event.Usage{InputTokens: 1, OutputTokens: 1}}}, nil)
		}
	}
}

// kit is a runtime that gives work away, and can be stopped and started again.
type kit struct {
	t     *testing.T
	opt   peer.Options
	store *storetest.Mem

	// wiring is what the runtime was opened with last.
	wiring  agentd.Options
	runtime *agentd.Runtime
	client  *peer.Client
	push    *httptest.Server
}

// newKit returns a runtime with one peer, theirs.
func newKit(t *testing.T, f *fake, change ...func(*peer.Options)) *kit {
	t.Helper()
	k := &kit{t: t, store: storetest.NewMem()}
	k.opt = peer.Options{
		Peers: []peer.Peer{{
			ID: "theirs", CardURL: f.srv.URL, AllowPrivate: true, Token: func() string { return f.token },
		}},
		Attempts: 4, Backoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond, Poll: time.Millisecond, MaxPoll: 4 * time.Millisecond,
		Timeout: 10 * time.Second, Silence: 10 * time.Second, MaxBody: 1 << 20, MaxCard: 64 << 10,
		Push: peer.PushOptions{Key: bytes.Repeat([]byte{3}, 32)},
	}
	mux := http.NewServeMux()
	mux.HandleFunc(peer.PushPath, func(w http.ResponseWriter, r *http.Request) { k.client.PushHandler().ServeHTTP(w, r) })
	k.push = httptest.NewServer(mux)
	k.opt.Push.URL = k.push.URL // for peers whose delivery is push
	for _, c := range change {
		c(&k.opt)
	}
	k.start()
	t.Cleanup(func() {
		k.stop()
		k.push.Close()
		k.validate()
		replaytest.Recorded(t, k.wiring.Store)
		if err := k.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

func (k *kit) start() {
	k.t.Helper()
	registry, err := tool.NewRegistry(tool.Builtins(&tool.Options{Peers: []string{"theirs"}})...)
	if err != nil {
		k.t.Fatal(err)
	}
	if k.client, err = peer.New(k.opt); err != nil {
		k.t.Fatal(err)
	}
	k.wiring = agentd.Options{
		Store: k.store, Provider: mute{}, Model: "mute", Loop: loop.Options{Tools: registry, Workspace: k.t.TempDir()}, Peers: k.client,
	}
	if k.runtime, err = agentd.Open(context.Background(), k.wiring); err != nil {
		k.t.Fatal(err)
	}
	k.client.Start(k.runtime.Port())
}

func (k *kit) stop() {
	k.t.Helper()
	k.client.Close()
	if err := k.runtime.Close(context.Background()); err != nil {
		k.t.Error(err)
	}
}

// restart ends the runtime and starts it again over the same store.
func (k *kit) restart() {
	k.t.Helper()
	k.stop()
	k.start()
}

// runCommand carries out a command that must succeed.
func runCommand[R any](k *kit, p command.Params) *R {
	k.t.Helper()
	res, err := k.runtime.Do(context.Background(), command.Local(), p)
	if err != nil {
		k.t.Fatalf("%s: %v", p.Command(), err)
	}
	return res.(*R)
}

const sess, taskID = "sess_work", "task_work"

// delegate gives the task to the peer.
func (k *kit) delegate(change ...func(*command.CreateTask)) {
	k.t.Helper()
	runCommand[command.CreateSessionResult](k, &command.CreateSession{SessionID: sess})
	p := &command.CreateTask{SessionID: sess, TaskID: taskID, Objective: "Count the words.", Peer: "theirs", Start: true}
	for _, c := range change {
		c(p)
	}
	runCommand[command.TaskResult](k, p)
}

// await returns the first fact of the session after a sequence that fits.
func (k *kit) await(after uint64, fits func(*event.Event) bool) *event.Event {
	k.t.Helper()
	ctx := k.t.Context()
	if at, ok := k.t.Deadline(); ok { // so that what came is shown
		var end context.CancelFunc
		ctx, end = context.WithDeadline(ctx, at.Add(-5*time.Second))
		defer end()
	}
	sub, err := k.runtime.Subscribe(ctx, command.Local(), sess, after)
	if err != nil {
		k.t.Fatal(err)
	}
	defer sub.Close()
	for {
		records, err := sub.Next(ctx)
		if err != nil {
			for _, e := range k.facts("") {
				k.t.Logf("%d %s %s", e.Sequence, e.Type, mustJSON(e.Payload))
			}
			k.t.Fatalf("the fact did not come: %v", err)
		}
		for _, r := range records {
			e, err := event.Decode(r.Data)
			if err != nil {
				k.t.Fatal(err)
			}
			if fits(e) {
				return e
			}
		}
	}
}

func mustJSON(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// becomes waits until the task has a status and returns the fact of it.
func (k *kit) becomes(status string) *event.Event {
	k.t.Helper()
	return k.await(0, func(e *event.Event) bool { return e.TaskID == taskID && statusOf(e) == status })
}

func statusOf(e *event.Event) string {
	switch p := e.Payload.(type) {
	case *event.TaskStatusChanged:
		return p.Status
	case *event.TaskCompleted:
		return p.Status
	}
	return ""
}

// stands waits until the task at the peer is said to stand so.
func (k *kit) stands(status string) *event.PeerTaskUpdated {
	k.t.Helper()
	e := k.await(0, func(e *event.Event) bool {
		p, ok := e.Payload.(*event.PeerTaskUpdated)
		return ok && p.Status == status
	})
	return e.Payload.(*event.PeerTaskUpdated)
}

// facts are the session's facts of a type; of all types if it is empty.
func (k *kit) facts(t event.Type) []*event.Event {
	k.t.Helper()
	records, _, err := k.runtime.Events(context.Background(), command.Local(), sess, 0, 10000)
	if err != nil {
		k.t.Fatal(err)
	}
	var out []*event.Event
	for _, r := range records {
		e, err := event.Decode(r.Data)
		if err != nil {
			k.t.Fatal(err)
		}
		if t == "" || e.Type == t {
			out = append(out, e)
		}
	}
	return out
}

// validate checks all facts against the schemas.
func (k *kit) validate() {
	own, strict := eventtest.Own(k.t), eventtest.Strict(k.t)
	for r, err := range k.store.Read(context.Background(), sess, store.Range{}) {
		if err != nil {
			k.t.Fatal(err)
		}
		if err := own.Validate(r.Data); err != nil {
			k.t.Errorf("%s: %v", r.Data, err)
		}
		if strict.Available() && bytes.Contains(r.Data, []byte(event.SchemaStandard)) {
			strict.Accept(k.t, r.Data)
		}
	}
}

// output reads what is behind a reference.
func (k *kit) output(ref string) string {
	k.t.Helper()
	blob, _, err := k.runtime.Output(context.Background(), command.Local(), ref)
	if err != nil {
		k.t.Fatal(err)
	}
	defer blob.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(blob); err != nil {
		k.t.Fatal(err)
	}
	return b.String()
}
