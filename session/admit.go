package session

import (
	"time"

	"agentd/admission"
	"agentd/fault"
	"agentd/quota"
)

// AdmitWork refuses more work of an account while the store doesn't take what is written, or while
// too much waits to begin: own of the account, all of everyone. The error says when to try
// again.
func (m *Manager) AdmitWork(account string, own, all int) error {
	r := m.journal.gate.Admit(account, own, all)
	if r == nil {
		return nil
	}
	kind := fault.Unavailable
	if r.IsOwn() {
		kind = fault.RateLimited
	}
	wait := r.Wait.Round(time.Second)
	f := fault.Wrap(kind, r, "%s; nothing was begun: try again in %s", r.Error(), wait)
	f.RetryAfter = wait
	return f
}

// IsStalled reports whether the store has not taken a write for long.
func (m *Manager) IsStalled() bool { return m.journal.gate.IsStalled() }

// QueuedTurns returns how many turns wait in the queues of threads, by account.
func (m *Manager) QueuedTurns() map[string]int64 { return m.quotas.UsedBy(quota.QueuedTurns) }

// Admission returns how fast the store takes writes, and what was refused for it.
func (m *Manager) Admission() admission.Figures { return m.journal.gate.Figures() }
