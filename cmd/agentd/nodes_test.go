package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"agentd/client"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// reader collects the events of one session, each once and in order.
type reader struct {
	name string
	mu   sync.Mutex
	grew *sync.Cond
	// data has the events from first on.
	first uint64
	data  []string
	err   error
}

func newReader(name string) *reader {
	r := &reader{name: name}
	r.grew = sync.NewCond(&r.mu)
	return r
}

// receiveEvent adds an event, or ends the reader.
func (r *reader) receiveEvent(sessionID string, data []byte, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.grew.Broadcast()
	if err != nil {
		r.err = err
		return false
	}
	var e struct {
		SessionID string
		Sequence  uint64
	}
	if err := json.Unmarshal(data, &e); err != nil || e.SessionID != sessionID {
		return err == nil // another session's, or no event at all
	}
	if r.first == 0 {
		r.first = e.Sequence
	}
	if want := r.first + uint64(len(r.data)); e.Sequence != want {
		r.err = fmt.Errorf("got %d, want %d", e.Sequence, want)
		return false
	}
	r.data = append(r.data, string(data))
	return true
}

// last is the sequence of the newest event.
func (r *reader) last() uint64 {
	if len(r.data) == 0 {
		return 0
	}
	return r.first + uint64(len(r.data)) - 1
}

// until waits for an event, or for the reader's end.
func (r *reader) until(sequence uint64) (last uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.last() < sequence && r.err == nil {
		r.grew.Wait()
	}
	return r.last(), r.err
}

// again lets a reader that ended go on, and returns where.
func (r *reader) again() (after uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = nil
	return r.last()
}

// overSSE reads a stream of server-sent events.
func (r *reader) overSSE(body io.Reader, sessionID string) {
	frames := wire.NewSSEReader(body, 0)
	for {
		f, err := frames.Next()
		if err == nil && f.Event == "problem" {
			err = errors.New(string(f.Data))
		}
		if err != nil {
			r.receiveEvent(sessionID, nil, err)
			return
		}
		if !r.receiveEvent(sessionID, f.Data, nil) {
			return
		}
	}
}

// overSocket reads the notifications of a subscription.
func (r *reader) overSocket(ctx context.Context, conn *websocket.Conn, sessionID string) {
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			r.receiveEvent(sessionID, nil, err)
			return
		}
		m, err := wire.DecodeRPCMessage(data)
		if err == nil && m.Method == "subscription.ended" {
			err = errors.New(string(m.Params))
		}
		if err == nil && m.Error != nil {
			err = m.Error.Err()
		}
		if err != nil || m.Method != "event" {
			if err != nil && !r.receiveEvent(sessionID, nil, err) {
				return
			}
			continue
		}
		if !r.receiveEvent(sessionID, m.Params, nil) {
			return
		}
	}
}

// subscribe follows a session over WebSocket.
func (p *process) subscribe(ctx context.Context, sessionID string) *websocket.Conn {
	p.t.Helper()
	return p.subscribeAs(ctx, fmt.Sprintf(`"sessionId":%q`, sessionID))
}

// subscribeAs subscribes over WebSocket with these parameters.
func (p *process) subscribeAs(ctx context.Context, params string) *websocket.Conn {
	p.t.Helper()
	conn, _, err := websocket.Dial(ctx, p.url+"/v1/ws", &websocket.DialOptions{ //nolint:bodyclose // Dial closes it
		HTTPHeader: http.Header{"Authorization": {"Bearer " + p.token()}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(-1)
	if err := conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{%s}}`, params)); err != nil {
		p.t.Fatal(err)
	}
	return conn
}

// global follows all sessions.
func (p *process) global(ctx context.Context) io.Reader {
	p.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/v1/events", http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.token())
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != http.StatusOK {
		p.t.Fatalf("%v, %v", res, err)
	}
	p.t.Cleanup(func() { _ = res.Body.Close() })
	return res.Body
}

// TestStreamsOutliveTheirOwner: whoever follows a session on a node that doesn't
// own it gets the log, once and in order, also when the owner is killed in the
// middle of it. Who followed it on the owner goes on at the other node.
func TestStreamsOutliveTheirOwner(t *testing.T) {
	f := newFleet(t, "1h", slow).quick()
	a, b := f.node(f.dir()), f.node(f.dir())
	r := a.submit("hello")
	a.completed(r)
	ctx, cancel := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	socket, sse, global, cut := newReader("WebSocket"), newReader("SSE"), newReader("all sessions"), newReader("SSE at the owner")
	follow := func(read func()) { reading.Go(read) }
	conn := b.subscribe(ctx, r.SessionID)
	follow(func() { socket.overSocket(ctx, conn, r.SessionID) })
	_, there := b.stream(ctx, r.SessionID, "")
	follow(func() { sse.overSSE(there, r.SessionID) })
	_, owned := a.stream(ctx, r.SessionID, "")
	follow(func() { cut.overSSE(owned, r.SessionID) })
	all := b.global(ctx)
	follow(func() { global.overSSE(all, r.SessionID) })

	// Turns are submitted while everybody reads; the owner dies in the middle.
	var submitting sync.WaitGroup
	submitter := a.client()
	submitting.Go(func() {
		for {
			_, err := client.Call[command.SubmitTurnResult](ctx, submitter, &command.SubmitTurn{SessionID: r.SessionID, Input: event.Raw(`"again"`)})
			if err != nil {
				return // the owner is dead
			}
		}
	})
	for _, x := range []*reader{socket, sse, global, cut} {
		if _, err := x.until(r.Sequence + 100); err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
	}
	f.kill(a)
	submitting.Wait()

	// The other node takes the session over when the lease has ended.
	var next command.SubmitTurnResult
	c := b.client()
	for {
		err := c.Do(ctx, &command.SubmitTurn{SessionID: r.SessionID, Input: event.Raw(`"and again"`)}, &next)
		if err == nil {
			break
		}
		if fault.KindOf(err) != fault.Unavailable {
			t.Fatalf("after the owner died: %v", err)
		}
	}
	if _, err := cut.until(1 << 62); err == nil {
		t.Fatal("the stream at the owner goes on")
	}
	_, rest := b.stream(ctx, r.SessionID, fmt.Sprintf("after=%d", cut.again()))
	follow(func() { cut.overSSE(rest, r.SessionID) })
	b.completed(&next) // so do the turns: what the dead node left is taken up first
	page, err := c.Events(ctx, r.SessionID, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*reader{socket, sse, global, cut} {
		if _, err := x.until(page.LastSequence); err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
	}
	log := b.logOf(r.SessionID, page.LastSequence)
	for _, x := range []*reader{socket, sse, global, cut} {
		x.same(t, log)
	}
	if socket.first != 1 || sse.first != 1 || cut.first != 1 {
		t.Error("a stream doesn't begin with the first event")
	}
}

// logOf returns a session's events up to a sequence.
func (p *process) logOf(sessionID string, last uint64) []string {
	p.t.Helper()
	var out []string
	for uint64(len(out)) < last {
		page, err := p.client().Events(p.t.Context(), sessionID, uint64(len(out)), int(min(1000, last-uint64(len(out)))))
		if err != nil {
			p.t.Fatal(err)
		}
		for _, e := range page.Events {
			out = append(out, string(e.Data))
		}
	}
	return out
}

// same holds what was read against the log.
func (r *reader) same(t *testing.T, log []string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, data := range r.data {
		if at := int(r.first) - 1 + i; at < len(log) && log[at] != data {
			t.Errorf("%s: event %d is %s, in the log it is %s", r.name, at+1, data, log[at])
			return
		}
	}
}
