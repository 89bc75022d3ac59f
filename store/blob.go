package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const refPrefix = "sha256:"

// RefOf returns the reference of a blob whose content has that sum.
func RefOf(sum Hash) string { return refPrefix + hex.EncodeToString(sum[:]) }

// ParseRef returns the sum in a blob's reference. A blob has one reference: capital
// letters are none.
func ParseRef(ref string) (Hash, error) {
	var sum Hash
	s, ok := strings.CutPrefix(ref, refPrefix)
	if !ok || len(s) != 2*len(sum) {
		return sum, fmt.Errorf("store: %q is not a blob reference", ref)
	}
	if _, err := hex.Decode(sum[:], []byte(s)); err != nil || RefOf(sum) != ref {
		return sum, fmt.Errorf("store: %q is not a blob reference", ref)
	}
	return sum, nil
}

// ChunkSize is the number of content bytes in each stored chunk of a blob but
// the last. Engines store chunks so that a range of a large blob can be read
// without the rest.
const ChunkSize = 256 << 10

var encoder = sync.OnceValue(func() *zstd.Encoder {
	// The options are constant and valid, so NewWriter can't fail.
	e, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
	return e
})

var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(4*ChunkSize))
	return d
})

// EncodeChunk appends the compressed form of a chunk to dst.
func EncodeChunk(dst, content []byte) []byte { return encoder().EncodeAll(content, dst) }

// DecodeChunk returns the content of a stored chunk. Damage is ErrCorrupt.
func DecodeChunk(stored []byte) ([]byte, error) {
	content, err := decoder().DecodeAll(stored, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: blob chunk: %w", ErrCorrupt, err)
	}
	return content, nil
}

// NewBlob returns an open blob that gets its content chunk by chunk. fetch
// returns the decoded content of chunk i, from 0; it is called by one goroutine
// at a time.
func NewBlob(info BlobInfo, fetch func(i int) ([]byte, error)) Blob {
	return &chunkedBlob{info: info, fetch: fetch, index: -1}
}

type chunkedBlob struct {
	info  BlobInfo
	fetch func(int) ([]byte, error)

	pos   int64
	index int // of the chunk in memory, -1 for none
	chunk []byte
}

func (b *chunkedBlob) Info() BlobInfo { return b.info }

func (b *chunkedBlob) Close() error {
	b.chunk, b.index = nil, -1
	return nil
}

func (b *chunkedBlob) Read(p []byte) (int, error) {
	if b.pos >= b.info.Size {
		return 0, io.EOF
	}
	if i := int(b.pos / ChunkSize); i != b.index {
		chunk, err := b.fetch(i)
		if err != nil {
			return 0, err
		}
		b.chunk, b.index = chunk, i
	}
	off := int(b.pos % ChunkSize)
	if off >= len(b.chunk) {
		return 0, fmt.Errorf("%w: blob %s: chunk %d is short", ErrCorrupt, b.info.Ref, b.index)
	}
	n := copy(p, b.chunk[off:])
	b.pos += int64(n)
	return n, nil
}

func (b *chunkedBlob) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += b.pos
	case io.SeekEnd:
		offset += b.info.Size
	}
	if offset < 0 {
		return 0, errors.New("store: seek before the start of a blob")
	}
	b.pos = offset
	return offset, nil
}
