package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// tokenFileVersion is the form of the file that this release reads and writes.
const tokenFileVersion = 1

// tokenFile is the file's content.
type tokenFile struct {
	Version int           `json:"version"`
	Tokens  []storedToken `json:"tokens"`
}

// sortedTokens returns tokens in the order of their ids, which is that of their making.
func sortedTokens(all map[string]storedToken) []storedToken {
	return slices.SortedFunc(maps.Values(all), func(a, b storedToken) int { return cmp.Compare(a.ID, b.ID) })
}

// refresh reads the file again if it was replaced since. The caller holds the lock.
func (t *Tokens) refresh() error {
	info, err := os.Stat(t.path) //nolint:gosec // a path of the operator's
	if errors.Is(err, fs.ErrNotExist) {
		t.info, t.byID = nil, map[string]storedToken{}
		return nil
	}
	if err != nil {
		return fmt.Errorf("server: tokens: %w", err)
	}
	if t.info != nil && os.SameFile(t.info, info) && t.info.ModTime().Equal(info.ModTime()) && t.info.Size() == info.Size() {
		return nil
	}
	all, err := readTokens(t.path)
	if err != nil {
		return err
	}
	t.info, t.byID = info, all
	return nil
}

func readTokens(path string) (map[string]storedToken, error) {
	data, err := os.ReadFile(path) //nolint:gosec // a path of the operator's
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]storedToken{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("server: tokens: %w", err)
	}
	var f tokenFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("server: tokens: %s: %w", path, err)
	}
	if f.Version != tokenFileVersion {
		return nil, fmt.Errorf("server: tokens: %s has version %d, this release reads %d", path, f.Version, tokenFileVersion)
	}
	all := make(map[string]storedToken, len(f.Tokens))
	for _, kept := range f.Tokens {
		all[kept.ID] = kept
	}
	return all, nil
}

// update changes the file under a lock that other processes respect too, and
// notes the last uses on the way. The caller holds t.mu.
func (t *Tokens) update(change func(map[string]storedToken) error) (err error) {
	unlock, err := lockFile(t.path + ".lock")
	if err != nil {
		return fmt.Errorf("server: tokens: %w", err)
	}
	defer unlock()
	all, err := readTokens(t.path)
	if err != nil {
		return err
	}
	if err := change(all); err != nil {
		return err
	}
	for id, last := range t.used {
		if kept, ok := all[id]; ok && last.After(kept.LastUsedAt) {
			kept.LastUsedAt = last.UTC()
			all[id] = kept
		}
	}
	data, err := json.MarshalIndent(tokenFile{Version: tokenFileVersion, Tokens: sortedTokens(all)}, "", "  ")
	if err != nil {
		return fmt.Errorf("server: tokens: %w", err)
	}
	if err := replaceFile(t.path, append(data, '\n')); err != nil {
		return fmt.Errorf("server: tokens: %w", err)
	}
	clear(t.used)
	return t.refresh()
}

// replaceFile puts a file with mode 0600 in place of another, whole or not at all.
func replaceFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name())) //nolint:gosec // a name that CreateTemp made
		}
	}()
	// CreateTemp makes files with mode 0600.
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path) //nolint:gosec // the same
}
