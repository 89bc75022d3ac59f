package workspace

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/event"
	"agentd/store"
)

func TestFileToolIsExact(t *testing.T) {
	k := newKit(t, Options{})
	k.write("a.txt", "before")
	k.must(os.Chmod(k.path("a.txt"), 0o640))
	tree := k.tree()
	first := k.tool("a.txt", func() { k.write("a.txt", "after") })
	second := k.tool("new/deep/b.txt", func() { k.write("new/deep/b.txt", "made") })
	k.want(facts(first), "modified a.txt kept")
	k.want(facts(second), "created new\ncreated new/deep\ncreated new/deep/b.txt")
	if first[0].AfterHash != fileState("after").Hash || first[0].Mode != 0o640 {
		t.Errorf("the state after is %s %o", first[0].AfterHash, first[0].Mode)
	}
	k.want(outcomeLines(k.apply(false, first, second)), "restored a.txt\ndeleted new\ndeleted new/deep\ndeleted new/deep/b.txt")
	k.want(k.tree(), tree)
}

func TestChangingTwiceKeepsTheFirst(t *testing.T) {
	k := newKit(t, Options{})
	k.write("a", "1")
	r, err := k.v.Record(k.root)
	k.must(err)
	for _, content := range []string{"2", "3"} {
		k.must(r.Changing(k.ctx, "a"))
		k.write("a", content)
	}
	k.apply(false, k.finish(r))
	k.want(k.read("a"), "1")
	k.want(facts(k.finish(r)), "") // it has ended
	if err := r.Changing(k.ctx, "a"); err == nil {
		t.Error("Changing after the end is no error")
	}
}

func TestWhatDidNotChangeIsNoFact(t *testing.T) {
	k := newKit(t, Options{})
	k.write("a", "same")
	k.want(facts(k.tool("a", func() { k.write("a", "same") })), "")
	k.want(facts(k.tool("missing/b", func() {})), "")
	k.want(facts(k.shell(func() { k.write("a", "same") })), "")
	k.want(facts(k.shell(func() { k.write("b", "x"); k.must(os.Remove(k.path("b"))) })), "")
}

func TestChangingOutsideIsRefused(t *testing.T) {
	k := newKit(t, Options{})
	outside := realTemp(t)
	k.must(os.Symlink(outside, k.path("out")))
	r, err := k.v.Record(k.root)
	k.must(err)
	for _, path := range []string{"..", "../x", ".", k.root, filepath.Dir(k.root), "out/x", "out/deep/x", "/etc/hostname", filepath.Join(outside, "x")} {
		if err := r.Changing(k.ctx, path); err == nil {
			t.Errorf("%s is allowed", path)
		}
	}
	k.want(facts(k.finish(r)), "")
}

func TestChangingThroughALink(t *testing.T) {
	k := newKit(t, Options{})
	k.write("real/a", "1")
	k.must(os.Symlink("real", k.path("folder")))
	k.must(os.Symlink("real/a", k.path("file")))
	tree := k.tree()
	through := k.tool("folder/a", func() { k.write("folder/a", "2") })
	k.want(facts(through), "modified real/a kept")
	byFile := k.tool("file", func() { k.write("file", "3") })
	k.want(facts(byFile), "modified real/a kept")
	replaced := k.tool("file", func() { k.must(os.Remove(k.path("file"))); k.write("file", "4") })
	k.want(facts(replaced), "modified file kept")
	k.apply(false, through, byFile, replaced)
	k.want(k.tree(), tree)
}

func TestLargeFilesAreNamedNotKept(t *testing.T) {
	k := newKit(t, Options{MaxFile: 10})
	k.write("big", strings.Repeat("x", 11))
	k.write("small", "x")
	tool := k.tool("big", func() { k.write("big", "small now") })
	shell := k.shell(func() { k.write("small", strings.Repeat("y", 11)); k.write("made", strings.Repeat("z", 11)) })
	again := k.shell(func() { k.write("small", strings.Repeat("y", 12)) })
	k.want(facts(tool), "modified big: "+noteTooLarge)
	k.want(facts(shell), "created made\nmodified small kept")
	k.want(facts(again), "modified small: "+noteTooLarge)
	k.want(outcomeLines(k.apply(false, tool, shell, again)), "unavailable big: "+noteTooLarge+"\ndeleted made\nrestored small")
	k.want(k.read("small"), "x")
	k.want(k.read("big"), "small now")
}

