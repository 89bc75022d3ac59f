package main

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// archive returns a backup of a small folder.
func archive(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "db"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "ledger", "some lines")
	writeFile(t, dir, "lock", "1")
	writeFile(t, dir, "db/000001.log", strings.Repeat("facts ", 500))
	var b bytes.Buffer
	if err := writeArchive(&b, dir, nil, archiveInfo{Format: archiveFormat}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchiveRoundTrip(t *testing.T) {
	dir := t.TempDir()
	if _, err := readArchive(bytes.NewReader(archive(t)), dir); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "db", "000001.log"))
	if err != nil || string(got) != strings.Repeat("facts ", 500) {
		t.Errorf("db/000001.log: %v, %d bytes", err, len(got))
	}
	if exists(filepath.Join(dir, "lock")) {
		t.Error("the lock is part of the backup")
	}
}

// TestDamagedArchive cuts a backup at every place and flips a bit of every byte
// that is content: none of them passes.
func TestDamagedArchive(t *testing.T) {
	whole := archive(t)
	end := bytes.LastIndex(whole, []byte("}]")) + 2 // of the manifest
	for n := 0; n < end; n += 7 {
		if _, err := readArchive(bytes.NewReader(whole[:n]), ""); err == nil {
			t.Fatalf("a backup of %d bytes passes when it is cut to %d", len(whole), n)
		}
	}
	facts := bytes.Index(whole, []byte("facts facts"))
	for _, at := range []int{facts, facts + 1499, bytes.Index(whole, []byte("some lines")), bytes.LastIndex(whole, []byte(`"sha256"`)) + 12} {
		bad := bytes.Clone(whole)
		bad[at] ^= 1
		if _, err := readArchive(bytes.NewReader(bad), ""); err == nil {
			t.Errorf("a bit that flipped at %d passes", at)
		}
	}
}

func TestArchiveStaysInItsFolder(t *testing.T) {
	for _, name := range []string{"../evil", "/evil", "db/../../evil", "db/./x", "db//x", "token", "lock", "server.json", `db\evil`, "db/a/../../../x"} {
		var b bytes.Buffer
		tw := tar.NewWriter(&b)
		if err := addJSON(tw, archiveHead, archiveInfo{Format: archiveFormat}); err != nil {
			t.Fatal(err)
		}
		if err := addJSON(tw, name, "evil"); err != nil {
			t.Fatal(err)
		}
		if err := tw.Close(); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "in")
		if _, err := readArchive(&b, dir); err == nil || !strings.Contains(err.Error(), "isn't a file of a store") {
			t.Errorf("%q: %v", name, err)
		}
		if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) > 0 {
			t.Errorf("%q: wrote %v", name, left)
		}
	}
}

func TestArchiveOfAnotherFormat(t *testing.T) {
	var b bytes.Buffer
	if err := writeArchive(&b, t.TempDir(), nil, archiveInfo{Format: archiveFormat + 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := readArchive(&b, ""); err == nil || !strings.Contains(err.Error(), "it has format 2") {
		t.Errorf("error is %v", err)
	}
}
