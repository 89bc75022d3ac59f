//go:build unix

package place

import (
	"io/fs"
	"syscall"
)

// fileIdentity returns the device and the inode of a file.
func fileIdentity(info fs.FileInfo) (dev, ino uint64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev), uint64(st.Ino) //nolint:unconvert // narrower on some systems
	}
	return 0, 0
}
