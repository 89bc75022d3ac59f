package evidence

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"agentd/event"
	"agentd/state"
	"agentd/store"
)

// Formats of a replay case. The earlier one holds what models and tools answered and
// no facts: it can be verified, and its inputs be submitted again.
const (
	ReplayFormat        = "agentd-replay-2"
	EarlierReplayFormat = "agentd-replay-1"
)

// Case is a recording whose decisions can be made again: facts, and what they refer
// to that decisions depend on.
type Case struct {
	EvidenceID         string      `json:"evidenceId"`
	ExportedAt         time.Time   `json:"exportedAt"`
	Format             string      `json:"format"`
	RuntimeCorrelation Correlation `json:"runtimeCorrelation"`
	Scope              Scope       `json:"scope"`
	// Determinism is deterministic, or approximate: Limits then say what decisions
	// depended on and can't be read any more.
	Determinism string   `json:"determinism"`
	Limits      []string `json:"limits"`
	// Workspace is where the session works.
	Workspace string `json:"workspace,omitempty"`
	// Configuration held at the export. It is used for facts that name none.
	Configuration json.RawMessage `json:"configuration,omitempty"`
	// Base is the state before the first fact; absent if that is the session's first.
	Base json.RawMessage `json:"base,omitempty"`
	// EvidenceLinks are what was exported or observed about the scope by then;
	// replay cases, like this one, are left out.
	EvidenceLinks []EvidenceLink `json:"evidenceLinks"`
	// GraderInstructions tell the judge of a replay what to look at.
	GraderInstructions string `json:"graderInstructions,omitempty"`
	// Facts are those of the session from the first of the scope to the last, without
	// gaps; Contents is what is behind references in them.
	Facts    []json.RawMessage `json:"facts"`
	Contents map[string]string `json:"referred"`
	// Integrity is the proof, which [Verify] checks; a case that was made by hand
	// has none.
	Integrity json.RawMessage `json:"integrity,omitempty"`

	// The members of a case of the earlier format that are still read.
	Earlier
}

// EvidenceLink points from a case to evidence about the same facts.
type EvidenceLink struct {
	EvidenceID string `json:"evidenceId"`
	Kind       string `json:"kind,omitempty"`
	// Ref is where it is, Sequence the fact that says so.
	Ref      string `json:"ref,omitempty"`
	Sequence uint64 `json:"sequence"`
}

// Earlier are the members of a case of the earlier format that are still read.
type Earlier struct {
	Environment *struct {
		Workspace string `json:"workspace,omitempty"`
	} `json:"environment,omitempty"`
	Turns []*CaseTurn `json:"turns,omitempty"`
}

// CaseTurn is a submitted turn.
type CaseTurn struct {
	Input   event.Raw          `json:"input"`
	Options *event.TurnOptions `json:"options,omitempty"`
	TurnID  string             `json:"turnId"`
}

// Events decodes the facts of a case.
func (c *Case) Events() ([]*event.Event, error) {
	out := make([]*event.Event, len(c.Facts))
	for i, raw := range c.Facts {
		e, err := event.DecodeWhole(raw, c.Content)
		if err != nil {
			return nil, fmt.Errorf("evidence: fact %d of the case: %w", i+1, err)
		}
		out[i] = e
	}
	return out, nil
}

// Content returns what is behind a reference of a fact.
func (c *Case) Content(ref string) ([]byte, error) {
	text, ok := c.Contents[ref]
	if !ok {
		return nil, errors.New("it is not in the case")
	}
	return []byte(text), nil
}

// Submitted returns the submitted turns of the scope; those of subagents
// follow from others.
func (c *Case) Submitted() ([]*CaseTurn, error) {
	if c.Format == EarlierReplayFormat {
		return slices.DeleteFunc(c.Turns, func(t *CaseTurn) bool { return t == nil }), nil
	}
	events, err := c.Events()
	if err != nil {
		return nil, err
	}
	var out []*CaseTurn
	for _, e := range events {
		p, ok := e.Payload.(*event.TurnSubmitted)
		if !ok || !c.Scope.Has(e) || applicable(e.SubagentID) != "" {
			continue
		}
		t := &CaseTurn{TurnID: e.TurnID, Input: p.Input, Options: p.Options}
		if p.InputRef != "" {
			if t.Input, err = c.Content(p.InputRef); err != nil {
				return nil, fmt.Errorf("evidence: the input of turn %s: %w", e.TurnID, err)
			}
		}
		out = append(out, t)
	}
	return out, nil
}

// CaseOptions are what a case has beside the facts.
type CaseOptions struct {
	Workspace     string
	Configuration json.RawMessage
	// GraderInstructions come from the caller that asked for the case.
	GraderInstructions string
}

