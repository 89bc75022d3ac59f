// Package quota counts what each account has in use and says when a limit is
// reached.
//
// Counting is exact within one process: a reservation checks the limit and takes
// the room in one step, so that concurrent callers can't pass a limit together.
// Processes that share a store tell each other what they count, see [Account.SetOthers];
// a limit can be exceeded by what others admit before they are heard of.
//
// All methods may be called by many goroutines. The package keeps nothing on disk
// and knows nothing of sessions or facts: its user says what is in use.
package quota

import (
	"fmt"
	"time"
)

// Name names a quota, in the configuration, in facts and on the wire.
type Name string

// The quotas.
const (
	// Sessions counts the sessions of an account.
	Sessions Name = "sessions"
	// QueuedTurns counts the turns that wait in the queues of its threads.
	QueuedTurns Name = "queuedTurns"
	// Subscriptions counts its open streams.
	Subscriptions Name = "subscriptions"
	// StoredBytes is the size of its events and of the contents stored with them.
	StoredBytes Name = "storedBytes"
	// Schedules counts its schedules.
	Schedules Name = "schedules"
	// Processes counts the running processes of its tools.
	Processes Name = "processes"
)

// Names returns all quotas in the order in which people are shown them.
func Names() []Name {
	return []Name{Sessions, QueuedTurns, Subscriptions, StoredBytes, Schedules, Processes}
}

// index is the place of a quota in the arrays of this package.
func (n Name) index() int {
	for i, x := range Names() {
		if x == n {
			return i
		}
	}
	panic("quota: there is no quota " + string(n))
}

// count is the number of quotas.
const count = 6

// Limits bound one account. Zero means no limit.
type Limits struct {
	Sessions, QueuedTurns, Subscriptions, StoredBytes, Schedules, Processes int64
	// ScheduleMinInterval is the shortest time between two runs of a schedule.
	ScheduleMinInterval time.Duration
}

// Of returns the limit of one quota; 0 is none.
func (l *Limits) Of(n Name) int64 {
	return [count]int64{l.Sessions, l.QueuedTurns, l.Subscriptions, l.StoredBytes, l.Schedules, l.Processes}[n.index()]
}

// Policy says which limits hold for which account. The zero value limits nothing.
type Policy struct {
	// Operator holds for the account without a name, which is that of the admin
	// token and of tokens that were made without an account.
	Operator Limits
	// Accounts holds for every account with a name.
	Accounts Limits
	// Overrides holds instead for the accounts in it, by name.
	Overrides map[string]Limits
}

// For returns the limits of an account.
func (p *Policy) For(account string) Limits {
	if l, ok := p.Overrides[account]; ok {
		return l
	}
	if account == "" {
		return p.Operator
	}
	return p.Accounts
}

// ReachedError says that an account has no room left.
type ReachedError struct {
	Account     string
	Quota       Name
	Limit, Used int64
}

// Error implements error.
func (e *ReachedError) Error() string {
	return fmt.Sprintf("quota %s of %s is reached: %d of %d in use", e.Quota, whose(e.Account), e.Used, e.Limit)
}

// whose names an account for people.
func whose(account string) string {
	if account == "" {
		return "the operator's account"
	}
	return "account " + account
}

// RetryAfter is how long to wait before trying again. It is 0 for quotas that
// only fall when something is removed.
func (e *ReachedError) RetryAfter() time.Duration {
	switch e.Quota {
	case QueuedTurns, Subscriptions, Processes:
		return 5 * time.Second
	case Sessions, StoredBytes, Schedules:
	}
	return 0
}
