package store_test

import (
	"strings"
	"testing"

	"agentd/store"
)

// Whatever is stored as a chunk, it is content of at most a chunk's size, or damage.
func FuzzDecodeChunk(f *testing.F) {
	f.Add(store.EncodeChunk(nil, []byte("content")))
	f.Add(store.EncodeChunk(nil, make([]byte, store.ChunkSize)))
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd})
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, stored []byte) {
		content, err := store.DecodeChunk(stored)
		if err == nil && len(content) > 4*store.ChunkSize {
			t.Errorf("%d bytes became %d", len(stored), len(content))
		}
	})
}

// Whatever a reference is, it names a sum or nothing.
func FuzzParseRef(f *testing.F) {
	f.Add(store.RefOf(store.Hash{1}))
	f.Add("sha256:")
	f.Add("sha256:../../x")
	f.Add("sha256:" + strings.Repeat("0A", len(store.Hash{})))
	f.Fuzz(func(t *testing.T, ref string) {
		sum, err := store.ParseRef(ref)
		if err == nil && store.RefOf(sum) != ref {
			t.Errorf("%q is taken for %q", ref, store.RefOf(sum))
		}
	})
}
