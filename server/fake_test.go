package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// fake is a backend in memory, with faults that tests switch on.
type fake struct {
	mu       sync.Mutex
	sessions map[string]*fakeSession
	outputs  map[string]*command.Output
	wake     chan struct{} // closed and replaced at each append
	next     int
	notReady error
	// hold makes mutations and wait_subagents wait until it is closed; entered is told of each.
	// holdReads says that reads wait, too.
	holdReads bool
	hold      chan struct{}
	entered   chan struct{}
	callers   []command.Caller
}

type fakeSession struct {
	account string
	oldest  uint64
	last    uint64
	events  []command.Delivered
}

func newFake() *fake {
	return &fake{sessions: map[string]*fakeSession{}, outputs: map[string]*command.Output{}, wake: make(chan struct{})}
}

// fakeTime is the time of all events.
var fakeTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// open makes a session with its first event.
func (f *fake) open(id, account string) {
	f.mu.Lock()
	f.sessions[id] = &fakeSession{account: account, oldest: 1}
	f.mu.Unlock()
	f.append(id, event.Event{Type: event.TypeSessionCreated, Payload: &event.SessionCreated{Title: id}})
}

// append adds events to a session.
func (f *fake) append(id string, events ...event.Event) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sessions[id]
	for _, e := range events {
		s.last++
		e.SessionID, e.Sequence, e.Time, e.RuntimeID = id, s.last, fakeTime, "runtime_fake"
		e.ID = fmt.Sprintf("evt_%s_%d", id, s.last)
		s.events = append(s.events, command.Delivered{SessionID: id, Sequence: s.last, Data: event.AppendJSON(nil, &e)})
	}
	close(f.wake)
	f.wake = make(chan struct{})
	return s.last
}

// deltas adds so many pieces of text.
func (f *fake) deltas(id string, n int) uint64 {
	events := make([]event.Event, n)
	for i := range events {
		events[i] = event.Event{
			Type:    event.TypeModelDelta,
			Scope:   event.Scope{ThreadID: "thread_1", TurnID: "turn_1", StepID: "step_1", ModelRequestID: "req_m"},
			Payload: &event.ModelDelta{Text: "word ", Index: int64(i)},
		}
	}
	return f.append(id, events...)
}

// expire removes the events before a sequence, as retention does.
func (f *fake) expire(id string, oldest uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sessions[id]
	s.events = s.events[oldest-s.oldest:]
	s.oldest = oldest
}

func (f *fake) visible(c command.Caller, id string) (*fakeSession, error) {
	s := f.sessions[id]
	if s == nil || !c.Sees(s.account) {
		return nil, fault.New(fault.NotFound, "there is no session %s", id)
	}
	return s, nil
}

