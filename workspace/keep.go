package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"agentd/event"
)

// Contents that come in numbers are packed, because every blob costs the store a
// flush. A few are stored one by one, so that equal ones are stored once.
const (
	packFrom = 8
	packSize = 4 << 20
	packItem = 256 << 10
)

// describe turns what was found into facts, and keeps the earlier contents.
func (v *Vault) describe(ctx context.Context, deltas []delta) (*Changes, error) {
	sortDeltas(deltas)
	out := &Changes{}
	places, err := v.keepAll(ctx, deltas, out)
	if err != nil {
		return nil, fmt.Errorf("workspace: keep earlier contents: %w", err)
	}
	for i := range deltas {
		out.Files = append(out.Files, deltas[i].fileChange(places[i]))
	}
	if err := v.fold(ctx, out); err != nil {
		return nil, fmt.Errorf("workspace: keep a list of changes: %w", err)
	}
	return out, nil
}

// fileChange returns the change as it is recorded. at is where its content is.
func (d *delta) fileChange(at *location) event.FileChange {
	c := event.FileChange{Path: d.path, Change: changeModified, AfterHash: d.after.Hash, Mode: d.after.Mode, Note: d.note}
	from := d.before.state.kind()
	switch {
	case from == kindNone:
		c.Change = changeCreated
	case d.after.kind() == kindNone && d.note != noteName:
		c.Change = changeDeleted
	}
	switch {
	case from == kindNone:
	case at != nil:
		c.BeforeRef = formatRef(from, d.before.state, *at)
	case from == kindDir:
		c.BeforeRef = formatRef(kindDir, d.before.state, location{})
	default:
		c.Note = d.before.note
		if c.Note == "" {
			c.Note = noteUnread
		}
	}
	return c
}

// keepAll stores the contents of deltas and returns where each is; nil for those
// without. What may go inline is added to out.
func (v *Vault) keepAll(ctx context.Context, deltas []delta, out *Changes) ([]*location, error) {
	places := make([]*location, len(deltas))
	var open []int
	var total int64
	for i := range deltas {
		b := &deltas[i].before
		places[i] = b.at
		if b.at == nil && b.open != nil {
			open = append(open, i)
			total += b.size + int64(sealHeader)
		}
	}
	k := &keeper{v: v, ctx: ctx, packing: len(open) > packFrom, inline: total <= v.opt.Inline, out: out}
	for _, i := range open {
		at, err := k.keepBefore(&deltas[i].before)
		if err != nil {
			return nil, err
		}
		places[i] = at
		deltas[i].before.at = at
	}
	return places, k.flush()
}

// keeper stores contents one after the other.
type keeper struct {
	v       *Vault
	ctx     context.Context
	packing bool
	inline  bool
	out     *Changes

	pack    bytes.Buffer
	waiting []*location // in the pack: the blob is set when it is stored
}

func (k *keeper) keepBefore(w *was) (*location, error) {
	content, err := w.open()
	if err != nil {
		return nil, err
	}
	sealed, err := k.v.sealers.own.seal(content)
	if err != nil {
		return nil, err
	}
	switch {
	case k.inline:
		b := bytes.NewBuffer(make([]byte, 0, w.size+int64(sealHeader)+bytes.MinRead))
		if _, err := b.ReadFrom(sealed); err != nil {
			return nil, err
		}
		k.out.Blobs = append(k.out.Blobs, b.Bytes())
		return &location{blob: sha256.Sum256(b.Bytes())}, nil
	case k.packing && w.size <= packItem:
		return k.packUp(sealed)
	default:
		at, err := k.v.putSealed(k.ctx, sealed)
		return &at, err
	}
}

func (k *keeper) packUp(sealed io.Reader) (*location, error) {
	off := int64(k.pack.Len())
	n, err := k.pack.ReadFrom(sealed)
	if err != nil {
		return nil, err
	}
	at := &location{off: off, n: n}
	k.waiting = append(k.waiting, at)
	if k.pack.Len() >= packSize {
		return at, k.flush()
	}
	return at, nil
}

// flush stores the pack.
func (k *keeper) flush() error {
	if len(k.waiting) == 0 {
		return nil
	}
	at, err := k.v.putSealed(k.ctx, &k.pack)
	if err != nil {
		return err
	}
	for _, w := range k.waiting {
		w.blob = at.blob
	}
	k.waiting = nil
	k.pack.Reset()
	return nil
}

