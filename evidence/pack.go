package evidence

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"time"

	"agentd/event"
	"agentd/state"
	"agentd/store"
)

// Format is the first member of a pack.
const Format = "agentd-evidence-1"

// ErrNothing says that no fact of the session is in the scope.
var ErrNothing = errors.New("evidence: the scope contains no facts")

// ErrNoTurns says that no turn of the session is in the scope.
var ErrNoTurns = errors.New("evidence: the scope contains no turns")

// Facts is where the facts come from; a [store.Store] is one.
type Facts interface {
	// Read yields records of a session.
	Read(ctx context.Context, sessionID string, r store.Range) iter.Seq2[store.Record, error]
	// Contents opens the payloads of facts that show only a part of them.
	store.Contents
}

// Options of an export. Key is required for [Export].
type Options struct {
	// EvidenceID is the export's id, At its time.
	EvidenceID string
	At         time.Time
	// Key signs the pack.
	Key ed25519.PrivateKey
	// Before bounds the facts that are looked at; 0 means all.
	Before uint64
	// Readable says whether what is behind a reference can be read; nil means that
	// nothing can.
	Readable func(ref string) bool
	// Content reads what is behind a reference, for replay cases; nil leaves it there.
	Content func(ref string) ([]byte, error)
}

// Exported says what a pack holds.
type Exported struct {
	// Through is the last fact in the pack, Head the chain's hash at it.
	Through uint64
	Head    store.Hash
	// ThreadID, TaskID and RunID are those of the scope, where there is only one.
	Correlation Correlation
	Events      int64
	// Refs are the contents that the facts refer to.
	Refs []string
	// Summary is the pack without its lists and events: a JSON object that says so
	// in its member "partial".
	Summary []byte
}

// Export writes the evidence pack of a scope.
func Export(ctx context.Context, facts Facts, scope Scope, opt Options, w io.Writer) (_ *Exported, err error) {
	if scope, err = scope.resolved(ctx, facts, opt.Before); err != nil {
		return nil, err
	}
	through, err := lastFact(ctx, facts, scope, opt.Before)
	if err != nil {
		return nil, err
	}
	base, err := Removed(ctx, facts, scope.SessionID)
	if err != nil {
		return nil, err
	}
	c := newCollector(scope, opt.Readable)
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.beginAt(&base); err != nil {
		return nil, err
	}
	for rec, err := range facts.Read(ctx, scope.SessionID, store.Range{After: base.Sequence, Before: through + 1}) {
		if err != nil {
			return nil, fmt.Errorf("evidence: read: %w", err)
		}
		e, err := store.DecodeFact(ctx, facts, rec.Data)
		if err == nil {
			err = c.foldFact(e, rec.Data)
		}
		if err != nil {
			return nil, fmt.Errorf("evidence: fact %d: %w", rec.Sequence, err)
		}
	}
	p := &packWriter{summary: []byte(`{"partial":true,`), marked: newMarker()}
	p.w = bufio.NewWriterSize(io.MultiWriter(w, p.marked), 64<<10)
	if err := p.write(ctx, facts, c, opt, through); err != nil {
		return nil, err
	}
	res := p.exported
	res.Refs = slices.Sorted(maps.Keys(c.refs))
	return &res, nil
}

// lastFact finds the last fact of a scope that isn't the record of an export.
func lastFact(ctx context.Context, facts Facts, scope Scope, before uint64) (uint64, error) {
	for rec, err := range facts.Read(ctx, scope.SessionID, store.Range{Before: before, Reverse: true}) {
		if errors.Is(err, store.ErrTrimmed) {
			return 0, fmt.Errorf("%w: %w", ErrNothing, err)
		}
		if err != nil {
			return 0, fmt.Errorf("evidence: read: %w", err)
		}
		e := &event.Event{}
		payload, err := event.DecodeHeader(rec.Data, e)
		if err == nil && scope.has(e) {
			if e.Type != event.TypeEvidenceChanged {
				return rec.Sequence, nil
			}
			if err = e.DecodePayload(payload); err == nil && !isExport(e) {
				return rec.Sequence, nil
			}
		}
		if err != nil {
			return 0, fmt.Errorf("evidence: fact %d: %w", rec.Sequence, err)
		}
	}
	return 0, ErrNothing
}

