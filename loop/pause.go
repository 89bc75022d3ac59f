package loop

import (
	"context"

	"agentd/state"
)

// Pause has threads stop after the step that they are in, and begin none: the work goes on
// at another node. Off lets threads begin again that are woken from then on.
func (l *Loop) Pause(on bool) { l.paused.Store(on) }

// IsBusy reports whether a session has a step or a process under way here.
func (l *Loop) IsBusy(ctx context.Context, sessionID string) bool {
	if l.hasRunner(sessionID) {
		return true
	}
	if !l.commands.Load() {
		return false
	}
	busy := false
	_ = l.m.Read(ctx, sessionID, func(s *state.Session) error { // one that can't be read has nothing here
		for _, x := range s.Environment.Active {
			busy = busy || l.isRecording(x.ProcessID) || l.processManager().Get(x.ProcessID) != nil
		}
		return nil
	})
	return busy
}

// hasRunner reports whether a thread of a session is worked on.
func (l *Loop) hasRunner(sessionID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.runners {
		if k.session == sessionID {
			return true
		}
	}
	return false
}
