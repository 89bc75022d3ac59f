package datadir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNoKey says that marks can't be made or checked, because the user's key can't be
// read or made.
var ErrNoKey = errors.New("there is no key to tell your data directories from others")

const (
	keyFile = "owner.key"
	keySize = 32
)

// key returns the user's key, and makes it the first time.
func (k *Keeper) key() ([]byte, error) {
	if k.folder == "" {
		return nil, fmt.Errorf("%w: neither HOME nor XDG_STATE_HOME is set", ErrNoKey)
	}
	path := filepath.Join(k.folder, keyFile)
	key, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(path); err == nil {
			key, err = readKey(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoKey, err)
	}
	return key, nil
}

// readKey refuses a key that others could have chosen or read.
func readKey(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || !onlyMine(info) || info.Size() != keySize {
		return nil, fmt.Errorf("%s must be a file of %d bytes that belongs to you and that only you can read (chmod 600)", path, keySize)
	}
	return os.ReadFile(path)
}

// makeKey puts a new key in place, unless another process was quicker: a link, other
// than a rename, never replaces.
func makeKey(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".owner.*") // with mode 0600
	if err != nil {
		return err
	}
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // it never fails
	_, err = f.Write(key)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Link(f.Name(), path)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, os.Remove(f.Name()))
}
