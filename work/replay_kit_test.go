package work_test

import (
	"os"
	"testing"

	"agentd/evidence/replaytest"
)

// replayed counts the decisions of this package's tests that were made again.
var replayed replaytest.Tally

func TestMain(m *testing.M) {
	code := m.Run()
	replayed.Report(os.Stdout)
	os.Exit(code)
}
