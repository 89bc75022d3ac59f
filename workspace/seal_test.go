package workspace

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentd/store"

	"pgregory.net/rapid"
)

func sealed(t fataler, s *sealer, content []byte) []byte {
	t.Helper()
	r, err := s.seal(bytes.NewReader(content))
	if err != nil {
		t.Fatalf("%v", err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return b
}

func testSealer(t fataler, key byte) *sealer {
	t.Helper()
	s, err := newSealer(testKey(key))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return s
}

func TestSealing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content := rapid.SliceOf(rapid.Byte()).Draw(t, "content")
		s := testSealer(t, 1)
		b := sealed(t, s, content)
		if !bytes.Equal(b, sealed(t, testSealer(t, 1), content)) {
			t.Fatalf("equal contents are sealed differently")
		}
		var out bytes.Buffer
		if err := (&sealers{own: s}).unseal(t.Context(), &out, bytes.NewReader(b)); err != nil || !bytes.Equal(out.Bytes(), content) {
			t.Fatalf("unsealed %x, %v", out.Bytes(), err)
		}
		if err := (&sealers{own: testSealer(t, 2)}).unseal(t.Context(), io.Discard, bytes.NewReader(b)); !errors.Is(err, ErrOtherKey) {
			t.Fatalf("with another key: %v", err)
		}
		i := rapid.IntRange(0, len(b)-1).Draw(t, "changed byte")
		b[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "change"))
		if err := (&sealers{own: s}).unseal(t.Context(), io.Discard, bytes.NewReader(b)); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrOtherKey) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
		b[i] ^= 1
		if err := (&sealers{own: s}).unseal(t.Context(), io.Discard, bytes.NewReader(b[:i])); err == nil {
			t.Fatalf("cut at %d: no error", i)
		}
	})
}

// moving is a content that differs when it is read again.
type moving struct {
	*bytes.Reader
	second []byte
}

func (m *moving) Seek(int64, int) (int64, error) {
	m.Reader = bytes.NewReader(m.second)
	return 0, nil
}

func TestContentThatMovesIsNotSealed(t *testing.T) {
	r, err := testSealer(t, 1).seal(&moving{bytes.NewReader([]byte("one")), []byte("two")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); !errors.Is(err, errMoving) {
		t.Fatalf("got %v", err)
	}
}

func TestReferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := earlier{
			kind:  rapid.SampledFrom([]string{kindFile, kindLink, kindDir, kindList}).Draw(t, "kind"),
			state: State{Mode: int64(rapid.IntRange(0, 0o7777).Draw(t, "mode"))},
		}
		if e.kind == kindDir {
			e.state.Hash = kindDir
		} else {
			e.setHash(strings.Repeat(rapid.StringMatching("[0-9a-f]{8}").Draw(t, "sum"), 8))
			copy(e.at.blob[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "blob"))
			if rapid.Bool().Draw(t, "part") {
				e.at.off, e.at.n = rapid.Int64Range(0, 1<<40).Draw(t, "off"), rapid.Int64Range(1, 1<<40).Draw(t, "n")
			}
		}
		ref := formatRef(e.kind, e.state, e.at)
		got, err := parseRef(ref)
		if err != nil || got != e {
			t.Fatalf("%s: got %+v, %v, want %+v", ref, got, err, e)
		}
		if _, err := store.ParseRef(ref); err == nil {
			t.Fatalf("%s can be served as an output", ref)
		}
		blob, ok := blobRef(ref)
		if ok != (e.kind != kindDir) || ok && blob != store.RefOf(e.at.blob) {
			t.Fatalf("%s: blob %q, %v", ref, blob, ok)
		}
	})
}

func TestWhatIsNoReference(t *testing.T) {
	sum := strings.Repeat("0", 64)
	for _, ref := range []string{
		"", "undo:", "undo:dir", "undo:dir:9", "undo:dir:10000", "undo:dir:-1", "undo:dir:755:" + sum, "sha256:" + sum,
		"undo:file:644", "undo:file:644:" + sum, "undo:file:644:xx:" + sum, "undo:other:644:" + sum + ":" + sum,
		"undo:file:644:" + sum + ":" + sum + ":1", "undo:file:644:" + sum + ":" + sum + ":-1+5", "undo:file:644:" + sum + ":" + sum + ":1+0",
		"undo:file:644:" + sum + ":" + sum + ":1+2:3",
	} {
		if e, err := parseRef(ref); err == nil {
			t.Errorf("%q is taken for %+v", ref, e)
		}
		if _, ok := blobRef(ref); ok {
			t.Errorf("%q has a blob", ref)
		}
	}
}

func TestLoadKey(t *testing.T) {
	dir := t.TempDir()
	keys := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			key, err := LoadKey(dir)
			if err != nil {
				t.Error(err)
			}
			keys[i] = key
		})
	}
	wg.Wait()
	for _, key := range keys {
		if len(key) != KeySize || !bytes.Equal(key, keys[0]) {
			t.Fatalf("keys differ: %x and %x", key, keys[0])
		}
	}
	if bytes.Equal(keys[0], make([]byte, KeySize)) {
		t.Fatal("the key is zero")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != KeyFile {
		t.Fatalf("in the folder: %v, %v", entries, err)
	}
	path := filepath.Join(dir, KeyFile)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKey(dir); err == nil || !strings.Contains(err.Error(), "0640") {
		t.Fatalf("a key that others may read: %v", err)
	}
	for _, bad := range []string{"", "abc", strings.Repeat("0", 62), strings.Repeat("0", 66), strings.Repeat("z", 64)} {
		if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte(bad), 0o600)); err != nil {
			t.Fatal(err)
		}
		if key, err := LoadKey(dir); err == nil {
			t.Errorf("%q is taken for the key %x", bad, key)
		}
	}
	if _, err := LoadKey(filepath.Join(dir, "missing")); err == nil {
		t.Error("a missing folder is no error")
	}
}

func TestNewNeedsKeyAndBlobs(t *testing.T) {
	k := newKit(t, Options{})
	if _, err := New(Options{Key: testKey(1)}); err == nil {
		t.Error("no Blobs: no error")
	}
	if _, err := New(Options{Blobs: k.store, Key: testKey(1)[1:]}); err == nil {
		t.Error("a short key: no error")
	}
}
