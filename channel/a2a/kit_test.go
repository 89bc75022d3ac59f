package a2a_test

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd"
	"agentd/channel/a2a"
	"agentd/command"
	"agentd/event"
	"agentd/evidence/replaytest"
	"agentd/internal/adaptertest"
	"agentd/loop"
	"agentd/model"
	"agentd/store/storetest"
	"agentd/tool"
	"agentd/tool/toolkind"
)

// agent is a model that does what the user's last words say:
//
//	say X          answers X
//	pieces A|B|C   answers in pieces, each of which waits for the gate
//	hold           answers when the gate opens
//	ask Q          asks Q, then repeats the answer
//	write F        writes a file, which needs an approval
//	unlock         calls a tool that needs a credential
//	plan P         hands a plan over, in the mode plan
//	refuse, fail   doesn't answer
type agent struct {
	mu    sync.Mutex
	gate  chan struct{} // each value lets one wait go on
	calls int
}

func (*agent) Name() string { return "agent" }

func (a *agent) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		a.mu.Lock()
		a.calls++
		a.mu.Unlock()
		more := true // until whoever asks has been stopped
		send := func(c model.Chunk) bool {
			more = more && yield(c, nil)
			return more
		}
		if err := a.answer(ctx, r, send); err != nil && more {
			yield(model.Chunk{}, err)
		}
	}
}

func (a *agent) answer(ctx context.Context, r *model.Request, send func(model.Chunk) bool) error {
	words, result := "", ""
	for _, m := range r.Messages {
		switch m.Role {
		case model.RoleUser:
			words, result = m.Text, ""
		case model.RoleTool:
			result = m.Text
		}
	}
	verb, rest, _ := strings.Cut(words, " ")
	stop := "end_turn"
	switch {
	case verb == "say":
		send(model.Chunk{Text: rest})
	case verb == "pieces":
		for piece := range strings.SplitSeq(rest, "|") {
			if err := a.wait(ctx); err != nil {
				return err
			}
			send(model.Chunk{Text: piece})
		}
	case verb == "hold":
		if err := a.wait(ctx); err != nil {
			return err
		}
		send(model.Chunk{Text: "let go"})
	case (verb == "ask" || verb == "write" || verb == "unlock" || verb == "plan") && result != "":
		send(model.Chunk{Text: "got " + result})
	case verb == "ask":
		args, _ := json.Marshal(map[string]string{"prompt": rest})
		send(model.Chunk{ToolCall: &model.ToolCall{ProviderID: "c1", Name: string(toolkind.RequestInput), Arguments: args}})
		stop = "tool_use"
	case verb == "write":
		args, _ := json.Marshal(map[string]string{"path": rest, "content": "x"})
		send(model.Chunk{ToolCall: &model.ToolCall{ProviderID: "c1", Name: "write_file", Arguments: args}})
		stop = "tool_use"
	case verb == "unlock":
		send(model.Chunk{ToolCall: &model.ToolCall{ProviderID: "c1", Name: adaptertest.Locked().Info().ToolName, Arguments: []byte("{}")}})
		stop = "tool_use"
	case verb == "plan":
		args, _ := json.Marshal(map[string]string{"plan": rest})
		send(model.Chunk{ToolCall: &model.ToolCall{ProviderID: "c1", Name: string(toolkind.PresentPlan), Arguments: args}})
		stop = "tool_use"
	case verb == "refuse":
		send(model.Chunk{Text: "I won't."})
		stop = "refusal"
	case verb == "fail":
		return &model.Error{Category: model.InvalidRequest, Message: "no such thing"}
	default:
		send(model.Chunk{Text: "heard " + words})
	}
	send(model.Chunk{Done: &model.Done{StopReason: stop, Usage: event.Usage{InputTokens: 1, OutputTokens: 1}}})
	return nil
}

func (a *agent) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.gate:
		return nil
	}
}

// open lets n waits go on.
func (a *agent) open(n int) {
	for range n {
		a.gate <- struct{}{}
	}
}

func (a *agent) called() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls
}

// who are the callers of tests, by their token.
var who = map[string]struct {
	account string
	role    command.Role
}{
	"alice": {"alice", command.RoleClient},
	"bob":   {"bob", command.RoleClient},
	"eve":   {"alice", command.RoleObserver},
	"root":  {"", command.RoleAdmin},
}

// kit is a server over a runtime that can be stopped and started again.
type kit struct {
	t     *testing.T
	opt   a2a.Options
	store *storetest.Mem
	agent *agent
	dir   string

	// wiring is what the runtime was opened with last.
	wiring  agentd.Options
	runtime *agentd.Runtime
	peers   *a2a.Server
	http    *httptest.Server
}

func newKit(t *testing.T, change ...func(*a2a.Options)) *kit {
	t.Helper()
	k := &kit{t: t, store: storetest.NewMem(), agent: &agent{gate: make(chan struct{}, 100)}, dir: t.TempDir()}
	k.opt = a2a.Options{
		Card: a2a.CardInfo{Name: "test", Description: "An agent of tests.", URL: "https://agent.example", Version: "1", Extended: true},
		Push: a2a.PushOptions{Key: bytes.Repeat([]byte{7}, 32)},
		// What is cancelled has ended when it is told, however busy the machine is.
		CancelWait: 3 * time.Minute,
		Caller: func(ctx context.Context) (command.Caller, command.Role, bool) {
			name, ok := ctx.Value(tokenKey{}).(string)
			w := who[name]
			return command.Caller{Account: w.account, Admin: w.role == command.RoleAdmin, Actor: event.Actor{Kind: "user", ID: name}}, w.role, ok
		},
	}
	for _, c := range change {
		c(&k.opt)
	}
	k.start()
	t.Cleanup(func() {
		k.stop()
		http.DefaultClient.CloseIdleConnections()
		replaytest.Recorded(t, k.wiring.Store)
		if err := k.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

type tokenKey struct{}

func (k *kit) start() {
	k.t.Helper()
	registry, err := tool.NewRegistry(append(tool.Builtins(&tool.Options{}), adaptertest.Locked())...)
	if err != nil {
		k.t.Fatal(err)
	}
	k.wiring = agentd.Options{
		Store: k.store, Provider: k.agent, Model: "agent", Loop: loop.Options{Tools: registry, Workspace: k.dir},
	}
	if k.runtime, err = agentd.Open(context.Background(), k.wiring); err != nil {
		k.t.Fatal(err)
	}
	opt := k.opt
	opt.Runtime = k.runtime.Port()
	if k.peers, err = a2a.New(opt); err != nil {
		k.t.Fatal(err)
	}
	k.peers.Start(context.Background())
	mux := http.NewServeMux()
	mux.Handle(a2a.CardPath, k.peers.CardHandler())
	mux.Handle(a2a.RPCPath, k.peers.RPCHandler())
	mux.Handle(a2a.RPCPath+"/", k.peers.RPCHandler())
	mux.Handle(a2a.RESTPath+"/", k.peers.RESTHandler())
	k.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); who[name].role != "" {
			r = r.WithContext(context.WithValue(r.Context(), tokenKey{}, name))
		}
		mux.ServeHTTP(w, r)
	}))
}

func (k *kit) stop() {
	k.t.Helper()
	k.http.CloseClientConnections()
	k.http.Close()
	k.peers.Close()
	if err := k.runtime.Close(context.Background()); err != nil {
		k.t.Error(err)
	}
}

// restart ends the runtime and the server and starts both again over the same store.
func (k *kit) restart() {
	k.t.Helper()
	k.stop()
	k.start()
}
