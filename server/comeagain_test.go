package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agentd/command"
	"agentd/fault"
	"agentd/server"
)

// owned is a backend that has no session: all are another node's.
type owned struct{ elsewhere }

// Do implements [server.Backend].
func (e *owned) Do(context.Context, command.Caller, command.Params) (any, error) {
	_, err := e.Oldest(context.Background(), command.Caller{}, "")
	return nil, err
}

// FollowChannel implements [command.ChannelFollower].
func (e *owned) FollowChannel(context.Context, command.Caller, string, string) (command.ChannelStream, error) {
	_, err := e.Oldest(context.Background(), command.Caller{}, "")
	return nil, err
}

// TestANodeThatDoesNotAnswer: the sessions of a node that froze, or that broke a connection off,
// go on elsewhere soon, and the answer says when to come again, whatever was asked for. One that
// can't be reached from here may keep its lease, and whether it does may not be known: no
// command, mount or stream waits for it for ever.
func TestANodeThatDoesNotAnswer(t *testing.T) {
	thaw := make(chan struct{})
	frozen := func(http.ResponseWriter, *http.Request) { <-thaw }
	leaseEnds := func(o *server.Options) {
		o.NodeAlive = func(context.Context, string) (bool, error) { return false, nil }
	}
	for name, node := range map[string]struct {
		handler http.HandlerFunc
		change  func(*server.Options)
	}{
		"frozen": {frozen, leaseEnds},
		"broken": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, leaseEnds},
		"out of reach": {frozen, func(o *server.Options) {
			o.NodeAlive = func(context.Context, string) (bool, error) { return true, nil }
			o.NodeSilence = 50 * time.Millisecond
		}},
		"out of reach, as the database is": {frozen, func(o *server.Options) {
			o.NodeAlive = func(context.Context, string) (bool, error) { return false, errors.New("the database is away") }
			o.NodeSilence = 50 * time.Millisecond
		}},
	} {
		there := httptest.NewServer(node.handler)
		t.Cleanup(there.Close)
		b := &owned{elsewhere{newFake(), there.URL}}
		here := runOn(t, b, func(o *server.Options) {
			node.change(o)
			o.MoveWait, o.CommandTimeout = time.Millisecond, time.Hour
			o.Mounts = []server.Mount{{Prefix: "/m", Handler: http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
				_, err := b.Oldest(q.Context(), command.Caller{}, "")
				server.PassOn(q.Context(), err)
			})}}
		})
		for path, method := range map[string]string{"/v1/commands/create_session": http.MethodPost, "/v1/sessions/s/events": http.MethodGet, "/m": http.MethodPost} {
			body := ""
			if method == http.MethodPost {
				body = "{}"
			}
			a := here.sendRequest(here.request(method, path, body))
			if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" || !strings.Contains(string(a.body), `"retryAfter":1`) {
				t.Errorf("%s, %s: %d %v %s", name, path, a.status, a.header, a.body)
			}
		}
		a := here.sendRequest(here.request(http.MethodPost, "/v1/rpc", `{"jsonrpc":"2.0","id":1,"method":"create_session","params":{}}`))
		if !strings.Contains(string(a.body), `"retryAfter":1`) {
			t.Errorf("%s, JSON-RPC: %d %s", name, a.status, a.body)
		}
		c := here.dial(t.Context(), "client-token")
		wsSendf(t, c, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s","channelId":"chan_a"}}`)
		if got := wsRead(t, c); !strings.Contains(string(got), `"retryAfter":1`) {
			t.Errorf("%s, a channel's stream: %s", name, got)
		}
		hangUp(c)
	}
	close(thaw)
}

// closedInside is a backend whose parts are closed, and say so as they like.
type closedInside struct{ *fake }

var errClosedInside = errors.New("store: closed")

// Do implements [server.Backend].
func (closedInside) Do(context.Context, command.Caller, command.Params) (any, error) {
	return nil, errClosedInside
}

// Events implements [server.Backend].
func (closedInside) Events(context.Context, command.Caller, string, uint64, int) ([]command.Delivered, uint64, error) {
	return nil, 0, errClosedInside
}

// TestWhatIsClosedInsideIsNotTold: while the server stops, an error without a kind is that of a
// part which was closed first. Otherwise it is a defect.
func TestWhatIsClosedInsideIsNotTold(t *testing.T) {
	f := newFake()
	f.open("s", "a")
	r := runOn(t, closedInside{f}, func(o *server.Options) {
		o.Mounts = []server.Mount{{Prefix: "/m", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { server.WriteProblem(w, errClosedInside) })}}
	})
	ask := func() (statuses []int, said string) {
		for _, q := range []*http.Request{
			r.request(http.MethodPost, "/v1/commands/create_session", "{}"), r.request(http.MethodGet, "/v1/sessions/s/events", ""), r.request(http.MethodGet, "/m", ""),
		} {
			a := r.sendRequest(q)
			statuses, said = append(statuses, a.status), said+string(a.body)
		}
		return statuses, said + string(r.sendRequest(r.request(http.MethodPost, "/v1/rpc", `{"jsonrpc":"2.0","id":1,"method":"create_session","params":{}}`)).body)
	}
	if statuses, said := ask(); fmt.Sprint(statuses) != "[500 500 500]" || strings.Count(said, `"code":"internal"`) != 4 {
		t.Errorf("a server that doesn't stop: %v %s", statuses, said)
	}
	if err := r.server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if statuses, said := ask(); fmt.Sprint(statuses) != "[503 503 503]" || strings.Count(said, `"retryAfter":1`) != 4 || strings.Contains(said, "closed") {
		t.Errorf("one that does: %v %s", statuses, said)
	}
}

// TestProbes: what balancers ask is answered without a Host, as their plain checks send none, and
// logged when the answer changes only. Nothing else is answered without one.
func TestProbes(t *testing.T) {
	r := run(t, nil)
	plain := func(path string) string {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = fmt.Fprintf(c, "GET %s HTTP/1.0\r\n\r\n", path)
		answer, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		return strings.SplitN(string(answer), "\r\n", 2)[0]
	}
	for path, want := range map[string]string{"/healthz": "200", "/readyz": "200", "/v1/catalog": "403", "/v1/status": "403", "/healthz/x": "403", "/ui/": "403"} {
		if got := plain(path); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	logged := func(level string) (n int) {
		for line := range strings.Lines(r.log.String()) {
			if strings.Contains(line, `"level":"`+level+`"`) && (strings.Contains(line, `"/readyz"`) || strings.Contains(line, `"/healthz"`)) {
				n++
			}
		}
		return n
	}
	ready := func(err error) {
		r.fake.mu.Lock()
		defer r.fake.mu.Unlock()
		r.fake.notReady = err
	}
	ready(fault.New(fault.Unavailable, "the node is being drained"))
	for range 3 {
		plain("/readyz")
	}
	ready(nil)
	for range 3 {
		plain("/readyz")
		plain("/healthz")
	}
	r.stop()
	if debug, info, warn := logged("DEBUG"), logged("INFO"), logged("WARN"); debug != 9 || info != 1 || warn != 1 {
		t.Errorf("logged %d times for debugging, %d times, and %d times as a warning:\n%s", debug, info, warn, r.log)
	}
}
