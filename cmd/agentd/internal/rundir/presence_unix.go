//go:build unix

package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Presence says to other processes that this one uses a server, also while it has no
// connection to it. The zero value and nil say nothing.
type Presence struct{ file *os.File }

// Attend makes this process present in a folder, which is made if it isn't there.
func Attend(dir string) (*Presence, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("clients of the server: %w", err)
	}
	for {
		f, err := os.CreateTemp(dir, strconv.Itoa(os.Getpid())+"-*")
		if err != nil {
			return nil, fmt.Errorf("clients of the server: %w", err)
		}
		err = lockNow(f)
		if err == nil && kept(f) {
			return &Presence{file: f}, nil
		}
		if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("clients of the server: %w", err), f.Close(), os.Remove(f.Name()))
		}
		// Until it was locked it could be taken for one that was left behind.
		_ = f.Close()
	}
}

// kept reports whether a locked file is still the one that its name leads to.
func kept(f *os.File) bool {
	ours, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(ours, named)
}

func lockNow(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Leave ends the presence, as the end of the process does.
func (p *Presence) Leave() {
	if p == nil || p.file == nil {
		return
	}
	_ = os.Remove(p.file.Name()) // one that stays is taken away by the next that counts
	_ = p.file.Close()
	p.file = nil
}

// Others counts the processes that are present in a folder, but for the one of p, which
// may be nil, and takes away what processes left behind that were killed. Its callers
// hold a [Lock]: two that count at the same time could take each other for clients.
func (p *Presence) Others(dir string) (int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("clients of the server: %w", err)
	}
	n := 0
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if p != nil && p.file != nil && p.file.Name() == path {
			continue
		}
		there, err := present(path)
		if err != nil {
			return 0, fmt.Errorf("clients of the server: %w", err)
		}
		if there {
			n++
		}
	}
	return n, nil
}

// present reports whether a process holds a file, and removes one that none holds.
func present(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil // it has left
		}
		return false, err
	}
	defer func() { _ = f.Close() }() // which gives the lock back
	switch err := lockNow(f); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return true, nil
	case err != nil:
		return false, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return false, nil
}
