package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"unicode/utf8"

	"agentd/event"
	"agentd/internal/place"
)

// Changes are what one tool call changed.
type Changes struct {
	// Files are the facts, ordered by path.
	Files []event.FileChange
	// Blobs must be stored together with the facts: references in Files point to
	// them. They are sealed. Empty unless Options.Inline is set.
	Blobs [][]byte
}

// Recorder finds out what one tool call changes. Its methods may be called by
// many goroutines. Finish or Close must be called.
type Recorder struct {
	v    *Vault
	at   place.Place
	root string // where it is
	dir  *os.Root
	x    *index // nil until it is needed
	// exclude are paths that must not change.
	exclude *exclusion

	mu       sync.Mutex
	window   *window
	touched  map[string]*touched
	order    []string
	deltas   []delta // of commands
	inMemory int64
	done     bool
}

// touched is a path that a file tool changes.
type touched struct {
	before was
	mu     sync.Mutex
	after  *State // set when the call ended
}

// delta is a change that was found.
type delta struct {
	path   string
	before was
	after  State
	note   string
}

// Bounds of what a recorder holds in memory before it is stored.
const (
	maxHeldFile = 256 << 10
	maxHeld     = 4 << 20
)

// Record returns a recorder for one tool call in the workspace at root, an
// absolute path.
func (v *Vault) Record(root string) (*Recorder, error) {
	dir, at, err := v.openRoot(root)
	if err != nil {
		return nil, err
	}
	return &Recorder{v: v, at: at, root: at.Path, dir: dir, exclude: newExclusion(at.Path, v.exclude, v.opt.Places), touched: map[string]*touched{}}, nil
}

// Changing keeps what is at path, absolute or relative to the root, before a
// file tool changes it, together with the absence of folders above it. Later
// calls for the same path do nothing. An error means that the change must not
// happen, since it could not be taken back; what is only too large to be kept is
// no error, the fact's Note says so.
func (r *Recorder) Changing(ctx context.Context, path string) error {
	rel, err := r.relative(path)
	if err != nil {
		return fmt.Errorf("workspace: keep %s: %w", clipText(path), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return errors.New("workspace: the call has ended")
	}
	for i := range len(rel) {
		if rel[i] == '/' {
			if err := r.touch(ctx, rel[:i]); err != nil {
				return fmt.Errorf("workspace: keep %s: %w", clipText(path), err)
			}
		}
	}
	if err := r.touch(ctx, rel); err != nil {
		return fmt.Errorf("workspace: keep %s: %w", clipText(path), err)
	}
	return nil
}

// relative returns a path's name within the root, where symbolic links in the
// folders above it are resolved; what leaves the root is an error.
func (r *Recorder) relative(path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.root, path)
	}
	path = filepath.Clean(path)
	dir, missing := filepath.Dir(path), filepath.Base(path)
	for {
		resolved, err := filepath.EvalSymlinks(dir)
		if err == nil {
			path = filepath.Join(resolved, missing)
			break
		}
		if !errors.Is(err, os.ErrNotExist) || dir == filepath.Dir(dir) {
			return "", err
		}
		dir, missing = filepath.Dir(dir), filepath.Join(filepath.Base(dir), missing)
	}
	rel, err := filepath.Rel(r.root, path)
	if err != nil || rel == "." || !filepath.IsLocal(rel) {
		return "", errors.New("it is not in the workspace")
	}
	rel = filepath.ToSlash(rel)
	if r.exclude.covers(rel) {
		return "", errors.New("it belongs to the runtime")
	}
	return rel, nil
}

// touch keeps one path. Of a symbolic link within the root also what it leads to
// is kept, because a tool may write through it.
func (r *Recorder) touch(ctx context.Context, rel string) error {
	if _, ok := r.touched[rel]; ok {
		return nil
	}
	before, target, err := r.capture(ctx, rel)
	if err != nil {
		return err
	}
	t := &touched{before: before}
	r.touched[rel] = t
	r.order = append(r.order, rel)
	if x := r.v.known(r.root); x != nil {
		x.touching(rel, t)
		r.v.releaseIndex(x)
	}
	if target == "" {
		return nil
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(r.root, filepath.Dir(filepath.FromSlash(rel)), target)
	}
	if through, err := r.relative(target); err == nil && len(r.touched) < maxLinks {
		return r.touch(ctx, through)
	}
	return nil // it leads outside, where no tool may write
}

// maxLinks ends a chain of links that is extended in the meantime.
const maxLinks = 10_000

// capture returns the state of a path, with its content; of a symbolic link also
// its target.
func (r *Recorder) capture(ctx context.Context, rel string) (w was, target string, err error) {
	parent, name, err := openParent(r.dir, rel)
	if isAbsent(err) {
		return was{}, "", nil
	}
	if err != nil {
		return was{}, "", err
	}
	defer parent.Close()
	info, err := parent.Lstat(name)
	if isAbsent(err) {
		return was{}, "", nil
	}
	if err != nil {
		return was{}, "", err
	}
	st := statInfo(info)
	switch st.kind {
	case kindFile:
		w, err = r.captureFile(ctx, parent, name, st)
		return w, "", err
	case kindLink:
		if target, err = parent.Readlink(name); err != nil {
			return was{}, "", err
		}
		w = was{state: linkState(target)}
		w.setTarget(target)
		return w, target, nil
	case kindDir:
		return was{state: st.state()}, "", nil
	default:
		return was{state: st.state(), note: noteSpecial}, "", nil
	}
}

