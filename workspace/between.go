package workspace

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"agentd/event"
)

// BetweenOptions of [Vault.Between].
type BetweenOptions struct {
	// MaxBytes bounds the text; it ends with a line that says so. If zero, 1 MiB.
	MaxBytes int
	// Redact replaces secrets in a file's content before it is compared and shown; nil
	// shows contents as they are.
	Redact func(string) string
	// Hide returns why the contents of a path must not be shown, or nothing; nil shows all.
	Hide func(path string) string
	// Later yields the changes that followed, oldest first. It is read as far as contents
	// are looked for that aren't in the workspace any more; nil is none.
	Later iter.Seq2[event.FileChange, error]
}

// ChangedFile is a path that changes left in another state than they found it in.
type ChangedFile struct {
	Path string
	// Change is created, modified or deleted.
	Change string
	// Note says why the contents are not shown.
	Note string
}

// Between returns what changes did, ordered by path and as a unified diff, from the
// files as they were before the first change to the files as they were after the last
// one. What they contained then is found in the workspace if it wasn't changed since,
// or else where the next change kept it. What can't be shown is named.
func (v *Vault) Between(ctx context.Context, root string, changes []Turned, opt BetweenOptions) ([]ChangedFile, string, error) {
	defaultTo(&opt.MaxBytes, 1<<20)
	changes, err := v.unfold(ctx, changes)
	if err != nil {
		return nil, "", err
	}
	b := &between{differ: differ{v: v, opt: DiffOptions{Redact: opt.Redact}}, opt: opt, after: map[*history]side{}}
	if r, _, err := v.openRoot(root); err == nil { // else only what was kept can be shown
		defer r.Close()
		b.root = r
	}
	for _, h := range histories(changes) {
		if h.lost != "" || h.after != h.to {
			b.all = append(b.all, h)
		}
	}
	slices.SortStableFunc(b.all, func(x, y *history) int { return strings.Compare(x.path, y.path) })
	if err := b.findContents(ctx); err != nil {
		return nil, "", fmt.Errorf("workspace: diff: %w", err)
	}
	return b.render(ctx)
}

// Unfold returns changes with the lists in them replaced by what they list.
func (v *Vault) Unfold(ctx context.Context, files []event.FileChange) ([]event.FileChange, error) {
	out, err := v.unfold(ctx, []Turned{{Files: files}})
	if err != nil {
		return nil, err
	}
	return out[0].Files, nil
}

// between is one comparison.
type between struct {
	differ
	opt BetweenOptions
	all []*history
	// after are the sides after the changes.
	after map[*history]side
	// spent is how much was read to be compared.
	spent int
}

const (
	// reasonUnkept is why a content can't be shown that was changed since.
	reasonUnkept = "it was changed since, and its content was not kept"
	// reasonTooMuch is why a content isn't read: those before it fill the text.
	reasonTooMuch = "the change is too large to compare all of it"
)

// leastSpent is what looking at a path counts at least, readable or not.
const leastSpent = 4 << 10

// spend counts a side that was read.
func (b *between) spend(s side) { b.spent += max(len(s.text), leastSpent) }

// exhausted reports whether enough was read: each byte of the text comes from at most
// two that were compared. Otherwise a short question about a large change would read all
// of it, and hold it in memory.
func (b *between) exhausted() bool { return b.spent > 2*b.opt.MaxBytes }

// findContents finds what the paths contained after the changes.
func (b *between) findContents(ctx context.Context) error {
	missing := map[string]*history{}
	for _, h := range b.all {
		s, found, err := b.stillThere(ctx, h)
		if err != nil {
			return err
		}
		if b.after[h] = s; !found {
			missing[h.path] = h
		}
	}
	if len(missing) == 0 || b.opt.Later == nil {
		return nil
	}
	for c, err := range b.opt.Later {
		if err != nil {
			return err
		}
		files, err := b.v.Unfold(ctx, []event.FileChange{c})
		if err != nil {
			return err
		}
		for i := range files {
			if err := b.keptBy(ctx, &files[i], missing); err != nil {
				return err
			}
		}
		if len(missing) == 0 {
			return nil
		}
	}
	return nil
}

