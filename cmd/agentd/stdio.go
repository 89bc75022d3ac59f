package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, res, err := websocket.Dial(ctx, r.base+"/v1/ws", &websocket.DialOptions{
		HTTPClient: r.http, HTTPHeader: http.Header{"Authorization": {"Bearer " + r.token}},
	})
	if res != nil && res.Body != nil {
		_ = res.Body.Close()
	}
	if err != nil {
		return fmt.Errorf("stdio: %w", err)
	}
	defer conn.CloseNow() //nolint:errcheck // the ordinary end closes it before
	conn.SetReadLimit(maxMessage)
	w := &relayed{conn: conn, out: a.out, idle: make(chan struct{}, 1), subscribed: map[string]bool{}}
	received := make(chan error, 1)
	go func() { received <- w.receive(ctx) }()
	sent := make(chan error, 1)
	go func() { sent <- w.sendLines(ctx, a.in) }()
	select {
	case err = <-sent:
		if err == nil {
			err = w.finish(ctx, received)
		}
	case err = <-received:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		err = nil
	}
	_ = conn.Close(websocket.StatusNormalClosure, "") // the other side may have been quicker
	return err
}

// relayed counts requests that have no answer yet, and knows what is subscribed.
type relayed struct {
	conn *websocket.Conn
	out  io.Writer

	mu         sync.Mutex
	waiting    int
	idle       chan struct{}
	subscribed map[string]bool
	// ending says that what is answered from now on was asked by us.
	ending bool
}

func (w *relayed) addWaiting(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting += n; w.waiting <= 0 {
		select {
		case w.idle <- struct{}{}:
		default:
		}
	}
}

func (w *relayed) waitingNow() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting
}

// finish waits for the answers to everything that was asked, and has each
// subscription deliver what is durable then.
func (w *relayed) finish(ctx context.Context, received <-chan error) error {
	if err := w.drain(ctx, received); err != nil {
		return err
	}
	for _, id := range w.beginEnding() {
		w.addWaiting(1)
		ask, err := json.Marshal(map[string]any{
			"jsonrpc": "2.0", "id": 1, "method": "unsubscribe",
			"params": map[string]any{"subscriptionId": id, "drain": true},
		})
		if err != nil {
			return fmt.Errorf("stdio: %w", err)
		}
		if err := w.conn.Write(ctx, websocket.MessageText, ask); err != nil {
			return fmt.Errorf("stdio: %w", err)
		}
	}
	return w.drain(ctx, received)
}

// beginEnding returns what is subscribed, and has answers not be shown any more.
func (w *relayed) beginEnding() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = true
	return slices.Sorted(maps.Keys(w.subscribed))
}

// recordSubscriptions keeps what an answer says about subscriptions, and reports whether it is
// to be shown.
func (w *relayed) recordSubscriptions(answer []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range subscriptionsOf(answer) {
		w.subscribed[id] = true
	}
	return !w.ending
}

// subscriptionsOf returns the subscriptions that an answer, or a batch of them,
// says were made.
func subscriptionsOf(answer []byte) []string {
	if !bytes.Contains(answer, []byte(`"subscriptionId"`)) {
		return nil
	}
	if answer[0] != '[' {
		answer = append(append([]byte{'['}, answer...), ']')
	}
	var all []struct {
		Result json.RawMessage `json:"result"`
	}
	if json.Unmarshal(answer, &all) != nil {
		return nil
	}
	var ids []string
	for _, a := range all {
		var result struct {
			SubscriptionID string `json:"subscriptionId"`
			RecoveryMode   string `json:"recoveryMode"`
		}
		// Of all results only that of subscribe has both.
		if json.Unmarshal(a.Result, &result) == nil && result.SubscriptionID != "" && result.RecoveryMode != "" {
			ids = append(ids, result.SubscriptionID)
		}
	}
	return ids
}

// drain waits until everything that was asked is answered.
func (w *relayed) drain(ctx context.Context, received <-chan error) error {
	for w.waitingNow() > 0 {
		select {
		case <-w.idle:
		case err := <-received:
			return err
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

func (w *relayed) sendLines(ctx context.Context, in io.Reader) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if asksForAnswer(line) {
				w.addWaiting(1)
			}
			if err := w.conn.Write(ctx, websocket.MessageText, line); err != nil {
				return fmt.Errorf("stdio: %w", err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("stdio: %w", err)
		}
	}
}

func (w *relayed) receive(ctx context.Context) error {
	for {
		_, message, err := w.conn.Read(ctx)
		if err != nil {
			if websocket.CloseStatus(err) == websocket.StatusNormalClosure {
				return nil
			}
			return fmt.Errorf("stdio: %w", err)
		}
		answer := isAnswer(message)
		if !answer || w.recordSubscriptions(message) {
			if _, err := w.out.Write(append(message, '\n')); err != nil {
				return fmt.Errorf("stdio: %w", err)
			}
		}
		if answer {
			w.addWaiting(-1)
		}
	}
}

// asksForAnswer reports whether a message is answered: a request, a batch that
// has one, or what can't be read, which is answered with an error.
func asksForAnswer(message []byte) bool {
	if message[0] == '[' {
		var batch []json.RawMessage
		if json.Unmarshal(message, &batch) != nil || len(batch) == 0 {
			return true
		}
		for _, m := range batch {
			if asksForAnswer(bytes.TrimSpace(m)) {
				return true
			}
		}
		return false
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(message, &m) != nil {
		return true
	}
	_, hasID := m["id"]
	_, hasMethod := m["method"]
	return hasID || !hasMethod
}

// isAnswer tells an answer, or a batch of them, from a notification.
func isAnswer(message []byte) bool {
	if strings.HasPrefix(string(message), "[") {
		return true
	}
	var m struct {
		Method *string `json:"method"`
	}
	return json.Unmarshal(message, &m) == nil && m.Method == nil
}
