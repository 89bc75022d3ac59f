package evidence

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// isSibling reports whether files are an export in the sibling standard's shape.
func isSibling(files fs.FS) bool {
	_, err := fs.Stat(files, siblingManifest)
	return err == nil
}

// verifySibling verifies an export in the sibling standard's shape. That standard has
// no proof; the signed pack beside it has, and the other files follow from it, so
// they are made again and compared.
func verifySibling(files fs.FS, opt VerifyOptions) *Verification {
	pack := &rereader{files: files, path: siblingSignedFile}
	defer pack.Close()
	sum := newCounted(io.Discard)
	_, err := io.Copy(sum, pack)
	ref := "sha256:" + hex.EncodeToString(sum.sum.Sum(nil))
	if err == nil {
		err = pack.Close()
	}
	if err != nil {
		return &Verification{Finding: changedFinding(siblingSignedFile, 0, "it is missing, or can't be read: %v", err)}
	}
	v, err := Verify(pack, opt)
	if err != nil {
		return &Verification{Finding: changedFinding(siblingSignedFile, 0, "it can't be read: %v", err)}
	}
	if v.Finding != nil {
		v.Finding.File = siblingSignedFile
		return v
	}
	v.Finding = siblingFollows(files, pack, ref)
	v.Files = 3
	return v
}

// siblingFollows makes the files again that follow from a signed pack.
func siblingFollows(files fs.FS, pack io.ReadSeeker, ref string) *Finding {
	same := &sameBundle{files: files}
	_, err := pack.Seek(0, io.SeekStart)
	if err == nil {
		err = WriteSiblingBundle(pack, ref, same)
	}
	if err = errors.Join(err, same.end()); err != nil {
		var f *Finding
		if !errors.As(err, &f) {
			f = changedFinding(siblingManifest, 0, "it can't be made again: %v", err)
		}
		return f
	}
	return unknownFile(files, same.known)
}

// sameBundle compares what is written to it with files that are there.
type sameBundle struct {
	files fs.FS
	known []string
	now   *sameFile
}

// Create implements [Bundle].
func (b *sameBundle) Create(path string) (io.Writer, error) {
	if err := b.end(); err != nil {
		return nil, err
	}
	f, err := b.files.Open(path)
	if err != nil {
		return nil, changedFinding(path, 0, "it is missing, or can't be opened: %v", err)
	}
	b.known = append(b.known, path)
	b.now = &sameFile{path: path, f: f, r: bufio.NewReader(f)}
	return b.now, nil
}

// end completes the file before.
func (b *sameBundle) end() error {
	if b.now == nil {
		return nil
	}
	last := b.now
	b.now = nil
	_, err := last.r.ReadByte()
	closed := last.f.Close()
	if !errors.Is(err, io.EOF) {
		return changedFinding(last.path, last.at, "something follows after its end")
	}
	return closed
}

// sameFile compares what is written with a file.
type sameFile struct {
	path string
	f    fs.File
	r    *bufio.Reader
	at   int64
}

// Write fails with a finding at the first byte that differs.
func (s *sameFile) Write(p []byte) (int, error) {
	got := make([]byte, len(p))
	n, err := io.ReadFull(s.r, got)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, fmt.Errorf("evidence: %s: %w", s.path, err)
	}
	if !bytes.Equal(got[:n], p) {
		f := changedFinding(s.path, s.at+firstDifference(got[:n], p), "it doesn't follow from the signed pack")
		f.Exact = true
		return 0, f
	}
	s.at += int64(n)
	return n, nil
}
