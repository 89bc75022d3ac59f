package evidence

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"agentd/event"
	"agentd/store"
)

// Finding is something in a pack that isn't as it was exported.
type Finding struct {
	// File of a bundle; empty for a pack on its own.
	File string `json:"file,omitempty"`
	// Byte is where in the file the changed part begins. Exact says that it is the
	// first byte that was changed; if Until is set, that one is before it.
	Byte  int64 `json:"byte"`
	Exact bool  `json:"exact,omitempty"`
	Until int64 `json:"until,omitempty"`
	// Section of the pack, and the fact if it is about one.
	Section  string `json:"section,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`
	Detail   string `json:"detail"`
}

func (f *Finding) String() string {
	where := ""
	if f.File != "" {
		where = f.File + ", "
	}
	where += fmt.Sprintf("byte %d", f.Byte)
	if f.Until > f.Byte+1 {
		where += fmt.Sprintf(" to %d", f.Until-1)
	}
	if f.Section != "" {
		where += ", section " + f.Section
	}
	if f.Sequence > 0 {
		where += fmt.Sprintf(", fact %d", f.Sequence)
	}
	return where + ": " + f.Detail
}

// Verification is what [Verify] found out.
type Verification struct {
	// Finding is the first thing that was changed; nil if nothing was.
	Finding *Finding `json:"finding"`
	// Format is what the document says that it is, Kind the same in words: evidence
	// pack, replay case, review or trial pack. Only a pack holds its facts; what the
	// others say of the chain is attested by the signature alone.
	Format string `json:"format,omitempty"`
	Kind   string `json:"kind,omitempty"`
	// Unproven says that the document carries no proof: the finding says what it is.
	Unproven   bool   `json:"unproven,omitempty"`
	EvidenceID string `json:"evidenceId,omitempty"`
	ExportedAt string `json:"exportedAt,omitempty"`
	Scope      Scope  `json:"scope"`
	RuntimeID  string `json:"runtimeId,omitempty"`
	Events     int64  `json:"events"`
	Through    uint64 `json:"through"`
	HeadHash   string `json:"headHash,omitempty"`
	// Complete says that the pack holds every fact from the first on.
	Complete bool `json:"complete"`
	// Removed is the last of the facts that retention removed before the export.
	Removed uint64 `json:"removedThrough,omitempty"`
	// KeyID names the key that signed; KeyKnown says that it is the one that the
	// caller expected.
	KeyID    string `json:"keyId,omitempty"`
	KeyKnown bool   `json:"keyKnown"`
	// Files counts the files of a bundle.
	Files int `json:"files,omitempty"`
}

// VerifyOptions say what a pack is checked against.
type VerifyOptions struct {
	// KeyID is the key that must have signed; empty accepts any, and leaves open
	// who it was.
	KeyID string
	// maxValue bounds one value of the document; 0 is no bound.
	maxValue int64
	// items and facts, if set, learn what stands in the lists; for bundles.
	items func(section string, canonical []byte) error
	facts func(sequence uint64, data string) error
}

// Verify reads a pack and checks it against its own proof. The error says that it
// could not be read at all; what was changed is a finding.
func Verify(r io.Reader, opt VerifyOptions) (*Verification, error) {
	return verifyReader(r, opt, seekable(r))
}

// verifyReader verifies what can be opened again to find the place of a change.
func verifyReader(r io.Reader, opt VerifyOptions, open again) (*Verification, error) {
	in := &failing{r: bufio.NewReaderSize(r, 64<<10)}
	guard := &valueGuard{r: &textReader{r: in}, most: opt.maxValue}
	guard.dec = json.NewDecoder(guard)
	v := &verifier{dec: guard.dec, opt: opt, res: &Verification{}, sums: map[string]sectionHash{}, at: map[string]int64{}}
	err := v.document()
	if in.err != nil {
		return nil, fmt.Errorf("evidence: verify: %w", in.err)
	}
	if err != nil {
		var stop *Finding
		if !errors.As(err, &stop) {
			stop = &Finding{Byte: v.dec.InputOffset(), Section: v.section, Detail: "it can't be read: " + err.Error()}
			v.cutOff = errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
		}
		stop.Section = cmp.Or(stop.Section, v.section)
		v.found(*stop)
		v.stop, v.unread = stop, true
	}
	v.judge()
	v.locate(open)
	return v.res, nil
}

