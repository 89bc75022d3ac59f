package storetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd/store"
)

// recorder takes a check's failures instead of the test, so that a test can
// demand them.
type recorder struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	failures []string
	skipped  bool
	cleanups []func()
}

func (r *recorder) Helper()                  {}
func (r *recorder) Log(...any)               {}
func (r *recorder) Logf(string, ...any)      {}
func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Error(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }
func (r *recorder) Fail()             { r.Errorf("failed") }

func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

func (r *recorder) Skip(...any) {
	r.skipped = true
	runtime.Goexit()
}

// record runs a check as the suite does and returns what it reported.
func record(ctx context.Context, t *testing.T, c check, e Engine) *recorder {
	t.Helper()
	r := &recorder{TB: t, ctx: ctx}
	var wg sync.WaitGroup
	wg.Go(func() { runCheck(r, c, e) }) // ends by Goexit when the check is fatal
	wg.Wait()
	for _, v := range slices.Backward(r.cleanups) {
		v()
	}
	return r
}

// checksOf returns the checks by "group/name".
func checksOf(t *testing.T) map[string]check {
	t.Helper()
	all := map[string]check{}
	for _, g := range suite() {
		for _, c := range g.checks {
			all[g.name+"/"+c.name] = c
		}
	}
	return all
}

// TestOneNodeSkips holds the suite to what it says about engines with one node.
func TestOneNodeSkips(t *testing.T) {
	all := checksOf(t)
	for _, name := range sortedKeys(all) {
		two := strings.HasPrefix(name, "nodes/") || strings.HasSuffix(name, "two nodes")
		if !two {
			continue
		}
		if r := record(t.Context(), t, all[name], oneNode{newMemEngine()}); !r.skipped || r.Failed() {
			t.Errorf("%s is not skipped: %q", name, r.failures)
		}
	}
}

type oneNode struct{ *memEngine }

func (oneNode) Second() (store.Store, bool) { return nil, false }
