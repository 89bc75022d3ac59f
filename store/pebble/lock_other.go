//go:build !unix

package pebble

import (
	"fmt"
	"io"

	"agentd/store"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockFile takes the directory for this process.
func lockFile(path, dir string) (io.Closer, error) {
	c, err := vfs.Default.Lock(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", store.ErrLocked, dir, err)
	}
	return c, nil
}

// makePrivate is left to the directory's permissions.
func makePrivate(uintptr) error { return nil }
