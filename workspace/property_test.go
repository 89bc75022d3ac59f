package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/event"

	"pgregory.net/rapid"
)

// world is a workspace in which random things happen.
type world struct {
	*kit
	t *rapid.T
}

var worldNames = []string{"a", "b", "dir", "dir2", "x.txt"}

func (w *world) anyPath() string {
	depth := rapid.IntRange(1, 3).Draw(w.t, "depth")
	names := make([]string, depth)
	for i := range names {
		names[i] = rapid.SampledFrom(worldNames).Draw(w.t, "name")
	}
	return strings.Join(names, "/")
}

// edit does one random thing. What the file system refuses doesn't happen, and
// neither does what links would take out of the world: the machine is not ours.
func (w *world) edit(rel string) {
	dir := w.inside()
	defer func() { _ = dir.Close() }()
	switch rapid.SampledFrom([]string{"write", "write", "append", "remove", "removeAll", "mkdir", "chmod", "link", "rename"}).Draw(w.t, "edit") {
	case "write":
		_ = dir.MkdirAll(filepath.Dir(rel), 0o755)
		_ = dir.WriteFile(rel, []byte(rapid.StringN(0, 40, -1).Draw(w.t, "content")), os.FileMode(rapid.SampledFrom([]int{0o644, 0o600, 0o755}).Draw(w.t, "mode")))
	case "append":
		if f, err := dir.OpenFile(rel, os.O_APPEND|os.O_WRONLY, 0); err == nil {
			_, _ = f.WriteString("more\n")
			_ = f.Close()
		}
	case "remove":
		_ = dir.Remove(rel)
	case "removeAll":
		_ = dir.RemoveAll(rel)
	case "mkdir":
		_ = dir.MkdirAll(rel, 0o755)
	case "chmod":
		if info, err := dir.Lstat(rel); err == nil && info.Mode()&os.ModeSymlink == 0 {
			_ = dir.Chmod(rel, os.FileMode(rapid.SampledFrom([]int{0o700, 0o755, 0o744}).Draw(w.t, "mode")))
		}
	case "link":
		_ = dir.Symlink(rapid.SampledFrom([]string{"a", "../b", "dir", "/nowhere", "../../.."}).Draw(w.t, "target"), rel)
	case "rename":
		_ = dir.Rename(rel, w.anyPath())
	}
}

// inside opens the world so that nothing leads out of it.
func (w *world) inside() *os.Root {
	w.Helper()
	dir, err := os.OpenRoot(w.root)
	w.must(err)
	return dir
}

// toolEdit does what a file tool does: it writes or removes one file, and makes
// the folders above it.
func (w *world) toolEdit(r *Recorder) {
	rel := w.anyPath()
	if r.Changing(w.ctx, rel) != nil {
		return // a path through something that is no folder
	}
	if info, err := os.Lstat(w.path(rel)); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return
	}
	// Links in the folders above may lead out of the workspace; a tool refuses.
	if dir, err := filepath.EvalSymlinks(filepath.Dir(w.path(rel))); err == nil && !strings.HasPrefix(dir+"/", w.root+"/") {
		w.Fatalf("Changing allowed %s, which is in %s", rel, dir)
	}
	if rapid.Bool().Draw(w.t, "remove") {
		_ = os.Remove(w.path(rel))
		return
	}
	_ = os.MkdirAll(filepath.Dir(w.path(rel)), 0o755)
	_ = os.WriteFile(w.path(rel), []byte(rapid.StringN(0, 40, -1).Draw(w.t, "content")), 0o644)
}

// turn lets a random turn happen and returns its facts.
func (w *world) turn() []event.FileChange {
	r, err := w.v.Record(w.root)
	w.must(err)
	edits := rapid.IntRange(1, 6).Draw(w.t, "edits")
	if rapid.Bool().Draw(w.t, "command") {
		w.must(r.Before(w.ctx))
		for range edits {
			w.edit(w.anyPath())
		}
	} else {
		for range edits {
			w.toolEdit(r)
		}
	}
	return w.finish(r)
}

