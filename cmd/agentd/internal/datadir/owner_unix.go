//go:build unix

package datadir

import (
	"io/fs"
	"os"
	"syscall"
)

// Mine reports whether a file belongs to the user that this process acts as.
func Mine(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// othersWrite reports whether other users can write to a file.
func othersWrite(info fs.FileInfo) bool { return info.Mode().Perm()&0o022 != 0 }

// OnlyMine reports whether a file belongs to this user and other users can't read it.
func OnlyMine(info fs.FileInfo) bool { return onlyMine(info) }

// onlyMine reports whether a file belongs to this user and other users can't read it.
func onlyMine(info fs.FileInfo) bool { return Mine(info) && info.Mode().Perm()&0o077 == 0 }

func inodeOf(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino) //nolint:unconvert // 32 bits on some systems
	}
	return 0
}
