package loop

import (
	"agentd/admission"
	"agentd/state"
)

// accountOf returns the account of a session. One that can't be loaded has none; what follows
// says why.
func (l *Loop) accountOf(sessionID string) (account string) {
	_ = l.m.Peek(l.ctx, sessionID, func(s *state.Session) error {
		account = s.Account
		return nil
	})
	return account
}

// Threads returns how many threads are worked on, and how many wait until there is room.
func (l *Loop) Threads() (running, waiting int) {
	all := l.slots.Load()
	return all.Running, all.Waiting
}

// ThreadsOf is [Loop.Threads] for one account.
func (l *Loop) ThreadsOf(account string) (running, waiting int) {
	own := l.slots.LoadOf(account)
	return own.Running, own.Waiting
}

// ThreadsByAccount is [Loop.ThreadsOf] for each account that has some.
func (l *Loop) ThreadsByAccount() map[string]admission.Load { return l.slots.Accounts() }
