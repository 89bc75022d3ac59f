package loop

import (
	"slices"
	"syscall"
	"time"
)

// folderStamp changes with a folder's entries, and can't be set back: the last change of
// an inode is the kernel's alone to write.
type folderStamp struct {
	dev, ino          uint64
	modified, changed syscall.Timespec
}

// stampOf returns the stamp of the folder that a path leads to; false if there is none.
func stampOf(path string) (folderStamp, bool) {
	var st syscall.Stat_t
	if syscall.Stat(path, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		return folderStamp{}, false
	}
	return folderStamp{dev: uint64(st.Dev), ino: st.Ino, modified: st.Mtim, changed: st.Ctim}, true //nolint:unconvert // narrower on some architectures
}

// The file systems that keep the times of folders: ext2 to ext4, XFS, Btrfs, F2FS, tmpfs
// and overlayfs. Others may be served by programs or machines that don't.
var keepsTimes = []int64{0xef53, 0x58465342, 0x9123683e, 0xf2f52010, 0x01021994, 0x794c7630}

// tells reports whether the stamp of a folder is another one as soon as something comes
// into it: it was last changed before a time, and its file system keeps such times.
func (s folderStamp) tells(folder string, before time.Time) bool {
	if s.ino == 0 || !time.Unix(s.changed.Unix()).Before(before) || !time.Unix(s.modified.Unix()).Before(before) {
		return false
	}
	var fs syscall.Statfs_t
	return syscall.Statfs(folder, &fs) == nil && slices.Contains(keepsTimes, int64(fs.Type)) //nolint:unconvert // narrower on some architectures
}
