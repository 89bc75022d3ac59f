package a2a_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentd"
	"agentd/channel/a2a"
	"agentd/command"
	"agentd/fault"
	"agentd/server"
)

// behind is the runtime as the program's server wants it.
type behind struct{ agentd.Port }

func (b behind) Ready(context.Context) error                { return b.Err() }
func (b behind) Status(context.Context, command.Caller) any { return struct{}{} }

// tokens are names, as everywhere in these tests.
type tokens struct{}

func (tokens) Authenticate(_ context.Context, token string) (server.Identity, error) {
	w, ok := who[token]
	if !ok {
		return server.Identity{}, fault.New(fault.Unauthenticated, "nobody")
	}
	return server.Identity{TokenID: token, Name: token, Role: w.role, Account: w.account}, nil
}

// Behind the program's own server a stream lives longer than a body may take to
// arrive, and a request without a token gets no further.
func TestBehindTheServer(t *testing.T) {
	// On a busy machine a short time is over while the body is still being read.
	for limit := 500 * time.Millisecond; ; limit *= 10 {
		beats, last := streamBehind(t, limit)
		if beats > 0 && strings.Contains(last, "TASK_STATE_COMPLETED") {
			return
		}
		if limit > 10*time.Second {
			t.Fatalf("the stream ended after %d signs of life with %q", beats, last)
		}
	}
}

// streamBehind opens a stream behind a server, reads it for twice as long as a body may take,
// and returns how many signs of life came by then and what came last.
func streamBehind(t *testing.T, bodyTimeout time.Duration) (beats int, last string) {
	t.Helper()
	k := newKit(t, func(o *a2a.Options) {
		o.Heartbeat = 5 * time.Millisecond
		o.Caller = func(ctx context.Context) (command.Caller, command.Role, bool) {
			c, ok := server.CallerFrom(ctx)
			role, known := server.RoleFrom(ctx)
			return c, role, ok && known
		}
	})
	door := server.New(behind{k.runtime.Port()}, &server.Options{
		Auth: tokens{}, BodyTimeout: bodyTimeout,
		Mounts: []server.Mount{
			{Prefix: a2a.CardPath, Public: true, Handler: k.peers.CardHandler()},
			{Prefix: a2a.RPCPath, Handler: k.peers.RPCHandler()},
			{Prefix: a2a.RESTPath, Handler: k.peers.RESTHandler()},
		},
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- door.Serve(ctx, listener) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	at := "http://" + listener.Addr().String()
	for path, want := range map[string]int{a2a.CardPath: 200, a2a.CardPath + "/x": 404, a2a.RPCPath: 401, a2a.RESTPath + "/tasks": 401} {
		res, err := http.Get(at + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s without a token: %d", path, res.StatusCode)
		}
	}
	body, err := json.Marshal(message("m1", "hold"))
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at+a2a.RESTPath+"/message:stream", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer alice", "A2a-Version": "1.0", "Content-Type": "application/json"} {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for began := time.Now(); lines.Scan() && time.Since(began) < 2*bodyTimeout; {
		if strings.HasPrefix(lines.Text(), ":") {
			beats++
		}
	}
	k.agent.open(1)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data:") {
			last = lines.Text()
		}
	}
	return beats, last
}
