package loop

import (
	"errors"
	"slices"

	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/tool"
	"agentd/tool/toolkind"
)

// factRef names one fact. The number alone would not do: another node may have written
// another fact there.
type factRef struct {
	id       string
	sequence uint64
}

// beginTools decides about the calls of a group and records which of them run from now on. What
// was looked at may have changed meanwhile, and facts that were on their way then may be lost:
// if a call isn't what it was, or other rules hold, the thread is looked at again.
func (l *Loop) beginTools(k key, e RunTools, runs []*toolRun) error {
	decide := func(tx *session.Tx, t *state.Thread) error {
		rules := l.rulesOf(tx.State)
		for _, r := range runs {
			if !r.isUnchanged(t) || !slices.Equal(rules, r.guard.rules) {
				return errMoved
			}
		}
		for _, r := range runs {
			r.judgeCall(tx, t)
		}
		return nil
	}
	if len(runs) == 1 && runs[0].isCommand() {
		return l.beginCommand(k, e, runs[0], decide)
	}
	err := l.emitIfNext(k, e, decide)
	if errors.Is(err, store.ErrUnknownOutcome) {
		return l.findBegun(k, runs, err)
	}
	return err
}

// beginCommand is beginTools for one command. Nothing of it runs before the ledger has it,
// and what the ledger has is durable after these facts: they need no commit of their own.
func (l *Loop) beginCommand(k key, e RunTools, r *toolRun, decide func(*session.Tx, *state.Thread) error) error {
	if err := l.emitSoon(k, e, decide); err != nil || r.started {
		return err
	}
	return l.awaitPending(k) // a person may be asked
}

// isCommand reports whether the call does nothing but run a command.
func (r *toolRun) isCommand() bool {
	return r.entry != nil && r.entry.Kind() == toolkind.Shell
}

// mayEnter reports whether the call still runs as this process recorded it. Facts that
// weren't durable may have been lost, and another node may have begun the call meanwhile.
func (r *toolRun) mayEnter(s *state.Session) bool {
	t := s.Thread(r.k.thread)
	if t == nil || t.Active == nil {
		return false
	}
	c := findCall(t.Active, r.call.ToolCallID)
	return c != nil && c.Status == state.ToolRunning && c.Links.SandboxEventID == r.links.SandboxEventID
}

// isUnchanged reports whether the call is as it was looked at.
func (r *toolRun) isUnchanged(t *state.Thread) bool {
	c, seen := findCall(t.Active, r.call.ToolCallID), &r.call
	return c != nil && c.Status == seen.Status && c.Decision == seen.Decision && c.ActionID == seen.ActionID && c.Attempts == seen.Attempts
}

// findBegun finds out whether the calls of a group were recorded as running, after the
// connection to the store broke in the middle of it. While the store can't be reached it
// waits. This process alone knows that it has begun none of them: given up, they would
// count as lost, and the thread would wait for a person.
//
// It returns nil if calls are there and can begin. Otherwise the thread is looked at again,
// and they are decided about anew.
func (l *Loop) findBegun(k key, runs []*toolRun, unknown error) error {
	var begun []*toolRun
	over := false
	const waiting = "whether a tool call was recorded as running isn't known, and it doesn't begin until the store is back"
	err := l.decideUntilBack(k.session, waiting, true, func(tx *session.Tx, _ bool) (err error) {
		over = l.turnIsOver(tx, k)
		if begun, err = l.recordedAsRunning(tx, k, runs); err != nil || !over {
			return err
		}
		for _, r := range begun {
			r.emitFailed(tx, tool.Errorf(tool.Interrupted, "the turn ended before the call was carried out"))
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case over:
		return errMoved
	case len(begun) == 0:
		return unknown
	}
	for _, r := range runs {
		r.started = slices.Contains(begun, r)
	}
	return nil
}

// recordedAsRunning returns the calls of a group that run as this process recorded it. One
// that another node began in the meantime isn't among them: that node may have carried it out.
//
// A decision sees the session as it was claimed after the connection broke, so what isn't
// there will never be.
func (l *Loop) recordedAsRunning(tx *session.Tx, k key, runs []*toolRun) ([]*toolRun, error) {
	t := tx.State.Thread(k.thread)
	if t == nil || t.Active == nil {
		return nil, nil
	}
	var out []*toolRun
	for _, r := range runs {
		c := findCall(t.Active, r.call.ToolCallID)
		if !r.started || c == nil || c.Status != state.ToolRunning || c.Attempts != r.call.Attempts+1 {
			continue
		}
		facts, err := l.m.Facts(tx.Context(), k.session, r.running.sequence, r.running.sequence)
		if err != nil {
			return nil, err
		}
		if len(facts) == 1 && facts[0].ID == r.running.id {
			out = append(out, r)
		}
	}
	return out, nil
}

// turnIsOver reports whether the thread's turn is to end, whatever is under way in it.
func (l *Loop) turnIsOver(tx *session.Tx, k key) bool {
	switch l.opt.Policy.Next(tx.State, k.thread, tx.Now()).(type) {
	case CancelTurn, FailTurn:
		return true
	default:
		return false
	}
}