// A file that is larger than what is held in memory goes to the store at once.
func TestFileToolWithAMiddlingFile(t *testing.T) {
	k := newKit(t, Options{Inline: 1 << 30})
	content := strings.Repeat("0123456789abcdef", maxHeldFile/16) + "end"
	k.write("a", content)
	files := k.tool("a", func() { k.must(os.Remove(k.path("a"))) })
	k.apply(false, files)
	k.want(k.read("a"), content)
}

func TestInlineBlobsGoWithTheFacts(t *testing.T) {
	k := newKit(t, Options{Inline: 1000})
	k.write("a", "1")
	r, err := k.v.Record(k.root)
	k.must(err)
	k.must(r.Changing(k.ctx, "a"))
	k.write("a", "2")
	c, err := r.Finish(k.ctx)
	k.must(err)
	ref, _ := blobRef(c.Files[0].BeforeRef)
	if _, err := k.store.OpenBlob(k.ctx, ref); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("it was stored before the facts: %v", err)
	}
	k.want(outcomeLines(k.apply(false, c.Files)), "unavailable a: its earlier content is no longer kept")
	if len(c.Blobs) != 1 {
		t.Fatalf("%d blobs", len(c.Blobs))
	}
	_, err = k.store.PutBlob(k.ctx, strings.NewReader(string(c.Blobs[0])))
	k.must(err)
	k.want(outcomeLines(k.apply(false, c.Files)), "restored a")
}

// failing is a store that is full.
type failing struct{ Blobs }

func (failing) PutBlob(context.Context, io.Reader) (store.BlobInfo, error) {
	return store.BlobInfo{}, store.ErrNoSpace
}

func TestFullStore(t *testing.T) {
	k := newKit(t, Options{})
	k.v.opt.Blobs = failing{k.store}
	k.write("big", strings.Repeat("x", maxHeldFile+1))
	r, err := k.v.Record(k.root)
	k.must(err)
	if err := r.Changing(k.ctx, "big"); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("Changing: %v", err)
	}
	k.finish(r)
	r, err = k.v.Record(k.root)
	k.must(err)
	k.must(r.Before(k.ctx))
	k.write("big", "gone")
	if _, err := r.Finish(k.ctx); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("Finish: %v", err)
	}
	k.v.opt.Blobs = k.store // there is space again
	k.want(facts(k.finish(r)), "modified big kept")
}

func TestManyChangesGoIntoAList(t *testing.T) {
	k := newKit(t, Options{MaxListed: 5})
	for i := range 30 {
		k.write("f"+strings.Repeat("x", i), strings.Repeat("y", i))
	}
	tree := k.tree()
	files := k.shell(func() {
		entries, err := os.ReadDir(k.root)
		k.must(err)
		for _, e := range entries {
			k.must(os.Remove(k.path(e.Name())))
		}
	})
	if len(files) != 5 || files[4].Note != "26 more changes, kept for undo" {
		t.Fatalf("facts:\n%s", facts(files))
	}
	if n := len(k.apply(false, files)); n != 30 {
		t.Errorf("%d outcomes", n)
	}
	k.want(k.tree(), tree)
	files[4].BeforeRef = strings.Replace(files[4].BeforeRef, "list:0:", "list:0:0000", 1)
	got := outcomeLines(k.apply(false, files))
	if !strings.Contains(got, "unavailable .: 26 more changes, kept for undo: ") {
		t.Errorf("a list that can't be read:\n%s", got)
	}
}

func TestManyContentsArePacked(t *testing.T) {
	k := newKit(t, Options{})
	count := &counting{Blobs: k.store}
	k.v.opt.Blobs = count
	for i := range 100 {
		k.write("f"+strings.Repeat("x", i), strings.Repeat("y", i))
	}
	k.write("large", strings.Repeat("z", packItem+1))
	tree := k.tree()
	files := k.shell(func() {
		for i := range 100 {
			k.write("f"+strings.Repeat("x", i), "changed")
		}
		k.write("large", "changed")
	})
	if count.puts != 2 {
		t.Errorf("%d blobs were stored", count.puts)
	}
	k.apply(false, files)
	k.want(k.tree(), tree)
}

type counting struct {
	Blobs
	puts int
}

func (c *counting) PutBlob(ctx context.Context, r io.Reader) (store.BlobInfo, error) {
	c.puts++
	return c.Blobs.PutBlob(ctx, r)
}