// packWriter writes a pack section by section, each on lines of its own.
type packWriter struct {
	w        *bufio.Writer
	summary  []byte
	proof    integrity
	exported Exported
	// marked makes the marks of what is written.
	marked *marker
}

// markedFrom is the first section that differs only if the facts do.
const markedFrom = "scope"

// runtimeSummary is what the session's state says of itself.
type runtimeSummary struct {
	Account        string           `json:"account,omitempty"`
	CreatedAt      time.Time        `json:"createdAt"`
	CreatedBy      *event.Actor     `json:"createdBy,omitempty"`
	ForkedFrom     *event.ForkPoint `json:"forkedFrom,omitempty"`
	PermissionMode string           `json:"permissionMode,omitempty"`
	RuntimeID      string           `json:"runtimeId"`
	SchemaVersions []string         `json:"schemaVersions"`
	SessionID      string           `json:"sessionId"`
	Status         string           `json:"status"`
	Title          string           `json:"title,omitempty"`
	UpdatedAt      time.Time        `json:"updatedAt"`
	Workspace      *event.Workspace `json:"workspace,omitempty"`
}

func summarize(s *state.Session) runtimeSummary {
	snap := s.Snapshot()
	return runtimeSummary{
		Account: s.Account, CreatedAt: s.CreatedAt, CreatedBy: s.CreatedBy, ForkedFrom: s.ForkedFrom, PermissionMode: s.PermissionMode,
		RuntimeID: s.RuntimeID, SchemaVersions: []string{event.SchemaStandard, event.SchemaExtension}, SessionID: s.SessionID,
		Status: snap.Status, Title: s.Title, UpdatedAt: s.UpdatedAt, Workspace: s.Workspace,
	}
}

func (p *packWriter) write(ctx context.Context, facts Facts, c *collector, opt Options, through uint64) error {
	running, err := c.unfinished()
	if err != nil {
		return err
	}
	signals, gaps := c.signals(running)
	p.exported.Correlation = c.ids.result(c.scope, c.state.RuntimeID)
	if _, err := p.w.WriteString("{"); err != nil {
		return err
	}
	for _, s := range []struct {
		name  string
		value any
	}{
		{"format", Format},
		{"evidenceId", opt.EvidenceID},
		{"exportedAt", opt.At.UTC()},
		{"scope", c.scope},
		{"runtimeCorrelation", p.exported.Correlation},
		{"runtime", summarize(c.state)},
		{"timeline", c.timeline},
		{"signals", signals},
		{"knownGaps", gaps},
	} {
		if err := p.section(s.name, s.value, true); err != nil {
			return err
		}
	}
	if err := p.lists(c); err != nil {
		return err
	}
	if err := p.events(ctx, facts, c, through); err != nil {
		return err
	}
	return p.end(opt.Key)
}

// name begins a section.
func (p *packWriter) name(name string) error {
	if len(p.proof.Sections) > 0 {
		if err := p.w.WriteByte(','); err != nil {
			return err
		}
	}
	if name == markedFrom {
		if err := p.w.Flush(); err != nil {
			return err
		}
		p.marked.begin()
	}
	_, err := p.w.WriteString("\n\"" + name + `":`)
	return err
}

// section writes a small section and adds its hash to the proof.
func (p *packWriter) section(name string, value any, inSummary bool) error {
	b, err := canonicalOf(value)
	if err != nil {
		return err
	}
	h, err := hashSection(name, b)
	if err != nil {
		return err
	}
	if err := p.name(name); err != nil {
		return err
	}
	p.proof.Sections = append(p.proof.Sections, h)
	if inSummary {
		p.summary = append(append(append(append(p.summary, '"'), name...), '"', ':'), append(b, ',')...)
	}
	_, err = p.w.Write(b)
	return err
}

// lists writes the read models of the threads and the lists.
func (p *packWriter) lists(c *collector) error {
	threads := newSpool()
	defer func() { _ = threads.close() }()
	for _, id := range c.threadsInScope() {
		if t := c.state.ThreadRead(id); t != nil {
			if err := threads.add(t); err != nil {
				return err
			}
		}
	}
	if err := p.list("threads", threads); err != nil {
		return err
	}
	for _, name := range lists {
		if err := p.list(name, c.lists[name]); err != nil {
			return err
		}
	}
	return nil
}

