package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// Token is what is kept of a token: everything but the token.
type Token struct {
	ID        string       `json:"id"`
	Name      string       `json:"name"`
	Role      command.Role `json:"role"`
	Account   string       `json:"account,omitempty"`
	CreatedAt time.Time    `json:"createdAt"`
	// ExpiresAt, RevokedAt and LastUsedAt are zero where they don't apply.
	// LastUsedAt is written now and then, so it may lag by some minutes.
	ExpiresAt  time.Time `json:"expiresAt,omitzero"`
	RevokedAt  time.Time `json:"revokedAt,omitzero"`
	LastUsedAt time.Time `json:"lastUsedAt,omitzero"`
}

// Active reports whether the token is good at a time.
func (t *Token) Active(now time.Time) bool {
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}

// storedToken is a token in the file, with the SHA-256 of its secret. The
// secret has 256 random bits, so a plain hash can't be searched.
type storedToken struct {
	Token
	Hash string `json:"sha256"`
	// Version counts the changes, so that of two nodes' records the newer one is known.
	Version int64 `json:"version,omitempty"`
}

// TokensOptions configure [Tokens].
type TokensOptions struct {
	// Admin is a token with the role admin that is not in the file; empty for none.
	Admin string
	// Clock defaults to time.Now.
	Clock func() time.Time
	// FlushEvery is how often times of last use are written, default 5 minutes.
	FlushEvery time.Duration
}

// Tokens is an [Authenticator] over a small file, which is replaced as a whole
// and has mode 0600. Several processes may use one file: a change by another
// process, such as a revocation, counts at the next request.
type Tokens struct {
	path  string
	opt   TokensOptions
	ids   *event.IDs
	admin [sha256.Size]byte

	mu      sync.Mutex
	info    fs.FileInfo // of the file that byID was read from; nil before and without
	byID    map[string]storedToken
	used    map[string]time.Time // last uses that the file doesn't have
	flushed time.Time
}

// OpenTokens opens the tokens of a file, which need not exist.
func OpenTokens(path string, opt *TokensOptions) (*Tokens, error) {
	t := &Tokens{path: path, used: map[string]time.Time{}}
	if opt != nil {
		t.opt = *opt
	}
	if t.opt.Clock == nil {
		t.opt.Clock = time.Now
	}
	setDefault(&t.opt.FlushEvery, 5*time.Minute)
	t.ids = event.NewIDs(t.opt.Clock, nil)
	t.admin = sha256.Sum256([]byte(t.opt.Admin))
	t.opt.Admin = strings.Repeat("x", min(len(t.opt.Admin), 1)) // only whether there is one
	t.flushed = t.opt.Clock()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t, t.refresh()
}

// tokenPrefix makes tokens easy to find, for people and for scanners.
const tokenPrefix = "agentd_"

var errBadToken = fault.New(fault.Unauthenticated, "the token is not known, has expired or was revoked")

// Authenticate implements [Authenticator].
func (t *Tokens) Authenticate(_ context.Context, token string) (Identity, error) {
	sum := sha256.Sum256([]byte(token))
	if t.opt.Admin != "" && subtle.ConstantTimeCompare(sum[:], t.admin[:]) == 1 {
		return Identity{TokenID: "admin", Name: "admin", Role: command.RoleAdmin}, nil
	}
	rest, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok {
		return Identity{}, errBadToken
	}
	id, _, _ := strings.Cut(rest, "_")
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.refresh(); err != nil {
		return Identity{}, fault.Wrap(fault.Unavailable, err, "the tokens can't be read")
	}
	kept, now := t.byID[id], t.opt.Clock()
	hash, err := hex.DecodeString(kept.Hash)
	if err != nil || subtle.ConstantTimeCompare(sum[:], hash) != 1 || !kept.Active(now) {
		return Identity{}, errBadToken
	}
	t.recordUse(id, now)
	return Identity{TokenID: id, Name: kept.Name, Role: kept.Role, Account: kept.Account, Expires: kept.ExpiresAt}, nil
}

// recordUse notes a use, and writes the notes when they are due. A failure to write
// them locks no client out.
func (t *Tokens) recordUse(id string, now time.Time) {
	t.used[id] = now
	if now.Sub(t.flushed) < t.opt.FlushEvery {
		return
	}
	t.flushed = now
	_ = t.update(func(map[string]storedToken) error { return nil })
}

// NewToken says what a token shall be.
type NewToken struct {
	// Name for people, at most 128 bytes.
	Name    string
	Role    command.Role
	Account string
	// ExpiresAt is zero for a token that doesn't expire.
	ExpiresAt time.Time
}

// Create makes a token and returns it. The secret can't be had again.
func (t *Tokens) Create(n NewToken) (Token, string, error) {
	if err := n.validate(t.opt.Clock()); err != nil {
		return Token{}, "", err
	}
	id := t.ids.New("")
	secret, hash, err := newSecret(id)
	if err != nil {
		return Token{}, "", err
	}
	kept := storedToken{Hash: hash, Token: Token{
		ID: id, Name: n.Name, Role: n.Role, Account: n.Account,
		CreatedAt: t.opt.Clock().UTC().Truncate(time.Second), ExpiresAt: n.ExpiresAt.UTC(),
	}}
	t.mu.Lock()
	defer t.mu.Unlock()
	err = t.update(func(all map[string]storedToken) error {
		for _, other := range all {
			if other.Name == n.Name && other.Active(kept.CreatedAt) {
				return fault.New(fault.Conflict, "a token named %q already exists; choose another name", n.Name)
			}
		}
		all[id] = kept
		return nil
	})
	if err != nil {
		return Token{}, "", err
	}
	return kept.Token, secret, nil
}

