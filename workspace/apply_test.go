package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/event"
	"agentd/store"
	"agentd/store/pebble"
)

func TestForceOverwrites(t *testing.T) {
	k := newKit(t, Options{})
	k.write("d/a", "1")
	files := k.tool("d/a", func() { k.write("d/a", "2") })
	k.write("d/a", "theirs")
	k.want(outcomeLines(k.apply(false, files)), "conflict d/a: "+reasonSince)
	k.want(k.read("d/a"), "theirs")
	k.want(outcomeLines(k.apply(true, files)), "restored d/a: forced: "+reasonSince)
	k.want(k.read("d/a"), "1")
	k.must(os.RemoveAll(k.path("d")))
	k.want(outcomeLines(k.apply(false, files)), "conflict d/a: "+reasonSince)
	k.want(outcomeLines(k.apply(true, files)), "restored d/a: forced: "+reasonSince)
	k.want(k.read("d/a"), "1")
}

func TestFolderWithOthersFilesIsKept(t *testing.T) {
	k := newKit(t, Options{})
	files := k.shell(func() { k.write("made/a", "1") })
	k.write("made/theirs", "x")
	for _, force := range []bool{false, true} {
		preview, err := k.v.Preview(k.ctx, k.root, turned(files), ApplyOptions{Force: force})
		k.must(err)
		k.want(outcomeLines(preview), "kept made: "+errNotEmpty.Error()+"\ndeleted made/a")
		k.want(outcomeLines(k.apply(force, files)), "kept made: "+errNotEmpty.Error()+"\ndeleted made/a")
		k.want(k.read("made/theirs"), "x")
	}
}

// A folder that isn't empty stands where a file was: even force leaves it.
func TestForceNeverRemovesWhatIsUnknown(t *testing.T) {
	k := newKit(t, Options{})
	k.write("a", "1")
	files := k.tool("a", func() { k.write("a", "2") })
	k.must(os.Remove(k.path("a")))
	k.write("a/theirs", "x")
	k.want(outcomeLines(k.apply(true, files)), "kept a: "+errNotEmpty.Error())
	k.want(k.read("a/theirs"), "x")
}

func TestFoldersThatAreClosed(t *testing.T) {
	k := newKit(t, Options{})
	k.write("d/a", "1")
	k.must(os.Chmod(k.path("d"), 0o555))
	tree := k.tree()
	files := k.shell(func() {
		k.must(os.Chmod(k.path("d"), 0o755))
		k.write("d/a", "2")
		k.write("d/b", "2")
		k.must(os.Chmod(k.path("d"), 0o511))
	})
	k.apply(false, files)
	k.want(k.tree(), tree)
	k.must(os.Chmod(k.path("d"), 0o755)) // so that the folder can be removed
}

func TestModesOfFoldersAreRestored(t *testing.T) {
	k := newKit(t, Options{})
	k.write("a", "1")
	k.must(os.Chmod(k.path("a"), 0o750))
	k.must(os.Mkdir(k.path("d"), 0o755))
	k.must(os.Chmod(k.path("d"), 0o777|fs.ModeSticky))
	tree := k.tree()
	files := k.shell(func() { k.must(os.RemoveAll(k.path("a"))); k.must(os.Remove(k.path("d"))) })
	k.apply(false, files)
	k.want(k.tree(), tree)
}

// A restored file belongs to this process's user, whoever's it was: as a set-user-ID
// program it would give that user's rights to anybody.
func TestNoProgramComesBackWithAnotherUsersRights(t *testing.T) {
	k := newKit(t, Options{})
	for _, name := range []string{"gone", "changed", "as-it-was"} {
		k.write(name, "1")
		k.must(os.Chmod(k.path(name), 0o755|fs.ModeSetuid|fs.ModeSetgid))
	}
	files := k.shell(func() {
		k.must(os.Remove(k.path("gone")))
		k.must(os.WriteFile(k.path("changed"), []byte("2"), 0o644))
	})
	for range 2 { // the second time nothing is left to do
		got := k.apply(false, files)
		for _, name := range []string{"gone", "changed"} {
			info, err := os.Stat(k.path(name))
			k.must(err)
			if data, err := os.ReadFile(k.path(name)); err != nil || string(data) != "1" || info.Mode() != 0o755 {
				t.Errorf("%s: %q with mode %v, %v, outcomes %+v", name, data, info.Mode(), err, got)
			}
		}
		for _, f := range got {
			if f.Change != rolledRestored {
				t.Errorf("%+v", f)
			}
		}
	}
	if info, err := os.Stat(k.path("as-it-was")); err != nil || info.Mode() != 0o755|fs.ModeSetuid|fs.ModeSetgid {
		t.Errorf("a file that nobody changed: %v, %v", info.Mode(), err)
	}
}

// The folder of a file is replaced by a link that leads outside.
func TestRestoringNeverLeavesTheRoot(t *testing.T) {
	k := newKit(t, Options{})
	outside := realTemp(t)
	k.write("d/a", "1")
	files := k.shell(func() { k.write("d/a", "2"); k.write("d/new", "2") })
	k.must(os.RemoveAll(k.path("d")))
	k.must(os.Symlink(outside, k.path("d")))
	for _, name := range []string{"a", "new"} {
		k.must(os.WriteFile(filepath.Join(outside, name), []byte("2"), 0o644))
	}
	for _, force := range []bool{false, true} {
		k.apply(force, files)
		for _, name := range []string{"a", "new"} {
			b, err := os.ReadFile(filepath.Join(outside, name))
			k.must(err)
			k.want(string(b), "2")
		}
	}
	evil := []event.FileChange{{Path: "../x", Change: changeCreated, AfterHash: fileState("2").Hash, Mode: 0o644}, {Path: "/etc/x", Change: changeDeleted, BeforeRef: files[0].BeforeRef}}
	for _, f := range k.apply(true, evil) {
		if f.Change != rolledUnavailable {
			t.Errorf("outcome %+v", f)
		}
	}
}