func (p *packWriter) list(name string, s *spool) error {
	if err := p.name(name); err != nil {
		return err
	}
	p.proof.Sections = append(p.proof.Sections, sectionHash{Name: name, Items: s.sum.items, SHA256: s.sum.hex()})
	if _, err := p.w.WriteString("["); err != nil {
		return err
	}
	if err := s.copyTo(p.w); err != nil {
		return err
	}
	_, err := p.w.WriteString("]")
	return err
}

// eventLine is a fact in a pack.
type eventLine struct {
	// Before is the chain's hash at the fact before, where that isn't in the pack.
	Before string `json:"before,omitempty"`
	// Data is the fact as it is stored, byte for byte.
	Data     string `json:"data"`
	Hash     string `json:"hash"`
	Sequence uint64 `json:"sequence"`
}

// digestLine is what the proof hashes of a fact: its bytes are in the chain.
func (l *eventLine) digestLine() []byte {
	return fmt.Appendf(nil, "%d %s %s", l.Sequence, l.Before, l.Hash)
}

// events writes the facts of the scope. A chain that doesn't hold is not signed.
func (p *packWriter) events(ctx context.Context, facts Facts, c *collector, through uint64) error {
	scope := c.scope
	if err := p.name("events"); err != nil {
		return err
	}
	if _, err := p.w.WriteString("["); err != nil {
		return err
	}
	genesis, last := store.Genesis(scope.SessionID), c.base.Hash
	p.proof.Chain = chainProof{
		Algorithm: "sha256", Complete: scope.isWholeSession() && c.base.Sequence == 0, Genesis: hex.EncodeToString(genesis[:]),
		Through: through, Removed: c.base.Sequence,
	}
	chain, sum, written := store.NewChain(last), newDigest(true), uint64(0)
	for rec, err := range facts.Read(ctx, scope.SessionID, store.Range{After: c.base.Sequence, Before: through + 1}) {
		if err != nil {
			return fmt.Errorf("evidence: read: %w", err)
		}
		before := last
		if last = chain.Next(rec.Data); last != rec.Hash {
			return fmt.Errorf("evidence: %w: fact %d of session %s doesn't fit into its chain", store.ErrCorrupt, rec.Sequence, scope.SessionID)
		}
		e := event.Event{}
		if _, err := event.DecodeHeader(rec.Data, &e); err != nil {
			return fmt.Errorf("evidence: fact %d: %w", rec.Sequence, err)
		}
		if !scope.has(&e) {
			continue
		}
		line := eventLine{Data: string(rec.Data), Hash: hex.EncodeToString(last[:]), Sequence: rec.Sequence}
		if rec.Sequence != written+1 {
			line.Before = hex.EncodeToString(before[:])
		}
		written = rec.Sequence
		sum.add(line.digestLine())
		if err := p.event(&line, sum.items > 1); err != nil {
			return err
		}
	}
	p.exported.Through, p.exported.Head, p.exported.Events = written, last, sum.items
	p.proof.Chain.Events, p.proof.Chain.HeadHash = sum.items, hex.EncodeToString(last[:])
	p.proof.Sections = append(p.proof.Sections, sectionHash{Name: "events", Items: sum.items, SHA256: sum.hex()})
	_, err := p.w.WriteString("]")
	return err
}

func (p *packWriter) event(line *eventLine, comma bool) error {
	b, err := plainJSON(line)
	if err != nil {
		return err
	}
	if comma {
		b = append([]byte(",\n"), b...)
	}
	_, err = p.w.Write(b)
	return err
}

// end signs and closes the pack.
func (p *packWriter) end(key ed25519.PrivateKey) error {
	if err := p.name("integrity"); err != nil {
		return err
	}
	if err := p.w.Flush(); err != nil {
		return err
	}
	p.proof.Marks = p.marked.marks()
	if err := p.proof.sign(key); err != nil {
		return err
	}
	b, err := canonicalOf(p.proof)
	if err != nil {
		return err
	}
	if _, err := p.w.Write(append(b, "\n}\n"...)); err != nil {
		return err
	}
	p.exported.Summary = append(append(append(p.summary, `"integrity":`...), b...), '}')
	return p.w.Flush()
}