func (n *NewToken) validate(now time.Time) error {
	switch {
	case n.Name == "" || len(n.Name) > 128 || strings.ContainsFunc(n.Name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fault.Param("name", "must have 1 to 128 printable characters")
	case !n.Role.Allows(command.RoleObserver):
		return fault.Param("role", "%q is not one of admin, client, observer", n.Role)
	case n.Account != "" && !event.ValidID(n.Account):
		return fault.Param("account", "is not an id")
	case !n.ExpiresAt.IsZero() && !n.ExpiresAt.After(now):
		return fault.Param("expiresAt", "is in the past")
	}
	return nil
}

// Rotate replaces the secret of an active token, named by its id or its name, and
// returns the new one. The old one is refused from then on. If expires is zero the token
// ends when it did before.
func (t *Tokens) Rotate(idOrName string, expires time.Time) (Token, string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var rotated storedToken
	secret := ""
	err := t.update(func(all map[string]storedToken) error {
		now := t.opt.Clock()
		kept, err := findToken(all, idOrName, now)
		if err != nil {
			return err
		}
		if !kept.Active(now) {
			return fault.New(fault.Conflict, "token %s has expired or was revoked; create a new one", idOrName)
		}
		if secret, kept.Hash, err = newSecret(kept.ID); err != nil {
			return err
		}
		if !expires.IsZero() {
			kept.ExpiresAt = expires.UTC()
		}
		kept.Version++
		rotated, all[kept.ID] = kept, kept
		return nil
	})
	if err != nil {
		return Token{}, "", err
	}
	return rotated.Token, secret, nil
}

// findToken returns the token with that id, or else the active one with that name, or else
// the newest that had it. Nodes that make tokens at the same moment may give them the same
// name.
func findToken(all map[string]storedToken, idOrName string, now time.Time) (storedToken, error) {
	if kept, ok := all[idOrName]; ok {
		return kept, nil
	}
	var active, ended []storedToken
	for _, kept := range sortedTokens(all) {
		switch {
		case kept.Name != idOrName:
		case kept.Active(now):
			active = append(active, kept)
		default:
			ended = append(ended, kept)
		}
	}
	switch {
	case len(active) > 1:
		ids := make([]string, len(active))
		for i := range active {
			ids[i] = active[i].ID
		}
		return storedToken{}, fault.New(fault.Conflict, "%d tokens are named %q; name one by its id: %s", len(ids), idOrName, strings.Join(ids, ", "))
	case len(active) == 1:
		return active[0], nil
	case len(ended) > 0:
		return ended[len(ended)-1], nil
	}
	return storedToken{}, fault.New(fault.NotFound, "there is no token %s", idOrName)
}

// newSecret makes the secret of a token, and its hash.
func newSecret(id string) (secret, hash string, err error) {
	var random [32]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", "", fmt.Errorf("server: token: %w", err)
	}
	secret = tokenPrefix + id + "_" + base64.RawURLEncoding.EncodeToString(random[:])
	sum := sha256.Sum256([]byte(secret))
	return secret, hex.EncodeToString(sum[:]), nil
}

// List returns all tokens, oldest first, also those that ended.
func (t *Tokens) List() ([]Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.refresh(); err != nil {
		return nil, err
	}
	out := make([]Token, 0, len(t.byID))
	for _, kept := range sortedTokens(t.byID) {
		if last := t.used[kept.ID]; last.After(kept.LastUsedAt) {
			kept.LastUsedAt = last.UTC()
		}
		out = append(out, kept.Token)
	}
	return out, nil
}

// Revoke ends the token with that id or name, also in open streams, and returns it. To revoke
// one twice is fine.
func (t *Tokens) Revoke(idOrName string) (Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var gone Token
	err := t.update(func(all map[string]storedToken) error {
		now := t.opt.Clock()
		kept, err := findToken(all, idOrName, now)
		if err != nil {
			return err
		}
		if kept.RevokedAt.IsZero() {
			kept.RevokedAt = now.UTC().Truncate(time.Second)
			kept.Version++
			all[kept.ID] = kept
		}
		gone = kept.Token
		return nil
	})
	if err != nil {
		return Token{}, err
	}
	return gone, nil
}

// Close writes what is only in memory.
func (t *Tokens) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.used) == 0 {
		return nil
	}
	return t.update(func(map[string]storedToken) error { return nil })
}

// AdminToken returns the admin token: the given one, else the one that a file
// keeps. The file is made, with mode 0600, if it doesn't exist.
func AdminToken(path, given string) (string, error) {
	if given != "" {
		if strings.ContainsFunc(given, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return "", errors.New("server: the admin token contains white space or control characters")
		}
		return given, nil
	}
	kept, err := os.ReadFile(path)
	if err == nil {
		if err := os.Chmod(path, 0o600); err != nil {
			return "", fmt.Errorf("server: admin token: %w", err)
		}
		if token := strings.TrimSpace(string(kept)); token != "" {
			return token, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("server: admin token: %w", err)
	}
	var random [32]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", fmt.Errorf("server: admin token: %w", err)
	}
	token := tokenPrefix + "admin_" + base64.RawURLEncoding.EncodeToString(random[:])
	if err := replaceFile(path, []byte(token+"\n")); err != nil {
		return "", fmt.Errorf("server: admin token: %w", err)
	}
	return token, nil
}
