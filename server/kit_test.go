package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/command"
	"agentd/fault"
	"agentd/internal/leaktest"
	"agentd/internal/wire"
	"agentd/server"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// tokens is an authenticator for tests: the token is its own name.
type tokens struct {
	mu  sync.Mutex
	ids map[string]server.Identity
}

func newTokens() *tokens {
	return &tokens{ids: map[string]server.Identity{
		"admin-token":    {TokenID: "t1", Name: "root", Role: command.RoleAdmin},
		"client-token":   {TokenID: "t2", Name: "ann", Role: command.RoleClient, Account: "a"},
		"observer-token": {TokenID: "t3", Name: "eve", Role: command.RoleObserver, Account: "a"},
		"other-token":    {TokenID: "t4", Name: "bob", Role: command.RoleClient, Account: "b"},
	}}
}

// Authenticate implements [server.Authenticator].
func (t *tokens) Authenticate(_ context.Context, token string) (server.Identity, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id, ok := t.ids[token]
	if !ok || (!id.Expires.IsZero() && !time.Now().Before(id.Expires)) {
		return server.Identity{}, fault.New(fault.Unauthenticated, "the token is not known, has expired or was revoked")
	}
	return id, nil
}

func (t *tokens) revoke(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.ids, token)
}

// running is a server under test on a real listener.
type running struct {
	t      *testing.T
	server *server.Server
	fake   *fake
	tokens *tokens
	base   string
	addr   string
	log    *lockedBuffer
	client *http.Client
	stop   func()
}

// lockedBuffer is a log that many goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// run starts a server over a fake backend.
func run(t testing.TB, change func(*server.Options)) *running {
	f := newFake()
	r := runOn(t, f, change)
	r.fake = f
	return r
}

// runOn starts a server over any backend.
func runOn(t testing.TB, b server.Backend, change func(*server.Options)) *running {
	r := &running{tokens: newTokens(), log: &lockedBuffer{}}
	r.t, _ = t.(*testing.T)
	opt := &server.Options{
		Auth: r.tokens, Heartbeat: 50 * time.Millisecond, Recheck: 50 * time.Millisecond, Version: "test",
		Logger: slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(opt)
	}
	r.server = server.New(b, opt)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr().String()
	r.base = "http://" + r.addr
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.server.Serve(ctx, l) }()
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			r.client.CloseIdleConnections()
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
	}
	t.Cleanup(r.stop)
	return r
}

// request builds a request with the client's token.
func (r *running) request(method, path, body string) *http.Request {
	req, err := http.NewRequest(method, r.base+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer client-token")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return req
}

// getPath asks for a path.
func (r *running) getPath(path string) answer {
	return r.sendRequest(r.request(http.MethodGet, path, ""))
}

// answer is a whole answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (r *running) sendRequest(req *http.Request) answer {
	r.t.Helper()
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, body}
}

// problem returns the answer's problem.
func (a answer) problem(t testing.TB) wire.Problem {
	t.Helper()
	if got := a.header.Get("Content-Type"); got != wire.ProblemType {
		t.Errorf("the media type is %q, want a problem; body %s", got, a.body)
	}
	p, ok := wire.DecodeProblem(a.body)
	if !ok {
		t.Fatalf("no problem document: %s", a.body)
	}
	if p.Status != a.status || p.Title == "" || p.Detail == "" {
		t.Errorf("the problem is not whole or has another status than %d: %s", a.status, a.body)
	}
	return p
}

// decode reads the answer's JSON.
func (a answer) decode(t testing.TB, into any) {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
}

// stream opens an SSE stream; the caller closes the body.
func (r *running) stream(ctx context.Context, path, token string, header ...string) (*http.Response, *wire.SSEReader) {
	r.t.Helper()
	req := r.request(http.MethodGet, path, "").WithContext(ctx)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		r.t.Fatalf("status %d: %s", res.StatusCode, body)
	}
	return res, wire.NewSSEReader(res.Body, 0)
}

// inTime tries with a time limit, then with longer ones, until what must happen
// before the limit passes did: on a busy machine a short one passes too early. The
// try says whether it did.
func inTime(t *testing.T, limit time.Duration, try func(limit time.Duration) bool) {
	t.Helper()
	for ; limit < 2*time.Minute; limit *= 4 {
		if try(limit) {
			return
		}
	}
	t.Fatal("the limit passed too early, however long it was")
}

// eventually waits for a condition that has no signal: figures in metrics.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) { // only a defect takes that long
		if ok() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}
