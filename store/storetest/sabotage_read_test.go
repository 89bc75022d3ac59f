package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"agentd/store"
)

// change passes what an iterator yields through a function that says whether to
// keep it.
func change[V any](seq iter.Seq2[V, error], f func(V) (V, bool)) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		for v, err := range seq {
			keep := true
			if err == nil {
				v, keep = f(v)
			}
			if keep && !yield(v, err) {
				return
			}
		}
	}
}

// changesData makes a store's reads yield data that f has changed.
func changesData(h *hooked, f func([]byte) []byte) {
	h.read = func(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
		return change(h.Store.Read(ctx, id, r), func(rec store.Record) (store.Record, bool) {
			rec.Data = f(rec.Data)
			return rec, true
		})
	}
}

// reprints stores JSON in a form of its own.
func reprints(h *hooked, _ *brokenEngine) {
	changesData(h, func(data []byte) []byte {
		var b bytes.Buffer
		if json.Compact(&b, data) != nil {
			return data
		}
		return b.Bytes()
	})
}

// truncates cuts data and values that are long.
func truncates(h *hooked, _ *brokenEngine) {
	cut := func(p []byte) []byte { return p[:min(len(p), 100<<10)] }
	changesData(h, cut)
	h.get = func(ctx context.Context, kind, key string) ([]byte, error) {
		v, err := h.Store.Get(ctx, kind, key)
		return cut(v), err
	}
	h.snapshot = func(ctx context.Context, id, name string) (store.Snapshot, error) {
		s, err := h.Store.Snapshot(ctx, id, name)
		s.Data = cut(s.Data)
		return s, err
	}
}

// shortensIDs looks at the first characters of an id only.
func shortensIDs(h *hooked, _ *brokenEngine) {
	h.read = func(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
		return h.Store.Read(ctx, id[:min(len(id), 127)], r)
	}
}

// sharesMemory gives away the bytes that it keeps.
func sharesMemory(h *hooked, e *brokenEngine) {
	h.read = func(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
		return yieldAll(ctx, func() ([]store.Record, error) {
			e.mem.first.data.mu.Lock()
			defer e.mem.first.data.mu.Unlock()
			return inRange(e.mem.first.data.session(id).records, r), nil
		}, func(r store.Record) store.Record { return r })
	}
}

// reusesBuffers yields values in one buffer.
func reusesBuffers(h *hooked, _ *brokenEngine) {
	h.read = func(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
		buf := make([]byte, 0, 4<<20)
		return change(h.Store.Read(ctx, id, r), func(rec store.Record) (store.Record, bool) {
			rec.Data = append(buf[:0], rec.Data...)
			return rec, true
		})
	}
	h.scan = func(ctx context.Context, s store.Scan) iter.Seq2[store.Entry, error] {
		buf := make([]byte, 0, 4<<20)
		return change(h.Store.Scan(ctx, s), func(e store.Entry) (store.Entry, bool) {
			e.Value = append(buf[:0], e.Value...)
			return e, true
		})
	}
}

// includesAfter takes the lower bound of ranges and scans in.
func includesAfter(h *hooked, _ *brokenEngine) {
	h.read = func(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
		r.After = max(r.After, 1) - 1
		return h.Store.Read(ctx, id, r)
	}
	h.scan = func(ctx context.Context, s store.Scan) iter.Seq2[store.Entry, error] {
		if !s.Reverse && s.After != "" {
			s.After = s.After[:len(s.After)-1]
		}
		return h.Store.Scan(ctx, s)
	}
}

// readsOnePage reads a page and forgets to ask for the next.
func readsOnePage(h *hooked, _ *brokenEngine) {
	const page = 1000
	first := func(limit int) int {
		if limit == 0 {
			return page
		}
		return min(limit, page)
	}
	h.read = func(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
		r.Limit = first(r.Limit)
		return h.Store.Read(ctx, id, r)
	}
	h.sessions = func(ctx context.Context, after string) iter.Seq2[string, error] {
		n := 0
		return change(h.Store.Sessions(ctx, after), func(id string) (string, bool) {
			n++
			return id, n <= page
		})
	}
}

