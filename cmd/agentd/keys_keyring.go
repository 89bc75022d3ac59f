package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/keyring"
	"agentd/model"
)

// keyringWithin is how long the keyring may take to answer when no one is asked.
var keyringWithin = 5 * time.Second

// personWithin is how long its user may take to unlock it.
const personWithin = 2 * time.Minute

// askedKeyring has what the keyring answered, so that a process asks it once for each
// key, and not at all once it can't be reached.
type askedKeyring struct {
	mu    sync.Mutex
	found map[keyring.Item]string
	wrong map[keyring.Item]error
	down  error
}

// keyringKey returns a key of the keyring.
func (a *app) keyringKey(item keyring.Item) (string, error) {
	k := &a.keyring
	k.mu.Lock()
	defer k.mu.Unlock()
	if key, ok := k.found[item]; ok {
		return key, nil
	}
	if err := errors.Join(k.down, k.wrong[item]); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), keyringWithin)
	defer cancel()
	text, err := keyring.System(a.getenv).Read(ctx, item)
	if err == nil {
		var key string
		if key, err = cleanKey(text); err == nil {
			setIn(&k.found, item, key)
			return key, nil
		}
		err = fmt.Errorf("%w: what is there is no key: expected one line of visible characters", keyring.ErrNotFound)
	}
	if errors.Is(err, keyring.ErrAbsent) || errors.Is(err, keyring.ErrSlow) {
		k.down = err
	} else {
		setIn(&k.wrong, item, err)
	}
	return "", err
}

func setIn[V any](m *map[keyring.Item]V, item keyring.Item, value V) {
	if *m == nil {
		*m = map[keyring.Item]V{}
	}
	(*m)[item] = value
}

// keyringProblem says why the key of a provider can't be had from the keyring, and what
// to do.
func keyringProblem(p config.Provider, err error) string {
	item := itemOf(p)
	other := fmt.Sprintf("\"agentd login --store file %s\" keeps it in a file", p.ID)
	if p.APIKeyKeyring != "" {
		other = "apiKeyEnv and apiKeyFile name other places"
	}
	switch {
	case errors.Is(err, keyring.ErrLocked):
		return fmt.Sprintf("the key of %s is in the system's keyring, which is locked; unlock it, for example with \"agentd login --unlock\", and try again", p.ID)
	case errors.Is(err, keyring.ErrNotFound):
		return fmt.Sprintf("the key of %s is expected in the system's keyring as %s, where none is; store it with \"agentd login --store keyring %s\"", p.ID, item, p.ID)
	case errors.Is(err, keyring.ErrSlow):
		return fmt.Sprintf("the key of %s is in the system's keyring, which didn't answer in %s; %s", p.ID, keyringWithin, other)
	case errors.Is(err, keyring.ErrAbsent):
		return fmt.Sprintf("the key of %s is in the system's keyring, which can't be reached from here (%v); %s", p.ID, err, other)
	}
	return fmt.Sprintf("the key of %s can't be read from the system's keyring: %v; %s", p.ID, err, other)
}

// withKeyringHint says of models whose key is in the keyring that they need it, and why
// it isn't there.
func (a *app) withKeyringHint(p config.Provider, models []model.Info) []model.Info {
	if a.keyPlace(p).item == nil {
		return models
	}
	_, err := a.findKey(p)
	for i := range models {
		models[i].NeedsCredential = true
		if err != nil {
			models[i].CredentialHint = keyringProblem(p, err)
		}
	}
	return models
}

// keyringNote returns what was noted when "agentd login" put the key of a provider into
// the keyring.
func (a *app) keyringNote(provider string) (revision string, noted bool) {
	text, err := os.ReadFile(a.keyFile(storeKeyring, provider))
	return strings.TrimSpace(string(text)), err == nil
}

// storeInKeyring puts a key into the keyring, notes that it is there, and removes one in
// a file.
func (a *app) storeInKeyring(ctx context.Context, p config.Provider, key string) error {
	note := a.keyFile(storeKeyring, p.ID)
	if note == "" {
		return errNoHome
	}
	ctx, cancel := context.WithTimeout(ctx, personWithin)
	defer cancel()
	if err := keyring.System(a.getenv).Store(ctx, itemOf(p), key); err != nil {
		return fmt.Errorf("the key was not stored: %w; \"--store file\" keeps it in a file", keyringReason(err))
	}
	if err := writePrivate(note, rand.Text()+"\n"); err != nil {
		return fmt.Errorf("note where the key is: %w", err)
	}
	if err := os.Remove(a.storedKeyFile(p.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the key that was stored before: %w", err)
	}
	return nil
}

// keyringReason names a keyring that was asked directly.
func keyringReason(err error) error {
	switch {
	case errors.Is(err, keyring.ErrSlow):
		return errors.New("the system's keyring, or its user, didn't answer in time")
	case errors.Is(err, keyring.ErrLocked):
		return fmt.Errorf("the system's keyring is locked and can't ask to be unlocked: %w", err)
	}
	return fmt.Errorf("the system's keyring: %w", err)
}

// removeFromKeyring removes the key that "agentd login" put into the keyring; false if it
// put none there.
func (a *app) removeFromKeyring(ctx context.Context, p config.Provider) (removed bool, err error) {
	if _, noted := a.keyringNote(p.ID); !noted {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, keyringWithin)
	defer cancel()
	if removed, err = keyring.System(a.getenv).Remove(ctx, itemOf(p)); err != nil {
		return false, fmt.Errorf("the key of %s is still there: %w", p.ID, keyringReason(err))
	}
	return removed, os.Remove(a.keyFile(storeKeyring, p.ID))
}

// unlockKeyring has the system ask its user to unlock the keyring.
func (a *app) unlockKeyring(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, personWithin)
	defer cancel()
	if err := keyring.System(a.getenv).Unlock(ctx); err != nil {
		return keyringReason(err)
	}
	return nil
}

// writePrivate writes a file that only its owner can read, whole or not at all.
func writePrivate(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".key.*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
