package runtimetest

import (
	"os"
	"testing"

	"agentd/evidence/replaytest"
	"agentd/store"
)

// replayed counts the decisions of one package's tests that were made again.
var replayed replaytest.Tally

// DecideAgain makes every decision of the sessions that a test recorded again, and fails
// the test if one is another now.
func DecideAgain(tb testing.TB, s store.Store) {
	tb.Helper()
	replayed.Recorded(tb, s)
}

// RunTests runs a package's tests, reports how much was decided again, and returns the
// exit code. It is for TestMain.
func RunTests(m *testing.M) int {
	code := m.Run()
	replayed.Report(os.Stdout)
	return code
}
