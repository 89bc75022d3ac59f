package session

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"agentd/fault"
	"agentd/store"
)

// feedCursor is a place in a feed: a position of the store, and the part that was
// delivered of a change that comes after it, if one was left in its middle.
type feedCursor struct {
	position  string
	sessionID string
	through   uint64
}

// errCursor says that a caller's cursor can't be used.
var errCursor = fault.Param("after", "is not a cursor that this store gave out; pass the last one that you have from it, or leave it out")

// cursorSeal encrypts cursors: a position of the store tells how much all accounts
// together write, which is not for a caller's eyes. The same place gives the same cursor,
// on every node that shares the store.
type cursorSeal struct {
	aead  cipher.AEAD
	nonce []byte // the key that nonces are derived with
}

// cursorBlock is what the length of a cursor is a multiple of, because that of a position
// tells something, too.
const cursorBlock = 64

// cursorKey makes the seal when the first feed begins. Its key is made once and kept in
// the store.
type cursorKey struct {
	mu   sync.Mutex
	seal *cursorSeal
}

func (k *cursorKey) open(ctx context.Context, s store.Store) (*cursorSeal, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seal != nil {
		return k.seal, nil
	}
	made := make([]byte, 32)
	_, _ = rand.Read(made) // it never fails
	kept, err := s.SetMeta(ctx, "feedKey", made)
	if err != nil {
		return nil, storeFault(err)
	}
	k.seal, err = newCursorSeal(kept)
	return k.seal, err
}

func newCursorSeal(secret []byte) (*cursorSeal, error) {
	keys, err := hkdf.Key(sha256.New, secret, nil, "agentd cursors of feeds", 64)
	if err != nil {
		return nil, fmt.Errorf("session: key of cursors: %w", err)
	}
	block, err := aes.NewCipher(keys[:32])
	if err != nil {
		return nil, fmt.Errorf("session: key of cursors: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("session: key of cursors: %w", err)
	}
	return &cursorSeal{aead: aead, nonce: keys[32:]}, nil
}

func (s *cursorSeal) encode(c feedCursor) string {
	text := c.position
	if c.sessionID != "" {
		text += "\n" + c.sessionID + "\n" + strconv.FormatUint(c.through, 10)
	}
	plain := append([]byte(text), 0)
	plain = append(plain, make([]byte, -len(plain)&(cursorBlock-1))...)
	// A nonce that depends on everything it encrypts can't meet another text.
	mac := hmac.New(sha256.New, s.nonce)
	mac.Write(plain)
	nonce := mac.Sum(nil)[:s.aead.NonceSize()]
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, plain, nil))
}

func (s *cursorSeal) decode(text string) (feedCursor, error) {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	size := s.aead.NonceSize()
	if err != nil || len(sealed) < size {
		return feedCursor{}, errCursor
	}
	plain, err := s.aead.Open(nil, sealed[:size], sealed[size:], nil)
	if err != nil {
		return feedCursor{}, errCursor
	}
	place, _, _ := strings.Cut(string(plain), "\x00")
	parts := strings.Split(place, "\n")
	c := feedCursor{position: parts[0]}
	if len(parts) == 3 {
		c.sessionID = parts[1]
		c.through, err = strconv.ParseUint(parts[2], 10, 64)
	}
	if err != nil || len(parts) == 2 || len(parts) > 3 {
		return feedCursor{}, errCursor
	}
	return c, nil
}
