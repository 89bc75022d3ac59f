package a2a

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
)

// sealer encrypts what facts must not show: the push endpoints of peers, with the
// credentials for it. A sealed text opens only where it was made for.
type sealer struct{ aead cipher.AEAD }

// minKey is the fewest bytes of a key.
const minKey = 16

func newSealer(key []byte) (*sealer, error) {
	if len(key) < minKey {
		return nil, errors.New("the key for push notifications is too short")
	}
	derived, err := hkdf.Key(sha256.New, key, nil, "agentd a2a push notifications", 32)
	if err != nil {
		return nil, fmt.Errorf("the key for push notifications: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, fmt.Errorf("the key for push notifications: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("the key for push notifications: %w", err)
	}
	return &sealer{aead}, nil
}

// seal encrypts a text for a place.
func (s *sealer) seal(place string, text []byte) string {
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce) // it never fails
	return base64.StdEncoding.EncodeToString(s.aead.Seal(nonce, nonce, text, []byte(place)))
}

// open decrypts what was sealed for a place.
func (s *sealer) open(place, sealed string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil || len(b) < s.aead.NonceSize() {
		return nil, errors.New("a2a: this was not sealed here")
	}
	n := s.aead.NonceSize()
	text, err := s.aead.Open(nil, b[:n], b[n:], []byte(place))
	if err != nil {
		return nil, errors.New("a2a: this was sealed with another key, or for another task")
	}
	return text, nil
}