// ExportReplay writes the replay case of a scope.
func ExportReplay(ctx context.Context, facts Facts, scope Scope, opt Options, with CaseOptions, w io.Writer) (*Exported, error) {
	scope, err := scope.resolved(ctx, facts, opt.Before)
	if err != nil {
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
	x := &caseExport{content: opt.Content, state: state.New(scope.SessionID), missing: map[string]bool{}}
	x.c = &Case{
		Format: ReplayFormat, EvidenceID: opt.EvidenceID, ExportedAt: opt.At.UTC(), Scope: scope, Determinism: "deterministic", Limits: []string{},
		Workspace: with.Workspace, Configuration: with.Configuration, Facts: []json.RawMessage{}, Contents: map[string]string{},
		GraderInstructions: with.GraderInstructions,
	}
	if x.c.EvidenceLinks, err = evidenceLinks(ctx, facts, scope, store.Range{After: base.Sequence, Before: opt.Before}); err != nil {
		return nil, err
	}
	if base.Sequence > 0 {
		x.c.Determinism, x.c.Limits = "approximate", append(x.c.Limits, RemovedNote(&base))
		if x.state, err = state.DecodeBase(base.Data); err != nil {
			return nil, fmt.Errorf("evidence: the base that replaces the facts through %d: %w", base.Sequence, err)
		}
	}
	res := &Exported{Summary: []byte(`{"partial":true,"format":"` + ReplayFormat + `"}`)}
	for rec, err := range facts.Read(ctx, scope.SessionID, store.Range{After: base.Sequence, Before: through + 1}) {
		if err != nil {
			return nil, fmt.Errorf("evidence: read: %w", err)
		}
		res.Through, res.Head = rec.Sequence, rec.Hash
		if err := x.addFact(ctx, facts, rec.Data); err != nil {
			return nil, fmt.Errorf("evidence: fact %d: %w", rec.Sequence, err)
		}
	}
	if x.turns == 0 {
		return nil, ErrNoTurns
	}
	res.Events, res.Correlation = x.events, x.finish()
	b, err := Sealed(x.c, res.seal(ReplayFormat, scope, opt))
	if err == nil {
		_, err = w.Write(b)
	}
	if err != nil {
		return nil, fmt.Errorf("evidence: replay case: %w", err)
	}
	return res, nil
}

// evidenceLinks lists the evidence about a scope. Exports of a turn follow its last
// fact, so all facts through the time of the export are looked at.
func evidenceLinks(ctx context.Context, facts Facts, scope Scope, within store.Range) ([]EvidenceLink, error) {
	links := []EvidenceLink{}
	for rec, err := range facts.Read(ctx, scope.SessionID, within) {
		if err != nil {
			return nil, fmt.Errorf("evidence: read: %w", err)
		}
		head := event.Event{}
		if _, err := event.DecodeHeader(rec.Data, &head); err != nil {
			return nil, fmt.Errorf("evidence: fact %d: %w", rec.Sequence, err)
		}
		if head.Type != event.TypeEvidenceChanged || !scope.has(&head) {
			continue
		}
		e, err := event.Decode(rec.Data)
		if err != nil {
			return nil, fmt.Errorf("evidence: fact %d: %w", rec.Sequence, err)
		}
		if p, ok := e.Payload.(*event.EvidenceChanged); ok && p.Kind != "replay" {
			links = append(links, EvidenceLink{EvidenceID: e.EvidenceID, Kind: p.Kind, Ref: cmp.Or(p.PackRef, p.ReviewRef, p.TraceRef), Sequence: e.Sequence})
		}
	}
	return links, nil
}

// caseExport is a case that is being made.
type caseExport struct {
	c       *Case
	content func(ref string) ([]byte, error)
	// state is that before the first fact of the scope.
	state     *state.Session
	ids       correlation
	runtimeID string
	events    int64
	turns     int
	missing   map[string]bool
}

// addFact adds a fact, once the scope has begun.
func (x *caseExport) addFact(ctx context.Context, contents store.Contents, data []byte) error {
	e, err := store.DecodeFact(ctx, contents, data)
	if err != nil {
		return err
	}
	has := x.c.Scope.has(e)
	if len(x.c.Facts) == 0 && !has {
		_, err = x.state.Apply(e)
		return err
	}
	if len(x.c.Facts) == 0 && x.state.Sequence > 0 {
		x.c.Base = x.state.Encode()
		x.addReferenced(x.state.ConfigurationRef, x.state.ConfinementRef)
		for _, t := range x.state.Threads {
			if t.Inventory != nil {
				x.addReferenced(t.Inventory.InventoryRef)
			}
		}
	}
	x.c.Facts = append(x.c.Facts, slices.Clone(data))
	x.addReferenced(contentsOf(e)...)
	if has {
		x.events++
		x.ids.countFact(e)
		x.runtimeID = e.RuntimeID
		if e.Type == event.TypeTurnSubmitted {
			x.turns++
		}
	}
	return nil
}

// contentsOf are the references in a fact to what decisions depend on.
func contentsOf(e *event.Event) []string {
	refs := []string{event.ConfigurationOf(e.Payload), e.Refs[event.PayloadRef]}
	switch p := e.Payload.(type) {
	case *event.TurnSubmitted:
		refs = append(refs, p.InputRef)
	case *event.ToolCatalogResolved:
		refs = append(refs, p.InventoryRef)
	case *event.PermissionEvaluated:
		refs = append(refs, p.ConfinementRef, p.InputRef)
	case *event.ModelCompleted:
		refs = append(refs, p.MessageRef)
		if p.Message != nil {
			for _, c := range p.Message.ToolCalls {
				refs = append(refs, c.ArgumentsRef)
			}
		}
	}
	return refs
}

// addReferenced reads what is behind references.
func (x *caseExport) addReferenced(refs ...string) {
	for _, ref := range refs {
		if _, known := x.c.Contents[ref]; ref == "" || known || x.missing[ref] {
			continue
		}
		if x.content == nil {
			x.missing[ref] = true
			continue
		}
		b, err := x.content(ref)
		if err != nil {
			x.missing[ref] = true
			continue
		}
		x.c.Contents[ref] = string(b)
	}
}

// finish completes the case.
func (x *caseExport) finish() Correlation {
	for _, ref := range slices.Sorted(maps.Keys(x.missing)) {
		x.c.Determinism, x.c.Limits = "approximate", append(x.c.Limits, "what is behind "+ref+" can no longer be read")
	}
	x.c.RuntimeCorrelation = x.ids.result(x.c.Scope, x.runtimeID)
	return x.c.RuntimeCorrelation
}
