//go:build !linux

package workspace

import (
	"io/fs"
	"os"

	"agentd/internal/place"
)

// dirHandle is an open folder. Names are looked up in it without following
// symbolic links.
type dirHandle struct {
	root *os.Root
	f    *os.File
}

// openDir opens a folder that is still at its path.
func openDir(at place.Place) (*dirHandle, error) {
	root, err := at.OpenRoot()
	if err != nil {
		return nil, err
	}
	return listing(root)
}

func listing(root *os.Root) (*dirHandle, error) {
	f, err := root.Open(".")
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return &dirHandle{root: root, f: f}, nil
}

func (d *dirHandle) sub(name string) (*dirHandle, error) {
	sub, err := openSub(d.root, name)
	if err != nil {
		return nil, err
	}
	return listing(sub)
}

func (d *dirHandle) close() {
	_ = d.f.Close() // it was only read
	_ = d.root.Close()
}

// names returns the next names, at most n; none and io.EOF at the end.
func (d *dirHandle) names(n int) ([]string, error) { return d.f.Readdirnames(n) }

func (d *dirHandle) stat(name string) (fileStat, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return fileStat{}, err
	}
	return statInfo(info), nil
}

func (d *dirHandle) readlink(name string) (string, error) { return d.root.Readlink(name) }

// open opens the file at a path below the folder. No component of the path may
// be a symbolic link.
func (d *dirHandle) open(path string) (*os.File, error) { return openFile(d.root, path) }

// statFile returns the identity of an open file.
func statFile(f *os.File) (fileStat, error) {
	info, err := f.Stat()
	if err != nil {
		return fileStat{}, err
	}
	return statInfo(info), nil
}

// statInfo returns what is known of a file from its FileInfo. Without the inode
// and the time of the last change of any kind, a file that was changed and given
// its old time and size again looks unchanged.
func statInfo(info fs.FileInfo) fileStat { return portableStat(info) }
