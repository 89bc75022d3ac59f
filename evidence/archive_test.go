package evidence_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"agentd/evidence"
)

// archived packs files.
func archived(t *testing.T, files map[string]*bytes.Buffer) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		f, err := w.Create(path)
		if err == nil {
			_, err = f.Write(files[path].Bytes())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// archiveChanges are what may happen to a byte of an archive.
var archiveChanges = map[string]func(data []byte, at int) []byte{
	"flip":   func(data []byte, at int) []byte { data[at] ^= 0x10; return data },
	"drop":   func(data []byte, at int) []byte { return slices.Delete(data, at, at+1) },
	"insert": func(data []byte, at int) []byte { return slices.Insert(data, at, 0x5a) },
}

func verifiedArchive(data []byte) *evidence.Finding {
	return evidence.VerifyArchive(bytes.NewReader(data), int64(len(data)), evidence.VerifyOptions{}).Finding
}

// TestDamageOfAnArchiveIsNamedInItsFile changes packed bytes, which may also break the
// archive itself: what is named is the file, and where in it the content differs.
func TestDamageOfAnArchiveIsNamedInItsFile(t *testing.T) {
	m := bundled(t)
	whole := archived(t, m.files)
	if f := verifiedArchive(whole); f != nil {
		t.Fatal(f)
	}
	r := rand.New(rand.NewPCG(5, 6)) // a test repeats itself
	archive, err := zip.NewReader(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	named, all := 0, 0
	for _, f := range archive.File {
		begin, err := f.DataOffset()
		if err != nil {
			t.Fatal(err)
		}
		for _, how := range slices.Sorted(maps.Keys(archiveChanges)) {
			for range 12 {
				at := int(begin) + r.IntN(int(f.CompressedSize64))
				data := archiveChanges[how](slices.Clone(whole), at)
				content, _ := io.ReadAll(flate.NewReader(bytes.NewReader(data[begin:]))) // as far as it goes
				want := m.files[f.Name].Bytes()
				if bytes.Equal(content, want) {
					continue
				}
				differs := int64(0)
				for int(differs) < min(len(content), len(want)) && content[differs] == want[differs] {
					differs++
				}
				all++
				found := verifiedArchive(data)
				if found == nil || found.File != f.Name || found.Exact && found.Byte != differs {
					t.Errorf("%s byte %d, which changed byte %d of %s: %v", how, at, differs, f.Name, found)
					continue
				}
				if found.Byte == differs || found.Byte < differs && differs < found.Until {
					named++
				}
			}
		}
	}
	// The rest damaged the proof, so that nothing says where the change begins.
	if all < 150 || named < all*2/3 {
		t.Errorf("of %d changes %d were named", all, named)
	}
}

// TestAnArchiveWithoutItsDirectoryIsStillRead: the files are as they were, and what was
// changed is the directory.
func TestAnArchiveWithoutItsDirectoryIsStillRead(t *testing.T) {
	whole := archived(t, bundled(t).files)
	directory := bytes.Index(whole, []byte("PK\x01\x02"))
	found := verifiedArchive(whole[:directory])
	if found == nil || !strings.Contains(found.Detail, "the files in it are as they were") || found.Byte == 0 || found.Byte > int64(directory) {
		t.Errorf("%v, the directory begins at %d", found, directory)
	}
	// An archive's own checksum, which stands after the packed bytes.
	last := bytes.LastIndex(whole[:directory], []byte("PK\x07\x08"))
	sum := slices.Clone(whole)
	at := bytes.Index(sum[directory:], sum[last+4:last+8]) + directory
	sum[at] ^= 1
	if found := verifiedArchive(sum); found == nil || !strings.Contains(found.Detail, "its content is as it was") {
		t.Errorf("a changed checksum: %v", found)
	}
}
