package workspace

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// KeyFile is the name of the file that [LoadKey] keeps.
const KeyFile = "undo.key"

// LoadKey returns the key in dir's file undo.key. The first call makes it, of
// mode 0600, durably and in one step, so that callers at the same time get the
// same key. A file that others may read is refused. The folder should not be
// where the sealed contents are: who copies one must not get the other.
func LoadKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, KeyFile)
	key, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(dir, path); err == nil {
			key, err = readKey(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("workspace: key for undo: %w", err)
	}
	return key, nil
}

func readKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %04o, so others may read it; run chmod 600 on it, or delete it to give up the contents it sealed", path, info.Mode().Perm())
	}
	text := make([]byte, 2*KeySize+2)
	n, err := f.Read(text)
	if err != nil && n == 0 {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text[:n])))
	if err != nil || len(key) != KeySize {
		return nil, fmt.Errorf("%s doesn't contain %d bytes in hexadecimal", path, KeySize)
	}
	return key, nil
}

// makeKey writes a new key aside and links it to its name, which fails if
// another process was first; then that one's key is the key.
func makeKey(dir, path string) error {
	key := make([]byte, KeySize)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, KeyFile+".*.tmp") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(hex.EncodeToString(key) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncPath(dir)
}

// syncPath makes a folder's entries durable.
func syncPath(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // folders can't be flushed there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
