package pebble_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"agentd/store"
	"agentd/store/pebble"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// faults decides which operations fail. It starts disarmed.
type faults struct {
	mu    sync.Mutex
	match func(op errorfs.Op) bool
	err   error
	hits  int
}

func (f *faults) arm(err error, match func(op errorfs.Op) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.match = err, match
}

func (f *faults) disarm() { f.arm(nil, nil) }

func (f *faults) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

func (f *faults) String() string { return "faults" }

func (f *faults) MaybeError(op errorfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.match == nil || !f.match(op) {
		return nil
	}
	f.hits++
	return f.err
}

func isSync(k errorfs.OpKind) bool {
	return k == errorfs.OpFileSync || k == errorfs.OpFileSyncData
}

func isLog(p string) bool   { return strings.HasSuffix(p, ".log") }
func isTable(p string) bool { return strings.HasSuffix(p, ".sst") }

func isManifest(p string) bool { return strings.HasPrefix(path.Base(p), "MANIFEST-") }

// TestFailedWrite fails one kind of write for good and looks at what callers
// see, before and after the store is opened again.
func TestFailedWrite(t *testing.T) {
	medium := errors.New("the medium is gone")
	cases := map[string]func(op errorfs.Op) bool{
		"write log":       func(op errorfs.Op) bool { return isLog(op.Path) && op.Kind == errorfs.OpFileWrite },
		"sync log":        func(op errorfs.Op) bool { return isLog(op.Path) && isSync(op.Kind) },
		"create log":      func(op errorfs.Op) bool { return isLog(op.Path) && op.Kind == errorfs.OpCreate },
		"reuse log":       func(op errorfs.Op) bool { return op.Kind == errorfs.OpReuseForWrite },
		"write manifest":  func(op errorfs.Op) bool { return isManifest(op.Path) && op.Kind == errorfs.OpFileWrite },
		"sync manifest":   func(op errorfs.Op) bool { return isManifest(op.Path) && isSync(op.Kind) },
		"write table":     func(op errorfs.Op) bool { return isTable(op.Path) && op.Kind == errorfs.OpFileWrite },
		"sync table":      func(op errorfs.Op) bool { return isTable(op.Path) && isSync(op.Kind) },
		"create table":    func(op errorfs.Op) bool { return isTable(op.Path) && op.Kind == errorfs.OpCreate },
		"sync directory":  func(op errorfs.Op) bool { return op.Path == "store/db" && isSync(op.Kind) },
		"write ledger":    func(op errorfs.Op) bool { return op.Path == "store/ledger.tmp" && op.Kind == errorfs.OpFileWrite },
		"sync ledger":     func(op errorfs.Op) bool { return op.Path == "store/ledger.tmp" && isSync(op.Kind) },
		"every operation": func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite },
	}
	for name, match := range cases {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			f := &faults{}
			s := mustOpen(t, "store", small(errorfs.Wrap(mem, f)))
			k := newBook(t, s)
			k.must(10, 600, "a", "b", "c")
			f.arm(medium, match)
			failUntil(t, k, f)
			checkFailed(t, k, medium)
			if err := s.Close(); err != nil && !errors.Is(err, medium) {
				t.Errorf("Close: %v", err)
			}
			f.disarm()
			reopenAfterFailure(t, k, mem)
		})
	}
}

// failUntil appends until the fault has hit the store.
func failUntil(t *testing.T, k *book, f *faults) {
	t.Helper()
	for range 20000 {
		err := k.appendRecords(2, 600, "a", "b", "c")
		if err == nil {
			continue
		}
		if !errors.Is(err, store.ErrFailed) {
			t.Fatalf("Append: %v, want ErrFailed", err)
		}
		return
	}
	t.Fatalf("nothing failed; the fault was hit %d times", f.count())
}

// checkFailed checks a failed store against the contract.
func checkFailed(t *testing.T, k *book, cause error) {
	t.Helper()
	if err := k.appendRecords(1, 600, "a"); !errors.Is(err, store.ErrFailed) || errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("Append after the failure: %v, want ErrFailed with a known outcome", err)
	}
	if err := k.s.Err(); !errors.Is(err, store.ErrFailed) || !errors.Is(err, cause) {
		t.Errorf("Err: %v, want ErrFailed and the cause", err)
	}
	if _, err := k.s.PutBlob(context.Background(), strings.NewReader("x")); !errors.Is(err, store.ErrFailed) {
		t.Errorf("PutBlob: %v, want ErrFailed", err)
	}
	if _, err := k.s.SetMeta(context.Background(), "x", []byte("x")); !errors.Is(err, store.ErrFailed) {
		t.Errorf("SetMeta: %v, want ErrFailed", err)
	}
	if err := k.check(k.s, false); err != nil {
		t.Errorf("reading after the failure: %v", err)
	}
	if h, err := k.s.Head(context.Background(), "a"); err != nil || h.Sequence != uint64(len(k.acked["a"])) {
		t.Errorf("Head: %v %v, want %d", h.Sequence, err, len(k.acked["a"]))
	}
}

