// Package collector sets how often the program collects its garbage.
//
// # Contract
//
// Importing it is enough. It depends on the standard library alone and its path
// sorts before those of other modules, so Go initializes it before them: what
// terminal and schema libraries allocate while they are initialized would be
// collected several times over otherwise, which is a sixth of the time to start.
package collector

import (
	"os"
	"runtime/debug"
)

// percent is how much the heap may grow before it is collected. Almost all that a
// turn allocates is gone a moment later, and a collection costs what the sessions
// in memory hold: Go's own 100 costs a quarter more processor time a turn. GOGC and
// GOMEMLIMIT go before it.
const percent = 300

func init() { //nolint:gochecknoinits // nothing else runs before other packages' initialization
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
