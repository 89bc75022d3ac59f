package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"sort"
	"time"
)

// racyFor is longer than the granularity of file times on common systems.
const racyFor = 50 * time.Millisecond

// read reads the files that changed, the smallest first, so that what is over
// the bounds are few.
func (l *look) read(ctx context.Context) error {
	sort.Slice(l.dirty, func(i, j int) bool {
		a, b := &l.dirty[i], &l.dirty[j]
		return a.st.size < b.st.size || a.st.size == b.st.size && a.path < b.path
	})
	if len(l.dirty) > 0 {
		l.buf = make([]byte, 64<<10)
	}
	for i := range l.dirty {
		if err := ctx.Err(); err != nil {
			l.giveUp(l.dirty[i:])
			return err
		}
		if err := l.load(&l.dirty[i]); err != nil {
			l.giveUp(l.dirty[i:])
			return err
		}
	}
	return nil
}

// giveUp leaves files for the next look.
func (l *look) giveUp(rest []dirtyFile) {
	for i := range rest {
		rest[i].n.racy = true
	}
}

// load takes a file's content over. An error is one of the spool.
func (l *look) load(d *dirtyFile) error {
	f, err := l.root.open(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		l.dropNode(d.dir, d.n, d.path[:len(d.path)-len(d.name)], d.name)
		return nil
	}
	if err != nil {
		l.setState(d, d.st, noteUnread)
		return nil
	}
	defer f.Close()
	st, err := statFile(f)
	if err != nil || st.kind != kindFile {
		l.setState(d, d.st, noteUnread)
		d.n.racy = true
		return nil // it was replaced in the meantime; the next look sees it
	}
	return l.holdContent(d, f, st)
}

func (l *look) holdContent(d *dirtyFile, f *os.File, st fileStat) error {
	x, n := l.x, d.n
	if why := x.refuses(n, st.size); why != "" {
		l.setState(d, st, why)
		return nil
	}
	if n.hasContent() && n.st.size == st.size && l.same(f, n.sum) {
		l.setIdentity(d, f, st)
		return nil
	}
	pos, size, sum, err := x.spool.add(f, l.buf, x.opt.MaxFile)
	switch {
	case errors.Is(err, errTooLong):
		l.setState(d, st, noteTooLarge)
		n.racy = true
		return nil
	case errors.Is(err, errUnread):
		l.setState(d, st, noteUnread)
		return nil
	case err != nil:
		return err
	}
	x.letGo(n)
	n.sum, n.pos, n.why = sum, pos, ""
	st.size = size
	x.held += size
	n.st = st
	l.setIdentity(d, f, st)
	return nil
}

// same says whether a file has a content, and leaves it at its start.
func (l *look) same(f *os.File, sum [sha256.Size]byte) bool {
	h := sha256.New()
	_, err := io.CopyBuffer(h, struct{ io.Reader }{f}, l.buf)
	if _, serr := f.Seek(0, io.SeekStart); err != nil || serr != nil {
		return false
	}
	return [sha256.Size]byte(h.Sum(nil)) == sum
}

// setIdentity sets the identity of a file whose content is held.
func (l *look) setIdentity(d *dirtyFile, f *os.File, st fileStat) {
	now, err := statFile(f)
	d.n.st = st
	d.n.racy = err != nil || now != st || time.Since(time.Unix(0, max(st.mtime, st.ctime))) < racyFor
	l.reportChange(d)
}

// setState sets the state of a file whose content isn't held.
func (l *look) setState(d *dirtyFile, st fileStat, why string) {
	l.x.letGo(d.n)
	d.n.st, d.n.why, d.n.racy = st, why, false
	l.reportChange(d)
}

func (l *look) reportChange(d *dirtyFile) {
	if !d.quiet && d.n.state() != d.old.state {
		l.x.changed(d.path, d.old, d.n.ignored)
	}
}

// refuses says why a file's content is not to be held.
func (x *index) refuses(n *node, size int64) string {
	held := x.held
	if n.hasContent() {
		held -= n.st.size
	}
	switch {
	case n.ignored == ignoredItself && !n.hasContent() && size > x.opt.KeepIgnored:
		return noteIgnored
	case size > x.opt.MaxFile:
		return noteTooLarge
	case held+size > x.opt.MaxBytes, x.spool.size > 8*x.opt.MaxBytes:
		return noteBudget
	}
	return ""
}
