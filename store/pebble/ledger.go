package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// extent is a file's synced length and the checksum of that much of it.
type extent struct {
	size int64
	crc  uint32
}

// ledgerState is what the ledger proves.
type ledgerState struct {
	version   int
	creating  bool              // the store was never open, so it holds nothing
	clean     bool              // the last line is a clean close
	manifests map[string]extent // synced part of each manifest
	logs      map[uint64]extent // logs with acknowledged data; extents after a clean close
	notes     []string          // what couldn't be read, for people
}

// ledger is an append-only file of lines, each with a checksum of its own and
// synced before the call returns. It is rewritten at open. The lines:
//
//	store V            format of the store
//	creating           nothing was acknowledged yet
//	manifest NAME SIZE CRC
//	log N              log N holds acknowledged data
//	gone N             log N is about to be removed or reused
//	final N SIZE CRC   log N at a clean close
//	clean              the store was closed
type ledger struct {
	fs   vfs.FS
	path string
	dir  string

	mu   sync.Mutex
	file vfs.File
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func ledgerLine(text string) string {
	return fmt.Sprintf("%08x %s\n", crc32.Checksum([]byte(text), castagnoli()), text)
}

// readLedger reads a ledger. It is false if there is none.
func readLedger(fs vfs.FS, path string) (ledgerState, bool, error) {
	st := ledgerState{manifests: map[string]extent{}, logs: map[uint64]extent{}}
	data, err := readFile(fs, path)
	if errors.Is(err, os.ErrNotExist) {
		return st, false, nil
	}
	if err != nil {
		return st, false, fmt.Errorf("read the ledger: %w", err)
	}
	bad := 0
	for len(data) > 0 {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		st.clean = false
		if !st.apply(string(line)) {
			bad++
		}
		data = rest
	}
	if bad > 0 {
		st.clean = false
		st.notes = append(st.notes, fmt.Sprintf("%d lines of the ledger %s can't be read, so the other files could be checked only in part.", bad, path))
	}
	return st, true, nil
}

// apply applies a line's statement; false if the line is damaged.
func (st *ledgerState) apply(line string) bool {
	sum, text, ok := strings.Cut(line, " ")
	if !ok || sum+" "+text+"\n" != ledgerLine(text) {
		return false
	}
	verb, args, _ := strings.Cut(text, " ")
	var (
		name string
		n    uint64
		e    extent
		err  error
	)
	switch verb {
	case "store":
		_, err = fmt.Sscanf(args, "%d", &st.version)
	case "manifest":
		_, err = fmt.Sscanf(args, "%s %d %x", &name, &e.size, &e.crc)
		st.manifests[name] = e
	case "log":
		_, err = fmt.Sscanf(args, "%d", &n)
		st.logs[n] = extent{}
	case "gone":
		_, err = fmt.Sscanf(args, "%d", &n)
		delete(st.logs, n)
	case "final":
		_, err = fmt.Sscanf(args, "%d %d %x", &n, &e.size, &e.crc)
		st.logs[n] = e
	case "creating":
		st.creating = true
	case "clean":
		st.clean = true
	default:
		return false
	}
	return err == nil
}

// lines returns the state as a new ledger.
func (st *ledgerState) lines() []string {
	lines := []string{fmt.Sprintf("store %d", st.version)}
	if st.creating {
		lines = append(lines, "creating")
	}
	for name, e := range st.manifests {
		lines = append(lines, manifestLine(name, e))
	}
	for n := range st.logs {
		lines = append(lines, fmt.Sprintf("log %d", n))
	}
	return lines
}

func finalLine(n uint64, e extent) string {
	return fmt.Sprintf("final %d %d %08x", n, e.size, e.crc)
}

func manifestLine(name string, e extent) string {
	return fmt.Sprintf("manifest %s %d %08x", name, e.size, e.crc)
}

// newLedger replaces the ledger in dir by one with the given lines and opens it.
func newLedger(fs vfs.FS, dir string, lines []string) (*ledger, error) {
	l := &ledger{fs: fs, path: fs.PathJoin(dir, ledgerName), dir: dir}
	if err := l.rewrite(lines); err != nil {
		return nil, fmt.Errorf("write the ledger: %w", err)
	}
	return l, nil
}

// rewrite replaces the file's content in one step.
func (l *ledger) rewrite(lines []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	tmp := l.path + ".tmp"
	f, err := createFile(l.fs, tmp)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(ledgerLine(line))
	}
	if _, err = f.Write([]byte(b.String())); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = l.fs.Rename(tmp, l.path)
	}
	if err == nil {
		err = syncDir(l.fs, l.dir)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	old := l.file
	l.file = f
	if old != nil {
		return old.Close()
	}
	return nil
}

// add appends lines and syncs them.
func (l *ledger) add(lines ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return os.ErrClosed
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(ledgerLine(line))
	}
	if _, err := l.file.Write([]byte(b.String())); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	if err := l.file.SyncData(); err != nil {
		return fmt.Errorf("sync the ledger: %w", err)
	}
	return nil
}

func (l *ledger) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

func readFile(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

// checksum returns the checksum of a file's first size bytes, and false if the
// file is shorter.
func checksum(fs vfs.FS, path string, size int64) (uint32, bool, error) {
	f, err := fs.Open(path)
	if err != nil {
		return 0, false, err
	}
	h := crc32.New(castagnoli())
	n, err := io.Copy(h, io.LimitReader(f, size))
	return h.Sum32(), n == size, errors.Join(err, f.Close())
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