// reopenAfterFailure opens what is on the medium, and what would be there after
// a power loss.
func reopenAfterFailure(t *testing.T, k *book, mem *vfs.MemFS) {
	t.Helper()
	for name, fs := range map[string]vfs.FS{"restart": mem, "power loss": mem.CrashClone(vfs.CrashCloneCfg{})} {
		s, err := pebble.Open("store", small(fs))
		if err != nil {
			t.Errorf("after %s: %v", name, err)
			continue
		}
		if err := k.check(s, true); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
		again := newBook(t, s)
		again.acked = map[string][][]byte{"fresh": nil}
		again.must(1, 100, "fresh")
		mustClose(t, s)
	}
}

// logFS makes files whose logs go wrong in ways that errorfs doesn't know.
type logFS struct {
	vfs.FS
	f *logFaults
}

// logFaults says what goes wrong. Pebble uses a log from several goroutines.
type logFaults struct{ short, close, stat atomic.Bool }

type logFile struct {
	vfs.File
	f *logFaults
}

func (fs logFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, c)
	if err != nil || !isLog(name) {
		return f, err
	}
	return logFile{f, fs.f}, nil
}

func (fs logFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(from, to, c)
	if err != nil {
		return f, err
	}
	return logFile{f, fs.f}, nil
}

func (f logFile) Write(p []byte) (int, error) {
	if !f.f.short.Load() {
		return f.File.Write(p)
	}
	n, err := f.File.Write(p[:len(p)/2])
	if err != nil {
		return n, err
	}
	return n, io.ErrShortWrite
}

func (f logFile) Close() error {
	if err := f.File.Close(); err != nil || !f.f.close.Load() {
		return err
	}
	return syscall.EIO
}

func (f logFile) Stat() (vfs.FileInfo, error) {
	if f.f.stat.Load() {
		return nil, syscall.EIO
	}
	return f.File.Stat()
}

// TestFailedRotation fails what happens between two logs.
func TestFailedRotation(t *testing.T) {
	for name, arm := range map[string]func(*logFaults){
		"close": func(f *logFaults) { f.close.Store(true) },
		"stat":  func(f *logFaults) { f.stat.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			mem, f := vfs.NewCrashableMem(), &logFaults{}
			s := mustOpen(t, "store", small(logFS{mem, f}))
			k := newBook(t, s)
			k.must(3, 600, "a", "b", "c")
			arm(f)
			failUntil(t, k, &faults{})
			checkFailed(t, k, syscall.EIO)
			mustClose(t, s)
			reopenAfterFailure(t, k, mem)
		})
	}
}

func TestTornWrite(t *testing.T) {
	mem, f := vfs.NewMem(), &logFaults{}
	s := mustOpen(t, "store", &pebble.Options{FS: logFS{mem, f}})
	k := newBook(t, s)
	k.must(5, 600, "a")
	f.short.Store(true)
	if err := k.appendRecords(5, 600, "a"); !errors.Is(err, store.ErrFailed) || !errors.Is(err, store.ErrUnknownOutcome) {
		t.Fatalf("Append: %v, want ErrFailed and ErrUnknownOutcome", err)
	}
	if err := k.check(s, false); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s = mustOpen(t, "store", &pebble.Options{FS: mem})
	defer mustClose(t, s)
	if err := k.check(s, false); err != nil {
		t.Fatal(err)
	}
	if r := recovery(t, s); len(r) != 1 || !strings.Contains(r[0], "can't be read") {
		t.Errorf("Recovery: %q, want one sentence on the torn record", r)
	}
}

// usageFS says how much space is free.
type usageFS struct {
	vfs.FS
	mu   sync.Mutex
	free uint64
}

func (fs *usageFS) set(n uint64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.free = n
}

func (fs *usageFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return vfs.DiskUsage{AvailBytes: fs.free, TotalBytes: 1 << 40}, nil
}

