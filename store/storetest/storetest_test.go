package storetest

import (
	"testing"

	"agentd/store"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memEngine opens nodes on one set of data in memory.
type memEngine struct{ first *Mem }

func newMemEngine() *memEngine { return &memEngine{first: NewMem()} }

func (e *memEngine) Open() store.Store           { return e.first.Node() }
func (e *memEngine) Second() (store.Store, bool) { return e.first.Node(), true }

func TestMem(t *testing.T) {
	Run(t, func(*testing.T) Engine { return newMemEngine() })
}
