// Package sharedkey keeps the key that the nodes of a database seal contents with, such as
// earlier contents of files, in that database.
//
// # Contract
//
// The key itself is never stored in the clear: each entry is a copy that is sealed with a key
// which follows (HKDF-SHA256) from a secret that nodes share, the admin token. Who reads the
// database without the secret learns nothing, provided that the secret can't be guessed: one
// that is shorter than [MinSecret] is refused.
//
// Nodes that start together with one secret get one key: the first entry under the name of a
// secret is written only if there is none. A key is never replaced or removed. With a new
// secret and the earlier one [Open] stores the same key again, sealed with the new one, so that
// nothing changes for what was sealed before; nodes that still have the earlier secret go on
// with its copy.
//
// A [Ring] may be used by many goroutines.
package sharedkey

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"agentd/store"
)

const (
	// kind is that of the entries. The key of one is the name of a secret, and for copies of
	// further keys "/" and the name of the key.
	kind   = "shared.key"
	writer = "shared.keys"
	size   = 32
)

// MinSecret is the fewest bytes of a secret: a shorter one could be guessed by who has a copy
// of the database.
const MinSecret = 20

// ErrWeakSecret says that the secret is too short to protect a key that is in the database.
var ErrWeakSecret = fmt.Errorf("a secret of less than %d characters can't protect the key that nodes share", MinSecret)

// Options of a [Ring].
type Options struct {
	// Store is where the sealed copies are. It must be set.
	Store store.Store
	// Secret is what all nodes have. It must be set.
	Secret string
	// Earlier is the secret before, while it is replaced; empty otherwise.
	Earlier string
	// Local are keys of this node alone, which open what they sealed.
	Local [][]byte
}

// Ring has the key that nodes share, and those that open what was sealed before.
type Ring struct {
	opt  Options
	name string
	seal cipher.AEAD
	// key seals what is sealed from now on.
	key []byte
	// foreign counts the keys of which the store has copies, but none for this secret.
	foreign int

	mu   sync.Mutex
	keys [][]byte
}

// copied is the value of an entry.
type copied struct {
	// KeyID is the name of the key, which tells whether two copies are of the same one.
	KeyID  string `json:"keyId"`
	Sealed []byte `json:"sealed"`
}

// Open returns the ring of the keys that a store has for a secret, and makes the first one.
func Open(ctx context.Context, opt Options) (*Ring, error) {
	if len(opt.Secret) < MinSecret {
		return nil, ErrWeakSecret
	}
	name, aead, err := ofSecret(opt.Secret)
	if err != nil {
		return nil, err
	}
	r := &Ring{opt: opt, name: name, seal: aead}
	if err := r.takeOver(ctx); err != nil {
		return nil, fmt.Errorf("key that nodes share: %w", err)
	}
	if err := r.load(ctx); err != nil {
		return nil, fmt.Errorf("key that nodes share: %w", err)
	}
	return r, nil
}

// ofSecret derives from a secret the name of its copies and what seals them.
func ofSecret(secret string) (name string, aead cipher.AEAD, err error) {
	id, err := hkdf.Key(sha256.New, []byte(secret), nil, "agentd shared key v1 name", 16)
	if err != nil {
		return "", nil, err
	}
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, "agentd shared key v1 seal", size)
	if err != nil {
		return "", nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return "", nil, err
	}
	aead, err = cipher.NewGCM(block)
	return hex.EncodeToString(id), aead, err
}

// idOf is the name of a key. It tells nothing about the key.
func idOf(key []byte) string {
	id, _ := hkdf.Key(sha256.New, key, nil, "agentd shared key v1 id", 16) // the length is allowed
	return hex.EncodeToString(id)
}

