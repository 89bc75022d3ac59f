package workspace

import (
	"bytes"
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"agentd/internal/place"
	"agentd/store"
)

// Blobs is what a Vault needs of a [store.Store].
type Blobs interface {
	PutBlob(ctx context.Context, r io.Reader) (store.BlobInfo, error)
	OpenBlob(ctx context.Context, ref string) (store.Blob, error)
}

// Options of a [Vault].
type Options struct {
	// Blobs keeps the sealed contents. It must be set.
	Blobs Blobs
	// Key seals them: KeySize bytes, such as [LoadKey] returns. It must be set.
	Key []byte
	// OtherKeys returns further keys, which open what they sealed. It is asked when a content
	// was sealed with a key that isn't known yet; if nil, there are none.
	OtherKeys func(context.Context) ([][]byte, error)
	// SpoolDir is where the nameless file with copies for commands is. It should
	// be on a disk. If empty, defaults to the system's folder for temporary files.
	SpoolDir string
	// Exclude are absolute paths that are never looked at, changed or restored,
	// with what is below them: the runtime's own data, if it is in a workspace.
	Exclude []string
	// Places keeps workspaces by identity. It should be the one of the whole runtime;
	// default a new one.
	Places *place.Places
	// MaxFile bounds the content that is kept of one file. If zero, 16 MiB.
	MaxFile int64
	// MaxBytes bounds the contents that are held of one workspace for commands.
	// If zero, 64 MiB.
	MaxBytes int64
	// MaxFiles bounds the entries of one workspace that are looked at around
	// commands. If zero, 20,000.
	MaxFiles int
	// KeepIgnored bounds the content that is kept of a file that a .gitignore
	// ignores by itself, not with its folder. If zero, 64 KiB; negative: none.
	KeepIgnored int64
	// MaxListed bounds the changes that one call lists; the others go, sealed,
	// into one reference. If zero, 500.
	MaxListed int
	// MaxRoots bounds the workspaces whose files are remembered between
	// commands. If zero, 8.
	MaxRoots int
	// Inline bounds the sealed bytes of one call that are handed back in
	// [Changes.Blobs] instead of being stored at once. If zero, none are.
	Inline int64
}

func (o *Options) setDefaults() {
	if o.Places == nil {
		o.Places = &place.Places{}
	}
	defaultTo(&o.MaxFile, 16<<20)
	defaultTo(&o.MaxBytes, 64<<20)
	defaultTo(&o.MaxFiles, 20_000)
	defaultTo(&o.KeepIgnored, 64<<10)
	defaultTo(&o.MaxListed, 500)
	defaultTo(&o.MaxRoots, 8)
}

func defaultTo[T int | int64](v *T, value T) {
	if *v == 0 {
		*v = value
	}
}

// Vault keeps earlier contents and restores them. See the package comment.
type Vault struct {
	opt     Options
	sealers sealers
	// exclude is Options.Exclude without symbolic links.
	exclude []string
	// step is called before every change of a file that Apply makes; an error
	// stops it there, as a crash would. For tests.
	step func() error

	mu     sync.Mutex
	closed bool
	// indexes of workspaces by root, the least recently used last.
	indexes map[string]*list.Element
	order   *list.List
}

// New returns a Vault. It must be closed.
func New(opt Options) (*Vault, error) {
	if opt.Blobs == nil {
		return nil, errors.New("workspace: Options.Blobs is not set")
	}
	s, err := newSealer(opt.Key)
	if err != nil {
		return nil, err
	}
	opt.Key = nil // what is needed was derived
	opt.setDefaults()
	v := &Vault{opt: opt, sealers: sealers{own: s, more: opt.OtherKeys}, indexes: map[string]*list.Element{}, order: list.New()}
	for _, path := range opt.Exclude {
		if at, err := place.Nearest(path); err == nil {
			path = at
		}
		v.exclude = append(v.exclude, path)
		_, _ = opt.Places.Fix(path) // what isn't there has a name only
	}
	return v, nil
}

// Close forgets what is remembered of workspaces. Recorders that are at work
// fail from then on.
func (v *Vault) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	var errs []error
	for e := v.order.Front(); e != nil; e = e.Next() {
		errs = append(errs, e.Value.(*index).close())
	}
	v.indexes, v.order = map[string]*list.Element{}, list.New()
	return errors.Join(errs...)
}

