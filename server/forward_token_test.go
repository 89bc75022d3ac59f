package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"agentd/command"
	"agentd/fault"
	"agentd/server"
)

// allElsewhere is a backend that has everything done by another node.
type allElsewhere struct {
	*fake
	node string
}

func (e *allElsewhere) fault() error {
	f := fault.New(fault.Unavailable, "the session is owned by node b")
	f.Elsewhere = e.node
	return f
}

// Do implements [server.Backend].
func (e *allElsewhere) Do(context.Context, command.Caller, command.Params) (any, error) {
	return nil, e.fault()
}

// Oldest implements [server.Backend].
func (e *allElsewhere) Oldest(context.Context, command.Caller, string) (uint64, error) {
	return 0, e.fault()
}

// FollowChannel implements [command.ChannelFollower].
func (e *allElsewhere) FollowChannel(context.Context, command.Caller, string, string) (command.ChannelStream, error) {
	return nil, e.fault()
}

// TestANodeThatDoesNotKnowTheToken: what can't be passed on because nodes have different tokens
// says so over every door, and what to do; the log does it once.
func TestANodeThatDoesNotKnowTheToken(t *testing.T) {
	there := run(t, nil)
	there.tokens.revoke("client-token")
	b := &allElsewhere{newFake(), there.base}
	here := runOn(t, b, func(o *server.Options) {
		o.Mounts = []server.Mount{{Prefix: "/m", Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if !server.PassOn(q.Context(), b.fault()) {
				w.WriteHeader(http.StatusTeapot)
			}
		})}}
	})
	const advice = "owned by node b; it doesn't know this token: give all nodes the same AGENTD_TOKEN, or the same oidc settings"
	for door, q := range map[string]*http.Request{
		"a command": here.request(http.MethodPost, "/v1/commands/create_session", `{}`),
		"a read":    here.request(http.MethodGet, "/v1/sessions/s/events", ""),
		"a mount":   here.request(http.MethodGet, "/m", ""),
	} {
		a := here.sendRequest(q)
		if p := a.problem(t); a.status != http.StatusServiceUnavailable || !strings.Contains(p.Detail, advice) || a.header.Get("Retry-After") != "" {
			t.Errorf("%s: %d %v %s", door, a.status, a.header, a.body)
		}
	}
	c := here.dial(t.Context(), "client-token")
	defer hangUp(c)
	wsSendf(t, c, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s","channelId":"chan_a"}}`)
	if data := wsRead(t, c); !strings.Contains(string(data), advice) {
		t.Errorf("a subscription: %s", data)
	}
	if n := strings.Count(here.log.String(), "a node refuses what is passed on to it"); n != 1 {
		t.Errorf("the log says %d times that a node knows other tokens", n)
	}
}
