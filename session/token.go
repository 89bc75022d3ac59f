package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/store"
)

// kindToken: token id, and the sum of the value → what all nodes must know to let its holder
// in. The secret isn't part of it. Each change has a key of its own: of two nodes that change
// a token at the same moment none may overwrite what the other one says, least of all that
// the token is revoked. Earlier versions have the id alone as the key.
const kindToken = "token"

// SharedToken is what all nodes know of a change of a token.
type SharedToken struct {
	// Key is that of its entry.
	Key string
	// Value is opaque here.
	Value []byte
}

// tokenKey returns the key of a change.
func tokenKey(tokenID string, value []byte) string {
	sum := sha256.Sum256(value)
	return tokenID + "." + hex.EncodeToString(sum[:8])
}

// of reports whether it is about a token.
func (t *SharedToken) of(tokenID string) bool {
	id, _, _ := strings.Cut(t.Key, ".")
	return id == tokenID
}

// RecordToken is RecordChange for a token, which other nodes of a shared store let in by
// what is kept of it. It takes the place of the changes before, as far as they are known:
// what is kept says all that they did.
func RecordToken[R any](ctx context.Context, m *Manager, caller command.Caller, p command.Params, change *event.RuntimeChanged, result R, kept []byte, before []SharedToken) (*R, error) {
	if m.shared == nil || kept == nil {
		return RecordChange(ctx, m, caller, p, change, result)
	}
	r, err := m.request(caller, p)
	if err != nil {
		return nil, err
	}
	change.ChangedBy = r.actor()
	key := tokenKey(change.TokenID, kept)
	ops := []store.IndexOp{putOp(kindToken, key, kept)}
	for i := range before {
		if before[i].of(change.TokenID) && before[i].Key != key {
			ops = append(ops, store.IndexOp{Entry: store.Entry{Kind: kindToken, Key: before[i].Key}, Delete: true})
		}
	}
	return recordChange(ctx, r, change, result, ops...)
}

// Tokens returns what is kept of the tokens of all nodes.
func (m *Manager) Tokens(ctx context.Context) ([]SharedToken, error) {
	if m.shared == nil {
		return nil, nil
	}
	var out []SharedToken
	for e, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kindToken}) {
		if err != nil {
			return nil, storeFault(err)
		}
		out = append(out, SharedToken{e.Key, e.Value})
	}
	return out, nil
}
