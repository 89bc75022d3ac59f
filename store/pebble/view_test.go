package pebble_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd/store"
	"agentd/store/pebble"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// gate holds the sync of logs until it is opened.
type gate struct {
	mu      sync.Mutex
	reached chan struct{} // nil: not armed
	release chan struct{}
}

func (g *gate) arm() (reached <-chan struct{}, release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reached, g.release = make(chan struct{}), make(chan struct{})
	r := g.release
	return g.reached, func() { close(r) }
}

func (g *gate) String() string { return "gate" }

func (g *gate) MaybeError(op errorfs.Op) error {
	if !isLog(op.Path) || !isSync(op.Kind) {
		return nil
	}
	g.mu.Lock()
	reached, release := g.reached, g.release
	g.reached = nil
	g.mu.Unlock()
	if reached != nil {
		close(reached)
		<-release
	}
	return nil
}

// TestOnlyDurable looks at a store while a commit waits for its sync: nothing of
// it is seen, and reads don't wait.
func TestOnlyDurable(t *testing.T) {
	g := &gate{}
	s := mustOpen(t, "store", &pebble.Options{FS: errorfs.Wrap(vfs.NewMem(), g)})
	defer mustClose(t, s)
	k := newBook(t, s)
	k.must(3, 100, "a")
	before := newBook(t, s)
	before.acked["a"] = k.acked["a"]

	reached, release := g.arm()
	done := make(chan error, 1)
	go func() { done <- k.appendRecords(2, 100, "a", "new") }()
	<-reached
	if err := before.check(s, false); err != nil {
		t.Errorf("while the sync is under way: %v", err)
	}
	if h, err := s.Head(t.Context(), "a"); err != nil || h.Sequence != 3 {
		t.Errorf("Head: %d %v, want 3", h.Sequence, err)
	}
	if ids := sessions(t, s); strings.Join(ids, " ") != "a" {
		t.Errorf("Sessions: %q, want only a", ids)
	}
	if _, err := s.Get(t.Context(), "last", "new"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get: %v, want ErrNotFound", err)
	}
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := k.check(s, false); err != nil {
		t.Error(err)
	}
	if ids := sessions(t, s); strings.Join(ids, " ") != "a new" {
		t.Errorf("Sessions: %q, want both", ids)
	}
}

func sessions(t *testing.T, s *pebble.Store) []string {
	t.Helper()
	var ids []string
	for id, err := range s.Sessions(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// TestCloseWaits closes a store inside an iteration: the iteration ends well,
// calls made in it are refused, and Close returns after it.
func TestCloseWaits(t *testing.T) {
	s := mustOpen(t, "store", &pebble.Options{FS: vfs.NewMem()})
	k := newBook(t, s)
	k.must(200, 100, "a")
	closed := make(chan error, 1)
	n := 0
	for _, err := range s.Read(t.Context(), "a", store.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1 {
			go func() { closed <- s.Close() }()
			for _, err := range s.Follow(context.Background()) { // ends when Close has begun
				if !errors.Is(err, store.ErrClosed) {
					t.Errorf("Follow: %v", err)
				}
			}
			if _, err := s.Head(t.Context(), "a"); !errors.Is(err, store.ErrClosed) {
				t.Errorf("Head: %v, want ErrClosed", err)
			}
		}
		select {
		case <-closed:
			t.Fatal("Close returned while a read was under way")
		default:
		}
	}
	if n != 200 {
		t.Errorf("%d records, want 200", n)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestCheckpoint(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, "store", small(mem))
	k := newBook(t, s)
	for s.Metrics().Flush.Count < 3 {
		k.must(5, 600, "a", "b")
	}
	if err := s.Checkpoint("copy"); err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint("copy"); err == nil {
		t.Error("a second checkpoint in the same place is no error")
	}
	at := newBook(t, nil)
	for id, records := range k.acked {
		at.acked[id] = slices.Clip(records)
	}
	k.must(50, 600, "a", "b")

	c := mustOpen(t, "copy", small(mem))
	if r := recovery(t, c); len(r) > 0 {
		t.Errorf("Recovery of the copy: %q", r)
	}
	if err := at.check(c, false); err != nil {
		t.Errorf("the copy: %v", err)
	}
	again := newBook(t, c)
	again.must(1, 100, "c")
	mustClose(t, c)
	if err := k.check(s, false); err != nil {
		t.Errorf("the original: %v", err)
	}
	mustClose(t, s)
	if err := s.Checkpoint("late"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Checkpoint after Close: %v, want ErrClosed", err)
	}
}

// TestDamagedCheckpoint: a copy is as safe against damage as a closed store.
func TestDamagedCheckpoint(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, "store", small(mem))
	k := newBook(t, s)
	k.must(5, 600, "a")
	if err := s.Checkpoint("copy"); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	for _, path := range listing(t, mem, "copy") {
		if isLog(path) {
			if err := mem.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := pebble.Open("copy", small(mem)); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Open: %v, want ErrCorrupt", err)
	}
}

// tableGate holds the creation of tables until it is opened.
type tableGate struct{ open chan struct{} }

func (g *tableGate) String() string { return "table gate" }

func (g *tableGate) MaybeError(op errorfs.Op) error {
	if isTable(op.Path) && op.Kind == errorfs.OpCreate {
		<-g.open
	}
	return nil
}

// waiting is a log handler that tells when an append waits.
type waiting struct {
	slog.Handler
	c chan struct{}
}

func (w waiting) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "appends wait") {
		select {
		case w.c <- struct{}{}:
		default:
		}
	}
	return nil
}

func (waiting) Enabled(context.Context, slog.Level) bool { return true }

// TestPressure lets the background fall behind until an append waits, and ends
// the wait in each way there is.
func TestPressure(t *testing.T) {
	closed := make(chan error, 1)
	for name, end := range map[string]func(s *pebble.Store, g *tableGate, cancel func()) (want error){
		"the background catches up": func(_ *pebble.Store, g *tableGate, _ func()) error { close(g.open); return nil },
		"the context ends":          func(_ *pebble.Store, _ *tableGate, cancel func()) error { cancel(); return context.Canceled },
		"the store is closed": func(s *pebble.Store, _ *tableGate, _ func()) error {
			go func() { closed <- s.Close() }()
			return store.ErrClosed
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := &tableGate{open: make(chan struct{})}
			w := waiting{slog.DiscardHandler, make(chan struct{}, 1)}
			o := small(errorfs.Wrap(vfs.NewMem(), g))
			o.Logger = slog.New(w)
			s := mustOpen(t, "store", o)
			c, err := s.Claim(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				var err error
				for seq := uint64(1); err == nil && seq < 10000; seq++ {
					err = s.Append(ctx, []*store.Batch{{SessionID: "a", Epoch: c.Epoch, Records: []store.Record{{Sequence: seq, Data: make([]byte, 1000)}}}})[0]
				}
				done <- err
			}()
			<-w.c
			want := end(s, g, cancel)
			if err := <-done; !errors.Is(err, want) {
				t.Errorf("Append: %v, want %v", err, want)
			}
			if want != nil {
				close(g.open)
			}
			if !errors.Is(want, store.ErrClosed) {
				closed <- s.Close()
			}
			if err := <-closed; err != nil {
				t.Error(err)
			}
		})
	}
}
