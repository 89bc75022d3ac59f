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
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// percent is how much the heap may grow before it is collected. Almost all that a
// turn allocates is gone a moment later, and a collection costs what the sessions
// in memory hold: Go's own 100 costs a quarter more processor time a turn. GOGC and
// GOMEMLIMIT go before it.
const percent = 300

// With 500 turns in flight 140 MiB are in use, and three times as much garbage beside them
// made the process 660 MiB large. So from smallProcess on there is less garbage: twice what is in
// use beyond leastInUse. With half of what is in use, collecting took a fifth of a busy server's
// processor time.
const (
	smallProcess = 320 << 20
	leastInUse   = 104 << 20
)

// limitFor is how large the process should be while so many bytes of its heap are in use.
func limitFor(live uint64) int64 { return max(smallProcess, int64(live)+2*(int64(live)-leastInUse)) }

func init() { //nolint:gochecknoinits // nothing else runs before other packages' initialization
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
		if os.Getenv("GOMEMLIMIT") == "" {
			setLimit(0)
			followCollections()
		}
	}
}

// inForce is the limit that holds.
var inForce atomic.Int64

func setLimit(live uint64) {
	next := limitFor(live)
	if was := inForce.Swap(next); was != next {
		debug.SetMemoryLimit(next)
	}
}

// followCollections sets the limit anew after each collection, which finds out how much is in
// use.
func followCollections() {
	runtime.AddCleanup(&collected{}, func(struct{}) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		setLimit(live[0].Value.Uint64())
		followCollections()
	}, struct{}{})
}

// collected is garbage that tells of its collection. It has a pointer, so that it shares no
// memory with something that lives on.
type collected struct{ _ *byte }