func TestFullDisk(t *testing.T) {
	fs := &usageFS{FS: vfs.NewMem(), free: 1 << 30}
	s := mustOpen(t, "store", &pebble.Options{FS: fs, ReserveBytes: 1 << 20})
	defer mustClose(t, s)
	k := newBook(t, s)
	k.must(3, 600, "a")
	fs.set(1<<20 - 1)
	var err error
	for err == nil { // enough space is remembered for a moment
		err = k.appendRecords(1, 600, "a")
	}
	if !errors.Is(err, store.ErrNoSpace) || errors.Is(err, store.ErrFailed) {
		t.Fatalf("Append: %v, want ErrNoSpace alone", err)
	}
	if _, err := s.PutBlob(context.Background(), strings.NewReader("x")); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("PutBlob: %v, want ErrNoSpace", err)
	}
	if s.Err() != nil {
		t.Errorf("Err: %v; a full disk is no failure", s.Err())
	}
	if err := k.check(s, false); err != nil {
		t.Error(err)
	}
	fs.set(1 << 20)
	k.must(1, 600, "a")
	if err := k.check(s, false); err != nil {
		t.Error(err)
	}
}

// TestFullDiskTables finds the medium full when tables are written: appends are
// refused before memory fills with what can't be written, reads go on, and both
// the tables and new records are written when there is space.
func TestFullDiskTables(t *testing.T) {
	f := &faults{}
	s := mustOpen(t, "store", small(errorfs.Wrap(vfs.NewMem(), f)))
	k := newBook(t, s)
	k.must(1, 600, "a")
	f.arm(syscall.ENOSPC, func(op errorfs.Op) bool { return isTable(op.Path) && op.Kind == errorfs.OpFileWrite })
	if err := appendUntil(k, store.ErrNoSpace); err != nil {
		t.Fatal(err)
	}
	if err := s.Err(); err != nil {
		t.Fatalf("Err: %v; a full disk is no failure", err)
	}
	if err := k.check(s, false); err != nil {
		t.Error(err)
	}
	f.disarm()
	if err := appendUntil(k, nil); err != nil {
		t.Fatal(err)
	}
	for before := s.Metrics().Flush.Count; s.Metrics().Flush.Count < before+3; {
		k.must(10, 600, "a")
	}
	if err := k.check(s, false); err != nil {
		t.Error(err)
	}
	mustClose(t, s)
}

// appendUntil appends until the outcome is the wanted one, and returns any other
// but success and a lack of space.
func appendUntil(k *book, want error) error {
	for {
		err := k.appendRecords(10, 600, "a")
		if errors.Is(err, want) {
			return nil
		}
		if err != nil && !errors.Is(err, store.ErrNoSpace) {
			return err
		}
	}
}

// TestFullDiskLog finds the medium full in the midst of a log: the reserve
// should have prevented it, so this is a failure that says so.
func TestFullDiskLog(t *testing.T) {
	mem, f := vfs.NewCrashableMem(), &faults{}
	s := mustOpen(t, "store", small(errorfs.Wrap(mem, f)))
	k := newBook(t, s)
	k.must(3, 600, "a", "b", "c")
	f.arm(syscall.ENOSPC, func(op errorfs.Op) bool { return isLog(op.Path) && op.Kind == errorfs.OpFileWrite })
	failUntil(t, k, f)
	checkFailed(t, k, syscall.ENOSPC)
	mustClose(t, s)
	f.disarm()
	reopenAfterFailure(t, k, mem)
}

// TestFailedOpen fails each write of opening a store in turn: Open returns an
// error, leaves nothing behind, and the store can be opened later.
func TestFailedOpen(t *testing.T) {
	medium := errors.New("the medium is gone")
	for n := 0; ; n++ {
		mem, f := vfs.NewMem(), &faults{}
		left := n
		f.arm(medium, func(op errorfs.Op) bool {
			left--
			return op.Kind.ReadOrWrite() == errorfs.OpIsWrite && left < 0
		})
		s, err := pebble.Open("store", small(errorfs.Wrap(mem, f)))
		if err == nil {
			if s.Err() == nil && f.count() == 0 {
				mustClose(t, s)
				t.Logf("%d operations", n)
				return
			}
			t.Fatalf("operation %d failed, Open returned no error", n)
		}
		f.disarm()
		s, err = pebble.Open("store", small(mem))
		if err != nil {
			t.Fatalf("after the failure of operation %d: %v", n, err)
		}
		k := newBook(t, s)
		k.must(1, 600, "a")
		mustClose(t, s)
	}
}

// listing returns the paths of all files below dir.
func listing(t *testing.T, fs vfs.FS, dir string) []string {
	t.Helper()
	var files []string
	for _, d := range []string{dir, fs.PathJoin(dir, "db")} {
		names, err := fs.List(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if n != "db" && !strings.EqualFold(n, "lock") {
				files = append(files, fs.PathJoin(d, n))
			}
		}
	}
	if len(files) == 0 {
		t.Fatal(fmt.Errorf("no files in %s", dir))
	}
	return files
}
