package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"agentd/fault"
	"agentd/internal/wire"
)

// relayRetries is how many connections in a row may end before anything came.
const relayRetries = 8

// relay passes JSON-RPC lines on to a server's WebSocket, and its messages back. It
// keeps what has no answer yet and where each subscription is, and goes on with the next
// connection when one breaks.
type relay struct {
	dial func(context.Context) (*websocket.Conn, error)
	out  io.Writer
	// keyed says that what is sent may be made repeatable.
	keyed bool
	// refused counts how often in a row the server said that it stops.
	refused int
	// isGoing reports whether the server is about to end; nil if only its answers tell.
	isGoing func(context.Context) bool

	// sending is held while something is sent, so that all is sent in order.
	sending sync.Mutex

	mu      sync.Mutex
	conn    *websocket.Conn // nil between connections
	pending []*relayed      // without an answer, in order
	idle    chan struct{}   // told when nothing is pending
	ids     int
	subs    relaySubs
	// resuming counts the subscriptions that a new connection has not gone on with yet;
	// resumed is closed when there are none.
	resuming int
	resumed  chan struct{}
}

func newRelay(out io.Writer, dial func(context.Context) (*websocket.Conn, error)) *relay {
	return &relay{out: out, dial: dial, idle: make(chan struct{}, 1), subs: newRelaySubs()}
}

// relayed is a message that was sent, or is to be.
type relayed struct {
	// calls are its requests; nil if it can't be understood, and the server says so.
	calls []relayedCall
	batch bool
	raw   []byte
	// quiet says that its answer is not for the client.
	quiet bool
	// resumes is the subscription that it goes on with.
	resumes *relaySub
}

// relayedCall is one request.
type relayedCall struct {
	wire.RPCRequest
	// added says that the request is a notification, which was given an id so that it
	// is known when it was carried out.
	added bool
}

// run relays until standard input has ended and everything is answered.
func (w *relay) run(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := w.dial(ctx)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- w.sendLines(ctx, in) }()
	for failures := 0; ; {
		received, brought := make(chan error, 1), false
		open, closed := context.WithCancel(ctx)
		go func() {
			defer closed()
			var err error
			brought, err = w.receive(open, conn)
			received <- err
		}()
		w.resume(open, conn)
		select {
		case err := <-done:
			_ = conn.Close(websocket.StatusNormalClosure, "") // the other side may have been quicker
			return err
		case <-ctx.Done():
			_ = conn.CloseNow()
			return nil
		case err = <-received:
		}
		w.detach(conn)
		if brought {
			failures = w.refused
		}
		if conn, err = w.reconnect(ctx, err, &failures); err != nil || ctx.Err() != nil {
			return ignoreEnd(ctx, err)
		}
	}
}

// ignoreEnd leaves an error out that comes from having been told to end.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// errOut says that nothing can be written to standard output.
type errOut struct{ error }

func (e errOut) Unwrap() error { return e.error }

// reconnect opens the next connection after one that ended.
func (w *relay) reconnect(ctx context.Context, why error, failures *int) (*websocket.Conn, error) {
	var out errOut
	switch status := websocket.CloseStatus(why); {
	case errors.As(why, &out),
		status == websocket.StatusPolicyViolation, status == websocket.StatusUnsupportedData, status == websocket.StatusMessageTooBig:
		return nil, fmt.Errorf("stdio: %w", why)
	}
	for {
		*failures++
		if *failures > relayRetries {
			return nil, fmt.Errorf("stdio: %w", why)
		}
		if *failures > 1 {
			timer := time.NewTimer(min(20*time.Millisecond<<*failures, 2*time.Second))
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil, ctx.Err()
			case <-timer.C:
			}
		}
		conn, err := w.dial(ctx)
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
		why = err
	}
}

// detach gives a connection up that has ended.
func (w *relay) detach(conn *websocket.Conn) {
	_ = conn.CloseNow()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn = nil
}

// resume sends over a new connection what the last one owes: subscriptions go on, and
// what has no answer is asked again.
func (w *relay) resume(ctx context.Context, conn *websocket.Conn) {
	w.sending.Lock()
	defer w.sending.Unlock()
	subscriptions, resumed := w.resumptions()
	if !writeAll(ctx, conn, subscriptions) {
		return // the next connection begins anew
	}
	select {
	case <-resumed: // what follows may be about them
	case <-ctx.Done():
		return
	}
	writeAll(ctx, conn, w.unanswered(conn))
}

func writeAll(ctx context.Context, conn *websocket.Conn, messages [][]byte) bool {
	for _, message := range messages {
		if conn.Write(ctx, websocket.MessageText, message) != nil {
			return false
		}
	}
	return true
}

// resumptions asks to go on with all subscriptions. resumed is closed when all are
// answered.
func (w *relay) resumptions() (messages [][]byte, resumed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = slices.DeleteFunc(w.pending, func(m *relayed) bool { return m.resumes != nil })
	for _, s := range w.subs.resumed() {
		m := &relayed{quiet: true, resumes: s, calls: []relayedCall{{RPCRequest: wire.RPCRequest{ID: w.newID(), Method: methodSubscribe}}}}
		w.pending = append(w.pending, m)
		messages = append(messages, w.encode(m))
	}
	w.resuming, w.resumed = len(messages), make(chan struct{})
	if w.resuming == 0 {
		close(w.resumed)
	}
	return messages, w.resumed
}

// unanswered returns what has no answer, and has what follows be sent over a connection.
func (w *relay) unanswered(conn *websocket.Conn) (messages [][]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn = conn
	for _, m := range w.pending {
		if m.resumes == nil {
			messages = append(messages, w.encode(m))
		}
	}
	return messages
}

