package tool

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
)

// errChanged says that a file isn't any more what it was when it was looked at.
var errChanged = errors.New("changed in the meantime")

// newFileMode is what a new file gets, less the umask; newDirMode likewise.
const (
	newFileMode = 0o666
	newDirMode  = 0o777
)

// replaceFile writes data to a temporary file beside the target and renames it over
// the target, so that a reader sees the old content or the new one, and a crash
// leaves one of the two. It returns the file's permission bits.
//
// The bits are kept, and the owner where the system lets us; set-user-ID and
// set-group-ID are not, as the kernel drops them when a file is written to.
func (t *tree) replaceFile(to *target, data []byte) (fs.FileMode, error) {
	d, err := t.makeDir(path.Dir(to.rel))
	if err != nil {
		return 0, err
	}
	defer d.Close()
	name := path.Base(to.rel)
	temp, err := tempName()
	if err != nil {
		return 0, err
	}
	mode, err := fillTemp(d, temp, data, to.info)
	if err == nil {
		err = unchanged(d, name, to.info)
	}
	if err == nil {
		err = d.Rename(temp, name)
	}
	if err != nil {
		_ = d.Remove(temp) // the first error is the one to tell
		return 0, err
	}
	return mode, syncDir(d)
}

func tempName() (string, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return ".agentd-" + hex.EncodeToString(b[:]) + ".tmp", nil
}

// makeDir opens the folder at rel and makes what is missing of it, without
// following a link.
func (t *tree) makeDir(rel string) (*os.Root, error) {
	d, err := t.dir(".")
	if err != nil {
		return nil, err
	}
	for _, name := range pathParts(rel) {
		next, err := t.enterFolder(d, name)
		if errors.Is(err, fs.ErrNotExist) {
			if err = d.Mkdir(name, newDirMode); err == nil || errors.Is(err, fs.ErrExist) {
				next, err = t.enterFolder(d, name)
			}
		}
		_ = d.Close()
		if err != nil {
			return nil, err
		}
		d = next
	}
	return d, nil
}

// fillTemp makes the temporary file, on the disk with its content and its mode.
func fillTemp(d *os.Root, temp string, data []byte, before fs.FileInfo) (mode fs.FileMode, err error) {
	perm := fs.FileMode(newFileMode)
	if before != nil {
		perm = 0o600 // no other user reads it before it has the mode of the old file
	}
	f, err := d.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return 0, err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	if _, err := f.Write(data); err != nil {
		return 0, err
	}
	if before != nil {
		keepOwner(f, before)
		if err := f.Chmod(before.Mode().Perm()); err != nil {
			return 0, err
		}
	}
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Mode().Perm(), f.Sync()
}

// unchanged compares what stands at name with what stood there.
func unchanged(d *os.Root, name string, before fs.FileInfo) error {
	now, err := d.Lstat(name)
	switch {
	case before == nil && errors.Is(err, fs.ErrNotExist):
		return nil
	case before == nil && err == nil && now.IsDir():
		return errIsDir
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err != nil, before == nil, !os.SameFile(before, now), before.Size() != now.Size(), !before.ModTime().Equal(now.ModTime()):
		return errChanged
	}
	return nil
}

// syncDir makes a rename last.
func syncDir(d *os.Root) error {
	f, err := d.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return ignoreUnsupported(f.Sync())
}
