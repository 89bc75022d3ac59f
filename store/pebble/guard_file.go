package pebble

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guardedFile is an open file of the directory. Pebble writes each by one
// goroutine at a time.
type guardedFile struct {
	vfs.File
	g    *guard
	kind kind
	name string
	log  uint64

	flush  bool // a table made of a buffer
	size   int64
	crc    uint32
	listed bool // the ledger knows that this log holds data

	// reserved is how far space was reserved for a log, wanted how far Pebble asked for it.
	reserved, wanted int64
	// extended says that the file is as long as what is reserved for it, which is cut off
	// when it is closed; reused that it was a log before and may be longer than what is
	// written now.
	extended, reused bool
}

// firstReserve is how much space a log gets when it is begun.
const firstReserve = 256 << 10

// result turns the outcome of a write into the error that Pebble gets.
func (f *guardedFile) result(op string, err error) error {
	if err == nil {
		return nil
	}
	if f.kind == kindTable {
		return f.g.tableError(op, f.name, f.flush, err)
	}
	f.g.fail(op, f.name, err)
	return nil
}

// Write appends to the file.
func (f *guardedFile) Write(p []byte) (int, error) {
	if f.g.frozen() {
		if f.kind == kindTable {
			return 0, errFrozen
		}
		return len(p), nil
	}
	f.reserve(int64(len(p)))
	if f.kind != kindTable {
		f.size += int64(len(p))
		f.crc = crc32Update(f.crc, p)
	}
	n, err := f.File.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err = f.result("write", err); err != nil {
		return n, err
	}
	return len(p), nil
}

// Sync makes what was written durable.
func (f *guardedFile) Sync() error { return f.sync(f.File.Sync) }

// SyncData makes what was written durable.
func (f *guardedFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *guardedFile) sync(do func() error) error {
	if f.g.frozen() {
		return nil
	}
	if err := do(); err != nil {
		return f.result("sync", err)
	}
	switch f.kind {
	case kindManifest:
		f.g.manifestSynced(f.name, extent{f.size, f.crc})
	case kindLog:
		f.logSynced()
	case kindTable:
		f.g.tableFull(f.flush, false)
	case kindForeign, kindOther:
	}
	return nil
}

// SyncTo starts writing out a part of the file.
func (f *guardedFile) SyncTo(length int64) (bool, error) {
	if f.g.frozen() {
		return false, nil
	}
	full, err := f.File.SyncTo(length)
	return full && err == nil, f.result("sync", err)
}

// Preallocate reserves space for the file. For a log Pebble asks for all that a full
// buffer takes, 70 MB, which most stores never fill: it gets that in steps, each as large
// as what was reserved before, when it is about to be written.
//
// The file is made as long as the space behind it. To sync what makes a file longer takes
// a change of its inode, too, a quarter more time for one event; what lies behind the
// records of a log is zeros then, which readers take for its end.
func (f *guardedFile) Preallocate(offset, length int64) error {
	if f.g.frozen() {
		return nil
	}
	if f.kind != kindLog {
		return f.File.Preallocate(offset, length)
	}
	f.wanted = offset + length
	return nil
}

// reserve makes room in a log for the next bytes. It only saves the file system work, so
// a failure is left to the write.
func (f *guardedFile) reserve(next int64) {
	for f.reserved < f.wanted && f.size+next > f.reserved {
		step := min(max(f.reserved, firstReserve), f.wanted-f.reserved)
		if f.File.Preallocate(f.reserved, step) != nil {
			f.wanted = 0
			return
		}
		f.extended = extendFile(f.File, f.reserved, step) || f.extended
		f.reserved += step
	}
}

// Close closes the file. A log that was made longer than what is in it is cut: it may stay
// for long. If that fails, zeros stay.
func (f *guardedFile) Close() error {
	if f.extended && !f.reused && !f.g.frozen() {
		cutFile(f.File, f.size)
	}
	return f.result("close", f.File.Close())
}

// Stat describes the file. A new log's size is asked right after its creation,
// and a failure there would end the process.
func (f *guardedFile) Stat() (vfs.FileInfo, error) {
	fi, err := f.File.Stat()
	if err != nil && f.kind == kindLog {
		f.g.fail("stat", f.name, err)
		return deadFile{name: f.name}.Stat()
	}
	return fi, err
}

// logSynced tells the ledger that a log now holds acknowledged data.
func (f *guardedFile) logSynced() {
	if f.size == 0 {
		return
	}
	f.g.mu.Lock()
	f.g.logs[f.log] = extent{f.size, f.crc}
	f.g.mu.Unlock()
	if !f.listed {
		f.listed = f.g.recordLines(fmt.Sprintf("log %d", f.log))
	}
}

func (g *guard) manifestSynced(name string, e extent) {
	g.mu.Lock()
	changed := g.manifests[name] != e
	g.manifests[name] = e
	g.mu.Unlock()
	if changed {
		g.recordLines(manifestLine(name, e))
	}
}

// deadFile takes everything and keeps nothing. It stands for a file that
// couldn't be made after Pebble's point of no return.
type deadFile struct{ name string }

var _ vfs.File = deadFile{}

// Close does nothing.
func (deadFile) Close() error { return nil }

// Read finds nothing.
func (deadFile) Read([]byte) (int, error) { return 0, io.EOF }

// ReadAt finds nothing.
func (deadFile) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

// Write drops p.
func (deadFile) Write(p []byte) (int, error) { return len(p), nil }

// WriteAt drops p.
func (deadFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

// Preallocate does nothing.
func (deadFile) Preallocate(int64, int64) error { return nil }

// Sync does nothing.
func (deadFile) Sync() error { return nil }

// SyncTo does nothing.
func (deadFile) SyncTo(int64) (bool, error) { return false, nil }

// SyncData does nothing.
func (deadFile) SyncData() error { return nil }

// Prefetch does nothing.
func (deadFile) Prefetch(int64, int64) error { return nil }

// Fd returns no descriptor.
func (deadFile) Fd() uintptr { return vfs.InvalidFd }

// Stat describes an empty file.
func (f deadFile) Stat() (vfs.FileInfo, error) { return deadInfo{name: f.name}, nil }

type deadInfo struct {
	os.FileInfo
	name string
}

func (i deadInfo) Name() string         { return i.name }
func (deadInfo) Size() int64            { return 0 }
func (deadInfo) Mode() os.FileMode      { return 0o600 }
func (deadInfo) ModTime() time.Time     { return time.Time{} }
func (deadInfo) IsDir() bool            { return false }
func (deadInfo) Sys() any               { return nil }
func (deadInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
