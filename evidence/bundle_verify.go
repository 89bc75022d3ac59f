package evidence

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// VerifyBundle checks a bundle against its pack, and the pack against its proof.
// Contents are judged, not how an archive packs them. An export in the sibling
// standard's shape is checked against the signed pack in it.
func VerifyBundle(files fs.FS, opt VerifyOptions) *Verification {
	far := &asFar{files: files, first: map[string]*damage{}}
	v := verifyFiles(far, opt)
	v.Finding = far.explain(v.Finding)
	return v
}

func verifyFiles(files fs.FS, opt VerifyOptions) *Verification {
	if isSibling(files) {
		return verifySibling(files, opt)
	}
	b := &bundleCheck{files: files, opt: opt}
	v := b.pack()
	if v.Finding != nil {
		return v
	}
	v.Finding = b.checkContents(v)
	v.Files = len(b.lines) + 1
	return v
}

// bundleCheck reads a bundle file by file.
type bundleCheck struct {
	files   fs.FS
	opt     VerifyOptions
	outline outline
	lines   []bundleFile
}

// changedFinding is a finding about a file.
func changedFinding(file string, at int64, format string, args ...any) *Finding {
	return &Finding{File: file, Byte: at, Detail: fmt.Sprintf(format, args...)}
}

// hashed is a file that is read to its end for its size and hash.
type hashed struct {
	io.Reader
	c *counted
}

func (b *bundleCheck) open(path string) (fs.File, *hashed, *Finding) {
	f, err := b.files.Open(path)
	if err != nil {
		return nil, nil, changedFinding(path, 0, "it is missing, or can't be opened: %v", err)
	}
	c := newCounted(io.Discard)
	return f, &hashed{io.TeeReader(f, c), c}, nil
}

// line ends a file and adds its line of the manifest.
func (b *bundleCheck) line(path, role, mediaType string, h *hashed) *Finding {
	if _, err := io.Copy(io.Discard, h); err != nil {
		return changedFinding(path, h.c.n, "it can't be read: %v", err)
	}
	b.lines = append(b.lines, h.c.line(path, role, mediaType))
	return nil
}

// pack verifies the pack, and the facts beside it.
func (b *bundleCheck) pack() *Verification {
	pf, pack, missing := b.open(bundlePack)
	if missing != nil {
		return &Verification{Finding: missing}
	}
	defer pf.Close()
	ef, events, missing := b.open(bundleEvents)
	if missing != nil {
		return &Verification{Finding: missing}
	}
	defer ef.Close()
	facts := &factLines{r: bufio.NewReaderSize(events, 64<<10)}
	opt := b.opt
	opt.items, opt.facts = b.outline.item, facts.compare
	v, err := verifyReader(pack, opt, func() (io.ReadCloser, error) { return b.files.Open(bundlePack) })
	if err != nil { // an archive's checksum, or the medium
		return &Verification{Finding: changedFinding(bundlePack, pack.c.n, "it can't be read: %v", err)}
	}
	if v.Finding != nil {
		if v.Finding.File == "" {
			v.Finding.File = bundlePack
		}
		return v
	}
	if v.Finding = facts.end(); v.Finding == nil {
		v.Finding = b.line(bundlePack, "pack", "application/json", pack)
	}
	if v.Finding == nil {
		v.Finding = b.line(bundleEvents, "events", "application/jsonl", events)
	}
	return v
}

// factLines compares the file of facts with those of the pack.
type factLines struct {
	r  *bufio.Reader
	at int64
	// want and got are the line as it must be and as it is; no more is read of it.
	want, got []byte
}

func (l *factLines) compare(sequence uint64, data string) error {
	l.want = append(append(l.want[:0], data...), '\n')
	l.got = slices.Grow(l.got[:0], len(l.want))[:len(l.want)]
	n, err := io.ReadFull(l.r, l.got)
	if err != nil || !bytes.Equal(l.got, l.want) {
		f := changedFinding(bundleEvents, l.at+firstDifference(l.got[:n], l.want), "it is not the fact that the pack holds")
		f.Sequence = sequence
		return f
	}
	l.at += int64(n)
	return nil
}

func (l *factLines) end() *Finding {
	if _, err := l.r.ReadByte(); !errors.Is(err, io.EOF) {
		return changedFinding(bundleEvents, l.at, "something follows after the last fact of the pack")
	}
	return nil
}

func firstDifference(a, b []byte) int64 {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return int64(i)
		}
	}
	return int64(min(len(a), len(b)))
}

// checkContents checks the contents, the manifest, and that there is nothing else.
func (b *bundleCheck) checkContents(v *Verification) *Finding {
	for _, ref := range b.outline.stored {
		if f := b.content(ref); f != nil {
			return f
		}
	}
	want, err := manifestOf(v, &b.outline, b.lines).encode()
	if err != nil {
		return changedFinding(bundleManifest, 0, "it can't be made again: %v", err)
	}
	got, err := readAtMost(b.files, bundleManifest, int64(len(want)))
	if err != nil && got == nil {
		return changedFinding(bundleManifest, 0, "it is missing, or can't be read: %v", err)
	}
	if !bytes.Equal(got, want) {
		return changedFinding(bundleManifest, firstDifference(got, want), "it doesn't say what is in the bundle")
	}
	known := []string{bundleManifest}
	for i := range b.lines {
		known = append(known, b.lines[i].Path)
	}
	return unknownFile(b.files, known)
}

func (b *bundleCheck) content(ref string) *Finding {
	path := outputPath(ref)
	f, h, missing := b.open(path)
	if missing != nil {
		return missing
	}
	defer f.Close()
	if f := b.line(path, roleContent, "application/octet-stream", h); f != nil {
		return f
	}
	if got := "sha256:" + b.lines[len(b.lines)-1].SHA256; got != ref {
		f := changedFinding(path, 0, "it was changed: its content has the hash %s", got)
		b.place(f, ref)
		return f
	}
	return nil
}

// place finds where a content was changed, if the manifest tells. The manifest isn't
// signed: changing it too hides the place, not the change.
func (b *bundleCheck) place(f *Finding, ref string) {
	var m manifest
	text, err := readAtMost(b.files, bundleManifest, maxManifest)
	if err != nil || json.Unmarshal(text, &m) != nil {
		return
	}
	i := slices.IndexFunc(m.Files, func(l bundleFile) bool { return l.Path == f.File && "sha256:"+l.SHA256 == ref && l.Marks != nil })
	if i < 0 {
		return
	}
	file, err := b.files.Open(f.File)
	if err != nil {
		return
	}
	defer file.Close()
	p, err := m.Files[i].Marks.first(file)
	switch was, is := m.Files[i].Size, b.lines[len(b.lines)-1].Size; {
	case err != nil:
	case p != nil:
		f.Byte, f.Exact = p.from, p.exact
		if !p.exact {
			f.Until = p.until
		}
	case is > was: // all that was there is there still
		f.Byte, f.Exact = was, true
	}
}

// unknownFile finds a file that is none of those.
func unknownFile(files fs.FS, known []string) *Finding {
	slices.Sort(known)
	var found *Finding
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if _, ok := slices.BinarySearch(known, path); !ok {
			found = changedFinding(path, 0, "the manifest doesn't know it")
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return changedFinding(".", 0, "it can't be listed: %v", err)
	}
	return found
}
