//go:build unix

package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentd/event"
)

func TestCommandChanges(t *testing.T) {
	k := newKit(t, Options{})
	k.write("keep", "same")
	k.write("edit", "old")
	k.write("gone/a", "1")
	k.must(os.Symlink("edit", k.path("link")))
	k.write("tofolder", "file")
	k.must(os.Mkdir(k.path("tofile"), 0o755))
	tree := k.tree()
	files := k.shell(func() {
		k.write("edit", "new")
		k.must(os.RemoveAll(k.path("gone")))
		k.must(os.Remove(k.path("link")))
		k.must(os.Symlink("keep", k.path("link")))
		k.must(os.Remove(k.path("tofolder")))
		k.write("tofolder/in", "x")
		k.must(os.Remove(k.path("tofile")))
		k.write("tofile", "x")
		k.must(os.Chmod(k.path("keep"), 0o600))
		k.must(syscall.Mkfifo(k.path("pipe"), 0o600))
	})
	k.want(facts(files), strings.Join([]string{
		"modified edit kept", "deleted gone kept", "deleted gone/a kept", "modified keep kept", "modified link kept", "created pipe",
		"modified tofile kept", "modified tofolder kept", "created tofolder/in",
	}, "\n"))
	k.apply(false, files)
	k.want(k.tree(), tree)
}

// Same size, same time: only the time of the last change of any kind, or reading
// it again, tells.
func TestChangeThatHidesItsTime(t *testing.T) {
	k := newKit(t, Options{})
	k.write("a", "1111")
	old := time.Unix(1_000_000_000, 0)
	k.must(os.Chtimes(k.path("a"), old, old))
	files := k.shell(func() {
		k.write("a", "2222")
		k.must(os.Chtimes(k.path("a"), old, old))
	})
	k.want(facts(files), "modified a kept")
	k.apply(false, files)
	k.want(k.read("a"), "1111")
}

func TestWhatIsNotLookedAt(t *testing.T) {
	k := newKit(t, Options{KeepIgnored: 10})
	k.write(".gitignore", "*.log\n/build/\n!keep.log\n")
	k.write("sub/.gitignore", "local\n")
	files := k.shell(func() {
		k.write(".git/config", "x")
		k.write("node_modules/a/b.js", "x")
		k.write("sub/.git/x", "x")
	})
	k.want(facts(files), "")
	k.write("build/out", "1")
	k.write("small.log", "1")
	k.write("large.log", strings.Repeat("1", 11))
	k.write("keep.log", strings.Repeat("1", 11))
	k.write("sub/local", strings.Repeat("1", 11))
	files = k.shell(func() {
		for _, f := range []string{"build/out", "small.log", "large.log", "keep.log", "sub/local"} {
			k.write(f, "2")
		}
		k.write("build/deep/new", "2")
	})
	k.want(facts(files), strings.Join([]string{
		"modified build: 3 changes in a folder that .gitignore ignores: earlier contents are not kept",
		"modified keep.log kept",
		"modified large.log: " + noteIgnored,
		"modified small.log kept",
		"modified sub/local: " + noteIgnored,
	}, "\n"))
	k.apply(false, files)
	k.want(k.read("small.log"), "1")
	k.want(k.read("build/out"), "2")
}

func TestIgnoredFolderThatIsMadeIsKept(t *testing.T) {
	k := newKit(t, Options{})
	k.write(".gitignore", "build\n")
	files := k.shell(func() { k.write("build/out", "1") })
	k.want(facts(files), "created build: 1 changes in a folder that .gitignore ignores: earlier contents are not kept")
	k.want(outcomeLines(k.apply(false, files)), "kept build: "+errNotEmpty.Error())
}

// A command that makes the agent's files ignored can't make them lost.
func TestIgnoringLaterLosesNothing(t *testing.T) {
	k := newKit(t, Options{KeepIgnored: -1})
	k.write("a", "1")
	k.write("d/b", "1")
	tree := k.tree()
	first := k.shell(func() { k.write(".gitignore", "*\n") })
	second := k.shell(func() { k.must(os.Remove(k.path("a"))); k.must(os.RemoveAll(k.path("d"))) })
	k.want(facts(second), "deleted a kept\ndeleted d kept\ndeleted d/b kept")
	k.apply(false, first, second)
	k.want(k.tree(), tree)
}

func TestIgnoringNoLonger(t *testing.T) {
	k := newKit(t, Options{KeepIgnored: -1})
	k.write(".gitignore", "a\nd/\n")
	k.write("a", "1")
	k.write("d/b", "1")
	k.shell(func() {})
	k.write(".gitignore", "")
	files := k.shell(func() { k.write("a", "2"); k.write("d/b", "2") })
	k.want(facts(files), "modified a kept\nmodified d/b kept")
}

