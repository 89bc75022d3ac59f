// Package storetest holds the contract of a store's engine as tests, and what
// other packages need to test against a store.
//
// # The suite
//
// [Run] drives an [Engine] through every obligation of [store.Store], each as a
// named subtest with data of its own. It goes beyond the words of the port where
// callers rely on one answer. These are the choices, and the suite is the one
// that decides:
//
//   - A batch is judged in this order: [store.ErrConflict] if an earlier batch of
//     its session failed in the same call, then [store.ErrFenced], then
//     [store.ErrConflict], then [store.ErrExists].
//   - Batches see the index as earlier batches of the same call left it, so of
//     two that need the same key absent the first wins; a batch that failed
//     hides no key from a later one. Within a batch the index operations apply
//     in order.
//   - IfAbsent guards a delete as it guards a put.
//   - An epoch is never 0. A released claim is fenced like one that was followed
//     by another.
//   - A call whose context has ended fails with the context's error and changes
//     nothing. An iterator may go on after its context ended, but if it stops
//     before its end it yields an error.
//   - A read over records that were removed yields the error in their place: at
//     once if it goes up, after what is left if it goes down. What begins before
//     a removal may end with it, never with a hole.
//   - What an iterator yields stays valid after the next step.
//   - Other calls may be made inside the loop over an iterator.
//   - After Close every call fails with [store.ErrClosed], and so ends a Follow
//     under way. Closing twice is not an error.
//   - An append by another node that happens after the first hint was yielded is
//     never missed by Follow.
//
// # For other packages
//
// [NewMem] is an engine in memory: the reference that the suite compares with,
// and a quick store for unit tests. [Faulty] puts faults in front of any store.
// [Records] and [Continue] make records with a right chain of hashes, and
// [VerifyChain] checks one.
//
// The package must not be imported by product code.
package storetest

import (
	"context"
	"slices"
	"testing"

	"agentd/store"
)

// Engine opens stores on one set of data. Its methods end the test by
// themselves if they can't do what they are asked.
type Engine interface {
	// Open opens the data. It is called again after the store before was closed,
	// and must find what was there.
	Open() store.Store
	// Second opens the same data as another node, beside the store that Open
	// returned. It is false for an engine that only one process can open.
	Second() (store.Store, bool)
}

// Run runs the whole suite. It calls open once for each subtest; every engine
// that open returns must have data of its own. The suite closes the stores;
// whatever else there is to release, open leaves to t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Engine) {
	runGroups(t, suite(), open)
}

// RunOfRecords is Run for what depends on how an engine keeps records. An engine that keeps
// them in several ways runs the whole suite with one of them.
func RunOfRecords(t *testing.T, open func(t *testing.T) Engine) {
	runGroups(t, slices.DeleteFunc(suite(), func(g group) bool { return !g.ofRecords }), open)
}

func runGroups(t *testing.T, groups []group, open func(t *testing.T) Engine) {
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.checks {
				t.Run(c.name, func(t *testing.T) { runCheck(t, c, open(t)) })
			}
		})
	}
}

// group is a part of the suite.
type group struct {
	name   string
	checks []check
	// ofRecords is true of what depends on how an engine keeps records.
	ofRecords bool
}

// check is one obligation. run reports through its kit, so that the suite's own
// tests can see a check fail on a broken engine.
type check struct {
	name string
	run  func(k *kit)
}

func runCheck(tb testing.TB, c check, e Engine) {
	k := newKit(tb, e)
	tb.Cleanup(k.closeAll)
	c.run(k)
}

func suite() []group {
	return []group{
		{name: "append", checks: appendChecks(), ofRecords: true},
		{name: "atomic", checks: atomicChecks(), ofRecords: true},
		{name: "epoch", checks: epochChecks()},
		{name: "read", checks: readChecks(), ofRecords: true},
		{name: "index", checks: indexChecks()},
		{name: "snapshot", checks: snapshotChecks(), ofRecords: true},
		{name: "trim", checks: trimChecks(), ofRecords: true},
		{name: "changes", checks: changesChecks()},
		{name: "sessions", checks: sessionsChecks(), ofRecords: true},
		{name: "blob", checks: blobChecks()},
		{name: "lifecycle", checks: lifecycleChecks()},
		{name: "concurrent", checks: concurrentChecks()},
		{name: "nodes", checks: nodesChecks()},
		{name: "model", checks: modelChecks(), ofRecords: true},
		{name: "linearizable", checks: linearChecks()},
	}
}

// reporter is what helpers need to report a failure: a testing.TB or a rapid.T.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// kit is what a check works with: an open store and short ways to use it.
type kit struct {
	reporter
	tb     testing.TB
	ctx    context.Context
	engine Engine
	s      store.Store
	second store.Store
}

func newKit(tb testing.TB, e Engine) *kit {
	return &kit{reporter: tb, tb: tb, ctx: tb.Context(), engine: e, s: e.Open()}
}

// withReporter returns the kit reporting to r, for use inside a property.
func (k *kit) withReporter(r reporter) *kit {
	c := *k
	c.reporter = r
	return &c
}

// reopen closes the store and opens the data again.
func (k *kit) reopen() {
	k.Helper()
	if err := k.s.Close(); err != nil {
		k.Fatalf("Close: %v", err)
	}
	k.s = k.engine.Open()
}

// other opens a second node, or skips the check.
func (k *kit) other() store.Store {
	s, ok := k.engine.Second()
	if !ok {
		k.tb.Skip("the engine has one node only")
	}
	k.second = s
	return s
}

func (k *kit) closeAll() {
	for _, s := range []store.Store{k.second, k.s} {
		if s == nil {
			continue
		}
		if err := s.Close(); err != nil {
			k.tb.Errorf("Close: %v", err)
		}
	}
}
