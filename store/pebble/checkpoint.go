package pebble

import (
	"errors"
	"fmt"
	"os"

	"agentd/store"

	pdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Checkpoint makes a copy of the durable state in dir, which must not exist, and
// which [Open] can open. Tables are linked if dir is on the same file system,
// logs are copied. Appends wait while it runs, reads go on.
func (s *Store) Checkpoint(dir string) error {
	leave, ok := s.calls.join()
	if !ok {
		return store.ErrClosed
	}
	defer leave()
	s.commit.Lock()
	defer s.commit.Unlock()
	if err := s.Err(); err != nil {
		return err
	}
	if err := s.checkpoint(dir); err != nil {
		return fmt.Errorf("pebble: checkpoint in %s: %w", dir, err)
	}
	return nil
}

func (s *Store) checkpoint(dir string) error {
	if _, err := s.fs.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return errors.Join(err, os.ErrExist)
	}
	if err := makeDir(s.fs, dir); err != nil {
		return err
	}
	data := s.fs.PathJoin(dir, dataName)
	err := s.db.Checkpoint(data, pdb.WithFlushedWAL())
	if err == nil {
		// Pebble believes every sync of its own log; the guard knows.
		err = s.guard.err()
	}
	var lines []string
	if err == nil {
		lines, err = copyLines(s.fs, data, s.schema.version)
	}
	if err == nil {
		var l *ledger
		if l, err = newLedger(s.fs, dir, lines); err == nil {
			err = l.close()
		}
	}
	if err != nil {
		return errors.Join(err, s.fs.RemoveAll(dir))
	}
	return nil
}

// copyLines returns the ledger of a copy as if it had been closed.
func copyLines(fs vfs.FS, data string, version int) ([]string, error) {
	desc, err := pdb.Peek(data, fs)
	if err != nil {
		return nil, err
	}
	st := ledgerState{version: version, manifests: map[string]extent{}}
	e, err := fileExtent(fs, desc.ManifestFilename)
	if err != nil {
		return nil, err
	}
	st.manifests[fs.PathBase(desc.ManifestFilename)] = e
	lines := st.lines()
	names, err := fs.List(data)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		n, ok := logNumber(name)
		if !ok {
			continue
		}
		if e, err = fileExtent(fs, fs.PathJoin(data, name)); err != nil {
			return nil, err
		}
		lines = append(lines, finalLine(n, e))
	}
	return append(lines, "clean"), nil
}

func fileExtent(fs vfs.FS, path string) (extent, error) {
	fi, err := fs.Stat(path)
	if err != nil {
		return extent{}, err
	}
	crc, _, err := checksum(fs, path, fi.Size())
	return extent{fi.Size(), crc}, err
}