func worlds(t *testing.T, check func(w *world)) {
	k := newKit(t, Options{})
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		w := &world{kit: &kit{fataler: rt, ctx: k.ctx, store: k.store, root: filepath.Join(k.root, fmt.Sprint(n))}, t: rt}
		w.open(Options{
			SpoolDir: k.root,
			// Small bounds, so that they are crossed.
			Inline:    rapid.SampledFrom([]int64{0, 100, 1 << 20}).Draw(rt, "inline"),
			MaxListed: rapid.SampledFrom([]int{3, 500}).Draw(rt, "listed"),
		})
		defer w.close()
		w.must(os.Mkdir(w.root, 0o755))
		defer os.RemoveAll(w.root)
		check(w)
	})
}

func TestRollbackToAnyPoint(t *testing.T) {
	worlds(t, func(w *world) {
		for range rapid.IntRange(0, 6).Draw(w.t, "start") {
			w.edit(w.anyPath())
		}
		var trees []string
		var turns [][]event.FileChange
		for range rapid.IntRange(1, 6).Draw(w.t, "turns") {
			trees = append(trees, w.tree())
			turns = append(turns, w.turn())
		}
		to := rapid.IntRange(0, len(turns)-1).Draw(w.t, "to")
		preview, err := w.v.Preview(w.ctx, w.root, turned(turns[to:]...), ApplyOptions{})
		w.must(err)
		files := w.apply(false, turns[to:]...)
		for _, f := range files {
			if f.Change != rolledRestored && f.Change != rolledDeleted {
				w.Fatalf("outcome %+v", f)
			}
		}
		w.want(w.tree(), trees[to])
		w.want(outcomeLines(preview), outcomeLines(files))
		// Once more changes nothing, and says the same.
		w.want(outcomeLines(w.apply(false, turns[to:]...)), outcomeLines(files))
		w.want(w.tree(), trees[to])
	})
}

var errCrash = errors.New("crash")

func TestCrashDuringRollback(t *testing.T) {
	worlds(t, func(w *world) {
		for range rapid.IntRange(0, 6).Draw(w.t, "start") {
			w.edit(w.anyPath())
		}
		tree := w.tree()
		var turns [][]event.FileChange
		for range rapid.IntRange(1, 3).Draw(w.t, "turns") {
			turns = append(turns, w.turn())
		}
		crashes := 0
		for at := 0; ; at++ {
			steps := 0
			w.v.step = func() error {
				if steps++; steps > at {
					return errCrash
				}
				return nil
			}
			// Each round goes on from where the last one crashed, or one step more.
			_, err := w.v.Apply(w.ctx, w.root, turned(turns...), ApplyOptions{})
			if err == nil {
				break
			}
			if !errors.Is(err, errCrash) {
				w.Fatalf("%v", err)
			}
			if crashes++; crashes > 1000 {
				w.Fatalf("no end")
			}
		}
		w.v.step = nil
		w.want(w.tree(), tree)
		for _, f := range w.apply(false, turns...) {
			if f.Change != rolledRestored && f.Change != rolledDeleted {
				w.Fatalf("outcome %+v", f)
			}
		}
	})
}

func TestConflictsAreNeverOverwritten(t *testing.T) {
	worlds(t, func(w *world) {
		for range rapid.IntRange(0, 4).Draw(w.t, "start") {
			w.edit(w.anyPath())
		}
		turns := [][]event.FileChange{w.turn(), w.turn()}
		// Someone else writes files that no turn could have written.
		foreign := map[string]string{}
		for i := range rapid.IntRange(1, 4).Draw(w.t, "foreign") {
			rel, content := w.anyPath(), fmt.Sprintf("foreign %d", i)
			p := w.path(rel)
			if info, err := os.Lstat(p); err == nil && !info.Mode().IsRegular() {
				continue
			}
			if dir, err := filepath.EvalSymlinks(filepath.Dir(p)); err != nil || dir != filepath.Dir(p) {
				continue
			}
			if os.WriteFile(p, []byte(content), 0o644) == nil {
				foreign[rel] = content
			}
			if i == 0 {
				turns = append(turns, w.turn())
			}
		}
		kept := map[string]string{}
		for rel, content := range foreign {
			if b, err := os.ReadFile(w.path(rel)); err == nil && string(b) == content {
				kept[rel] = content
			}
		}
		w.apply(false, turns...)
		for rel, content := range kept {
			w.want(w.read(rel), content)
		}
	})
}
