package workspace

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// spool is a nameless, encrypted file of copies. Bytes are only ever appended,
// so that no part of the key stream serves twice. Its key lives as long as it.
type spool struct {
	f     *os.File
	block cipher.Block
	size  int64
}

// errUnread: what is to be copied can't be read.
var errUnread = errors.New("workspace: copy")

func newSpool(dir string) (*spool, error) {
	key := make([]byte, KeySize)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, "agentd-spool-*")
	if err != nil {
		return nil, err
	}
	// Without a name no other process opens it, and it goes with the process.
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &spool{f: f, block: block}, nil
}

func (s *spool) close() error { return s.f.Close() }

// stream returns the key stream from a position, which is a multiple of the
// block size: the counter is the number of the block.
func (s *spool) stream(pos int64) cipher.Stream {
	var iv [aes.BlockSize]byte
	binary.BigEndian.PutUint64(iv[8:], uint64(pos/aes.BlockSize))
	return cipher.NewCTR(s.block, iv[:])
}

// add copies a content of at most limit bytes and returns where it is, its
// length and its sum. One that is longer is errTooLong.
func (s *spool) add(r io.Reader, buf []byte, limit int64) (pos, n int64, sum [sha256.Size]byte, err error) {
	pos = s.size
	stream, h := s.stream(pos), sha256.New()
	for {
		m, err := r.Read(buf)
		if err != nil && !errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: %w", errUnread, err)
		}
		h.Write(buf[:m])
		stream.XORKeyStream(buf[:m], buf[:m])
		if n+int64(m) > limit {
			err = errTooLong
		} else if _, werr := s.f.WriteAt(buf[:m], pos+n); werr != nil {
			err = werr
		}
		n += int64(m)
		// Also after an error: what was written must not be written over.
		s.size = (pos + n + aes.BlockSize - 1) / aes.BlockSize * aes.BlockSize
		if errors.Is(err, io.EOF) {
			h.Sum(sum[:0])
			return pos, n, sum, nil
		}
		if err != nil {
			return pos, n, sum, err
		}
	}
}

// read returns a content, checked against its sum.
func (s *spool) read(pos, n int64, sum [sha256.Size]byte) (*bytes.Reader, error) {
	p := make([]byte, n)
	if _, err := s.f.ReadAt(p, pos); err != nil && n > 0 {
		return nil, fmt.Errorf("workspace: copy: %w", err)
	}
	s.stream(pos).XORKeyStream(p, p)
	if sha256.Sum256(p) != sum {
		return nil, fmt.Errorf("workspace: copy: %w", ErrDamaged)
	}
	return bytes.NewReader(p), nil
}

// compact writes the copies that are needed to a new spool when most of the old
// one is garbage. Windows need theirs where they are.
func (x *index) compact(ctx context.Context) error {
	if len(x.windows) > 0 || x.spool.size <= 2*x.opt.MaxBytes+x.opt.MaxFile {
		return nil
	}
	to, err := newSpool(x.opt.SpoolDir)
	if err != nil {
		return fmt.Errorf("workspace: compact copies: %w", err)
	}
	moved := map[*node]int64{}
	if err := x.copyTo(ctx, x.top, to, make([]byte, 64<<10), moved); err != nil {
		return errors.Join(fmt.Errorf("workspace: compact copies: %w", err), to.close())
	}
	for n, pos := range moved {
		n.pos = pos
	}
	err = x.spool.close()
	x.spool = to
	return err
}

func (x *index) copyTo(ctx context.Context, n *node, to *spool, buf []byte, moved map[*node]int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, child := range n.children {
		if err := x.copyTo(ctx, child, to, buf, moved); err != nil {
			return err
		}
	}
	if !n.hasContent() {
		return nil
	}
	content, err := x.spool.read(n.pos, n.st.size, n.sum)
	if err != nil {
		return err
	}
	moved[n], _, _, err = to.add(content, buf, x.opt.MaxFile)
	return err
}
