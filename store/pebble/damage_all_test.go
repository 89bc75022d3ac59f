//go:build !race

// One goroutine damages and reads thousands of times: the race detector would only
// make it slower.

package pebble_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestDamage damages each file of a store at many places. Whatever happens, a
// record that was acknowledged doesn't vanish without a word.
func TestDamage(t *testing.T) {
	n := 14
	if testing.Short() {
		n = 6
	}
	for _, clean := range []bool{true, false} {
		t.Run(map[bool]string{true: "after a clean close", false: "after an unclean stop"}[clean], func(t *testing.T) {
			im := takeImage(t, clean)
			if what, detail := im.outcome(t, "", nil); what != intact {
				t.Fatalf("the undamaged image: %s: %s", what, detail)
			}
			last := im.lastLog()
			counts := map[string]int{}
			for _, path := range slices.Sorted(maps.Keys(im.files)) {
				for how, content := range damages(im.files[path], n) {
					what, detail := im.outcome(t, path, content)
					counts[kindOf(path)+", "+what]++
					if what != silent {
						continue
					}
					// A log cut between two records looks like one that ended there.
					if !clean && path == last && strings.HasPrefix(how, "cut") {
						continue
					}
					t.Errorf("%s %s: %s: %s", path, how, what, detail)
				}
			}
			for _, c := range slices.Sorted(maps.Keys(counts)) {
				t.Logf("%s: %d", c, counts[c])
			}
		})
	}
}

func kindOf(path string) string {
	switch {
	case isLog(path):
		return "log"
	case isTable(path):
		return "table"
	case isManifest(path):
		return "manifest"
	case strings.Contains(path, "marker"):
		return "marker"
	case strings.Contains(path, "OPTIONS"):
		return "options"
	}
	return "ledger"
}
