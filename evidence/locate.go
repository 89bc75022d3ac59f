package evidence

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"agentd/store"
)

// again opens a file once more from its beginning.
type again func() (io.ReadCloser, error)

// seekable returns how a reader is read again; nil if it can't be.
func seekable(r io.Reader) again {
	s, ok := r.(io.ReadSeeker)
	if !ok {
		return nil
	}
	begin, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil // a pipe
	}
	return func() (io.ReadCloser, error) {
		_, err := s.Seek(begin, io.SeekStart)
		return io.NopCloser(s), err
	}
}

// locate finds the byte at which the first change begins. The file is read again
// for it: where the changed part begins is known, and what the marks in the proof
// tell lies within it, unless the file was also written in another layout.
func (v *verifier) locate(open again) {
	f := v.res.Finding
	if f == nil || v.res.Unproven && v.stop == nil || open == nil {
		return
	}
	l := &locator{v: v, open: open}
	if l.read() != nil {
		return
	}
	if l.proof != nil && v.res.Unproven { // there is a proof, but the file can't be read so far
		v.res.Unproven, *f = false, *v.stop
	}
	if l.proof == nil {
		l.unread()
		return
	}
	if !l.proof.signed() || f.Section == "integrity" {
		l.inProof()
		return
	}
	part := f.Byte
	if f.Sequence == 0 {
		part -= int64(len(f.Section)) + 2 // the name of a section belongs to it
	}
	if v.unread {
		part = 0
	}
	if p, err := l.first(); err == nil && p != nil && p.until > part {
		if p.until <= v.at[f.Section]-int64(len(f.Section))-3 {
			f.Section = "" // it was only noticed there
		}
		f.Byte, f.Exact, f.Until = max(p.from, part), p.exact && p.from >= part, 0
		if !f.Exact {
			f.Until = p.until
		}
	}
}

// locator reads a changed file again.
type locator struct {
	v    *verifier
	open again
	// proof is that of the file, raw its bytes and those after it, end where it begins.
	proof     *integrity
	raw       []byte
	end, size int64
}

// read looks for the proof.
func (l *locator) read() error {
	r, err := l.open()
	if err != nil {
		return err
	}
	defer r.Close()
	if l.raw, l.end, l.size, err = lastProof(r); err != nil || l.raw == nil {
		return err
	}
	l.proof = l.v.proof
	if l.proof == nil && json.NewDecoder(bytes.NewReader(l.raw)).Decode(&l.proof) != nil {
		l.proof = nil
	}
	if l.proof != nil && l.proof.Marks == nil {
		l.proof = nil // it was exported before there were marks
	}
	return nil
}

// unread says where a file ends that was cut off, or where a proof can't be read any
// more: the change is there or before.
func (l *locator) unread() {
	f := l.v.res.Finding
	if l.v.cutOff {
		f.Byte, f.Exact, f.Detail = l.size, true, "the file is cut off: "+f.Detail
		return
	}
	var wrong *json.SyntaxError
	if err := json.NewDecoder(bytes.NewReader(l.raw)).Decode(&integrity{}); f.Section == "integrity" && errors.As(err, &wrong) {
		f.Byte, f.Until = l.end, l.end+wrong.Offset
	}
}

// first returns the place of the first change before the proof; nil if there is none.
func (l *locator) first() (*place, error) {
	r, err := l.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return l.proof.Marks.first(io.LimitReader(r, l.end))
}

// inProof finds a change in the proof itself, when everything before it is as it was:
// what the proof should say follows from the rest, but for key and signature.
func (l *locator) inProof() {
	want, err := l.expected()
	if err != nil || l.v.proof == nil || !slices.Equal(want.Marks.Sums, l.proof.Marks.Sums) && !slices.Equal(want.Sections, l.proof.Sections) {
		return
	}
	b, err := canonicalOf(want)
	if err != nil {
		return
	}
	f := l.v.res.Finding
	if f.Section != "integrity" {
		*f = Finding{Section: "integrity", Detail: "the proof itself was changed: its signature doesn't hold, and everything before it is as it was"}
	}
	f.Byte = l.end
	// A key and its id that don't fit don't say which of them was changed.
	if want.KeyID == l.proof.KeyID && !bytes.HasPrefix(l.raw, b) {
		f.Byte, f.Exact = l.end+firstDifference(l.raw, b), true
	}
}

// expected is the proof as it follows from the file, with the key and the signature
// that it has.
func (l *locator) expected() (*integrity, error) {
	want := *l.proof
	want.SignatureAlgorithm, want.KeyID, want.Sections = "ed25519", KeyID(want.PublicKey), nil
	for _, name := range l.v.names {
		if name != "integrity" {
			want.Sections = append(want.Sections, l.v.sums[name])
		}
	}
	genesis := store.Genesis(l.v.res.Scope.SessionID)
	want.Chain.Algorithm, want.Chain.Genesis = "sha256", hex.EncodeToString(genesis[:])
	if want.Document == "" {
		want.Chain.HeadHash, want.Chain.Through, want.Chain.Events = hex.EncodeToString(l.v.last[:]), l.v.sequence, l.v.res.Events
	}
	m := newMarker()
	from := l.proof.Marks.From
	if from < 0 || from > l.end {
		return nil, errors.New("the marks can't be used")
	}
	r, err := l.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if from > 0 {
		if _, err := io.CopyN(m, r, from); err != nil {
			return nil, err
		}
		m.begin()
	}
	if _, err := io.CopyN(m, r, l.end-from); err != nil {
		return nil, err
	}
	want.Marks = m.marks()
	return &want, nil
}
