package quota

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Book has the counters of all accounts. The zero value is ready and limits
// nothing.
type Book struct {
	policy atomic.Pointer[Policy]

	mu       sync.Mutex
	accounts map[string]*Account

	// places guards of, which has the account of each session that uses some of its quotas. It is
	// locked after an account.
	places sync.Mutex
	of     map[string]*Account
}

// SetPolicy replaces the limits. What is in use already stays, also above a limit.
func (b *Book) SetPolicy(p Policy) { b.policy.Store(&p) }

// Limits returns the limits of an account.
func (b *Book) Limits(account string) Limits {
	p := b.policy.Load()
	if p == nil {
		return Limits{}
	}
	return p.For(account)
}

// Account returns the counters of an account. Load is called when it is asked for
// the first time, and again as long as that fails: it returns what an earlier
// process counted.
func (b *Book) Account(id string, load func(*Account) (Total, error)) (*Account, error) {
	a := b.account(id)
	a.loading.Lock()
	defer a.loading.Unlock()
	if a.loaded {
		return a, nil
	}
	t, err := load(a)
	if err != nil {
		return nil, err
	}
	a.Add(Sessions, t.Sessions)
	a.Add(StoredBytes, t.StoredBytes)
	a.loaded = true
	return a, nil
}

func (b *Book) account(id string) *Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.accounts[id]
	if a == nil {
		if b.accounts == nil {
			b.accounts = map[string]*Account{}
		}
		a = &Account{id: id, book: b}
		b.accounts[id] = a
	}
	return a
}

// Accounts returns the counters of the accounts that were asked for.
func (b *Book) Accounts() []*Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.accounts))
}

// IDs returns the accounts that were asked for, in order.
func (b *Book) IDs() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := make([]string, 0, len(b.accounts))
	for id := range b.accounts {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// UsedBy returns how much of a quota each account has in use in this process, of those with any.
func (b *Book) UsedBy(n Name) map[string]int64 {
	b.mu.Lock()
	accounts := make([]*Account, 0, len(b.accounts))
	for _, a := range b.accounts {
		accounts = append(accounts, a)
	}
	b.mu.Unlock()
	out := map[string]int64{}
	for _, a := range accounts {
		a.mu.Lock()
		if used := a.used[n.index()]; used > 0 {
			out[a.id] = used
		}
		a.mu.Unlock()
	}
	return out
}

// Leave forgets what a session uses, see [Account.Set]: another process counts it now.
func (b *Book) Leave(session string) {
	b.places.Lock()
	a := b.of[session]
	b.places.Unlock()
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, used := range a.in[session] {
		a.used[i] = max(0, a.used[i]-used)
	}
	a.place(session, [count]int64{})
}

// Account counts what one account has in use.
type Account struct {
	id   string
	book *Book

	// loading guards loaded.
	loading sync.Mutex
	loaded  bool

	mu   sync.Mutex
	used [count]int64
	// others is what other processes use, which was asked for at othersAt; shared says that there may be
	// some, and that used is a share.
	others   [count]int64
	othersAt time.Time
	shared   bool
	// in has the part of each session, for quotas that a session's state tells.
	in map[string][count]int64
	// told is when the account was last told that a quota is reached.
	told [count]time.Time
	// complete says that all sessions are counted, dirty that the total changed since
	// it was stored at keptAt, underway that it is being stored.
	complete, dirty, underway bool
	keptAt                    time.Time
	// settled is closed when what is underway ends.
	settled chan struct{}
}

// ID returns the account's name; empty for the operator's.
func (a *Account) ID() string { return a.id }

// Reserve takes room for n more, or returns a [*ReachedError] and takes nothing.
func (a *Account) Reserve(n Name, more int64) error {
	return a.reserve(n, more, func(int) {})
}

// ReserveIn is [Account.Reserve] for a quota whose use [Account.Set] tells.
func (a *Account) ReserveIn(n Name, session string, more int64) error {
	return a.reserve(n, more, func(i int) { a.change(i, session, a.in[session][i]+more) })
}

func (a *Account) reserve(n Name, more int64, also func(i int)) error {
	limits := a.book.Limits(a.id)
	limit, i := limits.Of(n), n.index()
	a.mu.Lock()
	defer a.mu.Unlock()
	if used := a.sum(i); limit > 0 && used+more > limit {
		return &ReachedError{Account: a.id, Quota: n, Limit: limit, Used: used}
	}
	a.used[i] += more
	a.soil(n)
	also(i)
	return nil
}

// Add counts what came into use, or went out of it, whatever the limit is.
func (a *Account) Add(n Name, more int64) {
	i := n.index()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used[i] += more
	if !a.shared || !n.IsKept() { // a share is what was added less what was removed
		a.used[i] = max(0, a.used[i])
	}
	a.soil(n)
}

// soil notes that what is stored of a quota isn't right any more; the caller holds the lock.
func (a *Account) soil(n Name) { a.dirty = a.dirty || n.IsKept() || a.shared }

// Set says how much of a quota one session uses now.
func (a *Account) Set(n Name, session string, used int64) {
	i := n.index()
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.in[session][i]
	if used == before {
		return
	}
	a.used[i] = max(0, a.used[i]+used-before)
	a.soil(n)
	a.change(i, session, used)
}

// change writes down a session's part of one quota; the caller holds the lock.
func (a *Account) change(i int, session string, used int64) {
	parts := a.in[session]
	parts[i] = used
	a.place(session, parts)
}

// place writes down a session's parts. Only sessions with one are kept. The caller holds the lock.
func (a *Account) place(session string, parts [count]int64) {
	b := a.book
	b.places.Lock()
	defer b.places.Unlock()
	if parts == [count]int64{} {
		delete(a.in, session)
		delete(b.of, session)
		a.dirty = a.dirty || a.shared
		return
	}
	if a.in == nil {
		a.in = map[string][count]int64{}
	}
	if b.of == nil {
		b.of = map[string]*Account{}
	}
	a.in[session], b.of[session] = parts, a
}

// Room returns a [*ReachedError] if nothing is left of a quota.
func (a *Account) Room(n Name) error {
	limits := a.book.Limits(a.id)
	if limit, used := limits.Of(n), a.Used(n); limit > 0 && used >= limit {
		return &ReachedError{Account: a.id, Quota: n, Limit: limit, Used: used}
	}
	return nil
}

// Used returns how much is in use, also by other processes.
func (a *Account) Used(n Name) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sum(n.index())
}

// sum is what this process and others use; the caller holds the lock.
func (a *Account) sum(i int) int64 { return max(0, a.used[i]+a.others[i]) }

// tellEvery is the minimum time between two facts about one quota of an account: a caller that
// goes on asking must not be able to fill the journal with refusals.
const tellEvery = time.Minute

// Tell reports whether a fact is due that a quota is reached.
func (a *Account) Tell(n Name, now time.Time) bool {
	i := n.index()
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.told[i]; !t.IsZero() && now.Sub(t) < tellEvery {
		return false
	}
	a.told[i] = now
	return true
}
