package evidence_test

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"agentd"
	"agentd/command"
	"agentd/evidence"
	"agentd/model/provider/script"
)

// inMemory is a bundle that stays in memory.
type inMemory struct {
	files map[string]*bytes.Buffer
}

func (m *inMemory) Create(path string) (io.Writer, error) {
	m.files[path] = &bytes.Buffer{}
	return m.files[path], nil
}

func (m *inMemory) fs() fstest.MapFS {
	out := fstest.MapFS{}
	for path, b := range m.files {
		out[path] = &fstest.MapFile{Data: slices.Clone(b.Bytes())}
	}
	return out
}

// bundled is a session with a large output, as a bundle.
func bundled(t testing.TB) *inMemory {
	t.Helper()
	k := newKit(t, func(o *agentd.Options) { o.Loop.Outputs.InlineBytes = 64 },
		wants("write_file", map[string]any{"path": "big.txt", "content": strings.Repeat("a line\n", 400)}),
		wants("read_file", map[string]any{"path": "big.txt"}), script.Answer{Text: "read"})
	k.turn("sess_bundle", "read it", nil)
	pack := k.evidenceOf(command.ExportScope{SessionID: "sess_bundle"})
	m := &inMemory{files: map[string]*bytes.Buffer{}}
	if err := evidence.WriteBundle(bytes.NewReader(pack), func(ref string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(k.output(ref))), nil
	}, m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestBundleVerifiesAndItsChangesAreFound(t *testing.T) {
	m := bundled(t)
	v := evidence.VerifyBundle(m.fs(), evidence.VerifyOptions{})
	if v.Finding != nil {
		t.Fatal(v.Finding)
	}
	if v.Files != len(m.files) || v.Files < 5 {
		t.Errorf("%d files, %d were written", v.Files, len(m.files))
	}
	for path := range m.files {
		for name, change := range map[string]func(fstest.MapFS){
			"drop": func(f fstest.MapFS) { delete(f, path) },
			"flip": func(f fstest.MapFS) { d := f[path].Data; d[len(d)/2] ^= 1 },
			"add":  func(f fstest.MapFS) { f[path].Data = append(f[path].Data, 'x') },
			"cut":  func(f fstest.MapFS) { d := f[path].Data; f[path].Data = d[:len(d)-2] },
		} {
			files := m.fs()
			change(files)
			v := evidence.VerifyBundle(files, evidence.VerifyOptions{})
			if v.Finding == nil || v.Finding.File != path {
				t.Errorf("%s %s: %v", name, path, v.Finding)
			}
		}
	}
	files := m.fs()
	files["outputs/more"] = &fstest.MapFile{Data: []byte("planted")}
	if v := evidence.VerifyBundle(files, evidence.VerifyOptions{}); v.Finding == nil || v.Finding.File != "outputs/more" {
		t.Errorf("a planted file: %v", v.Finding)
	}
}

// TestFindingNamesTheByte: a changed byte of any file is named, also in an archive,
// whose files can't be sought in.
func TestFindingNamesTheByte(t *testing.T) {
	m := bundled(t)
	outputs := 0
	for path, file := range m.files {
		places := []int{10, file.Len() / 3, file.Len() / 2, file.Len() - 5}
		if strings.HasPrefix(path, "outputs/") {
			outputs++
		}
		if path == "evidence.json" {
			places = places[:3] // the end of it is the signature
		}
		for _, at := range places {
			files := m.fs()
			files[path].Data[at] ^= 1
			for how, files := range map[string]fs.FS{"directory": files, "archive": unseekable{files}} {
				v := evidence.VerifyBundle(files, evidence.VerifyOptions{})
				if v.Finding == nil || v.Finding.File != path || v.Finding.Byte != int64(at) {
					t.Errorf("%s: %s byte %d: %v", how, path, at, v.Finding)
				}
			}
		}
	}
	if outputs == 0 {
		t.Error("the bundle has no contents")
	}
}

// TestAHiddenPlaceIsNotNamed changes contents so that their checksums are the same:
// the change is found, and no byte is named for it.
func TestAHiddenPlaceIsNotNamed(t *testing.T) {
	m := bundled(t)
	same := binary.LittleEndian.AppendUint64(nil, 1|crc32.Castagnoli<<1) // the checksum's own polynomial
	tried := 0
	for path, file := range m.files {
		if !strings.HasPrefix(path, "outputs/") || file.Len() < len(same) {
			continue
		}
		tried++
		files := m.fs()
		subtle.XORBytes(files[path].Data, files[path].Data[:len(same)], same)
		if v := evidence.VerifyBundle(files, evidence.VerifyOptions{}); v.Finding == nil || v.Finding.File != path || v.Finding.Exact || v.Finding.Byte != 0 {
			t.Errorf("%s: %+v", path, v.Finding)
		}
	}
	if tried == 0 {
		t.Error("no content is long enough")
	}
}

// unseekable has files that are read once from their beginning.
type unseekable struct{ fs.FS }

func (u unseekable) Open(path string) (fs.File, error) {
	f, err := u.FS.Open(path)
	if _, folder := f.(fs.ReadDirFile); err != nil || folder {
		return f, err
	}
	return struct{ fs.File }{f}, nil
}
