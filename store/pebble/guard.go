package pebble

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// errFrozen is what Pebble gets for a table that it wants to write after a
// failure.
var errFrozen = errors.New("pebble: the store failed and accepts no more writes")

// retryPause keeps Pebble, which repeats a failed flush at once and for ever,
// from spinning while a disk is full or the store has failed.
const retryPause = 100 * time.Millisecond

// flushCategory is how Pebble marks the tables that it makes of its buffers.
const flushCategory vfs.DiskWriteCategory = "pebble-memtable-flush"

// guard is the file system that Pebble writes through. It watches the store's
// directory and passes everything else on.
//
// Pebble ends the process, from whatever goroutine, when its log or manifest
// can't be written. So the guard tells it that such a write succeeded, keeps the
// failure for the store to report, and from then on lets no change through to
// the directory: a table that Pebble deletes because its manifest says so may be
// needed by the manifest that is really on disk.
//
// The guard keeps the ledger, too: it alone sees when a log or a manifest was
// synced and when a log goes.
type guard struct {
	vfs.FS
	dir     string
	ledger  *ledger
	reserve uint64 // compactions stop at half of it, so that flushes still fit
	changed func() // called when a failure or a lack of space appears or goes
	closing chan struct{}

	mu        sync.Mutex
	failure   error
	backOff   bool // the last table found no space
	flushFull bool // the last flush found no space
	manifests map[string]extent
	logs      map[uint64]extent
}

func newGuard(fs vfs.FS, dir string, l *ledger, reserve int64, changed func()) *guard {
	return &guard{
		FS: fs, dir: dir, ledger: l, reserve: uint64(max(reserve, 0)), changed: changed, closing: make(chan struct{}),
		manifests: map[string]extent{}, logs: map[uint64]extent{},
	}
}

// err returns the first failure.
func (g *guard) err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failure
}

// fail keeps the first failure.
func (g *guard) fail(op, name string, err error) {
	g.mu.Lock()
	if g.failure == nil {
		g.failure = fmt.Errorf("%s %s: %w", op, g.PathBase(name), err)
	}
	g.mu.Unlock()
	g.changed()
}

// flushBlocked reports whether flushes find no space.
func (g *guard) flushBlocked() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.flushFull
}

// tableFull notes that a table found no space, or that one was written.
func (g *guard) tableFull(flush, full bool) {
	g.mu.Lock()
	g.backOff = full
	was := g.flushFull
	if flush {
		g.flushFull = full
	}
	changed := g.flushFull != was
	g.mu.Unlock()
	if changed {
		g.changed()
	}
}

func (g *guard) frozen() bool { return g.err() != nil }

// recordLines adds lines to the ledger; a ledger that can't be written is a failure.
func (g *guard) recordLines(lines ...string) bool {
	if err := g.ledger.add(lines...); err != nil {
		g.fail("write", g.ledger.path, err)
		return false
	}
	return true
}

// ledgerState returns what is to be in the ledger now, and the lines of a clean close.
func (g *guard) ledgerState(version int) (ledgerState, []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := ledgerState{version: version, manifests: map[string]extent{}, logs: map[uint64]extent{}}
	var final []string
	maps.Copy(st.manifests, g.manifests)
	for n, e := range g.logs {
		st.logs[n] = e
		final = append(final, finalLine(n, e))
	}
	return st, append(final, "clean")
}

// kind is what a file in the directory is to the guard.
type kind int

const (
	kindForeign  kind = iota // not in the directory
	kindLog                  // must never seem to fail
	kindManifest             // must never seem to fail
	kindTable                // may fail, Pebble tries again
	kindOther                // markers and options: must never seem to fail
)

func (g *guard) kind(name string) kind {
	if g.PathDir(name) != g.dir {
		return kindForeign
	}
	base := g.PathBase(name)
	switch {
	case strings.HasSuffix(base, ".log"):
		return kindLog
	case strings.HasPrefix(base, "MANIFEST-"):
		return kindManifest
	case strings.HasSuffix(base, ".sst"), strings.HasSuffix(base, ".blob"):
		return kindTable
	}
	return kindOther
}

// logNumber returns the number in a log's name.
func logNumber(base string) (uint64, bool) {
	s, ok := strings.CutSuffix(base, ".log")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}