// Do implements [server.Backend].
func (f *fake) Do(ctx context.Context, c command.Caller, p command.Params) (any, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.callers = append(f.callers, c)
	hold := f.hold
	f.mu.Unlock()
	_, mutates := p.(command.Mutating)
	if _, waits := p.(*command.WaitSubagents); (mutates || waits || f.holdReads) && hold != nil {
		f.entered <- struct{}{}
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	switch p := p.(type) {
	case *command.CreateSession:
		return f.create(c, p)
	case *command.GetSession:
		f.mu.Lock()
		defer f.mu.Unlock()
		s, err := f.visible(c, p.SessionID)
		if err != nil {
			return nil, err
		}
		return map[string]any{"sessionId": p.SessionID, "sequence": s.last}, nil
	case *command.ListSessions:
		return map[string]any{"sessions": []string{}}, nil
	case *command.InterruptTurn:
		f.mu.Lock()
		defer f.mu.Unlock()
		_, err := f.visible(c, p.SessionID)
		return &command.InterruptTurnResult{}, err
	case *command.GetThreadRead:
		panic("a defect")
	case *command.ListActions:
		return nil, errors.New("secret inner workings")
	}
	return nil, fault.New(fault.Unavailable, "%s is not available in this build", p.Command())
}

func (f *fake) create(c command.Caller, p *command.CreateSession) (any, error) {
	f.mu.Lock()
	f.next++
	id := p.SessionID
	if id == "" {
		id = fmt.Sprintf("sess_%d", f.next)
	}
	_, taken := f.sessions[id]
	f.mu.Unlock()
	if taken {
		return nil, fault.New(fault.Conflict, "session %s already exists with different parameters; choose another id, or repeat the same parameters", id)
	}
	f.open(id, c.Account)
	return &command.CreateSessionResult{SessionID: id, ThreadID: "thread_1"}, nil
}

// Events implements [server.Backend].
func (f *fake) Events(_ context.Context, c command.Caller, id string, after uint64, limit int) ([]command.Delivered, uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.visible(c, id)
	if err != nil {
		return nil, 0, err
	}
	return s.after(after, limit), s.last, nil
}

func (s *fakeSession) after(after uint64, limit int) []command.Delivered {
	from := max(after+1, s.oldest) - s.oldest
	if from >= uint64(len(s.events)) {
		return nil
	}
	rest := s.events[from:]
	return append([]command.Delivered(nil), rest[:min(limit, len(rest))]...)
}

// Oldest implements [server.Backend].
func (f *fake) Oldest(_ context.Context, c command.Caller, id string) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.visible(c, id)
	if err != nil {
		return 0, err
	}
	return s.oldest, nil
}

// Subscribe implements [server.Backend].
func (f *fake) Subscribe(_ context.Context, c command.Caller, id string, after uint64) (command.Stream, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.visible(c, id); err != nil {
		return nil, err
	}
	return &fakeStream{f: f, c: c, cursors: map[string]uint64{id: after}}, nil
}

// SubscribeAll implements [server.Backend].
func (f *fake) SubscribeAll(_ context.Context, c command.Caller, _ string) (command.Stream, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := &fakeStream{f: f, c: c, all: true, cursors: map[string]uint64{}}
	for id, s := range f.sessions {
		st.cursors[id] = s.last
	}
	return st, nil
}

type fakeStream struct {
	f       *fake
	c       command.Caller
	all     bool
	cursors map[string]uint64
}

// Next implements [command.Stream].
func (st *fakeStream) Next(ctx context.Context) ([]command.Delivered, error) {
	for {
		st.f.mu.Lock()
		wake := st.f.wake
		var out []command.Delivered
		for id, s := range st.f.sessions {
			cursor, known := st.cursors[id]
			if (!known && !st.all) || !st.c.Sees(s.account) {
				continue
			}
			got := s.after(cursor, 256)
			if len(got) > 0 {
				st.cursors[id] = got[len(got)-1].Sequence
				out = append(out, got...)
			}
		}
		st.f.mu.Unlock()
		if len(out) > 0 {
			return out, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close implements [command.Stream].
func (st *fakeStream) Close() {}

// Output implements [server.Backend].
func (f *fake) Output(_ context.Context, _ command.Caller, ref string) (*command.Output, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.outputs[ref]
	if out == nil {
		return nil, fault.New(fault.NotFound, "there is no output %s", ref)
	}
	return out, nil
}

// putOutput adds an output, which can be read once.
func (f *fake) putOutput(ref, media string, content []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outputs[ref] = &command.Output{Content: nopCloser{bytes.NewReader(content)}, MediaType: media, Size: int64(len(content)), ETag: "tag-" + ref}
}

type nopCloser struct{ io.ReadSeeker }

func (nopCloser) Close() error { return nil }

// Ready implements [server.Backend].
func (f *fake) Ready(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.notReady
}

// Status implements [server.Backend].
func (f *fake) Status(context.Context, command.Caller) any {
	return map[string]int{"sessions": len(f.sessions)}
}

// lastCaller returns who called last.
func (f *fake) lastCaller() command.Caller {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.callers[len(f.callers)-1]
}
