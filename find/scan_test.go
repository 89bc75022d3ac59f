//go:build !race

// One goroutine compares thousands of queries with a scan of all facts. The race detector
// would take most of a minute for that; the other tests of the package run with it.

package find_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/pebble"
	"agentd/store/postgres"
	"agentd/store/storetest"
)

// Whatever happened, in whatever order the index learnt of it and however often it was
// started again, answers are what a scan of all facts says.
func TestIndexIsWhatAScanOfAllFactsSays(t *testing.T) {
	for _, engine := range []struct {
		name  string
		seeds uint64
		open  func(*testing.T) store.Store
	}{
		{"memory", 12, func(*testing.T) store.Store { return storetest.NewMem() }},
		{"pebble", 3, func(t *testing.T) store.Store {
			s, err := pebble.Open(filepath.Join(t.TempDir(), "data"), nil)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}},
		{"postgres", 2, func(t *testing.T) store.Store {
			c := pgtest.Shared(t)
			s, err := postgres.Open(t.Context(), c.Database(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}},
	} {
		t.Run(engine.name, func(t *testing.T) {
			for seed := range engine.seeds {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					h := newHistory(t, engine.open(t), seed)
					for range 3 {
						for range 120 {
							h.step()
						}
						h.check()
					}
					h.indexer.Close()
					h.checkNothingIsLeft()
					if err := h.store.Close(); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}