// failing remembers an error of the reader, which is not the pack's fault.
type failing struct {
	r   io.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

// Error makes a finding end the reading.
func (f *Finding) Error() string { return f.String() }

// verifier reads a pack once, from its beginning to its end.
type verifier struct {
	dec     *json.Decoder
	opt     VerifyOptions
	res     *Verification
	section string
	// sums are the hashes of the sections as they are, in the order of names; at is
	// where each begins.
	sums  map[string]sectionHash
	names []string
	at    map[string]int64
	proof *integrity
	// chain is where the facts have led to.
	last     store.Hash
	sequence uint64
	// session is the one whose chain is followed, correlated the one that the
	// document names beside its scope.
	session, correlated string
	// stop is what ended the reading too early.
	stop *Finding
	// broken says that a fact was found that doesn't follow, cutOff that the file ended
	// too early, unread that it was not read to its end: where that was noticed says little about
	// where it begins.
	broken, cutOff, unread bool
}

// found keeps the finding that stands first.
func (v *verifier) found(f Finding) {
	if v.res.Finding == nil || f.Byte < v.res.Finding.Byte {
		v.res.Finding = &f
	}
}

func (v *verifier) document() error {
	if tok, err := v.dec.Token(); err != nil || tok != json.Delim('{') {
		return errors.Join(errors.New("it is not a JSON object (a page carries no proof: verify the export as .json)"), err)
	}
	for v.dec.More() {
		tok, err := v.dec.Token()
		if err != nil {
			return err
		}
		name := tok.(string)
		v.section = name
		if _, twice := v.at[name]; twice {
			return &Finding{Byte: v.dec.InputOffset(), Section: name, Detail: "the section is there twice"}
		}
		if len(v.names) == maxSections {
			return &Finding{Byte: v.dec.InputOffset(), Section: name, Detail: fmt.Sprintf("it has more than %d sections", maxSections)}
		}
		if name == "partial" {
			return &Finding{Byte: v.dec.InputOffset(), Section: name, Detail: "this is the summary of a pack; the whole pack is what its reference names"}
		}
		v.at[name] = v.dec.InputOffset()
		v.names = append(v.names, name)
		if err := v.member(name); err != nil {
			return err
		}
	}
	v.section = ""
	if _, err := v.dec.Token(); err != nil {
		return err
	}
	if _, err := v.dec.Token(); !errors.Is(err, io.EOF) {
		return &Finding{Byte: v.dec.InputOffset(), Detail: "something follows after the end"}
	}
	return nil
}

// isList reports whether a section is a list, which is read item by item.
func isList(name string) bool {
	switch name {
	case "events", "threads", "signals", "knownGaps":
		return true
	}
	return slices.Contains(lists, name)
}

func (v *verifier) member(name string) error {
	if !isList(name) {
		b, err := nextCanonical(v.dec)
		if err != nil {
			return err
		}
		return v.value(name, b)
	}
	tok, err := v.dec.Token()
	if err == nil && tok != json.Delim('[') {
		err = &Finding{Byte: v.at[name], Section: name, Detail: "it is not a list"}
	}
	if err != nil {
		return err
	}
	d := newDigest(true)
	for v.dec.More() {
		begin := v.dec.InputOffset()
		b, err := nextCanonical(v.dec)
		if err == nil && name == "events" {
			b, err = v.event(b, begin)
		}
		if err != nil {
			return err
		}
		d.add(b)
		if err := v.item(name, b); err != nil {
			return err
		}
	}
	if name == "events" {
		v.res.Events = d.items
	}
	v.sums[name] = sectionHash{Name: name, Items: d.items, SHA256: d.hex()}
	_, err = v.dec.Token()
	return err
}

// value takes a section that isn't a list.
func (v *verifier) value(name string, b []byte) error {
	into := map[string]any{
		"evidenceId": &v.res.EvidenceID, "exportedAt": &v.res.ExportedAt, "scope": &v.res.Scope, "integrity": &v.proof,
		"format": &v.res.Format, "runtimeCorrelation": &struct {
			RuntimeID *string `json:"runtimeId"`
			SessionID *string `json:"sessionId"`
		}{&v.res.RuntimeID, &v.correlated},
	}[name]
	if into != nil {
		dec := json.NewDecoder(bytes.NewReader(b))
		if name == "scope" || name == "integrity" {
			dec.DisallowUnknownFields()
		}
		if err := dec.Decode(into); err != nil {
			return &Finding{Byte: v.at[name], Section: name, Detail: "it can't be understood: " + err.Error()}
		}
		if (name == "scope" || name == "integrity") && !exactly(b, into) {
			return &Finding{Byte: v.at[name], Section: name, Detail: "a name or a value in it is not written as it was"}
		}
	}
	switch name {
	case "integrity":
		return nil
	case "scope":
		if v.session == "" {
			v.begin(v.res.Scope.SessionID)
			v.res.Scope.family = newFamily(v.res.Scope.TaskID)
		}
	case "format":
		if v.res.Format != Format && sealedFormats[v.res.Format] == "" {
			return &Finding{Byte: v.at[name], Section: name, Detail: "it has the format " + string(b) + ", which is neither that of a pack nor of another signed document"}
		}
	}
	h, err := hashSection(name, b)
	v.sums[name] = h
	return err
}

// exactly reports whether a value is all that its JSON says: the decoder also takes
// names in another case, and sloppy base64.
func exactly(b []byte, value any) bool {
	again, err := canonicalOf(value)
	return err == nil && bytes.Equal(again, b)
}

// item passes an element of a list to its observer.
func (v *verifier) item(name string, b []byte) error {
	if v.opt.items == nil || name == "events" {
		return nil
	}
	return v.opt.items(name, b)
}

// event follows the chain through a fact and returns what the proof hashes of it.
func (v *verifier) event(b []byte, begin int64) ([]byte, error) {
	var line eventLine
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	var wrong string
	seq := v.sequence + 1
	if err := dec.Decode(&line); err != nil {
		wrong = "it can't be understood: " + err.Error()
	} else if seq, wrong = v.follow(&line); wrong == "" && !exactly(b, &line) {
		wrong = "a name or a value in it is not written as it was"
	}
	if wrong != "" {
		v.found(Finding{Byte: begin, Section: "events", Sequence: seq, Detail: wrong})
		v.broken = true
	}
	if v.opt.facts != nil && !v.broken {
		if err := v.opt.facts(line.Sequence, line.Data); err != nil {
			return nil, err
		}
	}
	return line.digestLine(), nil
}

// follow goes on in the chain with a fact. It returns what is wrong with it, if
// anything, and goes on from what it says.
func (v *verifier) follow(line *eventLine) (sequence uint64, wrong string) {
	before := v.sequence
	v.sequence = line.Sequence
	var e event.Event
	if _, err := event.DecodeHeader([]byte(line.Data), &e); err != nil {
		return line.Sequence, "it is not a fact: " + err.Error()
	}
	if v.session == "" {
		v.begin(e.SessionID)
	}
	switch {
	case line.Sequence <= before:
		return line.Sequence, fmt.Sprintf("it stands after fact %d", before)
	case line.Sequence == before+1 && line.Before != "":
		return line.Sequence, "it follows the fact before, and brings another hash to begin from"
	case line.Sequence != before+1 && line.Before == "":
		return before + 1, fmt.Sprintf("it is missing: the next one is %d", line.Sequence)
	}
	if line.Before != "" {
		if _, err := hex.Decode(v.last[:], []byte(line.Before[:min(len(line.Before), 2*len(v.last))])); err != nil || len(line.Before) != 2*len(v.last) {
			return line.Sequence, "the hash of the previous fact is invalid"
		}
	}
	v.last = sha256.Sum256(append(append(make([]byte, 0, len(v.last)+len(line.Data)), v.last[:]...), line.Data...))
	if hex.EncodeToString(v.last[:]) != line.Hash {
		return line.Sequence, "its bytes, and the hash before, don't give its hash"
	}
	if e.Sequence != line.Sequence || e.SessionID != v.session || v.scoped() && !v.res.Scope.has(&e) {
		return line.Sequence, "it says that it is another fact, or one outside the scope"
	}
	return line.Sequence, ""
}

// begin sets the session whose chain is followed.
func (v *verifier) begin(sessionID string) { v.session, v.last = sessionID, store.Genesis(sessionID) }

// scoped reports whether the scope was read. An encoder that orders members by
// name puts it after the facts; the signature holds both.
func (v *verifier) scoped() bool { return v.res.Scope.SessionID != "" }

// judge compares what was read with the proof.
func (v *verifier) judge() {
	if v.proof == nil {
		v.unproven()
		return
	}
	p := v.proof
	v.res.KeyID, v.res.Through, v.res.HeadHash, v.res.Complete = p.KeyID, p.Chain.Through, p.Chain.HeadHash, p.Chain.Complete
	v.res.Removed = p.Chain.Removed
	v.sections()
	v.kind()
	at := v.at["integrity"]
	switch {
	case !p.signed():
		v.found(Finding{Byte: at, Section: "integrity", Detail: "the signature doesn't hold"})
	case v.res.Format != cmp.Or(p.Document, Format):
		v.found(Finding{Byte: at, Section: "integrity", Detail: "the proof is that of another kind of document"})
	case !v.leads():
		v.found(Finding{Byte: at, Section: "integrity", Detail: "the facts don't lead to the head of the chain"})
	case v.opt.KeyID != "" && v.opt.KeyID != p.KeyID:
		v.found(Finding{Byte: at, Section: "integrity", Detail: "it is signed with the key " + p.KeyID + ", not with " + v.opt.KeyID})
	}
	v.res.KeyKnown = v.opt.KeyID != "" && v.opt.KeyID == p.KeyID
}

// kind finds out what the document is. A trial's pack has no member for it.
func (v *verifier) kind() {
	if v.res.Format == "" && v.proof.Document == TrialFormat {
		v.res.Format = TrialFormat
	}
	v.res.Kind = cmp.Or(sealedFormats[v.res.Format], "evidence pack")
	if v.proof.Document != "" {
		v.res.Events, v.res.Scope.SessionID = v.proof.Chain.Events, cmp.Or(v.res.Scope.SessionID, v.correlated)
	}
}

// leads reports whether the facts lead to the head of the chain that the proof
// names. A document without facts only has to be of that chain.
func (v *verifier) leads() bool {
	c := &v.proof.Chain
	genesis := store.Genesis(v.res.Scope.SessionID)
	if c.Genesis != hex.EncodeToString(genesis[:]) || c.Algorithm != "sha256" {
		return false
	}
	if v.proof.Document != "" {
		_, facts := v.at["events"]
		return !facts && !c.Complete
	}
	return v.session == v.res.Scope.SessionID && c.HeadHash == hex.EncodeToString(v.last[:]) && c.Through == v.sequence &&
		c.Events == v.res.Events && c.Complete == (v.res.Scope.isWholeSession() && c.Removed == 0)
}

// sections compares the hash of each section with the proof.
func (v *verifier) sections() {
	want := map[string]sectionHash{}
	for _, s := range v.proof.Sections {
		want[s.Name] = s
	}
	for _, name := range v.names {
		s, ok := want[name]
		delete(want, name)
		switch {
		case name == "integrity", name == "events" && v.broken: // the fact is named already
		case !ok:
			v.found(Finding{Byte: v.at[name], Section: name, Detail: "the proof knows no such section"})
		case s != v.sums[name]:
			v.found(Finding{Byte: v.at[name], Section: name, Detail: "it was changed: its content doesn't give its hash"})
		}
	}
	for _, s := range v.proof.Sections {
		if _, missing := want[s.Name]; missing {
			v.found(Finding{Byte: v.at["integrity"], Section: s.Name, Detail: "it is missing"})
		}
	}
}

// digestList hashes a list that is canonical JSON already.
func digestList(b []byte) (items int64, sum string, err error) {
	d := newDigest(true)
	dec := json.NewDecoder(bytes.NewReader(b))
	if _, err := dec.Token(); err != nil {
		return 0, "", err
	}
	for dec.More() {
		item, err := nextCanonical(dec)
		if err != nil {
			return 0, "", err
		}
		d.add(item)
	}
	return d.items, d.hex(), nil
}
