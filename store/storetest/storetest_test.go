package storetest

import (
	"testing"

	"agentd/internal/leaktest"
	"agentd/store"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// memEngine opens nodes on one set of data in memory.
type memEngine struct{ first *Mem }

func newMemEngine() *memEngine { return &memEngine{first: NewMem()} }

func (e *memEngine) Open() store.Store           { return e.first.Node() }
func (e *memEngine) Second() (store.Store, bool) { return e.first.Node(), true }

func TestMem(t *testing.T) {
	Run(t, func(*testing.T) Engine { return newMemEngine() })
}