// newID is an id that no client would choose.
func (w *relay) newID() json.RawMessage {
	w.ids++
	return fmt.Appendf(nil, `"agentd/stdio/%d"`, w.ids)
}

// send keeps a message until it is answered, and sends it if there is a connection.
func (w *relay) send(ctx context.Context, m *relayed) {
	w.sending.Lock()
	defer w.sending.Unlock()
	w.mu.Lock()
	w.pending = append(w.pending, m)
	conn := w.conn
	var data []byte
	if conn != nil {
		data = w.encode(m)
	}
	w.mu.Unlock()
	if conn != nil {
		_ = conn.Write(ctx, websocket.MessageText, data) // else the next connection sends it
	}
}

// sendLines passes on what the client writes, then has each subscription deliver what is
// durable, and waits for all answers.
func (w *relay) sendLines(ctx context.Context, in io.Reader) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			w.send(ctx, w.read(line))
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("stdio: %w", err)
		}
	}
	w.drain(ctx)
	for _, id := range w.subscribed() {
		params, err := json.Marshal(map[string]any{"subscriptionId": id, "drain": true})
		if err != nil {
			return fmt.Errorf("stdio: %w", err)
		}
		w.mu.Lock()
		m := &relayed{quiet: true, calls: []relayedCall{{RPCRequest: wire.RPCRequest{ID: w.newID(), Method: methodUnsubscribe, Params: params}}}}
		w.mu.Unlock()
		w.send(ctx, m)
	}
	w.drain(ctx)
	return nil
}

// drain waits until everything that was asked is answered.
func (w *relay) drain(ctx context.Context) {
	for w.waiting() {
		select {
		case <-w.idle:
		case <-ctx.Done():
			return
		}
	}
}

func (w *relay) waiting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending) > 0
}

// subscribed returns what is subscribed.
func (w *relay) subscribed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.subs.ids()
}

// receive handles what a connection brings until it ends, and reports whether it brought
// anything.
func (w *relay) receive(ctx context.Context, conn *websocket.Conn) (got bool, err error) {
	for {
		_, message, err := conn.Read(ctx)
		if err != nil {
			return got, err
		}
		got = true
		if message, err = w.handle(ctx, message); err != nil {
			return got, err
		}
		if message == nil {
			continue
		}
		if _, err := w.out.Write(append(message, '\n')); err != nil {
			return got, errOut{err}
		}
	}
}

// handle returns what the client gets of a message of the server; nil is nothing.
func (w *relay) handle(ctx context.Context, message []byte) ([]byte, error) {
	if len(message) > 0 && message[0] == '[' {
		return w.handleBatch(ctx, message)
	}
	var m struct {
		Method string `json:"method"`
		relayAnswer
	}
	if err := json.Unmarshal(message, &m); err != nil {
		return nil, fmt.Errorf("stdio: a message of the server: %w", err)
	}
	if m.Method != "" {
		return w.handleNotice(ctx, message)
	}
	if w.goes(ctx, m.unavailable()) {
		return nil, errGoing // the next server answers
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	entry := w.takePending(func(e *relayed) bool { return !e.batch && sameID(e, m.ID) })
	if entry == nil {
		return message, nil
	}
	defer w.tellIdle()
	if entry.resumes != nil {
		if w.resuming--; w.resuming == 0 {
			close(w.resumed)
		}
		return w.subs.wasResumed(entry.resumes, &m.relayAnswer), nil
	}
	var call *relayedCall
	if len(entry.calls) > 0 {
		call = &entry.calls[0]
		message = w.answered(call, &m.relayAnswer, message)
	}
	if entry.quiet || call != nil && call.added {
		return nil, nil
	}
	return message, nil
}

// sameID reports whether an answer with an id is that of a message.
func sameID(e *relayed, id json.RawMessage) bool {
	mine := json.RawMessage("null")
	if len(e.calls) > 0 && e.calls[0].ID != nil {
		mine = e.calls[0].ID
	}
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	return bytes.Equal(mine, id)
}

// handleBatch returns what the client gets of the answers to a batch.
func (w *relay) handleBatch(ctx context.Context, message []byte) ([]byte, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(message, &parts); err != nil {
		return nil, fmt.Errorf("stdio: a message of the server: %w", err)
	}
	answers := make([]relayAnswer, len(parts))
	var refused *fault.Error
	for i, part := range parts {
		if err := json.Unmarshal(part, &answers[i]); err != nil {
			return nil, fmt.Errorf("stdio: a message of the server: %w", err)
		}
		refused = cmp.Or(refused, answers[i].unavailable())
	}
	if w.goes(ctx, refused) {
		return nil, errGoing
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	entry := w.takePending(func(e *relayed) bool { return e.batch })
	if entry == nil {
		return message, nil
	}
	defer w.tellIdle()
	var out []byte
	for i := range entry.calls[:min(len(entry.calls), len(parts))] { // every call is answered, in order
		call := &entry.calls[i]
		if part := w.answered(call, &answers[i], parts[i]); !call.added {
			out = append(append(out, ','), part...)
		}
	}
	if out == nil {
		return nil, nil
	}
	out[0] = '['
	return append(out, ']'), nil
}

// takePending removes the first message without an answer that fits.
func (w *relay) takePending(fits func(*relayed) bool) *relayed {
	for i, e := range w.pending {
		if fits(e) {
			w.pending = append(w.pending[:i:i], w.pending[i+1:]...)
			return e
		}
	}
	return nil
}

// tellIdle tells who waits that nothing is pending any more.
func (w *relay) tellIdle() {
	if len(w.pending) > 0 {
		return
	}
	select {
	case w.idle <- struct{}{}:
	default:
	}
}
