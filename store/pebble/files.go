package pebble

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"agentd/store"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Names in the store's directory.
const (
	lockName   = "lock"
	ledgerName = "ledger"
	dataName   = "db"
)

func crc32Update(crc uint32, p []byte) uint32 { return crc32.Update(crc, castagnoli(), p) }

// createFile creates a file that only its owner can read.
func createFile(fs vfs.FS, name string) (vfs.File, error) {
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	if fd := f.Fd(); fd != vfs.InvalidFd {
		if err := makePrivate(fd); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// makeDir creates the store's directory with all parents.
func makeDir(fs vfs.FS, dir string) error {
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return syncDir(fs, fs.PathDir(dir))
}

// lockDir takes the directory for this process.
func lockDir(fs vfs.FS, dir string) (io.Closer, error) {
	path := fs.PathJoin(dir, lockName)
	d, err := fs.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	onDisk := d.Fd() != vfs.InvalidFd
	if err := d.Close(); err != nil {
		return nil, err
	}
	if onDisk {
		return lockFile(path, dir)
	}
	c, err := fs.Lock(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", store.ErrLocked, dir, err)
	}
	return c, nil
}
