// Package leaktest fails a package's tests if they leave goroutines behind.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end after the last test. Some wait for a peer,
// which takes its time on a busy machine; one that leaks never ends.
const patience = time.Minute

// Main runs the tests of a package and ends the process.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := await(patience); err != nil {
			fmt.Fprintf(os.Stderr, "after the tests: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// await returns nil as soon as no goroutine is left, and otherwise what is left at the end.
func await(limit time.Duration) error {
	for end := time.Now().Add(limit); ; {
		err := goleak.Find()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