// fold moves the changes beyond the bound into a sealed list, so that a fact
// stays small and the changes can still be taken back.
func (v *Vault) fold(ctx context.Context, out *Changes) error {
	if len(out.Files) <= v.opt.MaxListed {
		return nil
	}
	keep := max(v.opt.MaxListed-1, 0)
	rest := out.Files[keep:]
	text, err := json.Marshal(rest)
	if err != nil {
		return err
	}
	at, err := v.storeSealed(ctx, bytes.NewReader(text))
	if err != nil {
		return err
	}
	ref := formatRef(kindList, State{Hash: fileHash(sha256.Sum256(text))}, at)
	out.Files = append(out.Files[:keep:keep], event.FileChange{
		Path: ".", Change: changeModified, BeforeRef: ref, Note: fmt.Sprintf("%d more changes, kept for undo", len(rest)),
	})
	return nil
}

// maxList bounds a list of changes that is read back.
const maxList = 256 << 20

// unfold replaces lists by the changes in them. A list that can't be read stays,
// as a change that can't be taken back.
func (v *Vault) unfold(ctx context.Context, changes []Turned) ([]Turned, error) {
	out := make([]Turned, len(changes))
	for i, turn := range changes {
		out[i] = Turned{TurnID: turn.TurnID, Elsewhere: turn.Elsewhere}
		for _, c := range turn.Files {
			if !strings.HasPrefix(c.BeforeRef, refScheme+kindList+":") {
				out[i].Files = append(out[i].Files, c)
				continue
			}
			files, err := v.list(ctx, c.BeforeRef)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				files = []event.FileChange{{Path: c.Path, Change: c.Change, Note: c.Note + ": " + reasonOf(err)}}
			}
			out[i].Files = append(out[i].Files, files...)
		}
	}
	return out, nil
}

func (v *Vault) list(ctx context.Context, ref string) ([]event.FileChange, error) {
	e, err := parseRef(ref)
	if err != nil {
		return nil, err
	}
	text, err := v.bytes(ctx, e, maxList)
	if err != nil {
		return nil, err
	}
	var files []event.FileChange
	if err := json.Unmarshal(text, &files); err != nil {
		return nil, fmt.Errorf("%w: list of changes: %w", ErrDamaged, err)
	}
	return files, nil
}

// hasher reads a content, sums it, and remembers it if it is small.
type hasher struct {
	limit int64
	size  int64
	sum   [sha256.Size]byte
	small []byte

	h interface {
		io.Writer
		Sum(b []byte) []byte
	}
}

func (h *hasher) Write(p []byte) (int, error) {
	if h.h == nil {
		h.h = sha256.New()
	}
	if h.size += int64(len(p)); h.size > h.limit {
		return 0, errTooLong
	}
	return h.h.Write(p)
}

func (h *hasher) done() {
	_, _ = h.Write(nil) // for one that had no content
	h.h.Sum(h.sum[:0])
}

// read reads a content of about that size.
func (h *hasher) read(r io.Reader, size int64) error {
	small := &limitedBuffer{b: bytes.NewBuffer(make([]byte, 0, min(max(size, 0), maxHeldFile)))}
	if _, err := io.CopyBuffer(h, io.TeeReader(r, small), copyBuffer(size)); err != nil {
		return err
	}
	h.done()
	if h.size <= maxHeldFile {
		h.small = small.b.Bytes()
	}
	return nil
}

// limitedBuffer takes what fits and forgets the rest.
type limitedBuffer struct{ b *bytes.Buffer }

func (l *limitedBuffer) Write(p []byte) (int, error) {
	if l.b.Len() <= maxHeldFile {
		l.b.Write(p)
	}
	return len(p), nil
}

// teeSeeker sums what is read of a file since it was last rewound.
type teeSeeker struct {
	f *os.File
	h *hasher
}

func (t *teeSeeker) Read(p []byte) (int, error) {
	n, err := t.f.Read(p)
	if _, werr := t.h.Write(p[:n]); werr != nil {
		return n, werr
	}
	return n, err
}

func (t *teeSeeker) Seek(offset int64, whence int) (int64, error) {
	*t.h = hasher{limit: t.h.limit}
	return t.f.Seek(offset, whence)
}
