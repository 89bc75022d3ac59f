package interop_test

import (
	"fmt"
	"os"
	"testing"
)

// TestMain gives the programs a place of their own for the key that tells whose data
// a directory holds: tests leave nothing in the user's home.
func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "agentd-state-*")
	if err == nil {
		err = os.Setenv("XDG_STATE_HOME", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left is in the folder for temporary files
	return m.Run()
}