// takeOver sees to it that the store has the key of this secret: the earlier secret's, sealed
// again, or else a new one. Of nodes that do so together the first one decides.
func (r *Ring) takeOver(ctx context.Context) error {
	var earlier [][]byte
	if r.opt.Earlier != "" && r.opt.Earlier != r.opt.Secret {
		name, aead, err := ofSecret(r.opt.Earlier)
		if err != nil {
			return err
		}
		if earlier, err = readCopies(ctx, r.opt.Store, name, aead); err != nil {
			return err
		}
	}
	_, err := r.opt.Store.Get(ctx, kind, r.name)
	if errors.Is(err, store.ErrNotFound) {
		first := make([]byte, size)
		_, _ = rand.Read(first) // it never fails
		if len(earlier) > 0 {
			first = earlier[0]
		}
		err = store.WriteEntries(ctx, r.opt.Store, writer, []store.IndexOp{{Entry: r.copyOf(r.name, first), IfAbsent: true}})
		if errors.Is(err, store.ErrExists) {
			err = nil // another node was first
		}
	}
	if err != nil || len(earlier) == 0 {
		return err
	}
	have, err := readCopies(ctx, r.opt.Store, r.name, r.seal)
	if err != nil {
		return err
	}
	var ops []store.IndexOp
	for _, key := range earlier {
		if !contains(have, key) {
			ops = append(ops, store.IndexOp{Entry: r.copyOf(r.name+"/"+idOf(key), key)})
		}
	}
	if len(ops) == 0 {
		return nil
	}
	return store.WriteEntries(ctx, r.opt.Store, writer, ops)
}

// copyOf is the entry of a key, sealed for the place that it gets.
func (r *Ring) copyOf(at string, key []byte) store.Entry {
	nonce := make([]byte, r.seal.NonceSize())
	_, _ = rand.Read(nonce) // it never fails
	sealed := r.seal.Seal(nonce, nonce, key, []byte(kind+at))
	value, _ := json.Marshal(copied{KeyID: idOf(key), Sealed: sealed}) //nolint:errchkjson // text and bytes always encode
	return store.Entry{Kind: kind, Key: at, Value: value}
}

// readCopies opens the copies under the name of a secret: first the one that seals.
func readCopies(ctx context.Context, s store.Store, name string, aead cipher.AEAD) ([][]byte, error) {
	var keys [][]byte
	for e, err := range s.Scan(ctx, store.Scan{Kind: kind, Prefix: name}) {
		if err != nil {
			return nil, err
		}
		var c copied
		if err := json.Unmarshal(e.Value, &c); err != nil || len(c.Sealed) < aead.NonceSize() {
			return nil, fmt.Errorf("%w: copy of a key %s", store.ErrCorrupt, e.Key)
		}
		n := aead.NonceSize()
		key, err := aead.Open(nil, c.Sealed[:n], c.Sealed[n:], []byte(kind+e.Key))
		if err != nil || len(key) != size {
			return nil, fmt.Errorf("%w: copy of a key %s can't be opened", store.ErrCorrupt, e.Key)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// load reads the copies for this secret, and counts the keys of which there is none.
func (r *Ring) load(ctx context.Context) error {
	keys, err := readCopies(ctx, r.opt.Store, r.name, r.seal)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return fmt.Errorf("%w: copy of a key %s is gone", store.ErrCorrupt, r.name)
	}
	open := map[string]bool{}
	for _, key := range keys {
		open[idOf(key)] = true
	}
	foreign := map[string]bool{}
	for e, err := range r.opt.Store.Scan(ctx, store.Scan{Kind: kind}) {
		if err != nil {
			return err
		}
		var c copied
		if !strings.HasPrefix(e.Key, r.name) && json.Unmarshal(e.Value, &c) == nil && !open[c.KeyID] {
			foreign[c.KeyID] = true
		}
	}
	for _, key := range r.opt.Local {
		if !contains(keys, key) {
			keys = append(keys, key)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.key == nil {
		r.key = keys[0]
	}
	r.keys, r.foreign = keys, len(foreign)
	return nil
}

// Key returns the key that seals. It stays the same.
func (r *Ring) Key() []byte { return bytes.Clone(r.key) }

// Keys returns all keys that open, the one that seals first.
func (r *Ring) Keys() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.keys)
}

// Foreign returns how many keys the store has that no copy was sealed for this secret of:
// what they sealed can't be opened here.
func (r *Ring) Foreign() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.foreign
}

// Reload reads the store again, for a key that another node added since, and returns all keys.
func (r *Ring) Reload(ctx context.Context) ([][]byte, error) {
	if err := r.load(ctx); err != nil {
		return nil, fmt.Errorf("key that nodes share: %w", err)
	}
	return r.Keys(), nil
}

func contains(keys [][]byte, key []byte) bool {
	return slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) })
}
