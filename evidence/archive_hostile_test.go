package evidence_test

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"maps"
	"slices"
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