// stillThere returns the side after the changes if that needs no content, must not be
// shown, or is what the workspace has.
func (b *between) stillThere(ctx context.Context, h *history) (side, bool, error) {
	s := side{State: h.after}
	if h.lost != "" || !showable(h.after.kind()) {
		return s, true, nil
	}
	if b.opt.Hide != nil {
		if s.hidden = b.opt.Hide(h.path); s.hidden != "" {
			return s, true, nil
		}
	}
	if b.exhausted() {
		s.hidden = reasonTooMuch
		return s, true, nil
	}
	if s.hidden = reasonUnkept; h.left {
		s.hidden = h.elsewhere
	}
	if b.root == nil {
		return s, false, nil
	}
	now, err := b.now(ctx, h)
	b.spend(now)
	if err != nil || now.State != h.after {
		return s, false, err
	}
	return now, true, nil
}

// keptBy takes the content that a later change found and kept, if it is one that is
// missing.
func (b *between) keptBy(ctx context.Context, c *event.FileChange, missing map[string]*history) error {
	h := missing[c.Path]
	if h == nil || c.BeforeRef == "" {
		return nil
	}
	if was, lost := stateBefore(c); lost != "" || was != h.after {
		return nil
	}
	if b.exhausted() {
		b.after[h] = side{State: h.after, hidden: reasonTooMuch}
		delete(missing, c.Path)
		return nil
	}
	e, err := parseRef(c.BeforeRef)
	if err != nil {
		return nil //nolint:nilerr // what can't be read is still missing
	}
	s := side{State: h.after}
	content, err := b.v.bytes(ctx, e, maxDiff)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.setContent(b.opt.Redact, content, err)
	b.spend(s)
	b.after[h] = s
	delete(missing, c.Path)
	return nil
}

func (b *between) render(ctx context.Context) ([]ChangedFile, string, error) {
	files, full := []ChangedFile{}, false
	var text strings.Builder
	for i, h := range b.all {
		part, file, err := b.compare(ctx, h)
		if err != nil {
			return nil, "", fmt.Errorf("workspace: diff: %w", err)
		}
		files = append(files, file)
		if !full && text.Len()+len(part) > b.opt.MaxBytes {
			full = true
			fmt.Fprintf(&text, "The text is too long: %d paths from %s on are not shown.\n", len(b.all)-i, quotePath(h.path))
		}
		if !full {
			text.WriteString(part)
		}
	}
	return files, text.String(), nil
}

// compare shows what became of one path.
func (b *between) compare(ctx context.Context, h *history) (string, ChangedFile, error) {
	file := ChangedFile{Path: h.path, Change: h.change()}
	if h.lost != "" {
		file.Note = h.lost
		return fmt.Sprintf("%s: what it was is not known: %s\n", quotePath(h.path), h.lost), file, nil
	}
	now := b.after[h]
	old := side{State: h.to, hidden: now.hidden}
	if now.hidden == "" && b.opt.Hide != nil {
		old.hidden = b.opt.Hide(h.path) // of a path that is gone
	}
	if old.hidden == "" && showable(old.kind()) && b.exhausted() && !showable(now.kind()) {
		old.hidden = reasonTooMuch // where both sides are shown, the other one was read already
	}
	if old.hidden == "" {
		var err error
		if old, err = b.old(ctx, h); err != nil {
			return "", file, err
		}
		b.spend(old)
	}
	if showable(old.kind()) && old.hidden != "" {
		file.Note = old.hidden
	}
	if showable(now.kind()) && now.hidden != "" {
		file.Note = now.hidden
	}
	var text strings.Builder
	if h.foreign {
		fmt.Fprintf(&text, "%s: someone else changed it too\n", quotePath(h.path))
	}
	compareSides(&text, h.path, old, now)
	return text.String(), file, nil
}

// change is what became of a path.
func (h *history) change() string {
	switch {
	case h.after.kind() == kindNone:
		return changeDeleted
	case h.lost == "" && h.to.kind() == kindNone:
		return changeCreated
	default:
		return changeModified
	}
}
