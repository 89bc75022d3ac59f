package find

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"agentd/index"
	"agentd/store"
)

// pageSize is how much of a segment is one index entry.
const pageSize = 16 << 10

// pageKey names a page of a segment.
func pageKey(id uint64, page int) string {
	var b [12]byte
	for i := range 8 {
		b[i] = byte(id >> (56 - 8*i))
	}
	for i := range 4 {
		b[8+i] = byte(page >> (24 - 8*i))
	}
	return "s" + hex.EncodeToString(b[:])
}

func pageCount(size int) int { return (size + pageSize - 1) / pageSize }

// putPages returns what stores a segment.
func putPages(kind string, id uint64, data []byte) []store.IndexOp {
	var ops []store.IndexOp
	for n := 0; len(data) > 0; n++ {
		page := data[:min(pageSize, len(data))]
		data = data[len(page):]
		ops = append(ops, store.IndexOp{Entry: store.Entry{Kind: kind, Key: pageKey(id, n), Value: page}})
	}
	return ops
}

// removePages returns what removes a segment.
func removePages(kind string, s segment) []store.IndexOp {
	var ops []store.IndexOp
	for n := range pageCount(s.size) {
		ops = append(ops, store.IndexOp{Entry: store.Entry{Kind: kind, Key: pageKey(s.id, n)}, Delete: true})
	}
	return ops
}

// pageCache keeps pages that were read lately. Segments never change, so what it has is
// right for as long as it has it.
type pageCache struct {
	mu         sync.Mutex
	young, old map[string][]byte
}

// cachedPages is how many pages are kept at least; at most twice as many are.
const cachedPages = 2048

func (c *pageCache) get(key string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.young[key]; ok {
		return p
	}
	p, ok := c.old[key]
	if ok {
		c.keepYoung(key, p)
	}
	return p
}

func (c *pageCache) put(key string, page []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepYoung(key, page)
}

func (c *pageCache) keepYoung(key string, page []byte) {
	if c.young == nil || len(c.young) >= cachedPages {
		c.old, c.young = c.young, map[string][]byte{}
	}
	c.young[key] = page
}

// segmentReader reads parts of one segment.
type segmentReader struct {
	read  index.Reader
	kind  string
	id    uint64
	size  int
	cache *pageCache // nil: pages are not kept
	// whole is the segment, if it was read at once.
	whole []byte
}

// errGone says that a segment was merged into another one while it was read.
var errGone = errors.New("find: the segment was merged")

func (r *segmentReader) page(ctx context.Context, n int) ([]byte, error) {
	key := pageKey(r.id, n)
	if r.cache != nil {
		if p := r.cache.get(r.kind + key); p != nil {
			return p, nil
		}
	}
	p, err := r.read.Get(ctx, r.kind, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errGone
	}
	if err != nil {
		return nil, err
	}
	if want := min(pageSize, r.size-n*pageSize); len(p) != want {
		return nil, fmt.Errorf("%w: page %d of segment %d of %s has %d bytes instead of %d", store.ErrCorrupt, n, r.id, r.kind, len(p), want)
	}
	if r.cache != nil {
		r.cache.put(r.kind+key, p)
	}
	return p, nil
}

// bytes returns n bytes from an offset on. They must not be changed.
func (r *segmentReader) bytes(ctx context.Context, off, n int) ([]byte, error) {
	if off < 0 || n < 0 || off+n > r.size {
		return nil, fmt.Errorf("%w: segment %d of %s is shorter than it says", store.ErrCorrupt, r.id, r.kind)
	}
	if n == 0 {
		return nil, nil
	}
	if r.whole != nil {
		return r.whole[off : off+n], nil
	}
	if first := off / pageSize; first == (off+n-1)/pageSize {
		p, err := r.page(ctx, first)
		if err != nil {
			return nil, err
		}
		return p[off%pageSize : off%pageSize+n], nil
	}
	out := make([]byte, 0, n)
	for n > 0 {
		p, err := r.page(ctx, off/pageSize)
		if err != nil {
			return nil, err
		}
		p = p[off%pageSize:]
		p = p[:min(n, len(p))]
		out = append(out, p...)
		off, n = off+len(p), n-len(p)
	}
	return out, nil
}
