package agentd

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"agentd/event"
	"agentd/loop"
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
	// open is what the replay waits for, as its facts say, with the thread that does; the
	// driver's alone.
	open map[string]string
	// look is told when something is held back.
	look chan struct{}

	mu sync.Mutex
	// need are the acts that each thing which is held back waits for.
	need map[*int]struct{}
}

func newHeldBack() heldBack {
	return heldBack{open: map[string]string{}, look: make(chan struct{}, 1), need: map[*int]struct{}{}}
}

// hold notes that something is held back until so many acts were done; the function
// takes it back.
func (h *heldBack) hold(acts int) func() {
	h.mu.Lock()
	h.need[&acts] = struct{}{}
	h.mu.Unlock()
	h.tell()
	return func() {
		h.mu.Lock()
		delete(h.need, &acts)
		h.mu.Unlock()
	}
}

// tell has the driver look.
func (h *heldBack) tell() {
	select {
	case h.look <- struct{}{}:
	default:
	}
}

// saw follows what the replay waits for.
func (x *acting) saw(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.ModelRequested:
		x.held.open[p.ModelRequestID] = e.ThreadID
	case *event.ModelCompleted:
		delete(x.held.open, p.ModelRequestID)
	case *event.ModelFailed:
		delete(x.held.open, p.ModelRequestID)
	case *event.ToolStarted:
		if !tool.IsLoopOwned(p.ToolName) && slices.ContainsFunc(x.p.c.Tools, func(t event.ToolInfo) bool { return t.ToolName == p.ToolName }) {
			x.held.open[e.ToolCallID] = e.ThreadID
		}
	case *event.ToolResult, *event.ToolFailed, *event.ActionRequired:
		delete(x.held.open, e.ToolCallID)
	case *event.HookStarted:
		x.held.open[p.HookRunID] = e.ThreadID
	case *event.HookCompleted:
		delete(x.held.open, p.HookRunID)
	case *event.HookFailed:
		delete(x.held.open, p.HookRunID)
	}
}

// stuck reports whether nothing can come any more. What a thread does next is a function
// of its facts: so if all of them were seen, no thread has something to do, and whatever
// the replay waits for is held back for an act that comes after it, then none comes.
func (x *acting) stuck(ctx context.Context) bool {
	if x.asked && x.compacting.Load() > 0 {
		return false
	}
	x.mu.Lock()
	done := x.done
	x.mu.Unlock()
	x.held.mu.Lock()
	n := 0
	for need := range x.held.need {
		if *need > done {
			n++
		}
	}
	x.held.mu.Unlock()
	quiet := false
	err := x.p.r.View(ctx, x.p.session, func(s *state.Session) error {
		quiet = s.Sequence == x.seen && x.quiet(s)
		return nil
	})
	return err == nil && n == len(x.held.open) && quiet
}

// quiet reports whether no thread does something by itself, nor the scheduler.
func (x *acting) quiet(s *state.Session) bool {
	now := x.p.r.opt.Clock()
	policy := x.p.r.loop.Limits()
	for _, t := range s.Threads {
		if !x.rests(t, policy.Next(s, t.ThreadID, now)) {
			return false
		}
	}
	for _, a := range s.Actions.Pending {
		if passes(s, a, now) {
			return false
		}
	}
	return !scheduled(s)
}

// paced reports whether a thread is held before its next effect.
func (x *acting) paced(threadID string, next loop.Effect) bool {
	before := stepOf(next)
	if x.p.r.opt.Loop.Pace == nil || before == "" {
		return false
	}
	x.p.mu.Lock()
	turn, ok := x.p.others.threads[threadID]
	if !ok {
		turn = x.p.turn
	}
	x.p.mu.Unlock()
	return x.holdsBefore(turn, before)
}

// soon is far more than a replay takes, and less than what it lets pass by its own clock.
const soon = time.Hour

// passes reports whether an action ends by itself: its time is over soon, or the peer that
// alone could act is gone.
func passes(s *state.Session, a *state.Action, now time.Time) bool {
	at := a.ExpiresAt
	if a.ChannelID != "" {
		c := s.Channels.Find(a.ChannelID)
		if c == nil {
			return true
		}
		if gone := c.GoneAt(); !gone.IsZero() && (at.IsZero() || gone.Before(at)) {
			at = gone
		}
	}
	return !at.IsZero() && at.Before(now.Add(soon))
}

// scheduled reports whether the scheduler of work has something to do for subagents.
func scheduled(s *state.Session) bool {
	children := map[string]bool{}
	for _, list := range [...][]*state.Subagent{s.Subagents.Open, s.Subagents.Recent} {
		for _, a := range list {
			children[a.ToolCallID] = true
		}
	}
	for _, t := range s.Threads {
		if t.Active != nil && slices.ContainsFunc(t.Active.Tools, func(c *state.ToolCall) bool {
			return c.Status == state.ToolRunning && c.ToolName == tool.SpawnAgent && !children[c.ToolCallID]
		}) {
			return true
		}
	}
	return slices.ContainsFunc(s.Subagents.Open, func(a *state.Subagent) bool { return minded(s, a) })
}

// minded reports whether the scheduler has something to do for a subagent: to tell how it
// ended, or to stop it with who it works for. All that another agent does was said when it was there:
// only how its work ended is told later.
func minded(s *state.Session, a *state.Subagent) bool {
	t, parent := s.Thread(a.ThreadID), s.Thread(a.ParentThreadID)
	switch {
	case a.PeerTaskID != "":
		work := s.Tasks.Find(a.PeerTaskID)
		return work == nil || work.Terminal() || work.Status == state.TaskCancelling
	case t == nil:
		return false
	case !t.Busy():
		return len(t.Recent) > 0 && t.Recent[len(t.Recent)-1].TurnID != a.LastTurnID && a.Status != "interrupted"
	case t.Active == nil || t.Active.Interrupt != nil || parent == nil || parent.Active != nil || len(parent.Recent) == 0:
		return false
	}
	last := parent.Recent[len(parent.Recent)-1]
	return last.Status == state.TurnCancelled && last.EndSequence > a.SpawnedSequence || last.Status == state.TurnFailed && last.TurnID == a.ParentTurnID
}

// rests reports whether a thread does nothing until something comes from outside. What is
// to be done next isn't if the thread is held in the middle of it.
func (x *acting) rests(t *state.Thread, next loop.Effect) bool {
	held := false
	for _, thread := range x.held.open {
		held = held || thread == t.ThreadID
	}
	switch e := next.(type) {
	case loop.Nothing:
		return true
	case loop.CancelTurn, loop.ExpireAction:
		return false // it is done whatever the thread waits for
	case loop.FailTurn:
		return x.paced(t.ThreadID, next)
	case loop.CallModel:
		return held || e.Attempt > 1 && x.long.Load() || x.paced(t.ThreadID, next)
	default:
		return held || x.paced(t.ThreadID, next)
	}
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
