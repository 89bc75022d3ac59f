package tool

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// walk visits a folder of the workspace and what is below it, in order: the
// entries of a folder by name, then its folders one after the other. Links are
// shown, not followed. What version control doesn't know is left out.
type walk struct {
	t *tree
	// everything turns leaving out off, for a start that is left out itself.
	everything bool
	// visit gets the entries of each folder. It may keep the slice.
	visit func(ctx context.Context, dir string, d *os.Root, entries []fs.DirEntry) error
	// skipped counts entries that were left out, unreadable folders that couldn't
	// be read.
	skipped, unreadable int
	// incomplete says that a folder had too many entries, or lay too deep.
	incomplete bool
}

const (
	// maxLevels is how deep a walk goes: each level has a handle open, and a path that
	// grows with it.
	maxLevels = 100
	// dirBatch is how many entries are read before the context is looked at.
	dirBatch = 1024
)

// from walks the folder d, which lies at rel. It closes d.
func (w *walk) from(ctx context.Context, d *os.Root, rel string) error {
	up, left := w.above(rel)
	w.everything = left
	return w.folder(ctx, d, rel, 0, up)
}

// above returns the .gitignore files above rel, and whether they, or being part
// of version control's own data, leave rel out.
func (w *walk) above(rel string) (*ignoreList, bool) {
	var list *ignoreList
	d, err := w.t.dir(".")
	if err != nil {
		return nil, false
	}
	at := "."
	for _, name := range pathParts(rel) {
		list = list.withFolder(w.t, d, at)
		next, err := w.t.enterFolder(d, name)
		_ = d.Close()
		at = path.Join(at, name)
		if name == ".git" || list.ignored(at, true) {
			if err == nil {
				_ = next.Close()
			}
			return nil, true
		}
		if err != nil {
			return list, false
		}
		d = next
	}
	_ = d.Close()
	return list, false
}

func (w *walk) folder(ctx context.Context, d *os.Root, rel string, level int, up *ignoreList) error {
	defer d.Close()
	entries, err := w.entries(ctx, d)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		w.unreadable++
		return nil // the rest can still be shown; the count is reported
	}
	list := up
	if !w.everything && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ".gitignore" }) {
		list = up.withFolder(w.t, d, rel)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return ctx.Err() == nil && w.leaveOut(rel, e, list) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := w.visit(ctx, rel, d, entries); err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if level == maxLevels {
			w.incomplete = true
			return nil
		}
		sub, err := w.t.enterFolder(d, e.Name())
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errHidden) {
				w.unreadable++
			}
			continue
		}
		if err := w.folder(ctx, sub, path.Join(rel, e.Name()), level+1, list); err != nil {
			return err
		}
	}
	return nil
}

// entries returns those of a folder, sorted; of a folder that has more than a walk
// looks at, the first that come.
func (w *walk) entries(ctx context.Context, d *os.Root) ([]fs.DirEntry, error) {
	f, err := d.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var entries []fs.DirEntry
	for ctx.Err() == nil {
		if len(entries) >= maxWalked {
			w.incomplete = true
			break
		}
		some, err := f.ReadDir(dirBatch)
		entries = append(entries, some...)
		if errors.Is(err, io.EOF) || err == nil && len(some) == 0 {
			break
		}
		if err != nil && len(entries) == 0 {
			return nil, err
		}
		if err != nil {
			break // what could be read is shown
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

func (w *walk) leaveOut(dir string, e fs.DirEntry, list *ignoreList) bool {
	rel := path.Join(dir, e.Name())
	if slices.Contains(w.t.hidden, rel) {
		return true
	}
	if w.everything {
		return false
	}
	if e.Name() == ".git" {
		return true
	}
	if list.ignored(rel, e.IsDir()) {
		w.skipped++
		return true
	}
	return false
}
