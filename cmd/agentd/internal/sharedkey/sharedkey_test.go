package sharedkey

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	"agentd/store"
	"agentd/store/storetest"
)

const first, second = "the first secret of all nodes", "the second secret of all nodes"

func open(t *testing.T, opt Options) *Ring {
	t.Helper()
	r, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOneKeyForAllNodes: nodes that start at the same moment have one key, and the store has
// neither it nor the secret in the clear.
func TestOneKeyForAllNodes(t *testing.T) {
	s := storetest.NewMem()
	keys := make([][]byte, 16)
	var all sync.WaitGroup
	for i := range keys {
		node := s.Node()
		all.Go(func() {
			r, err := Open(t.Context(), Options{Store: node, Secret: first})
			if err != nil {
				t.Error(err)
				return
			}
			keys[i] = r.Key()
		})
	}
	all.Wait()
	for _, key := range keys {
		if len(key) != size || !bytes.Equal(key, keys[0]) {
			t.Fatalf("the nodes have the keys %x", keys)
		}
	}
	n := 0
	for e, err := range s.Scan(t.Context(), store.Scan{Kind: kind}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if bytes.Contains(e.Value, keys[0]) || bytes.Contains(e.Value, []byte(first)) || strings.Contains(e.Key, first) {
			t.Errorf("the store has the key or the secret: %s %s", e.Key, e.Value)
		}
	}
	if n != 1 {
		t.Errorf("%d copies, want 1", n)
	}
}

// TestAnotherSecret: a node with another secret has another key and says that there is one
// that it can't open. Started with both secrets it opens what was sealed before, and so do
// nodes that know the new one alone, also those that were started before.
func TestAnotherSecret(t *testing.T) {
	s := storetest.NewMem()
	before := open(t, Options{Store: s, Secret: first})
	alone := open(t, Options{Store: s, Secret: second})
	if bytes.Equal(alone.Key(), before.Key()) || alone.Foreign() != 1 {
		t.Fatalf("another secret gives the key %x of %x, and says that %d are missing", alone.Key(), before.Key(), alone.Foreign())
	}
	both := open(t, Options{Store: s, Secret: second, Earlier: first})
	if !bytes.Equal(both.Key(), alone.Key()) || !contains(both.Keys(), before.Key()) || both.Foreign() != 0 {
		t.Errorf("with both secrets: %x, %d are missing", both.Keys(), both.Foreign())
	}
	keys, err := alone.Reload(t.Context())
	if err != nil || !contains(keys, before.Key()) || alone.Foreign() != 0 {
		t.Errorf("read again: %x, %v", keys, err)
	}
	open(t, Options{Store: s, Secret: second, Earlier: first})
	if keys := open(t, Options{Store: s, Secret: second}).Keys(); len(keys) != 2 {
		t.Errorf("%d keys, want 2", len(keys))
	}
}

// TestTheSecretIsReplaced: nodes that are restarted with a new secret and the earlier one go
// on with the same key, beside nodes that weren't yet.
func TestTheSecretIsReplaced(t *testing.T) {
	s := storetest.NewMem()
	before := open(t, Options{Store: s, Secret: first})
	for name, r := range map[string]*Ring{
		"with both":      open(t, Options{Store: s, Secret: second, Earlier: first}),
		"with the new":   open(t, Options{Store: s, Secret: second}),
		"with the first": open(t, Options{Store: s, Secret: first}),
	} {
		if !bytes.Equal(r.Key(), before.Key()) || r.Foreign() != 0 {
			t.Errorf("%s: another key, %d are missing", name, r.Foreign())
		}
	}
}

func TestKeysThatCantBe(t *testing.T) {
	s := storetest.NewMem()
	if _, err := Open(t.Context(), Options{Store: s, Secret: "short"}); !errors.Is(err, ErrWeakSecret) {
		t.Errorf("a short secret: %v", err)
	}
	r := open(t, Options{Store: s, Secret: first, Local: [][]byte{bytes.Repeat([]byte{7}, size)}})
	if bytes.Equal(r.Key(), r.Keys()[1]) || len(r.Keys()) != 2 {
		t.Errorf("with a key of this node: %x", r.Keys())
	}
	// A copy that was put in the place of another one isn't opened.
	e := r.copyOf("elsewhere", r.Key())
	if err := store.WriteEntries(t.Context(), s, writer, []store.IndexOp{{Entry: store.Entry{Kind: kind, Key: r.name, Value: e.Value}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Store: s, Secret: first}); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a copy that was changed: %v", err)
	}
}
