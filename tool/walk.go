package tool

import (
	"context"
	"errors"
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
	// visit is told the entries of each folder. It may keep the slice.
	visit func(dir string, d *os.Root, entries []fs.DirEntry) error
	// skipped counts entries that were left out, unreadable folders that couldn't
	// be read.
	skipped, unreadable int
}

// from walks the folder d, which lies at rel. It closes d.
func (w *walk) from(ctx context.Context, d *os.Root, rel string) error {
	up, left := w.above(rel)
	w.everything = left
	return w.folder(ctx, d, rel, up)
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
	for _, name := range parts(rel) {
		list = list.with(w.t, d, at)
		next, err := w.t.enter(d, name)
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

func (w *walk) folder(ctx context.Context, d *os.Root, rel string, up *ignoreList) error {
	defer d.Close()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	entries, err := readDir(d)
	if err != nil {
		w.unreadable++
		return nil // the rest can still be shown; the count is told
	}
	list := up
	if !w.everything && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ".gitignore" }) {
		list = up.with(w.t, d, rel)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return w.leaveOut(rel, e, list) })
	if err := w.visit(rel, d, entries); err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		sub, err := w.t.enter(d, e.Name())
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errHidden) {
				w.unreadable++
			}
			continue
		}
		if err := w.folder(ctx, sub, path.Join(rel, e.Name()), list); err != nil {
			return err
		}
	}
	return nil
}

func readDir(d *os.Root) ([]fs.DirEntry, error) {
	f, err := d.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil && len(entries) == 0 {
		return nil, err
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
