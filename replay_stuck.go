package agentd

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"agentd/event"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/tool"
)

// patience is how long a replay that shows nothing new is waited for, where nothing
// tells sooner that it has come to something which the recording doesn't have.
const patience = time.Minute

// errLook says that something was held back, so that the replay is to be looked at.
var errLook = errors.New("agentd: something is held back")

// heldBack finds out whether a replay can't go on: all that it waits for is held back
// for an act whose place it never reaches.
type heldBack struct {
	// open is what the replay waits for, as its facts say; the driver's alone.
	open map[string]bool
	// look is told when something is held back.
	look chan struct{}

	mu sync.Mutex
	// need are the acts that each thing which is held back waits for.
	need map[*int]struct{}
}

func newHeldBack() heldBack {
	return heldBack{open: map[string]bool{}, look: make(chan struct{}, 1), need: map[*int]struct{}{}}
}

// hold notes that something is held back until so many acts were done; the function
// takes it back.
func (h *heldBack) hold(acts int) func() {
	h.mu.Lock()
	h.need[&acts] = struct{}{}
	h.mu.Unlock()
	select {
	case h.look <- struct{}{}:
	default:
	}
	return func() {
		h.mu.Lock()
		delete(h.need, &acts)
		h.mu.Unlock()
	}
}

// saw follows what the replay waits for.
func (x *acting) saw(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.ModelRequested:
		x.held.open[p.ModelRequestID] = true
	case *event.ModelCompleted:
		delete(x.held.open, p.ModelRequestID)
	case *event.ModelFailed:
		delete(x.held.open, p.ModelRequestID)
	case *event.ToolStarted:
		if !tool.IsLoopOwned(p.ToolName) && slices.ContainsFunc(x.p.c.Tools, func(t event.ToolInfo) bool { return t.ToolName == p.ToolName }) {
			x.held.open[e.ToolCallID] = true
		}
	case *event.ToolResult, *event.ToolFailed, *event.ActionRequired:
		delete(x.held.open, e.ToolCallID)
	case *event.HookStarted:
		x.held.open[p.HookRunID] = true
	case *event.HookCompleted:
		delete(x.held.open, p.HookRunID)
	case *event.HookFailed:
		delete(x.held.open, p.HookRunID)
	}
}

// stuck reports whether nothing can come any more. With subagents nobody can tell: one
// may go on while another is held back. A compaction that was asked for comes by itself.
func (x *acting) stuck(ctx context.Context) bool {
	if c := x.p.c.Parties; x.asked || c != nil && len(c.Agents) > 0 {
		return false
	}
	x.mu.Lock()
	done, stopped := x.done, x.stopped
	x.mu.Unlock()
	x.held.mu.Lock()
	n := 0
	for need := range x.held.need {
		if *need > done {
			n++
		}
	}
	x.held.mu.Unlock()
	var head uint64
	err := x.p.r.View(ctx, x.p.session, func(s *state.Session) error {
		head = s.Sequence
		return nil
	})
	return err == nil && !stopped && n > 0 && n == len(x.held.open) && x.seen == head
}

// more returns the next facts of the replay, or says that none come.
func (x *acting) more(ctx context.Context, sub *session.Subscription) ([]*event.Event, error) {
	for {
		if x.faithful() && x.stuck(ctx) {
			return nil, errStuck
		}
		records, err := x.wait(ctx, sub)
		if errors.Is(err, errLook) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var out []*event.Event
		for _, rec := range records {
			x.seen = rec.Sequence
			e, err := event.Decode(rec.Data)
			if err != nil {
				return nil, err
			}
			x.saw(e)
			out = append(out, e)
		}
		return out, nil
	}
}

// wait waits for facts, or until something is held back.
func (x *acting) wait(ctx context.Context, sub *session.Subscription) ([]store.Record, error) {
	if x.p.with.Live != nil {
		return sub.Next(ctx)
	}
	patient, cancel := context.WithTimeoutCause(ctx, patience, errStuck)
	defer cancel()
	wait, stop := context.WithCancelCause(patient)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-x.held.look:
			stop(errLook)
		case <-wait.Done():
		}
	})
	records, err := sub.Next(wait)
	stop(nil)
	wg.Wait()
	if cause := context.Cause(wait); err != nil && (errors.Is(cause, errLook) || errors.Is(cause, errStuck)) {
		return nil, cause
	}
	return records, err
}