func TestContentsThatCannotBeReadBack(t *testing.T) {
	k := newKit(t, Options{})
	k.write("a", "1")
	files := k.shell(func() { k.write("a", "2"); k.write("b", "2") })
	key := k.v.sealers.own
	k.v.sealers.own = testSealer(t, 2)
	preview, err := k.v.Preview(k.ctx, k.root, turned(files), ApplyOptions{})
	k.must(err)
	k.want(outcomeLines(preview), "unavailable a: its earlier content was sealed with another key\ndeleted b")
	k.want(outcomeLines(k.apply(true, files)), outcomeLines(preview))
	k.want(k.read("a"), "2")
	k.v.sealers.own = key

	sum := fileState("other").Hash[len(hashSHA256):]
	swapped := files[0]
	swapped.BeforeRef = strings.Replace(swapped.BeforeRef, fileState("1").Hash[len(hashSHA256):], sum, 1)
	k.want(outcomeLines(k.apply(false, []event.FileChange{swapped})), "unavailable a: its earlier content is damaged")

	ref, _ := blobRef(files[0].BeforeRef)
	k.must(k.store.DeleteBlob(k.ctx, ref))
	k.want(outcomeLines(k.apply(false, files[:1])), "unavailable a: its earlier content is no longer kept")
	k.want(k.read("a"), "2")
}

func TestRollbackEndsWithItsContext(t *testing.T) {
	k := newKit(t, Options{})
	k.write("a", "1")
	files := k.shell(func() { k.write("a", "2") })
	ctx, cancel := context.WithCancel(k.ctx)
	k.v.step = func() error { cancel(); return nil }
	if _, err := k.v.Apply(ctx, k.root, turned(files), ApplyOptions{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("Apply: %v", err)
	}
	k.want(k.read("a"), "2")
	k.v.step = nil
	k.want(outcomeLines(k.apply(false, files)), "restored a")
}

// A rollback that was interrupted and became a conflict leaves nothing behind.
func TestLeftoversAreRemoved(t *testing.T) {
	k := newKit(t, Options{})
	k.write("a", "1")
	files := k.shell(func() { k.write("a", "2") })
	steps := 0
	k.v.step = func() error {
		if steps++; steps == 3 { // before the file takes its name
			return errCrash
		}
		return nil
	}
	if _, err := k.v.Apply(k.ctx, k.root, turned(files), ApplyOptions{}); !errors.Is(err, errCrash) {
		t.Fatalf("Apply: %v", err)
	}
	k.v.step = nil
	if _, err := os.Stat(k.path(tempName("a"))); err != nil {
		t.Fatalf("the test expects a file that was left: %v", err)
	}
	k.want(facts(k.shell(func() {})), "")
	k.write("a", "theirs")
	k.want(outcomeLines(k.apply(false, files)), "conflict a: "+reasonSince)
	k.want(k.tree(), `a -rw-r--r-- "theirs"`)
}

// The store's files and the spool's folder are searched for a planted secret.
func TestSecretsAreNotInTheStore(t *testing.T) {
	// Bytes that the store's compression leaves as they are.
	sum := sha256.Sum256([]byte("planted"))
	secret := strings.NewReplacer("\x00", "0", "/", "1").Replace(string(sum[:]))
	plain := filesWith(t, secret, func(s store.Store, _ string) {
		if _, err := s.PutBlob(t.Context(), strings.NewReader("x = "+secret)); err != nil {
			t.Fatal(err)
		}
	})
	if len(plain) == 0 {
		t.Fatal("the search doesn't find what is there")
	}
	found := filesWith(t, secret, func(s store.Store, spool string) {
		k := &kit{fataler: t, ctx: t.Context(), root: realTemp(t)}
		var err error
		k.v, err = New(Options{Blobs: s, Key: testKey(1), SpoolDir: spool})
		k.must(err)
		defer k.close()
		for _, rel := range []string{"a", "b", "c"} {
			k.write(rel, "x = "+secret)
		}
		k.must(os.Symlink(secret, k.path("link")))
		tool := k.tool("a", func() { k.write("a", "y") })
		shell := k.shell(func() { k.write("b", "y"); k.must(os.Remove(k.path("link"))) })
		for _, c := range append(tool, shell...) {
			if c.BeforeRef == "" {
				t.Fatalf("not kept: %+v", c)
			}
		}
		x := k.v.known(k.root)
		defer k.v.releaseIndex(x)
		copies := make([]byte, x.spool.size)
		_, _ = x.spool.f.ReadAt(copies, 0)
		if len(copies) == 0 || bytes.Contains(copies, []byte(secret)) {
			t.Errorf("the spool has %d bytes, the secret among them", len(copies))
		}
		k.apply(false, tool, shell)
		k.want(k.read("a"), "x = "+secret)
	})
	if len(found) > 0 {
		t.Errorf("the secret is in %v", found)
	}
}

// filesWith uses a store on disk and returns its files, and those beside it,
// that hold a text.
func filesWith(t *testing.T, text string, use func(s store.Store, spool string)) (found []string) {
	t.Helper()
	dir := t.TempDir()
	s, err := pebble.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		t.Fatal(err)
	}
	spool := filepath.Join(dir, "spool")
	if err := os.Mkdir(spool, 0o700); err != nil {
		t.Fatal(err)
	}
	use(s, spool)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
