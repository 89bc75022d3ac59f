package session_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentd/command"
	"agentd/quota"
	"agentd/session"
	"agentd/store"
	"agentd/store/storetest"
)

// sharedMem is a store in memory that is one of several nodes' as far as quotas are concerned,
// and counts what is read.
type sharedMem struct {
	*storetest.Mem
	node  string
	reads *atomic.Int64
	// scanning is told of each scan, before it begins.
	scanning func(kind string)
	// rows counts what scans yield, if it isn't nil.
	rows *atomic.Int64
}

var _ store.Shared = sharedMem{}

func (s sharedMem) Get(ctx context.Context, kind, key string) ([]byte, error) {
	s.reads.Add(1)
	return s.Mem.Get(ctx, kind, key)
}

func (s sharedMem) Scan(ctx context.Context, scan store.Scan) iter.Seq2[store.Entry, error] {
	s.reads.Add(1)
	if s.scanning != nil {
		s.scanning(scan.Kind)
	}
	return func(yield func(store.Entry, error) bool) {
		for e, err := range s.Mem.Scan(ctx, scan) {
			if s.rows != nil {
				s.rows.Add(1)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (s sharedMem) Nodes(context.Context) ([]store.Node, error) {
	s.reads.Add(1)
	return []store.Node{{ID: s.node, Self: true, Alive: true}, {ID: "other", Alive: true}}, nil
}

func (s sharedMem) ClaimAnyway(ctx context.Context, id string) (store.Claim, error) {
	return s.Claim(ctx, id)
}

func (s sharedMem) ClaimNew(ctx context.Context, id string) (store.Claim, error) {
	return s.Claim(ctx, id)
}

func (s sharedMem) Yield(ctx context.Context, id string, epoch uint64) error {
	return s.Release(ctx, id, epoch)
}

func (sharedMem) Adopt(context.Context, *store.Adoption, int) ([]string, error) { return nil, nil }

func (sharedMem) Displaced(context.Context, *store.Adoption, int) ([]store.Displaced, error) {
	return nil, nil
}

func (sharedMem) CountOwned(context.Context, string, ...string) (map[string]int64, error) {
	return nil, nil
}

func (sharedMem) Forget(context.Context, string, time.Time) error { return nil }
func (sharedMem) Describe(func() store.About)                     {}
func (sharedMem) Announce(context.Context) error                  { return nil }
func (sharedMem) Now() time.Time                                  { return time.Now() }

func (sharedMem) Term() (uint64, bool)                            { return 1, true }
func (sharedMem) Await(func() bool)                               {}
func (sharedMem) Awaited()                                        {}
func (sharedMem) Owned(context.Context, string) ([]string, error) { return nil, nil }

func (sharedMem) SweepBlob(context.Context, *store.Sweep) (store.Swept, error) {
	return store.Swept{}, nil
}
func (sharedMem) HoldBlob(context.Context, string) error { return nil }

// TestQuotasOfAllAccountsAreOneRead: what get_quotas and list_accounts read doesn't grow with the
// accounts, neither at a node that meets them for the first time nor later, near their limits.
func TestQuotasOfAllAccountsAreOneRead(t *testing.T) {
	readsWith := func(t *testing.T, accounts int) (reads [3]int64) {
		t.Helper()
		first := storetest.NewMem()
		open := func(name string, s *storetest.Mem) (*session.Manager, *atomic.Int64) {
			var n atomic.Int64
			m := session.New(session.Options{
				Store: sharedMem{Mem: s, node: name, reads: &n}, RuntimeID: "runtime_test", Quotas: quota.Policy{Accounts: quota.Limits{Sessions: 3}},
			})
			t.Cleanup(func() { _ = m.Close(context.Background()) })
			return m, &n
		}
		there, _ := open("other", first)
		for i := range accounts {
			caller := command.Caller{Account: fmt.Sprintf("acct-%d", i), Actor: acme.Actor}
			if _, err := runCommand(there, caller, &command.CreateSession{}); err != nil {
				t.Fatal(err)
			}
		}
		here, n := open("self", first.Node())
		for i := range reads {
			before := n.Load()
			if i == 2 {
				if _, err := here.Accounts(t.Context()); err != nil {
					t.Fatal(err)
				}
			} else if res, err := runCommand(here, admin, &command.GetQuotas{}); err != nil {
				t.Fatal(err)
			} else if q := res.(*command.GetQuotasResult).Quotas; len(q) != (accounts+1)*len(quota.Names()) {
				t.Fatalf("%d quotas of %d accounts", len(q), accounts)
			}
			reads[i] = n.Load() - before
		}
		return reads
	}
	synctest.Test(t, func(t *testing.T) { // in which time stands still: nothing reads beside the calls
		if few, many := readsWith(t, 2), readsWith(t, 40); few != many {
			t.Errorf("2 accounts cost %v reads, 40 cost %v", few, many)
		}
	})
}

// TestListAccountsDoesNotReadSessions: the sessions of all nodes are counted without a look at
// them, however many there are.
func TestListAccountsDoesNotReadSessions(t *testing.T) {
	listing := func(t *testing.T, sessions int) (reads, rows int64) {
		t.Helper()
		first := storetest.NewMem()
		open := func(name string, s *storetest.Mem) (*session.Manager, sharedMem) {
			mem := sharedMem{Mem: s, node: name, reads: new(atomic.Int64), rows: new(atomic.Int64)}
			m := session.New(session.Options{Store: mem, RuntimeID: "runtime_test"})
			t.Cleanup(func() { _ = m.Close(context.Background()) })
			return m, mem
		}
		there, _ := open("other", first)
		// Where an account is first seen, what versions without shares left of it is counted once.
		if _, err := runCommand(there, admin, &command.CreateSession{}); err != nil {
			t.Fatal(err)
		}
		for range sessions {
			if _, err := runCommand(there, acme, &command.CreateSession{}); err != nil {
				t.Fatal(err)
			}
		}
		here, mem := open("self", first.Node())
		if _, err := runCommand(here, acme, &command.CreateSession{}); err != nil {
			t.Fatal(err)
		}
		reads, rows = mem.reads.Load(), mem.rows.Load()
		accounts, err := here.Accounts(t.Context())
		if i := slices.IndexFunc(accounts, func(a command.AccountRecord) bool { return a.Account == acme.Account }); err != nil || i < 0 || accounts[i].Sessions != int64(sessions+1) {
			t.Errorf("of %d sessions there are %+v, %v", sessions+1, accounts, err)
		}
		return mem.reads.Load() - reads, mem.rows.Load() - rows
	}
	synctest.Test(t, func(t *testing.T) { // in which time stands still: nothing reads beside the calls
		fewReads, fewRows := listing(t, 10)
		if reads, rows := listing(t, 5000); reads != fewReads || rows != fewRows {
			t.Errorf("10 sessions cost %d reads of %d rows, 5,000 cost %d of %d", fewReads, fewRows, reads, rows)
		}
	})
}

// TestSharesAreFollowedByOneCaller: away from a limit one of many calls at the same moment reads
// what other nodes use, and the others don't wait for it, however slow the database is.
func TestSharesAreFollowedByOneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads, slow atomic.Int64
		s := sharedMem{Mem: storetest.NewMem(), node: "self", reads: new(atomic.Int64)}
		s.scanning = func(kind string) {
			if kind == "usage.share" {
				reads.Add(1)
				time.Sleep(time.Duration(slow.Load()))
			}
		}
		m := session.New(session.Options{Store: s, RuntimeID: "runtime_test", Quotas: quota.Policy{Accounts: quota.Limits{Sessions: 1000}}})
		defer func() { _ = m.Close(context.Background()) }()
		create := func() {
			if _, err := runCommand(m, acme, &command.CreateSession{}); err != nil {
				t.Error(err)
			}
		}
		create()
		time.Sleep(time.Minute)
		reads.Store(0)
		slow.Store(int64(500 * time.Millisecond))
		var calls, quick atomic.Int64
		began := time.Now()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				create()
				if calls.Add(1); time.Since(began) == 0 {
					quick.Add(1)
				}
			})
		}
		all.Wait()
		if reads.Load() != 1 || quick.Load() != 49 {
			t.Errorf("%d reads for 50 calls, %d of which didn't wait", reads.Load(), quick.Load())
		}
	})
}
