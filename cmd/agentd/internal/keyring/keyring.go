// Package keyring keeps secrets in the keyring of the user's system: the Secret Service
// of a Linux or BSD desktop (GNOME Keyring, KWallet, KeePassXC), the keychain of macOS,
// the Credential Manager of Windows.
//
// # Contract
//
// A secret is named by an [Item]. [Keyring.Read] never opens a window and never waits
// for a person: a keyring that is locked is [ErrLocked]. [Keyring.Store] and
// [Keyring.Unlock] may have the system ask its user, and wait until ctx ends. Every
// call ends with its context, whatever the keyring does, and no secret is in an error.
//
// What listens as the keyring must be a process of this user; another one's is refused.
//
// # Concurrency
//
// A Keyring may be used by many goroutines. It keeps nothing open between two calls.
package keyring

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Service is the service of items whose reference names none.
const Service = "agentd"

// Reasons why a keyring doesn't do what it is asked for.
var (
	// ErrAbsent says that there is no keyring, or none that can be reached.
	ErrAbsent = errors.New("there is no keyring")
	// ErrLocked says that the keyring must be unlocked first.
	ErrLocked = errors.New("the keyring is locked")
	// ErrNotFound says that the keyring has no such item.
	ErrNotFound = errors.New("the keyring has no such item")
	// ErrRefused says that the keyring, or its user, said no.
	ErrRefused = errors.New("the keyring refused")
	// ErrSlow says that the keyring didn't answer in time.
	ErrSlow = errors.New("the keyring doesn't answer")
)

// Item names a secret.
type Item struct{ Service, Account string }

// ParseItem reads a reference: ACCOUNT or SERVICE/ACCOUNT.
func ParseItem(text string) (Item, error) {
	service, account, both := strings.Cut(text, "/")
	if !both {
		service, account = Service, text
	}
	if service == "" || account == "" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return Item{}, fmt.Errorf("%q is not the name of an item of a keyring; expected ACCOUNT or SERVICE/ACCOUNT", text)
	}
	return Item{service, account}, nil
}

// String is the reference of an item.
func (i Item) String() string { return i.Service + "/" + i.Account }

// label is what programs that show a keyring call an item.
func (i Item) label() string {
	if i.Service == Service {
		return "agentd: key of " + i.Account
	}
	return i.String()
}

// native is the keyring of one system.
type native interface {
	// reach fails if there is no keyring that could be asked.
	reach(ctx context.Context) error
	read(ctx context.Context, item Item) (string, error)
	store(ctx context.Context, item Item, secret string) error
	// remove reports whether there was such an item.
	remove(ctx context.Context, item Item) (bool, error)
	unlock(ctx context.Context) error
}

// Keyring is the keyring of the user's system.
type Keyring struct{ native native }

// System returns the keyring of this system, as the environment says where it is. That
// there is one says [Keyring.Reach].
func System(getenv func(string) string) *Keyring { return &Keyring{systemKeyring(getenv)} }

// Reach fails, with [ErrAbsent] or [ErrSlow], if the keyring can't be asked.
func (k *Keyring) Reach(ctx context.Context) error {
	return inTime(ctx, k.native.reach(ctx))
}

// Read returns a secret.
func (k *Keyring) Read(ctx context.Context, item Item) (string, error) {
	secret, err := k.native.read(ctx, item)
	return secret, inTime(ctx, err)
}

// Store keeps a secret, in place of one that the item has.
func (k *Keyring) Store(ctx context.Context, item Item, secret string) error {
	return inTime(ctx, k.native.store(ctx, item, secret))
}

// Remove removes a secret, and reports whether there was one.
func (k *Keyring) Remove(ctx context.Context, item Item) (bool, error) {
	removed, err := k.native.remove(ctx, item)
	return removed, inTime(ctx, err)
}

// Unlock has the system ask its user to unlock the keyring that new secrets go into. It
// does nothing if that is unlocked.
func (k *Keyring) Unlock(ctx context.Context) error {
	return inTime(ctx, k.native.unlock(ctx))
}

// inTime says of a call that failed because its time was over that the keyring was slow.
func inTime(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ErrSlow
	}
	return err
}
