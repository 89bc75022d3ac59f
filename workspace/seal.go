package workspace

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
)

// Errors of earlier contents. Callers use [errors.Is].
var (
	// ErrOtherKey: the content was sealed with another key.
	ErrOtherKey = errors.New("workspace: sealed with another key")
	// ErrDamaged: the sealed content was changed or cut.
	ErrDamaged = errors.New("workspace: the sealed content is damaged")
	// errMoving: a file changed while it was read.
	errMoving = errors.New("workspace: the file changed while it was read")
)

// KeySize is the length of a key in bytes.
const KeySize = 32

// A sealed content is: magic, the key's id, the tag, the ciphertext.
const (
	sealMagic  = "AUn1"
	sealIDSize = 8
	sealHeader = len(sealMagic) + sealIDSize + sha256.Size
)

// sealer encrypts deterministically; see "Secrecy" in the package comment.
type sealer struct {
	mac   []byte
	block cipher.Block
	id    []byte
}

func newSealer(key []byte) (*sealer, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("workspace: the key has %d bytes instead of %d", len(key), KeySize)
	}
	derive := func(purpose string, n int) []byte {
		// The length is constant and allowed, so Key can't fail.
		b, _ := hkdf.Key(sha256.New, key, nil, "agentd undo v1 "+purpose, n)
		return b
	}
	block, err := aes.NewCipher(derive("encryption", KeySize))
	if err != nil {
		return nil, fmt.Errorf("workspace: cipher: %w", err)
	}
	return &sealer{mac: derive("authentication", KeySize), block: block, id: derive("id", sealIDSize)}, nil
}

func (s *sealer) newMAC() hash.Hash { return hmac.New(sha256.New, s.mac) }

func (s *sealer) stream(tag []byte) cipher.Stream {
	return cipher.NewCTR(s.block, tag[:aes.BlockSize])
}

// seal returns the sealed form of content as a stream. The content is read
// twice; if the second reading differs the stream ends with errMoving.
func (s *sealer) seal(content io.ReadSeeker) (io.Reader, error) {
	mac := s.newMAC()
	if _, err := io.Copy(mac, content); err != nil {
		return nil, err
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	tag := mac.Sum(nil)
	header := append(append([]byte(sealMagic), s.id...), tag...)
	body := &sealReader{r: content, mac: s.newMAC(), tag: tag, stream: s.stream(tag)}
	return &headed{header: header, body: body}, nil
}

// headed yields the header, then the body.
type headed struct {
	header []byte
	body   io.Reader
}

func (h *headed) Read(p []byte) (int, error) {
	if len(h.header) > 0 {
		n := copy(p, h.header)
		h.header = h.header[n:]
		return n, nil
	}
	return h.body.Read(p)
}

type sealReader struct {
	r      io.Reader
	mac    hash.Hash
	tag    []byte
	stream cipher.Stream
}

func (r *sealReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.mac.Write(p[:n])
	r.stream.XORKeyStream(p[:n], p[:n])
	if errors.Is(err, io.EOF) && !hmac.Equal(r.mac.Sum(nil), r.tag) {
		return n, errMoving
	}
	return n, err
}

// sealers are the keys of a Vault: its own one, which seals, and others by their ids, which
// open what they sealed.
type sealers struct {
	own  *sealer
	more func(context.Context) ([][]byte, error)

	mu    sync.Mutex
	other map[[sealIDSize]byte]*sealer
}

// unseal writes the content of a sealed stream to w. After an error what was
// written is worthless.
func (s *sealers) unseal(ctx context.Context, w io.Writer, sealed io.Reader) error {
	header := make([]byte, sealHeader)
	if _, err := io.ReadFull(sealed, header); err != nil {
		return endsEarly(err)
	}
	if string(header[:len(sealMagic)]) != sealMagic {
		return fmt.Errorf("%w: it doesn't begin as a sealed content does", ErrDamaged)
	}
	rest := header[len(sealMagic):]
	with, err := s.sealerOf(ctx, [sealIDSize]byte(rest[:sealIDSize]))
	if err != nil {
		return err
	}
	return with.unseal(w, rest[sealIDSize:], sealed)
}

// sealerOf returns the key with an id, also one that became known only now.
func (s *sealers) sealerOf(ctx context.Context, id [sealIDSize]byte) (*sealer, error) {
	if hmac.Equal(id[:], s.own.id) {
		return s.own, nil
	}
	if s.more == nil {
		return nil, ErrOtherKey
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.other[id]; found != nil {
		return found, nil
	}
	keys, err := s.more(ctx)
	if err != nil {
		return nil, err
	}
	s.other = map[[sealIDSize]byte]*sealer{}
	for _, key := range keys {
		other, err := newSealer(key)
		if err != nil {
			return nil, err
		}
		s.other[[sealIDSize]byte(other.id)] = other
	}
	if found := s.other[id]; found != nil {
		return found, nil
	}
	return nil, ErrOtherKey
}

// unseal writes the content with a tag to w, from the ciphertext that follows its header.
func (s *sealer) unseal(w io.Writer, tag []byte, sealed io.Reader) error {
	mac := s.newMAC()
	plain := cipher.StreamReader{S: s.stream(tag), R: sealed}
	if _, err := io.Copy(io.MultiWriter(mac, w), plain); err != nil {
		return err
	}
	if !hmac.Equal(mac.Sum(nil), tag) {
		return fmt.Errorf("%w: its tag doesn't match", ErrDamaged)
	}
	return nil
}

func endsEarly(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends within its header", ErrDamaged)
	}
	return err
}
