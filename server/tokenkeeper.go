package server

import (
	"encoding/json"
	"fmt"
	"time"

	"agentd/command"
	"agentd/fault"
)

// record returns a token as commands show it.
func (t *Token) record(now time.Time) command.TokenRecord {
	status := "active"
	switch {
	case !t.RevokedAt.IsZero():
		status = "revoked"
	case !t.Active(now):
		status = "expired"
	}
	return command.TokenRecord{
		TokenID: t.ID, Name: t.Name, Role: string(t.Role), Account: t.Account, Status: status,
		CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, RevokedAt: t.RevokedAt, LastUsedAt: t.LastUsedAt,
	}
}

// ListTokens returns all tokens as commands show them.
func (t *Tokens) ListTokens() ([]command.TokenRecord, error) {
	list, err := t.List()
	if err != nil {
		return nil, err
	}
	out := make([]command.TokenRecord, len(list))
	for i := range list {
		out[i] = list[i].record(t.opt.Clock())
	}
	return out, nil
}

// CreateToken makes a token as a command asks for it.
func (t *Tokens) CreateToken(p *command.CreateToken) (command.TokenRecord, string, error) {
	if err := goodFor(p.ExpiresInMs); err != nil {
		return command.TokenRecord{}, "", err
	}
	n := NewToken{Name: p.Name, Role: command.Role(p.Role), Account: p.Account, ExpiresAt: t.expiry(p.ExpiresInMs)}
	if n.Role == "" {
		n.Role = command.RoleClient
	}
	made, secret, err := t.Create(n)
	return made.record(t.opt.Clock()), secret, err
}

// RotateToken replaces a secret as a command asks for it.
func (t *Tokens) RotateToken(p *command.RotateToken) (command.TokenRecord, string, error) {
	if err := goodFor(p.ExpiresInMs); err != nil {
		return command.TokenRecord{}, "", err
	}
	made, secret, err := t.Rotate(p.TokenID, t.expiry(p.ExpiresInMs))
	return made.record(t.opt.Clock()), secret, err
}

// RevokeToken ends a token and returns what is known of it.
func (t *Tokens) RevokeToken(idOrName string) (command.TokenRecord, error) {
	gone, err := t.Revoke(idOrName)
	return gone.record(t.opt.Clock()), err
}

// goodFor refuses a time that is over at once: tokens end at whole seconds.
func goodFor(ms int64) error {
	if ms > 0 && ms < time.Second.Milliseconds() {
		return fault.Param("expiresInMs", "%d is less than a second, 1000", ms)
	}
	return nil
}

// expiry is when something ends that is good for so long; zero if it is good for ever.
func (t *Tokens) expiry(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return t.opt.Clock().Add(time.Duration(ms) * time.Millisecond).UTC().Truncate(time.Second)
}

// TokenEntry returns what other nodes need to know of a token: its record and the hash of
// its secret.
func (t *Tokens) TokenEntry(tokenID string) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.refresh(); err != nil {
		return nil, err
	}
	kept, ok := t.byID[tokenID]
	if !ok {
		return nil, fmt.Errorf("server: there is no token %s", tokenID)
	}
	kept.LastUsedAt = time.Time{}
	return json.Marshal(kept)
}

// TakeTokens takes over what other nodes know of tokens, and gives all nodes that know the
// same changes the same tokens, in whatever order these came. Of two records the one with
// more changes holds; of two secrets that were made at the same moment one does, and a token
// that anyone revoked is revoked.
func (t *Tokens) TakeTokens(entries [][]byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.refresh(); err != nil {
		return err
	}
	news := map[string]storedToken{}
	for _, e := range entries {
		var theirs storedToken
		if err := json.Unmarshal(e, &theirs); err != nil {
			return fmt.Errorf("server: tokens of other nodes: %w", err)
		}
		theirs.LastUsedAt = time.Time{}
		known, ok := news[theirs.ID]
		if !ok {
			known, ok = t.byID[theirs.ID]
		}
		if !ok {
			news[theirs.ID] = theirs
		} else if merged := known.mergeChange(&theirs); merged != known {
			news[theirs.ID] = merged
		}
	}
	if len(news) == 0 {
		return nil
	}
	return t.update(func(all map[string]storedToken) error {
		for id := range news {
			theirs := news[id]
			if known, ok := all[id]; ok { // another process may have changed it since
				theirs = known.mergeChange(&theirs)
			}
			all[id] = theirs
		}
		return nil
	})
}

// mergeChange returns what holds of two records of a token. It doesn't matter which of them
// is asked.
func (t *storedToken) mergeChange(other *storedToken) storedToken {
	holds := *t
	if other.Version > t.Version || (other.Version == t.Version && other.Hash > t.Hash) {
		holds = *other
	}
	holds.LastUsedAt = t.LastUsedAt
	if other.LastUsedAt.After(t.LastUsedAt) {
		holds.LastUsedAt = other.LastUsedAt
	}
	for _, at := range []time.Time{t.RevokedAt, other.RevokedAt} {
		if !at.IsZero() && (holds.RevokedAt.IsZero() || at.Before(holds.RevokedAt)) {
			holds.RevokedAt = at
		}
	}
	return holds
}