// index returns the memory of a workspace, which it makes if need be, held: it
// isn't forgotten until released.
func (v *Vault) index(root place.Place) (*index, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, errors.New("workspace: the vault is closed")
	}
	if e, ok := v.indexes[root.Path]; ok {
		x := e.Value.(*index)
		switch {
		case x.root.Same(root):
			v.order.MoveToFront(e)
			x.holders++
			return x, nil
		case x.holders > 0:
			return nil, fmt.Errorf("workspace: %s: %w", root.Path, place.ErrReplaced)
		}
		v.dropWorkspace(e)
	}
	x := newIndex(root, &v.opt, v.exclude)
	x.holders = 1
	v.indexes[root.Path] = v.order.PushFront(x)
	v.shrink()
	return x, nil
}

// known returns the memory of a workspace if there is one, held.
func (v *Vault) known(root string) *index {
	v.mu.Lock()
	defer v.mu.Unlock()
	e, ok := v.indexes[root]
	if !ok {
		return nil
	}
	x := e.Value.(*index)
	x.holders++
	return x
}

func (v *Vault) releaseIndex(x *index) {
	v.mu.Lock()
	defer v.mu.Unlock()
	x.holders--
	v.shrink()
}

// dropWorkspace forgets a workspace that isn't in use.
func (v *Vault) dropWorkspace(e *list.Element) {
	x := e.Value.(*index)
	v.order.Remove(e)
	delete(v.indexes, x.root.Path)
	_ = x.close() // a nameless file of copies: nothing is lost with it
}

// shrink forgets workspaces beyond the bound, those in use never.
func (v *Vault) shrink() {
	for e := v.order.Back(); e != nil && v.order.Len() > v.opt.MaxRoots; {
		x, before := e.Value.(*index), e.Prev()
		if x.holders == 0 {
			v.dropWorkspace(e)
		}
		e = before
	}
}

// openRoot opens a workspace. The error says so if it isn't the folder any more that it
// was when it was first used.
func (v *Vault) openRoot(root string) (*os.Root, place.Place, error) {
	if !filepath.IsAbs(root) {
		return nil, place.Place{}, fmt.Errorf("workspace: the root %q is not an absolute path", clipText(root))
	}
	at, err := v.opt.Places.Recall(filepath.Clean(root))
	var dir *os.Root
	if err == nil {
		dir, err = at.OpenRoot()
	}
	if err != nil {
		return nil, place.Place{}, fmt.Errorf("workspace: root: %w", err)
	}
	return dir, at, nil
}

// storeSealed stores one sealed content and returns where.
func (v *Vault) storeSealed(ctx context.Context, content io.ReadSeeker) (location, error) {
	sealed, err := v.sealers.own.seal(content)
	if err != nil {
		return location{}, err
	}
	return v.putSealed(ctx, sealed)
}

func (v *Vault) putSealed(ctx context.Context, sealed io.Reader) (location, error) {
	info, err := v.opt.Blobs.PutBlob(ctx, sealed)
	if err != nil {
		return location{}, err
	}
	sum, err := store.ParseRef(info.Ref)
	return location{blob: sum}, err
}

// open writes an earlier content to w. After an error what was written is
// worthless.
func (v *Vault) open(ctx context.Context, w io.Writer, e earlier) error {
	b, err := v.opt.Blobs.OpenBlob(ctx, store.RefOf(e.at.blob))
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("workspace: the earlier content is no longer kept: %w", err)
	}
	if err != nil {
		return err
	}
	defer b.Close()
	var sealed io.Reader = b
	if e.at.n > 0 {
		if _, err := b.Seek(e.at.off, io.SeekStart); err != nil {
			return err
		}
		sealed = io.LimitReader(b, e.at.n)
	}
	sum := sha256.New()
	if err := v.sealers.unseal(ctx, io.MultiWriter(sum, w), &cancelled{ctx: ctx, r: sealed}); err != nil {
		return err
	}
	if got := fileHash([sha256.Size]byte(sum.Sum(nil))); got[len(hashSHA256):] != e.state.Hash[len(e.state.Hash)-2*sha256.Size:] {
		return fmt.Errorf("%w: it isn't the content that the reference names", ErrDamaged)
	}
	return nil
}

// bytes returns an earlier content of at most limit bytes.
func (v *Vault) bytes(ctx context.Context, e earlier, limit int64) ([]byte, error) {
	var buf bytes.Buffer
	err := v.open(ctx, &limitedWriter{w: &buf, left: limit}, e)
	return buf.Bytes(), err
}

// errTooLong: a content has more bytes than its reader takes.
var errTooLong = errors.New("workspace: the content is too long")

type limitedWriter struct {
	w    io.Writer
	left int64
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, errTooLong
	}
	return l.w.Write(p)
}

// cancelled ends a stream with its context.
type cancelled struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelled) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