func TestBudgetOfBytes(t *testing.T) {
	k := newKit(t, Options{MaxBytes: 10})
	k.write("large", "123456789")
	k.write("a", "1")
	k.write("b", "2")
	files := k.shell(func() {
		for _, f := range []string{"large", "a", "b"} {
			k.write(f, "x")
		}
	})
	k.want(facts(files), "modified a kept\nmodified b kept\nmodified large: "+noteBudget)
}

func TestBudgetOfFiles(t *testing.T) {
	k := newKit(t, Options{MaxFiles: 3})
	for i := range 3 {
		k.write(fmt.Sprint(i), "1")
	}
	files := k.shell(func() { k.write("1", "2"); k.write("more", "2") })
	cut := "the workspace has more than 3 entries or 100 levels: what is beyond was not looked at"
	k.want(facts(files), "modified .: "+cut+"\nmodified 1 kept")
	k.want(outcomeLines(k.apply(false, files)), "unavailable .: "+cut+"\nrestored 1")
	k.must(os.Remove(k.path("more")))
	k.want(facts(k.shell(func() { k.must(os.Remove(k.path("0"))) })), "deleted 0 kept")
}

func TestDeepTree(t *testing.T) {
	k := newKit(t, Options{})
	deep := strings.Repeat("d/", maxDepth+5)
	k.write(deep+"x", "1")
	files := k.shell(func() { k.write(deep+"x", "2"); k.write("top", "2") })
	if got := facts(files); !strings.HasPrefix(got, "modified .: the workspace has more than") || !strings.HasSuffix(got, "created top") {
		t.Errorf("got:\n%s", got)
	}
}

// What happens between commands is nobody's change, and is known before the next.
func TestChangesBetweenCommands(t *testing.T) {
	k := newKit(t, Options{})
	k.write("a", "1")
	first := k.shell(func() { k.write("a", "2") })
	k.write("a", "someone else's")
	k.write("b", "someone else's")
	second := k.shell(func() { k.write("a", "3") })
	k.want(facts(second), "modified a kept")
	k.want(outcomeLines(k.apply(false, second)), "restored a")
	k.want(k.read("a"), "someone else's")
	k.want(outcomeLines(k.apply(false, first, second)), "conflict a: "+reasonBetween)
	k.want(k.read("a"), "someone else's")
	k.want(k.read("b"), "someone else's")
}

func TestLookEndsWithItsContext(t *testing.T) {
	k := newKit(t, Options{})
	k.write("a", "1")
	ctx, cancel := context.WithCancel(k.ctx)
	cancel()
	r, err := k.v.Record(k.root)
	k.must(err)
	if err := r.Before(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("Before: %v", err)
	}
	k.must(r.Before(k.ctx))
	k.write("a", "2")
	if err := r.After(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("After: %v", err)
	}
	k.must(r.After(k.ctx))
	k.want(facts(k.finish(r)), "modified a kept")
}

func TestSpoolIsCompacted(t *testing.T) {
	k := newKit(t, Options{MaxBytes: 2000, MaxFile: 1000})
	k.write("same", "unchanged")
	for i := range 50 {
		k.write("a", strings.Repeat(fmt.Sprint(i%10), 900))
		k.shell(func() {})
	}
	x := k.v.known(k.root)
	defer k.v.releaseIndex(x)
	if x.spool.size > 2*2000+1000+1024 {
		t.Errorf("the spool has %d bytes", x.spool.size)
	}
	if x.held != 909 {
		t.Errorf("%d bytes are held", x.held)
	}
	files := k.shell(func() { k.must(os.Remove(k.path("same"))) })
	k.apply(false, files)
	k.want(k.read("same"), "unchanged")
}

func TestWorkspacesAreForgotten(t *testing.T) {
	k := newKit(t, Options{MaxRoots: 2})
	roots := []string{realTemp(t), realTemp(t), realTemp(t)}
	held, err := k.v.Record(roots[0])
	k.must(err)
	k.must(held.Before(k.ctx))
	for _, root := range roots[1:] {
		r, err := k.v.Record(root)
		k.must(err)
		k.must(r.Before(k.ctx))
		k.finish(r)
	}
	for i, want := range []bool{true, false, true} {
		if x := k.v.known(roots[i]); (x != nil) != want {
			t.Errorf("root %d: remembered is %v", i, x != nil)
		} else if x != nil {
			k.v.releaseIndex(x)
		}
	}
	k.finish(held)
	k.must(k.v.Close())
	r, err := k.v.Record(roots[0])
	k.must(err)
	if err := r.Before(k.ctx); err == nil {
		t.Error("a closed vault looks")
	}
	k.finish(r)
}

