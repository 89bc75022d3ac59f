package work_test

import (
	"os"
	"testing"

	"agentd"
	"agentd/evidence/replaytest"
	"agentd/loop"
)

// replayed counts the sessions of this package's tests that were run again.
var replayed replaytest.Tally

func TestMain(m *testing.M) {
	code := m.Run()
	replayed.Report(os.Stdout)
	os.Exit(code)
}

// replayAll runs the sessions again that a test recorded, once everything is closed but
// the store.
func replayAll(tb testing.TB, turns loop.Options) {
	tb.Helper()
	if tb.Failed() || tb.Skipped() {
		return // what a broken test left says nothing
	}
	replayed.Reopened(tb, agentd.Options{Store: turns.Store, Loop: turns, RuntimeID: "runtime_test"})
}