func TestTwoCommandsAtOnce(t *testing.T) {
	k := newKit(t, Options{})
	k.write("a", "1")
	r1, err := k.v.Record(k.root)
	k.must(err)
	r2, err := k.v.Record(k.root)
	k.must(err)
	k.must(r1.Before(k.ctx))
	k.must(r2.Before(k.ctx))
	k.write("a", "2")
	k.want(facts(k.finish(r1)), "modified a kept: "+noteShared)
	k.write("b", "3")
	k.want(facts(k.finish(r2)), "modified a kept: "+noteShared+"\ncreated b: "+noteShared)
	// A command afterwards is alone again.
	k.want(facts(k.shell(func() { k.write("b", "4") })), "modified b kept")
}

func TestFileToolWhileACommandRuns(t *testing.T) {
	k := newKit(t, Options{})
	k.write("a", "1")
	k.write("b", "1")
	command, err := k.v.Record(k.root)
	k.must(err)
	k.must(command.Before(k.ctx))
	k.want(facts(k.tool("a", func() { k.write("a", "2") })), "modified a kept")
	tool := k.tool("b", func() { k.write("b", "2") })
	k.write("b", "3")
	k.want(facts(k.finish(command)), "modified b kept: "+noteOther)
	k.want(facts(tool), "modified b kept")
}

func TestOneCallWithToolAndCommand(t *testing.T) {
	k := newKit(t, Options{})
	k.write("a", "1")
	tree := k.tree()
	r, err := k.v.Record(k.root)
	k.must(err)
	k.must(r.Changing(k.ctx, "a"))
	k.write("a", "2")
	k.must(r.Before(k.ctx))
	k.write("a", "3")
	k.write("b", "3")
	files := k.finish(r)
	k.want(facts(files), "modified a kept\ncreated b")
	k.apply(false, files)
	k.want(k.tree(), tree)
}

func TestRecorderNeedsARoot(t *testing.T) {
	k := newKit(t, Options{})
	for _, root := range []string{"", "relative", k.path("missing")} {
		if _, err := k.v.Record(root); err == nil {
			t.Errorf("%q is allowed", root)
		}
		if _, err := k.v.Apply(k.ctx, root, nil, ApplyOptions{}); err == nil {
			t.Errorf("%q is allowed", root)
		}
	}
}

func TestNamesThatAreNotUTF8(t *testing.T) {
	k := newKit(t, Options{})
	if os.WriteFile(k.path("bad\xff"), nil, 0o644) != nil {
		t.Skip("skipped: this file system refuses names that aren't UTF-8")
	}
	files := k.shell(func() {
		k.write("bad\xff", "x")
		k.write("new\xff", "x")
	})
	k.want(facts(files), "modified bad�: "+noteName+"\ncreated new�: "+noteName)
	k.want(outcomeLines(k.apply(true, files)), "unavailable bad�: "+noteName+"\nunavailable new�: "+noteName)
}

func TestClosedRecorder(t *testing.T) {
	k := newKit(t, Options{})
	r, err := k.v.Record(k.root)
	k.must(err)
	k.must(r.Before(k.ctx))
	x := k.v.known(k.root)
	defer k.v.releaseIndex(x)
	k.must(r.Close())
	k.must(r.Close())
	k.want(facts(k.finish(r)), "")
	if x.holders != 1 || len(x.windows) != 0 {
		t.Errorf("%d holders, %d windows", x.holders, len(x.windows))
	}
	if err := r.Before(k.ctx); err == nil {
		t.Error("Before after the end is no error")
	}
}

// The runtime's own data may be in the workspace: it is never touched.
func TestExcludedPaths(t *testing.T) {
	k := newKit(t, Options{})
	k.v.exclude = []string{k.path("data/store"), k.path("key"), realTemp(t)}
	k.write("data/store/log", "1")
	k.write("key", "1")
	files := k.shell(func() {
		k.write("data/store/log", "2")
		k.write("data/other", "2")
		k.write("key", "2")
		k.write("sub/key", "2")
	})
	k.want(facts(files), "created data/other\ncreated sub\ncreated sub/key")
	r, err := k.v.Record(k.root)
	k.must(err)
	for _, path := range []string{"key", "data/store", "data/store/log", "data/store/new"} {
		if err := r.Changing(k.ctx, path); err == nil {
			t.Errorf("%s may change", path)
		}
	}
	k.must(r.Close())
	forged := did("data/store/log", State{}, State{Hash: fileState("2").Hash, Mode: 0o644})
	k.want(outcomeLines(k.apply(true, []event.FileChange{forged})), "unavailable data/store/log: it belongs to the runtime")
	k.want(k.read("data/store/log"), "2")
}
