package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/coder/websocket"
	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/server"
)

func (a *app) stdioCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stdio",
		Short: "Speak JSON-RPC over standard input and output",
		Long: `Speaks JSON-RPC 2.0 over standard input and output, one message per line: all
commands, and subscribe and unsubscribe with event notifications. Ends when
standard input ends, every request is answered, and subscriptions have delivered
everything durable by then.

If the server behind it is restarted, replaced or killed, it goes on with the
next one: requests without an answer are sent again, with a key that has each
carried out once, and subscriptions go on behind the last event that was written.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: `  echo '{"jsonrpc":"2.0","id":1,"method":"list_sessions"}' | agentd stdio`,
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withFacts(cmd, toRun, func(f facts.Source) error { return a.stdio(cmd.Context(), f) })
		},
	}
	return a.withDataFlags(cmd)
}

func (a *app) stdio(ctx context.Context, f facts.Source) error {
	if r, ok := f.(*remoteFacts); ok {
		return a.relay(ctx, r)
	}
	l := f.(*localFacts)
	s := server.New(&backend{Port: l.runtime.Port(), store: l.store}, &server.Options{Version: a.version})
	return s.ServeStdio(ctx, a.in, a.out, server.LocalIdentity())
}

// maxMessage bounds a message in either direction: the largest body, or one page
// of large events.
const maxMessage = 256 << 20

// relay passes lines on to a server's WebSocket and its messages back.
func (a *app) relay(ctx context.Context, r *remoteFacts) error {
	w := newRelay(a.out, func(ctx context.Context) (*websocket.Conn, error) { return dialSocket(ctx, r) })
	w.keyed = r.own || r.repeats
	if r.own {
		w.isGoing = r.isGoing
	}
	return w.run(ctx, a.in)
}

// dialSocket opens a WebSocket to a server.
func dialSocket(ctx context.Context, r *remoteFacts) (*websocket.Conn, error) {
	conn, res, err := websocket.Dial(ctx, r.base+"/v1/ws", &websocket.DialOptions{
		HTTPClient: r.http, HTTPHeader: http.Header{"Authorization": {"Bearer " + r.token}},
	})
	if res != nil && res.Body != nil {
		_ = res.Body.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("stdio: %w", err)
	}
	conn.SetReadLimit(maxMessage)
	return conn, nil
}

// isGoing reports whether the server that was asked last has ended or is about to.
func (r *remoteFacts) isGoing(ctx context.Context) bool {
	f, ok := r.http.Transport.(*followServer)
	return ok && f.isGoing(ctx, f.current())
}

// errGoing says that the server is about to end.
var errGoing = errors.New("the server is stopping")