// ignoresCursor always scans from the start.
func ignoresCursor(h *hooked, _ *brokenEngine) {
	h.scan = func(ctx context.Context, s store.Scan) iter.Seq2[store.Entry, error] {
		s.After = ""
		return h.Store.Scan(ctx, s)
	}
}

// iteratesOnce yields nothing when an iterator is used again.
func iteratesOnce(h *hooked, _ *brokenEngine) {
	h.read = func(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
		used := false
		return func(yield func(store.Record, error) bool) {
			if used {
				return
			}
			used = true
			h.Store.Read(ctx, id, r)(yield)
		}
	}
}

// hangsOn takes no append after a loop over records was left early.
func hangsOn(h *hooked, _ *brokenEngine) {
	var mu sync.Mutex
	left := false
	h.read = func(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
		return func(yield func(store.Record, error) bool) {
			for rec, err := range h.Store.Read(ctx, id, r) {
				if !yield(rec, err) {
					mu.Lock()
					left = true
					mu.Unlock()
					return
				}
			}
		}
	}
	h.append = appendEach(func(ctx context.Context, b *store.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		if left {
			return store.ErrFailed
		}
		return appendOne(ctx, h.Store, b)
	})
}

// allowsOne refuses appends while somebody reads.
func allowsOne(h *hooked, _ *brokenEngine) {
	var reading atomic.Int64
	h.read = func(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
		return func(yield func(store.Record, error) bool) {
			reading.Add(1)
			defer reading.Add(-1)
			h.Store.Read(ctx, id, r)(yield)
		}
	}
	h.append = appendEach(func(ctx context.Context, b *store.Batch) error {
		if reading.Load() > 0 {
			return store.ErrFailed
		}
		return appendOne(ctx, h.Store, b)
	})
}

// mixesPrefixes puts names behind each other without a mark between them.
func mixesPrefixes(h *hooked, e *brokenEngine) {
	h.read = func(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
		return func(yield func(store.Record, error) bool) {
			for other := range h.Store.Sessions(ctx, "") {
				if !strings.HasPrefix(other, id) {
					continue
				}
				for rec, err := range h.Store.Read(ctx, other, r) {
					if !yield(rec, err) {
						return
					}
				}
			}
		}
	}
	h.scan = func(ctx context.Context, s store.Scan) iter.Seq2[store.Entry, error] {
		return yieldAll(ctx, func() ([]store.Entry, error) { return scanMap(e.joined(s.Kind), s), nil }, cloneEntry)
	}
	h.snapshot = func(ctx context.Context, id, name string) (store.Snapshot, error) {
		for at := 1; at < len(name); at++ {
			if s, err := h.Store.Snapshot(ctx, id+name[:at], name[at:]); err == nil {
				return s, nil
			}
		}
		return h.Store.Snapshot(ctx, id, name)
	}
}

// joined returns all index entries whose kind and key together begin with kind.
func (e *brokenEngine) joined(kind string) map[string][]byte {
	e.mem.first.data.mu.Lock()
	defer e.mem.first.data.mu.Unlock()
	all := map[string][]byte{}
	for k, entries := range e.mem.first.data.index {
		for key, v := range entries {
			if rest, ok := strings.CutPrefix(k+key, kind); ok {
				all[rest] = v
			}
		}
	}
	return all
}

// sortsByLanguage orders names as people do.
func sortsByLanguage(h *hooked, _ *brokenEngine) {
	compare := func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }
	h.sessions = func(ctx context.Context, after string) iter.Seq2[string, error] {
		list, err := drainSeq(h.Store.Sessions(ctx, after))
		slices.SortFunc(list, compare)
		return yieldAll(ctx, func() ([]string, error) { return list, err }, strings.Clone)
	}
	h.snapshots = func(ctx context.Context, id string) iter.Seq2[store.Snapshot, error] {
		list, err := drainSeq(h.Store.Snapshots(ctx, id))
		slices.SortFunc(list, func(a, b store.Snapshot) int { return compare(a.Name, b.Name) })
		return yieldAll(ctx, func() ([]store.Snapshot, error) { return list, err }, cloneSnapshot)
	}
}

