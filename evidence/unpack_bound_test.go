package evidence

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

func TestFilesEndWhereTheAllowanceDoes(t *testing.T) {
	files := fstest.MapFS{"a": {Data: make([]byte, 600)}, "b": {Data: make([]byte, 600)}}
	bounded := &boundedFiles{files, &allowance{limit: 1000, left: 1000}}
	if _, err := fs.ReadFile(bounded, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := fs.ReadFile(bounded, "b"); err == nil || !strings.Contains(err.Error(), "unpacks to more than") {
		t.Errorf("the second file: %v", err)
	}
	if list, err := fs.ReadDir(bounded, "."); err != nil || len(list) != 2 {
		t.Errorf("the list has %d files: %v", len(list), err)
	}
}

func TestSalvageEndsWhereTheAllowanceDoes(t *testing.T) {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, name := range []string{"a", "b", "c"} {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write(make([]byte, 4000))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	damaged := buf.Bytes()[:buf.Len()-10]
	open := func(most int64) (fs.FS, *damage) {
		return openArchive(bytes.NewReader(damaged), int64(len(damaged)), &allowance{limit: most, left: most})
	}
	if files, broken := open(12_000); files == nil || broken == nil {
		t.Errorf("within the allowance: %v, %v", files, broken)
	}
	if files, broken := open(11_999); files != nil || !strings.Contains(broken.err.Error(), "unpacks to more than") {
		t.Errorf("beyond the allowance: %v, %v", files, broken.err)
	}
}
