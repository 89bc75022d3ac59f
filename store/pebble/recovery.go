package pebble

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"agentd/store"

	pdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// finding is something that the check before opening found.
type finding struct {
	text string
	// fatal: acknowledged data is missing or damaged, so the store isn't opened
	// unless the caller accepts the loss.
	fatal bool
}

// inspection is the state of a directory before it is opened.
type inspection struct {
	exists   bool
	ledger   ledgerState
	findings []finding
}

func (in *inspection) notef(fatal bool, format string, args ...any) {
	in.findings = append(in.findings, finding{text: fmt.Sprintf(format, args...), fatal: fatal})
}

// inspectLedger reads the ledger and checks the files against it. It changes nothing.
func inspectLedger(fs vfs.FS, dir string) (*inspection, error) {
	in := &inspection{}
	data := fs.PathJoin(dir, dataName)
	names, err := fs.List(data)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	st, found, err := readLedger(fs, fs.PathJoin(dir, ledgerName))
	if err != nil {
		return nil, err
	}
	in.ledger = st
	in.exists = !st.creating && (len(st.manifests) > 0 || len(st.logs) > 0 || len(names) > 0)
	if !in.exists {
		in.ledger = ledgerState{creating: true}
		return in, nil
	}
	if !found {
		in.notef(false, "The ledger of the store in %s is missing, so its files could be checked only in part.", dir)
	}
	for _, n := range st.notes {
		in.notef(false, "%s", n)
	}
	if err := in.checkManifest(fs, data); err != nil {
		return nil, err
	}
	return in, in.checkLogs(fs, data, names)
}

// checkManifest checks the manifest in use against its synced length. Pebble
// takes damage in it for its end, forgets the tables that were named behind, and
// deletes them.
func (in *inspection) checkManifest(fs vfs.FS, data string) error {
	desc, err := pdb.Peek(data, fs)
	if err != nil {
		return openError(err)
	}
	if !desc.Exists {
		if len(in.ledger.manifests) > 0 {
			in.notef(true, "The marker that names the manifest in %s is missing.", data)
		}
		return nil
	}
	name := fs.PathBase(desc.ManifestFilename)
	want, ok := in.ledger.manifests[name]
	if !ok {
		if len(in.ledger.manifests) > 0 {
			in.notef(false, "The manifest %s in use isn't in the ledger, so it could not be checked.", name)
		}
		return nil
	}
	return in.checkExtent(fs, desc.ManifestFilename, want)
}

// checkExtent checks a file's beginning against what is known of it.
func (in *inspection) checkExtent(fs vfs.FS, path string, want extent) error {
	crc, whole, err := checksum(fs, path, want.size)
	switch {
	case errors.Is(err, os.ErrNotExist):
		in.notef(true, "The file %s is missing.", path)
	case err != nil:
		return err
	case !whole:
		in.notef(true, "The file %s is shorter than the %d bytes that were written and synced.", path, want.size)
	case crc != want.crc:
		in.notef(true, "The file %s is damaged: its first %d bytes aren't those that were written and synced.", path, want.size)
	}
	return nil
}

// checkLogs checks the logs against the ledger: all bytes after a clean close,
// otherwise that they are there and what the last one ends with. The logs before
// the last were closed, and Pebble refuses them if they don't end as they should.
func (in *inspection) checkLogs(fs vfs.FS, data string, names []string) error {
	var last uint64
	for _, name := range names {
		if n, ok := logNumber(name); ok {
			last = max(last, n)
		}
	}
	for _, n := range sortedKeys(in.ledger.logs) {
		path := fs.PathJoin(data, logName(n))
		if in.ledger.clean {
			if err := in.checkExtent(fs, path, in.ledger.logs[n]); err != nil {
				return err
			}
		} else if !slices.Contains(names, logName(n)) {
			in.notef(true, "The log %s, which holds acknowledged data, is missing.", path)
		}
	}
	if in.ledger.clean || last == 0 {
		return nil
	}
	return in.checkTail(fs, fs.PathJoin(data, logName(last)), last)
}

func (in *inspection) checkTail(fs vfs.FS, path string, number uint64) error {
	content, err := readFile(fs, path)
	if err != nil {
		return err
	}
	t := scanLog(content, number)
	_, holdsData := in.ledger.logs[number]
	switch {
	case t.damaged():
		in.notef(t.proof, "After an unclean stop, in the log %s %s.", path, t)
	case t.end == 0 && !t.closed && holdsData:
		in.notef(true, "The log %s, which holds acknowledged data, has no readable record.", path)
	}
	return nil
}

// refusal returns why the store isn't opened, or nil.
func (in *inspection) refusal(salvage bool) error {
	for _, f := range in.findings {
		if f.fatal && !salvage {
			return fmt.Errorf("%w: %s A copy of it can be opened with Options.Salvage, to keep what is readable", store.ErrCorrupt, f.text)
		}
	}
	return nil
}

func (in *inspection) texts() []string {
	var texts []string
	for _, f := range in.findings {
		texts = append(texts, f.text)
	}
	return texts
}

// openError classifies why Pebble didn't open a directory that it wrote. It
// marks only some of what it finds as corruption; but what isn't trouble with
// the medium is content that doesn't fit together.
func openError(err error) error {
	var errno syscall.Errno
	switch {
	case err == nil:
		return nil
	case isNewerFormat(err):
		return fmt.Errorf("%w: %w; install the newer agentd", store.ErrNewer, err)
	case errors.As(err, &errno) && !errors.Is(err, os.ErrNotExist):
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrCorrupt, oneLine{err})
}

// isNewerFormat recognises Pebble's refusal of a format that it doesn't know;
// there is no error value for it.
func isNewerFormat(err error) bool {
	return err != nil && strings.Contains(err.Error(), "written in unknown format major version")
}

func logName(n uint64) string { return fmt.Sprintf("%06d.log", n) }

func sortedKeys(m map[uint64]extent) []uint64 {
	var keys []uint64
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
