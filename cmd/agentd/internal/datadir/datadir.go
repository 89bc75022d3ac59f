// Package datadir tells the data directories that this user's agentd made from
// those that came from elsewhere, such as with a repository.
//
// # Contract
//
// A data directory decides: it holds tokens, the address of a server, and policies.
// So a [Keeper] lets nothing in it be used before [Keeper.Check] has passed. The
// user has a secret key outside of every data directory, and each directory a mark:
// an HMAC with that key over a random id and the directory's inode. A directory that
// was copied, or made by someone else, has none that fits. What the mark can't
// show is checked beside it: the directory and the files in it belong to this user,
// no one else may write to them, and none is a symbolic link.
//
// [Keeper.Claim] makes and marks directories that are new or empty, [Keeper.Accept]
// marks one that the user wants to trust. Nothing else writes marks.
//
// # Concurrency
//
// A Keeper never changes; processes that make the key at the same time agree on one.
package datadir

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// MarkFile is the name of the mark in a data directory.
const MarkFile = "owner"

// tempMark begins the names of marks that are being written.
const tempMark = "." + MarkFile + "."

// markVersion begins each mark. Another form gets another word.
const markVersion = "agentd-owner-1"

// Error says why a directory is not used.
type Error struct {
	Dir string
	// Reason completes "DIR …".
	Reason string
	// Acceptable says that [Keeper.Accept] makes the directory usable.
	Acceptable bool
}

func (e *Error) Error() string { return e.Dir + " " + e.Reason }

// Keeper knows the user's key. Use [New].
type Keeper struct {
	// folder of the key; empty if the user has no home.
	folder string
}

// New returns the keeper of the user whose environment it is.
func New(getenv func(string) string) *Keeper {
	if state := getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return &Keeper{folder: filepath.Join(state, "agentd")}
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return &Keeper{folder: filepath.Join(home, ".local", "state", "agentd")}
	}
	return &Keeper{}
}

// Folder is where the key is kept, which tools must not see. It is empty if the user
// has no home.
func (k *Keeper) Folder() string { return k.folder }

// Check returns nil if a directory can be used: this user's agentd made it, or the
// user accepted it, or there is nothing in it. The error is an [*Error], or wraps
// [ErrNoKey] if all is well but the mark, which can't be checked.
func (k *Keeper) Check(dir string) error {
	_, err := k.check(dir)
	return err
}

// check also reports whether there is nothing in the directory.
func (k *Keeper) check(dir string) (empty bool, err error) {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() { // to open a pipe would wait for ever
		return false, fmt.Errorf("data directory: %s is not a folder", dir)
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("data directory: %w", err)
	}
	defer func() { _ = root.Close() }() // it was only read
	inode, names, err := inspect(dir, root)
	if err != nil || len(names) == 0 {
		return err == nil, err
	}
	key, err := k.key()
	if err != nil {
		return false, err
	}
	mark, err := readMark(root)
	if errors.Is(err, fs.ErrNotExist) {
		return false, &Error{dir, "was not made by your agentd, or by an earlier version that left no mark", true}
	}
	if err != nil {
		return false, fmt.Errorf("data directory: %w", err)
	}
	if !validMark(key, mark, inode) {
		return false, &Error{dir, "was made elsewhere or copied: its mark isn't yours", true}
	}
	return false, nil
}

// Claim makes a directory usable that is new or empty, and checks one that isn't.
// Where no key can be had, the directory is made all the same, and the error wraps
// [ErrNoKey].
func (k *Keeper) Claim(dir string) error {
	if empty, err := k.check(dir); err != nil || !empty {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return k.Accept(dir)
}

// Accept marks a directory as this user's, whatever is in it. Files of other users,
// or that others can write to, are refused also here.
func (k *Keeper) Accept(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	defer func() { _ = root.Close() }() // what was written is closed already
	inode, _, err := inspect(dir, root)
	if err != nil {
		return err
	}
	key, err := k.key()
	if err != nil {
		return err
	}
	return writeMark(root, newMark(key, inode))
}

// newMark returns a mark for the directory with an inode.
func newMark(key []byte, inode uint64) string {
	id := rand.Text()
	return markVersion + " " + id + " " + hex.EncodeToString(markSum(key, id, inode)) + "\n"
}

func validMark(key []byte, mark string, inode uint64) bool {
	parts := strings.Fields(mark)
	if len(parts) != 3 || parts[0] != markVersion {
		return false
	}
	sum, err := hex.DecodeString(parts[2])
	return err == nil && hmac.Equal(sum, markSum(key, parts[1], inode))
}

func markSum(key []byte, id string, inode uint64) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(markVersion + " " + id + " "))
	h.Write(binary.BigEndian.AppendUint64(nil, inode))
	return h.Sum(nil)
}

// maxMark is more than a mark has.
const maxMark = 256

func readMark(root *os.Root) (string, error) {
	f, err := root.Open(MarkFile)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxMark))
	return string(data), errors.Join(err, f.Close())
}

// writeMark puts a mark in place, whole or not at all.
func writeMark(root *os.Root, mark string) error {
	temp := tempMark + rand.Text()
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("mark of the data directory: %w", err)
	}
	_, err = f.WriteString(mark)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(temp, MarkFile)
	}
	if err != nil {
		return fmt.Errorf("mark of the data directory: %w", errors.Join(err, root.Remove(temp)))
	}
	return nil
}
