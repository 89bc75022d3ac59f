package loop

import (
	"agentd/hook"
	"agentd/session"
	"agentd/state"
)

// endedCommand is a command of a call that has ended, whose end isn't a fact yet.
type endedCommand struct {
	x     *running
	facts func(*session.Tx)
}

// recordEnd records the end of a command that its call waits for. It goes along with the
// end of the call, which follows at once unless a hook is asked first: one commit has both.
func (h *toolHost) recordEnd(x *running, facts func(*session.Tx)) error {
	if r := h.r; r.l.hasHooks(hook.PostToolUse, r.request.ToolName) || r.l.hasHooks(hook.PostToolFailure, r.request.ToolName) {
		defer x.recorded()
		return x.emitLast(facts)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = append(h.ended, endedCommand{x, facts})
	return nil
}

// emitEnds emits how the commands ended whose end isn't a fact yet, before how their call
// did.
func (h *toolHost) emitEnds(tx *session.Tx) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.ended {
		e.emit(tx)
	}
}

func (e endedCommand) emit(tx *session.Tx) {
	if p := tx.State.Environment.Find(e.x.id); p != nil && p.Status == state.ProcessRunning {
		e.facts(tx)
	}
}

// settleEnds records those ends by themselves if that of the call could not be: the call
// may be over, the processes are as well. It returns the error of the call's end.
func (h *toolHost) settleEnds(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.ended {
		if err != nil {
			failed := e.x.emitLast(func(tx *session.Tx) { e.emit(tx) })
			if failed != nil {
				h.r.l.opt.Logger.Warn("the end of a process could not be recorded", "processId", e.x.id, "error", failed)
			}
		}
		e.x.recorded()
	}
	h.ended = nil
	return err
}