func TestIgnoreRules(t *testing.T) {
	top := &ignoreRules{rules: parseIgnore("# comment\n*.log\n!important.log\n/anchored\nfolder/\na/**/z\n**/any\nsp\\ ace\ntrail   \n\\#hash\n{b}\nx[0-9]\n[broken\nmid/dle\n")}
	sub := &ignoreRules{above: top, prefix: "sub/", rules: parseIgnore("!kept.log\r\n/here\r\n")}
	for _, c := range []struct {
		path  string
		dir   bool
		want  bool
		rules *ignoreRules
	}{
		{"x.log", false, true, top},
		{"deep/x.log", false, true, top},
		{"important.log", false, false, top},
		{"anchored", false, true, top},
		{"sub/anchored", false, false, top},
		{"folder", true, true, top},
		{"folder", false, false, top},
		{"a/z", false, true, top},
		{"a/b/c/z", false, true, top},
		{"b/a/z", false, false, top},
		{"q/w/any", false, true, top},
		{"sp ace", false, true, top},
		{"trail", false, true, top},
		{"#hash", false, true, top},
		{"{b}", false, true, top},
		{"b", false, false, top},
		{"x1", false, true, top},
		{"xx", false, false, top},
		{"mid/dle", false, true, top},
		{"o/mid/dle", false, false, top},
		{"sub/x.log", false, true, sub},
		{"sub/kept.log", false, false, sub},
		{"sub/here", false, true, sub},
		{"sub/deep/here", false, false, sub},
		{"anything", false, false, nil},
	} {
		if got := c.rules.ignores(c.path, c.dir); got != c.want {
			t.Errorf("%s: ignored is %v", c.path, got)
		}
	}
}

// A flood of ignored files doesn't keep others from being seen.
func TestIgnoredFilesTakeNobodysPlace(t *testing.T) {
	k := newKit(t, Options{MaxFiles: 5})
	k.write(".gitignore", "out/\n")
	for i := range 20 {
		k.write(fmt.Sprintf("out/%d", i), "1")
	}
	k.want(facts(k.shell(func() { k.write("a", "1"); k.write("b", "1") })), "created a\ncreated b")
	x := k.v.known(k.root)
	defer k.v.releaseIndex(x)
	if x.below != 5 {
		t.Errorf("%d ignored entries are remembered", x.below)
	}
	k.must(os.RemoveAll(k.path("out")))
	k.shell(func() {})
	if x.count != 3 || x.below != 0 {
		t.Errorf("%d entries and %d ignored ones", x.count, x.below)
	}
}

// A file that was just changed is read again even if its identity is the same,
// as on systems whose clock for files is coarse.
func TestRecentFilesAreReadAgain(t *testing.T) {
	k := newKit(t, Options{})
	k.write("recent", "1111")
	k.write("old", "1111")
	future, past := time.Now().Add(time.Hour), time.Unix(1_000_000_000, 0)
	k.must(os.Chtimes(k.path("recent"), future, future))
	k.must(os.Chtimes(k.path("old"), past, past))
	files := k.shell(func() {
		k.write("recent", "2222")
		x := k.v.known(k.root)
		defer k.v.releaseIndex(x)
		root, err := openDir(x.root)
		k.must(err)
		defer root.close()
		n := x.findNode("recent")
		n.st, err = root.stat("recent")
		k.must(err)
	})
	k.want(facts(files), "modified recent kept")
	k.apply(false, files)
	k.want(k.read("recent"), "1111")
}

func TestManyRecordersAtOnce(t *testing.T) {
	k := newKit(t, Options{})
	for i := range 4 {
		k.write(fmt.Sprintf("d%d/f", i), "1")
	}
	tree := k.tree()
	apart := t.TempDir()
	turns := make([][]event.FileChange, 8)
	var wg sync.WaitGroup
	for i := range turns {
		wg.Go(func() {
			r, err := k.v.Record(k.root)
			if err != nil {
				t.Error(err)
				return
			}
			path := fmt.Sprintf("d%d/made%d", i%4, i)
			if i < 4 {
				err = r.Before(k.ctx)
			} else {
				err = r.Changing(k.ctx, path)
			}
			// At once, as the file tools do: a recorder that begins in the meantime would take
			// an empty file for what was there before.
			made := filepath.Join(apart, fmt.Sprint(i))
			if err == nil {
				err = os.WriteFile(made, []byte("2"), 0o644)
			}
			if err == nil {
				err = os.Rename(made, k.path(path))
			}
			if err != nil {
				t.Error(err)
			}
			c, err := r.Finish(k.ctx)
			if err != nil {
				t.Error(err)
				return
			}
			turns[i] = c.Files
		})
	}
	wg.Wait()
	k.apply(true, turns...)
	k.want(k.tree(), tree)
}
