package evidence_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"hash/crc32"
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

// TestDamageThatReachesOverTheNextFile changes the packed bytes of a file so that they can
// be read without an error up to the end of the file behind it: that one is not missing.
func TestDamageThatReachesOverTheNextFile(t *testing.T) {
	m := bundled(t)
	outputs := slices.DeleteFunc(slices.Sorted(maps.Keys(m.files)), func(path string) bool {
		return !strings.HasPrefix(path, "outputs/") || m.files[path].Len() > 1<<15
	})
	if len(outputs) < 2 {
		t.Fatal("there are no two small outputs")
	}
	for _, two := range [][2]string{{outputs[0], outputs[1]}, {outputs[1], outputs[0]}} {
		found := verifiedArchive(archivedWithOverlap(t, m.files, two[0], two[1]))
		if found == nil || found.File != two[0] {
			t.Errorf("%v, and %s was changed", found, two[0])
		}
	}
}

// archivedWithOverlap packs files without a directory. The packed bytes of the first one
// that is named go on over the second, which stands behind it.
func archivedWithOverlap(t *testing.T, files map[string]*bytes.Buffer, first, second string) []byte {
	t.Helper()
	stored := func(last byte, length int, content []byte) []byte { // a block that isn't compressed
		return append([]byte{last, byte(length), byte(length >> 8), ^byte(length), ^byte(length >> 8)}, content...)
	}
	const header, blockHeader = 30, 5
	other, content := []byte("other"), files[second].Bytes()
	packed := map[string][]byte{
		first:  stored(0, len(other)+header+len(second)+blockHeader+len(content), other),
		second: append(stored(0, len(content), content), stored(1, 0, nil)...),
	}
	order := []string{first, second}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if packed[path] == nil {
			packed[path] = compressed(t, files[path].Bytes())
			order = append(order, path)
		}
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, path := range order {
		content := files[path].Bytes()
		f, err := w.CreateRaw(&zip.FileHeader{
			Name: path, Method: zip.Deflate, CRC32: crc32.ChecksumIEEE(content),
			UncompressedSize64: uint64(len(content)), CompressedSize64: uint64(len(packed[path])),
		})
		if err == nil {
			_, err = f.Write(packed[path])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()[:bytes.Index(out.Bytes(), []byte("PK\x01\x02"))]
}

func compressed(t *testing.T, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.DefaultCompression)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
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