// Create creates a file.
func (g *guard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	k := g.kind(name)
	switch k {
	case kindForeign:
		return createFile(g.FS, name)
	case kindTable:
		return g.createTable(name, category)
	case kindLog, kindManifest, kindOther:
	}
	if g.frozen() {
		return deadFile{name: g.PathBase(name)}, nil
	}
	f, err := createFile(g.FS, name)
	if err != nil {
		g.fail("create", name, err)
		return deadFile{name: g.PathBase(name)}, nil
	}
	return g.wrap(k, name, f), nil
}

func (g *guard) createTable(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := g.tableAllowed(category); err != nil {
		g.pause()
		return nil, err
	}
	f, err := createFile(g.FS, name)
	if err != nil {
		return nil, g.tableError("create", name, category == flushCategory, err)
	}
	w := g.wrap(kindTable, name, f)
	w.flush = category == flushCategory
	return w, nil
}

// tableAllowed refuses tables after a failure, and compactions when the disk is
// nearly full: what is left belongs to the logs and to flushes.
func (g *guard) tableAllowed(category vfs.DiskWriteCategory) error {
	if g.frozen() {
		return errFrozen
	}
	g.mu.Lock()
	backOff := g.backOff
	g.backOff = false
	g.mu.Unlock()
	if backOff {
		g.pause()
	}
	if category == flushCategory || g.reserve == 0 {
		return nil
	}
	if u, err := g.GetDiskUsage(g.dir); err == nil && u.AvailBytes < g.reserve/2 {
		return fmt.Errorf("pebble: no compaction below half of the reserve: %w", syscall.ENOSPC)
	}
	return nil
}

// pause waits a moment, or until the store is closed.
func (g *guard) pause() {
	t := time.NewTimer(retryPause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-g.closing:
	}
}

// tableError judges a failed write of a table: a full disk is not a failure, Pebble
// tries again.
func (g *guard) tableError(op, name string, flush bool, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		g.tableFull(flush, true)
	} else {
		g.fail(op, name, err)
	}
	return err
}

func (g *guard) wrap(k kind, name string, f vfs.File) *guardedFile {
	w := &guardedFile{File: f, g: g, kind: k, name: g.PathBase(name)}
	w.log, _ = logNumber(w.name)
	return w
}

// ReuseForWrite makes a log that isn't needed any more into a new one.
func (g *guard) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	dead := deadFile{name: g.PathBase(newname)}
	if g.frozen() || !g.forgetLog(oldname) {
		return dead, nil
	}
	f, err := g.FS.ReuseForWrite(oldname, newname, category)
	if err != nil {
		g.fail("reuse", oldname, err)
		return dead, nil
	}
	w := g.wrap(kindLog, newname, f)
	w.reused = true
	return w, nil
}

// forgetLog strikes a log from the ledger before it goes. It is false if the
// ledger couldn't be written: then the log must stay.
func (g *guard) forgetLog(name string) bool {
	n, ok := logNumber(g.PathBase(name))
	if !ok {
		return true
	}
	g.mu.Lock()
	delete(g.logs, n)
	g.mu.Unlock()
	return g.recordLines(fmt.Sprintf("gone %d", n))
}

// Remove removes a file.
func (g *guard) Remove(name string) error {
	k := g.kind(name)
	if k == kindForeign {
		return g.FS.Remove(name)
	}
	if g.frozen() || (k == kindLog && !g.forgetLog(name)) {
		return nil
	}
	err := g.FS.Remove(name)
	if err == nil && k == kindManifest {
		g.mu.Lock()
		delete(g.manifests, g.PathBase(name))
		g.mu.Unlock()
	}
	return err
}

// Rename renames a file.
func (g *guard) Rename(oldname, newname string) error {
	if g.kind(newname) == kindForeign {
		return g.FS.Rename(oldname, newname)
	}
	if g.frozen() {
		return nil
	}
	if err := g.FS.Rename(oldname, newname); err != nil {
		g.fail("rename", oldname, err)
	}
	return nil
}

// OpenDir opens a directory for syncing.
func (g *guard) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil || name != g.dir {
		return f, err
	}
	return g.wrap(kindOther, name, f), nil
}

// Unwrap returns the file system below.
func (g *guard) Unwrap() vfs.FS { return g.FS }

// Lock is left to the store's own lock, which names the owner.
func (g *guard) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }
