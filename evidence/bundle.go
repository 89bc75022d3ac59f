package evidence

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A bundle is a pack with what it refers to, as a directory or an archive:
//
//	evidence.json   the pack, which alone is signed
//	events.jsonl    its facts, one a line, as they are stored
//	outputs/HEX     contents, under the hash by which facts refer to them
//	manifest.json   files with sizes and hashes, redactions, what is missing
//
// The manifest needs no signature: it follows from the pack and the files, each
// of which is checked against the pack.
const (
	bundlePack     = "evidence.json"
	bundleEvents   = "events.jsonl"
	bundleOutputs  = "outputs/"
	bundleManifest = "manifest.json"
	bundleFormat   = "agentd-evidence-bundle-1"
)

// bundleFile is a line of the manifest.
type bundleFile struct {
	// Marks tell where a content was changed; the pack has its own.
	Marks     *marks `json:"marks,omitempty"`
	MediaType string `json:"mediaType"`
	Path      string `json:"path"`
	Role      string `json:"role"`
	SHA256    string `json:"sha256"`
	Size      int64  `json:"size"`
}

// manifest lists what is in a bundle, and what was taken out or isn't there.
type manifest struct {
	EvidenceID string            `json:"evidenceId"`
	ExportedAt string            `json:"exportedAt"`
	Files      []bundleFile      `json:"files"`
	Format     string            `json:"format"`
	KeyID      string            `json:"keyId"`
	Redactions []json.RawMessage `json:"redactions"`
	Scope      Scope             `json:"scope"`
	// Unavailable are the contents that could not be read at the export.
	Unavailable []string `json:"unavailable"`
}

func (m *manifest) encode() ([]byte, error) {
	b, err := canonicalOf(m)
	return append(b, '\n'), err
}

// outline is what a bundle needs to know of its pack.
type outline struct {
	stored, unavailable []string
	redactions          []json.RawMessage
}

func (o *outline) item(section string, b []byte) error {
	if len(o.stored)+len(o.unavailable)+len(o.redactions) == maxListed {
		return &Finding{Section: section, Detail: fmt.Sprintf("it lists more than %d contents and redactions", maxListed)}
	}
	switch section {
	case "contents":
		var c Content
		if err := json.Unmarshal(b, &c); err != nil {
			return err
		}
		if c.Status == "stored" {
			o.stored = append(o.stored, c.Ref)
		} else {
			o.unavailable = append(o.unavailable, c.Ref)
		}
	case "redactions":
		o.redactions = append(o.redactions, bytes.Clone(b))
	}
	return nil
}

// manifestOf returns the manifest that follows from a pack and its files.
func manifestOf(v *Verification, o *outline, files []bundleFile) *manifest {
	m := &manifest{
		Format: bundleFormat, EvidenceID: v.EvidenceID, ExportedAt: v.ExportedAt, KeyID: v.KeyID, Scope: v.Scope, Files: files,
		Redactions: append([]json.RawMessage{}, o.redactions...), Unavailable: append([]string{}, o.unavailable...),
	}
	return m
}

// Bundle is where [WriteBundle] puts the files of a bundle.
type Bundle interface {
	// Create begins the next file; the one before is complete.
	Create(path string) (io.Writer, error)
}

// WriteBundle writes a pack, and what it refers to, as a bundle. Open opens the
// content behind a reference.
func WriteBundle(pack io.ReadSeeker, open func(ref string) (io.ReadCloser, error), to Bundle) error {
	b := &bundling{to: to}
	if err := b.file(bundlePack, "pack", "application/json", pack); err != nil {
		return err
	}
	if _, err := pack.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("evidence: bundle: %w", err)
	}
	var o outline
	v, err := b.events(pack, &o)
	if err != nil {
		return err
	}
	for _, ref := range o.stored {
		if err := b.content(ref, open); err != nil {
			return err
		}
	}
	data, err := manifestOf(v, &o, b.files).encode()
	if err != nil {
		return err
	}
	w, err := to.Create(bundleManifest)
	if err == nil {
		_, err = w.Write(data)
	}
	if err != nil {
		return fmt.Errorf("evidence: bundle: %w", err)
	}
	return nil
}

// bundling is a bundle that is being written.
type bundling struct {
	to    Bundle
	files []bundleFile
}

// counted hashes, marks and counts what goes through it.
type counted struct {
	w   io.Writer
	sum interface {
		io.Writer
		Sum([]byte) []byte
	}
	marker *marker
	n      int64
}

func newCounted(w io.Writer) *counted {
	return &counted{w: w, sum: sha256.New(), marker: newMarker()}
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.sum.Write(p[:n])    //nolint:errcheck // a hash never fails, by its contract
	c.marker.Write(p[:n]) //nolint:errcheck // nor does this
	c.n += int64(n)
	return n, err
}

// roleContent is that of the files whose marks the manifest has.
const roleContent = "content"

// line is what the manifest says of what went through.
func (c *counted) line(path, role, mediaType string) bundleFile {
	f := bundleFile{Path: path, Role: role, MediaType: mediaType, Size: c.n, SHA256: hex.EncodeToString(c.sum.Sum(nil))}
	if role == roleContent {
		f.Marks = c.marker.marks()
	}
	return f
}

func (b *bundling) file(path, role, mediaType string, r io.Reader) error {
	return b.write(path, role, mediaType, func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
}

// write makes a file and its line in the manifest.
func (b *bundling) write(path, role, mediaType string, fill func(io.Writer) error) error {
	w, err := b.to.Create(path)
	if err != nil {
		return fmt.Errorf("evidence: bundle: %s: %w", path, err)
	}
	c := newCounted(w)
	if err := fill(c); err != nil {
		return fmt.Errorf("evidence: bundle: %s: %w", path, err)
	}
	b.files = append(b.files, c.line(path, role, mediaType))
	return nil
}

// events writes the facts of a pack, which must verify.
func (b *bundling) events(pack io.Reader, o *outline) (v *Verification, err error) {
	err = b.write(bundleEvents, "events", "application/jsonl", func(w io.Writer) error {
		out := bufio.NewWriterSize(w, 64<<10)
		v, err = Verify(pack, VerifyOptions{items: o.item, facts: func(_ uint64, data string) error {
			_, err := out.WriteString(data + "\n")
			return err
		}})
		if err == nil && v.Finding != nil {
			err = v.Finding
		}
		return errors.Join(err, out.Flush())
	})
	return v, err
}

func (b *bundling) content(ref string, open func(string) (io.ReadCloser, error)) error {
	r, err := open(ref)
	if err != nil {
		return fmt.Errorf("evidence: bundle: %w", err)
	}
	err = b.file(outputPath(ref), roleContent, "application/octet-stream", r)
	return errors.Join(err, r.Close())
}

func outputPath(ref string) string { return bundleOutputs + strings.TrimPrefix(ref, "sha256:") }