func (r *Recorder) captureFile(ctx context.Context, parent *os.Root, name string, st fileStat) (was, error) {
	if st.size > r.v.opt.MaxFile {
		return was{state: st.state(), note: noteTooLarge}, nil
	}
	f, err := openIn(parent, name)
	if err != nil {
		return was{state: st.state(), note: noteUnread}, nil // the fact says so
	}
	defer f.Close()
	for range 3 {
		w, err := r.captureContent(ctx, f, st)
		if !errors.Is(err, errMoving) {
			return w, err
		}
	}
	return was{}, errMoving
}

// captureContent keeps small contents in memory until the call ends, and stores
// others at once.
func (r *Recorder) captureContent(ctx context.Context, f *os.File, st fileStat) (was, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return was{}, err
	}
	h := &hasher{limit: r.v.opt.MaxFile}
	if err := h.read(&cancelled{ctx: ctx, r: f}, st.size); err != nil {
		if errors.Is(err, errTooLong) {
			return was{state: st.state(), note: noteTooLarge}, nil
		}
		return was{}, err
	}
	w := was{state: State{Hash: fileHash(h.sum), Mode: st.mode}, size: h.size}
	if h.small != nil && r.inMemory+h.size <= maxHeld {
		r.inMemory += h.size
		w.open = func() (*bytes.Reader, error) { return bytes.NewReader(h.small), nil }
		return w, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return was{}, err
	}
	check := &hasher{limit: r.v.opt.MaxFile}
	at, err := r.v.storeSealed(ctx, &teeSeeker{f: f, h: check})
	if err != nil {
		return was{}, err
	}
	if check.done(); check.sum != h.sum {
		return was{}, errMoving
	}
	w.at = &at
	return w, nil
}

// Before looks at the workspace before a command runs.
func (r *Recorder) Before(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done || r.window != nil {
		return errors.New("workspace: Before was called twice, or after the end")
	}
	x, err := r.v.index(r.at)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(ctx); err != nil {
		r.v.releaseIndex(x)
		return err
	}
	r.x, r.window = x, x.begin()
	return nil
}

// After looks again after the command ended: what changed since Before is the
// command's. Finish calls it if the caller didn't. Its context should not be the
// command's, which may have ended.
func (r *Recorder) After(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.endWindow(ctx)
}

// endWindow is called with mu held.
func (r *Recorder) endWindow(ctx context.Context) error {
	x, w := r.x, r.window
	if w == nil || w.ended {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(ctx); err != nil {
		return err
	}
	w.ended = true
	r.deltas = x.deltas(w)
	return nil
}

// Finish returns everything that the call changed, commands and file tools
// together, and ends the recorder. After an error it may be called again; after
// success it returns nothing more.
func (r *Recorder) Finish(ctx context.Context) (*Changes, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return &Changes{}, nil
	}
	if err := r.endWindow(ctx); err != nil {
		return nil, err
	}
	deltas, err := r.allDeltas(ctx)
	if err != nil {
		return nil, err
	}
	c, err := r.v.describe(ctx, deltas)
	if err != nil {
		return nil, err
	}
	return c, r.close()
}

// Close gives up a recorder that wasn't finished; after Finish it does nothing.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.close()
}

func (r *Recorder) close() error {
	if r.done {
		return nil
	}
	r.done = true
	if r.window != nil {
		r.x.forget(r.window)
		r.v.releaseIndex(r.x)
	}
	return r.dir.Close()
}

// allDeltas joins what file tools and commands changed. Of a path that both did,
// what the file tools know reaches further back, or is as good.
func (r *Recorder) allDeltas(ctx context.Context) ([]delta, error) {
	deltas := make([]delta, 0, len(r.order)+len(r.deltas))
	for _, rel := range r.order {
		d, err := r.compare(ctx, rel)
		if err != nil {
			return nil, fmt.Errorf("workspace: %s after the change: %w", clipText(rel), err)
		}
		if d != nil {
			deltas = append(deltas, *d)
		}
	}
	for _, d := range r.deltas {
		if r.touched[d.path] == nil {
			deltas = append(deltas, d)
		}
	}
	return deltas, nil
}

// compare returns what a file tool did to a path, or nil.
func (r *Recorder) compare(ctx context.Context, rel string) (*delta, error) {
	t := r.touched[rel]
	now, err := observePath(ctx, r.dir, rel, t.before.like())
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.after = &now
	t.mu.Unlock()
	if now == t.before.state {
		return nil, nil
	}
	return &delta{path: rel, before: t.before, after: now}, nil
}

// like is the form in which a later state can be compared. A file that was too
// large to be read may be small now, but is read only if it was.
func (w *was) like() string {
	if strings.HasPrefix(w.state.Hash, hashStat) {
		return w.state.Hash
	}
	return hashSHA256
}

// sortDeltas orders by path, those that have an earlier content first.
func sortDeltas(deltas []delta) {
	sort.SliceStable(deltas, func(i, j int) bool { return deltas[i].path < deltas[j].path })
	for i := range deltas {
		if d := &deltas[i]; !utf8.ValidString(d.path) {
			d.path, d.before.open, d.before.at = strings.ToValidUTF8(d.path, "�"), nil, nil
			d.before.note, d.note, d.after = noteName, noteName, State{}
		}
	}
}
