package evidence_test

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
)

// member is a file of an archive as its author wrote it.
type member struct {
	name, content string
	mode          fs.FileMode
}

// packMembers writes an archive with these files, in this order.
func packMembers(t *testing.T, members []member) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, m := range members {
		h := &zip.FileHeader{Name: m.name, Method: zip.Deflate}
		if m.mode != 0 {
			h.SetMode(m.mode)
		}
		f, err := w.CreateHeader(h)
		if err == nil && m.content != "" {
			_, err = f.Write([]byte(m.content))
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

// TestAnArchiveMeansOneThing: what is verified must be what any program unpacks. An
// archive with two files of one name, with names that lead elsewhere, or with links,
// is not valid, wherever the right file stands in it.
func TestAnArchiveMeansOneThing(t *testing.T) {
	files := bundled(t).files
	names := slices.Sorted(maps.Keys(files))
	var right []member
	for _, name := range names {
		right = append(right, member{name: name, content: files[name].String()})
	}
	if f := verifiedArchive(packMembers(t, right)); f != nil {
		t.Fatal(f)
	}
	with := func(first bool, more ...member) []member {
		if first {
			return slices.Concat(more, right)
		}
		return slices.Concat(right, more)
	}
	for what, forged := range map[string][]member{
		"the same name":       {{name: "events.jsonl", content: "{}\n"}},
		"the same file":       {right[0]},
		"a way up":            {{name: "../events.jsonl", content: "{}\n"}},
		"a way around":        {{name: "x/../events.jsonl", content: "{}\n"}},
		"a dot before it":     {{name: "./events.jsonl", content: "{}\n"}},
		"an absolute name":    {{name: "/etc/profile.d/x.sh", content: "rm -rf ~\n"}},
		"two slashes":         {{name: "a//b", content: "x"}},
		"a backslash":         {{name: `..\events.jsonl`, content: "{}\n"}},
		"a drive":             {{name: `C:evil.txt`, content: "x"}},
		"a NUL":               {{name: "events.jsonl\x00.txt", content: "x"}},
		"another case":        {{name: "EVENTS.jsonl", content: "{}\n"}},
		"a link":              {{name: "notes", content: "/etc/passwd", mode: fs.ModeSymlink | 0o777}},
		"a device":            {{name: "null", mode: fs.ModeDevice | 0o666}},
		"a folder of a file":  {{name: "events.jsonl/"}},
		"a file not listed":   {{name: "readme.txt", content: "trust me"}},
		"below a listed file": {{name: "events.jsonl/x", content: "x"}},
	} {
		for _, first := range []bool{true, false} {
			if f := verifiedArchive(packMembers(t, with(first, forged...))); f == nil {
				t.Errorf("%s, before the others: %v: nothing was found", what, first)
			}
		}
	}
	linked := slices.Clone(right)
	linked[1].mode = fs.ModeSymlink | 0o777
	if verifiedArchive(packMembers(t, linked)) == nil {
		t.Error("a file of the bundle is a link: nothing was found")
	}
}

// TestAnArchiveSaysEverythingTwiceAlike: some programs read the directory of an archive,
// others the header before each file. A header that differs in a bit, a byte between files
// and a second name in the further fields are found, though the directory is whole.
func TestAnArchiveSaysEverythingTwiceAlike(t *testing.T) {
	whole := archived(t, bundled(t).files)
	archive, err := zip.NewReader(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	header, unread := 0, []int{4, 5, 10, 11, 12, 13} // the version that is needed, and the time
	for _, f := range archive.File {
		begin, err := f.DataOffset()
		if err != nil {
			t.Fatal(err)
		}
		for at := header; at < int(begin); at++ {
			if in := at - header; slices.Contains(unread, in) || 14 <= in && in < 26 {
				continue // nor the sizes: they come after the content here
			}
			data := slices.Clone(whole)
			data[at] ^= 1 << (at % 8)
			if verifiedArchive(data) == nil {
				t.Errorf("bit %d of byte %d of the header of %s was changed: nothing was found", at%8, at-header, f.Name)
			}
		}
		header = int(begin) + int(f.CompressedSize64) + 16
	}
	named := packNamed(t, bundled(t).files, func(h *zip.FileHeader) {
		if h.Name == "events.jsonl" {
			h.Extra = []byte("\x75\x70\x06\x00\x01crc1x")
		}
	})
	if f := verifiedArchive(named); f == nil || !strings.Contains(f.Detail, "disagree") {
		t.Errorf("a second name: %v", f)
	}
	if f := verifiedArchive(packNamed(t, bundled(t).files, func(h *zip.FileHeader) { h.Extra = []byte("\x55\x54\x01\x00\x00") })); f != nil {
		t.Errorf("a field with the time: %v", f)
	}
	if f := verifiedArchive(slices.Concat(whole[:header], []byte("more"), whole[header:])); f == nil {
		t.Error("bytes before the directory: nothing was found")
	}
}

// packNamed packs files whose headers were changed.
func packNamed(t *testing.T, files map[string]*bytes.Buffer, change func(*zip.FileHeader)) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		change(h)
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = f.Write(files[name].Bytes())
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
