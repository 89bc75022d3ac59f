package workspace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// DiffOptions of [Vault.Diff].
type DiffOptions struct {
	// MaxBytes bounds the text; it ends with a line that says so. If zero, 1 MiB.
	MaxBytes int
	// Redact replaces secrets in a file's content before it is compared and shown.
	// If nil, contents are shown as they are: then the text is for the owner of
	// the files alone.
	Redact func(string) string
	// Hidden reports paths whose content is not shown; nil shows all.
	Hidden func(path string) bool
}

// maxDiff bounds the files whose lines are compared.
const maxDiff = 1 << 20

// Diff returns what the changes did, as a unified diff from the files as they
// were before the first change to the files as they are now. What can't be shown
// is named.
func (v *Vault) Diff(ctx context.Context, root string, changes []Turned, opt DiffOptions) (string, error) {
	defaultTo(&opt.MaxBytes, 1<<20)
	changes, err := v.unfold(ctx, changes)
	if err != nil {
		return "", err
	}
	r, _, err := v.openRoot(root)
	if err != nil {
		return "", err
	}
	defer r.Close()
	all := histories(changes)
	slices.SortStableFunc(all, func(a, b *history) int { return strings.Compare(a.path, b.path) })
	d := &differ{v: v, root: r, opt: opt}
	var text strings.Builder
	for i, h := range all {
		part, err := d.diffFile(ctx, h)
		if err != nil {
			return "", fmt.Errorf("workspace: diff: %w", err)
		}
		if text.Len()+len(part) > opt.MaxBytes {
			fmt.Fprintf(&text, "The text is too long: %d paths from %s on are not shown.\n", len(all)-i, quotePath(h.path))
			break
		}
		text.WriteString(part)
	}
	return text.String(), nil
}

type differ struct {
	v    *Vault
	root *os.Root
	opt  DiffOptions
}

// side is a path's state on one side of a diff.
type side struct {
	State
	text string
	// hidden says why the content can't be shown.
	hidden string
}

func (d *differ) diffFile(ctx context.Context, h *history) (string, error) {
	if h.lost != "" {
		return fmt.Sprintf("%s: what it was is not known: %s\n", quotePath(h.path), h.lost), nil
	}
	now, err := d.now(ctx, h)
	if err != nil {
		return "", err
	}
	if h.unseen(now.State) {
		return fmt.Sprintf("%s: what it is now is not known: %s\n", quotePath(h.path), h.elsewhere), nil
	}
	if now.State == h.was {
		return "", nil
	}
	if d.opt.Hidden != nil && d.opt.Hidden(h.path) {
		return fmt.Sprintf("%s: it changed; a rule denies reading it\n", quotePath(h.path)), nil
	}
	old, err := d.old(ctx, h)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	if h.foreign || !h.ours(now.State) {
		fmt.Fprintf(&text, "%s: someone else changed it too\n", quotePath(h.path))
	}
	compareSides(&text, h.path, old, now)
	return text.String(), nil
}

// old returns the side before the changes.
func (d *differ) old(ctx context.Context, h *history) (side, error) {
	s := side{State: h.was}
	if kind := h.was.kind(); kind != kindFile && kind != kindLink {
		return s, nil
	}
	e, err := parseRef(h.ref)
	if err != nil {
		return s, err
	}
	b, err := d.v.bytes(ctx, e, maxDiff)
	if ctx.Err() != nil {
		return s, ctx.Err()
	}
	s.setContent(d.opt.Redact, b, err)
	return s, nil
}

// now returns the side as it is on disk.
func (d *differ) now(ctx context.Context, h *history) (side, error) {
	state, err := observePath(ctx, d.root, h.path, h.after.Hash)
	if ctx.Err() != nil {
		return side{}, ctx.Err()
	}
	s := side{State: state}
	switch {
	case err != nil:
		s.State = State{Hash: kindOther, Mode: -1}
		s.hidden = "it can't be read"
	case state.kind() == kindFile:
		b, err := d.readNow(h.path)
		s.setContent(d.opt.Redact, b, err)
	case state.kind() == kindLink:
		parent, name, err := openParent(d.root, h.path)
		if err != nil {
			return s, err
		}
		defer parent.Close()
		target, err := parent.Readlink(name)
		s.setContent(d.opt.Redact, []byte(target), err)
	}
	return s, nil
}

func (d *differ) readNow(path string) ([]byte, error) {
	f, err := openFile(d.root, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxDiff+1))
	if err == nil && len(b) > maxDiff {
		err = errTooLong
	}
	return b, err
}

func (s *side) setContent(redact func(string) string, b []byte, err error) {
	switch {
	case errors.Is(err, errTooLong):
		s.hidden = "too large to show"
	case err != nil:
		s.hidden = reasonOf(err)
	case bytes.IndexByte(b, 0) >= 0 || !utf8.Valid(b):
		s.hidden = "binary"
	case redact != nil:
		s.text = redact(string(b))
	default:
		s.text = string(b)
	}
}

// compareSides writes the difference of two states that aren't equal.
func compareSides(text *strings.Builder, path string, old, now side) {
	from, to := old.kind(), now.kind()
	if from == kindDir || to == kindDir || from == kindOther || to == kindOther {
		fmt.Fprintf(text, "%s: %s → %s\n", quotePath(path), describeState(old.State), describeState(now.State))
		if from != kindFile && from != kindLink && to != kindFile && to != kindLink {
			return
		}
	}
	a, b := "a/"+path, "b/"+path
	fmt.Fprintf(text, "diff --git %s %s\n", quotePath(a), quotePath(b))
	switch {
	case !showable(from):
		fmt.Fprintf(text, "new file mode %s\n", gitMode(now.State))
		a, old.hidden = "/dev/null", ""
	case !showable(to):
		fmt.Fprintf(text, "deleted file mode %s\n", gitMode(old.State))
		b, now.hidden = "/dev/null", ""
	case gitMode(old.State) != gitMode(now.State):
		fmt.Fprintf(text, "old mode %s\nnew mode %s\n", gitMode(old.State), gitMode(now.State))
	}
	switch {
	case old.Hash == now.Hash:
	case old.hidden != "" || now.hidden != "":
		fmt.Fprintf(text, "Contents differ and are not shown: %s\n", cmp.Or(old.hidden, now.hidden))
	case old.text == now.text && old.Hash != "" && now.Hash != "":
		text.WriteString("Contents differ only where they are not shown\n")
	case old.text != now.text:
		fmt.Fprintf(text, "--- %s\n+++ %s\n", quotePath(a), quotePath(b))
		unified(text, old.text, now.text)
	}
}

func showable(kind string) bool { return kind == kindFile || kind == kindLink }

func describeState(s State) string {
	switch s.kind() {
	case kindNone:
		return "nothing"
	case kindDir:
		return fmt.Sprintf("folder %04o", s.Mode)
	case kindOther:
		return "neither file nor folder"
	case kindLink:
		return "symbolic link"
	default:
		return fmt.Sprintf("file %04o", s.Mode)
	}
}

func gitMode(s State) string {
	if s.kind() == kindLink {
		return "120000"
	}
	return fmt.Sprintf("100%03o", s.Mode)
}

// quotePath quotes a path that would break the line or confuse a reader.
func quotePath(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return unicode.IsControl(r) || r == '"' || r == '\\' || r == utf8.RuneError }) {
		return strconv.Quote(path)
	}
	return path
}
