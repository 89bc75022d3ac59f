package contract_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/evidence/replaytest"
	"agentd/fault"
	"agentd/internal/tourtest"
	"agentd/loop"
	"agentd/model/provider/script"
	"agentd/process"
	"agentd/sandbox"
	"agentd/server"
	"agentd/store"
	"agentd/store/storetest"
)

// backend is the real runtime as the server wants it, without streams.
type backend struct {
	agentd.Port
	store store.Store
}

// Subscribe implements [server.Backend].
func (b *backend) Subscribe(context.Context, command.Caller, string, uint64) (command.Stream, error) {
	return nil, fault.New(fault.Unavailable, "there are no streams here")
}

// SubscribeAll implements [server.Backend].
func (b *backend) SubscribeAll(context.Context, command.Caller, string) (command.Stream, error) {
	return nil, fault.New(fault.Unavailable, "there are no streams here")
}

// Ready implements [server.Backend].
func (b *backend) Ready(context.Context) error { return b.Err() }

// Status implements [server.Backend].
func (b *backend) Status(ctx context.Context, _ command.Caller) any {
	meta, err := b.store.Meta(ctx)
	return map[string]any{
		"runtimeId": b.ID(), "engine": meta.Engine, "data": meta.Location, "dataVersion": meta.Version,
		"recovered": append([]string{}, meta.Recovery...), "ready": err == nil,
	}
}

// tokens knows two holders by their tokens.
type tokens struct{}

// Authenticate implements [server.Authenticator].
func (tokens) Authenticate(_ context.Context, token string) (server.Identity, error) {
	switch token {
	case "admin-token":
		return server.Identity{TokenID: "t1", Name: "root", Role: command.RoleAdmin}, nil
	case "observer-token":
		return server.Identity{TokenID: "t2", Name: "eve", Role: command.RoleObserver, Account: "a"}, nil
	}
	return server.Identity{}, fault.New(fault.Unauthenticated, "the token is not known")
}

// lieHeader makes the server under test answer what its document doesn't say.
const lieHeader = "X-Contract-Lie"

// serve starts a server over the real runtime on a store in memory, whose model
// first asks a question.
func serve(t *testing.T) (address string) {
	t.Helper()
	st := storetest.NewMem()
	processes := sync.OnceValue(func() *process.Manager { return process.New(process.Options{Report: sandbox.Probe()}) })
	opt := agentd.Options{Store: st, Model: "script", Provider: script.New("script", &script.Script{
		Answers: append(tourtest.Answers(), []script.Answer{
			{Ask: &script.Ask{Prompt: "Which colour?"}},
			{Text: "Blue, then."},
			{When: &script.When{Contains: "replaced by a summary"}, Text: "A summary."},
			{When: &script.When{Contains: "Run something."}, Tools: []script.Tool{
				{Name: "shell", Arguments: map[string]any{"command": "cat", "background": true, "tty": true}},
			}},
			{When: &script.When{Contains: "Run something."}, Text: "It runs."},
		}...),
	}), Loop: loop.Options{Workspace: t.TempDir(), Governance: loop.Governance{Processes: processes}}}
	opt.Host = tourtest.Host(t)
	rt, err := agentd.Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	h := server.New(&backend{rt.Port(), st}, &server.Options{Auth: tokens{}, Version: "test"}).Handler()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(lieHeader) == "" {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(r.Header.Get(lieHeader)))
	}))
	t.Cleanup(func() {
		s.Close()
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
		replaytest.Recorded(t, opt.Store)
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.URL
}
