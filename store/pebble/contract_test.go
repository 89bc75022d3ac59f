package pebble_test

import (
	"path/filepath"
	"testing"

	"agentd/store"
	"agentd/store/pebble"
	"agentd/store/storetest"
)

// engine opens one directory of the operating system's file system.
type engine struct {
	t   *testing.T
	dir string
}

func (e *engine) Open() store.Store {
	s, err := pebble.Open(e.dir, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

func (*engine) Second() (store.Store, bool) { return nil, false }

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Engine {
		return &engine{t: t, dir: filepath.Join(t.TempDir(), "store")}
	})
}