// dropsEmpty takes an empty value for none.
func dropsEmpty(h *hooked, _ *brokenEngine) {
	h.get = func(ctx context.Context, kind, key string) ([]byte, error) {
		v, err := h.Store.Get(ctx, kind, key)
		if len(v) == 0 && err == nil {
			err = store.ErrNotFound
		}
		return v, err
	}
}

// listsEmpty lists sessions that were only claimed, and calls an empty session
// an error.
func listsEmpty(h *hooked, e *brokenEngine) {
	h.sessions = func(ctx context.Context, _ string) iter.Seq2[string, error] {
		return yieldAll(ctx, func() ([]string, error) {
			e.mem.first.data.mu.Lock()
			defer e.mem.first.data.mu.Unlock()
			return sortedKeys(e.mem.first.data.sessions), nil
		}, strings.Clone)
	}
	h.read = func(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
		return func(yield func(store.Record, error) bool) {
			if head, err := h.Store.Head(ctx, id); head.Sequence == 0 {
				yield(store.Record{}, errors.Join(err, store.ErrNotFound))
				return
			}
			h.Store.Read(ctx, id, r)(yield)
		}
	}
}

// endsSilently ends an iteration without a word when the context has ended.
func endsSilently(h *hooked, _ *brokenEngine) {
	h.read = func(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
		return func(yield func(store.Record, error) bool) {
			for rec, err := range h.Store.Read(context.WithoutCancel(ctx), id, r) {
				if ctx.Err() != nil || !yield(rec, err) {
					return
				}
			}
		}
	}
}

// putsPartial stores what a reader gave before it broke.
func putsPartial(h *hooked, _ *brokenEngine) {
	h.putBlob = func(ctx context.Context, r io.Reader) (store.BlobInfo, error) {
		content, err := io.ReadAll(r)
		info, putErr := h.Store.PutBlob(ctx, bytes.NewReader(content))
		return info, errors.Join(err, putErr)
	}
}

// putsOnce fails to put what is there.
func putsOnce(h *hooked, _ *brokenEngine) {
	h.putBlob = func(ctx context.Context, r io.Reader) (store.BlobInfo, error) {
		content, err := io.ReadAll(r)
		if err != nil {
			return store.BlobInfo{}, err
		}
		if _, err := h.Store.OpenBlob(ctx, refOf(content)); err == nil {
			return store.BlobInfo{}, store.ErrExists
		}
		return h.Store.PutBlob(ctx, bytes.NewReader(content))
	}
}

// losesLastChunk forgets what doesn't fill a chunk, but for the first.
func losesLastChunk(h *hooked, _ *brokenEngine) {
	h.openBlob = func(ctx context.Context, ref string) (store.Blob, error) {
		b, err := h.Store.OpenBlob(ctx, ref)
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(b)
		if n := len(content); n > store.ChunkSize {
			content = content[:n-n%store.ChunkSize]
		}
		return memBlob{Reader: bytes.NewReader(content), ref: ref}, err
	}
}

// opensAnything finds an empty blob behind every reference.
func opensAnything(h *hooked, _ *brokenEngine) {
	h.openBlob = func(ctx context.Context, ref string) (store.Blob, error) {
		if b, err := h.Store.OpenBlob(ctx, ref); err == nil {
			return b, nil
		}
		return memBlob{Reader: bytes.NewReader(nil), ref: ref}, nil
	}
}

// seeksToChunks seeks to the start of a chunk.
func seeksToChunks(h *hooked, _ *brokenEngine) {
	h.openBlob = func(ctx context.Context, ref string) (store.Blob, error) {
		b, err := h.Store.OpenBlob(ctx, ref)
		if err != nil {
			return nil, err
		}
		return chunkSeeker{b}, nil
	}
}

type chunkSeeker struct{ store.Blob }

func (c chunkSeeker) Seek(offset int64, whence int) (int64, error) {
	at, err := c.Blob.Seek(offset, whence)
	if err != nil || at >= c.Info().Size {
		return at, err
	}
	_, err = c.Blob.Seek(at-at%store.ChunkSize, io.SeekStart)
	return at, err
}
