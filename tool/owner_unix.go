//go:build unix

package tool

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives f the owner and the group of the file that it replaces. Only
// root may; for others the new file is theirs, as with every editor.
func keepOwner(f *os.File, before fs.FileInfo) {
	if st, ok := before.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(st.Uid), int(st.Gid)) // see above
	}
}

// ignoreUnsupported drops the error of a file system that can't sync a folder.
func ignoreUnsupported(err error) error {
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}
