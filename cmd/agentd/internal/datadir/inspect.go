package datadir

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// inspect returns a directory's inode and the names in it, and refuses what a mark
// says nothing of: that others own it or can write to it.
func inspect(dir string, root *os.Root) (inode uint64, names []string, err error) {
	self, err := root.Stat(".")
	if err != nil {
		return 0, nil, fmt.Errorf("data directory: %w", err)
	}
	if reason := unsafeReason(self, dir); reason != "" {
		return 0, nil, &Error{dir, reason, false}
	}
	d, err := root.Open(".")
	if err != nil {
		return 0, nil, fmt.Errorf("data directory: %w", err)
	}
	defer func() { _ = d.Close() }() // it was only read
	entries, err := d.ReadDir(-1)
	if err != nil && err != io.EOF { //nolint:errorlint // as ReadDir documents it
		return 0, nil, fmt.Errorf("data directory: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempMark) {
			continue // another process is about to mark the directory
		}
		if e.IsDir() && e.Name() == "lost+found" {
			continue // the file system's own, in the root of a volume; nothing is read from it
		}
		names = append(names, e.Name())
		info, err := e.Info()
		if err != nil {
			continue // it went away; what comes in its place is this user's own
		}
		if e.IsDir() || e.Type()&fs.ModeSocket != 0 {
			continue // reached through this directory only, by those who may enter it
		}
		if reason := unsafeReason(info, filepath.Join(dir, e.Name())); reason != "" {
			return 0, nil, &Error{filepath.Join(dir, e.Name()), reason, false}
		}
	}
	return inodeOf(self), names, nil
}

// unsafeReason says why a file or directory can't be trusted; empty if it can.
func unsafeReason(info fs.FileInfo, path string) string {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return "is a symbolic link, which agentd never creates there; remove it"
	case !info.Mode().IsRegular() && !info.IsDir(): // a pipe, to read which would wait for ever
		return "is neither a file nor a folder, and agentd never creates such things there; remove it"
	case !Mine(info):
		return fmt.Sprintf("belongs to another user; use a directory of your own with --data, or make it yours: chown %d %s", os.Geteuid(), path)
	case othersWrite(info):
		return "can be written to by other users; if none did: chmod go-w " + path
	}
	return ""
}
