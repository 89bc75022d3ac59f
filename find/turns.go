package find

import (
	"context"
	"strings"

	"agentd/event"
	"agentd/index"
	"agentd/store"
)

// TurnsName is the name of the projection that list_turns reads.
const TurnsName = "find_turns_1"

// openPrefix begins the keys of turns that have not ended: session and turn id → a
// segment with one row.
const openPrefix = "o"

func openKey(sessionID, turnID string) string { return openPrefix + sessionID + "/" + turnID }

// turns is the projection that list_turns reads. A turn's row is written once, when the
// turn ends; until then it is an entry of its own, unless that is within one batch.
type turns struct {
	segments
	// open are the turns that have not ended, by the keys of their entries.
	open map[string]*openTurn
}

type openTurn struct {
	row turnRow
	// stored says that there is an entry, changed that it isn't what it should be.
	stored, changed bool
}

func newTurns() *turns {
	return &turns{segments: segments{name: TurnsName, hasGone: turnsHaveGone, merge: mergeTurns}}
}

// Types implements [index.Projection].
func (*turns) Types() []event.Type {
	return []event.Type{
		event.TypeTurnSubmitted, event.TypeTurnStarted, event.TypeTurnCompleted, event.TypeTurnFailed,
		event.TypeModelCompleted, event.TypeModelFailed, event.TypeCostRecorded, event.TypeToolStarted,
		event.TypeSessionDeleted, event.TypeSnapshotRepaired,
	}
}

// Fold implements [index.Projection].
func (p *turns) Fold(ctx context.Context, b *index.Batch, read index.Reader) ([]store.IndexOp, error) {
	if err := p.loadOpen(ctx, read, b.Fresh); err != nil {
		return nil, err
	}
	m := p.manifest.clone()
	changed := m.noteRemoved(b.Facts)
	w := newTurnWriter()
	var ops []store.IndexOp
	for i := range b.Facts {
		f := &b.Facts[i]
		if f.Event.Sequence <= m.gone[f.SessionID] {
			continue
		}
		if key, ended := p.foldFact(f); ended {
			t := p.open[key]
			w.addRow(&t.row)
			if t.stored {
				ops = append(ops, store.IndexOp{Entry: store.Entry{Kind: TurnsName, Key: key}, Delete: true})
			}
			delete(p.open, key)
		}
	}
	for key, t := range p.open {
		switch {
		case t.row.First <= m.gone[t.row.SessionID]:
			delete(p.open, key)
			ops = append(ops, store.IndexOp{Entry: store.Entry{Kind: TurnsName, Key: key}, Delete: true})
		case t.changed:
			one := newTurnWriter()
			one.addRow(&t.row)
			ops = append(ops, store.IndexOp{Entry: store.Entry{Kind: TurnsName, Key: key, Value: one.finish()}})
			t.stored, t.changed = true, false
		}
	}
	if w.count > 0 {
		ops = append(ops, m.addSegment(TurnsName, w.finish(), w.count)...)
	}
	if w.count > 0 || changed {
		ops = append(ops, m.op(TurnsName))
	}
	p.manifest = m
	return ops, nil
}

// loadOpen reads what is stored, if what is known of it may be wrong.
func (p *turns) loadOpen(ctx context.Context, read index.Reader, fresh bool) error {
	if p.open != nil && !fresh {
		return nil
	}
	if err := p.load(ctx, read, true); err != nil {
		return err
	}
	p.open = map[string]*openTurn{}
	return eachOpenTurn(ctx, read, func(key string, r *turnRow) { p.open[key] = &openTurn{row: *r, stored: true} })
}

// eachOpenTurn calls f with the stored turns that have not ended.
func eachOpenTurn(ctx context.Context, read index.Reader, f func(key string, r *turnRow)) error {
	for e, err := range read.Scan(ctx, store.Scan{Kind: TurnsName, Prefix: openPrefix}) {
		if err != nil {
			return err
		}
		if err := decodeTurns(e.Value, func(r *turnRow) { f(e.Key, r) }); err != nil {
			return err
		}
	}
	return nil
}

// foldFact changes the turn that a fact is about, and reports whether it ends it.
func (p *turns) foldFact(f *index.Fact) (key string, ended bool) {
	e := f.Event
	if e.TurnID == "" {
		return "", false
	}
	key = openKey(f.SessionID, e.TurnID)
	t := p.open[key]
	if s, ok := e.Payload.(*event.TurnSubmitted); ok {
		if t == nil {
			p.open[key] = &openTurn{changed: true, row: turnRow{
				SessionID: f.SessionID, Account: f.Account, Workspace: f.Workspace,
				First: e.Sequence, Last: e.Sequence, Status: s.Status, Started: e.Time.UnixMicro(),
			}}
		}
		return key, false
	}
	if t == nil {
		return key, false // its beginning was removed
	}
	t.changed, t.row.Last = true, e.Sequence
	return key, t.row.foldFact(e)
}

// foldFact changes the row, and reports whether the turn ended.
func (r *turnRow) foldFact(e *index.Event) (ended bool) {
	switch p := e.Payload.(type) {
	case *event.TurnStarted:
		r.Status, r.Started = p.Status, e.Time.UnixMicro()
		if p.Environment != nil {
			r.Workspace = p.Environment.WorkspaceRoot
		}
	case *event.ModelCompleted:
		r.Model = modelName(p.Provider, p.Model, r.Model)
		r.Usage.InputTokens += p.Usage.InputTokens
		r.Usage.OutputTokens += p.Usage.OutputTokens
		r.Usage.CachedInputTokens += p.Usage.CachedInputTokens
		r.Usage.ReasoningTokens += p.Usage.ReasoningTokens
	case *event.ModelFailed:
		r.Model = modelName(p.Provider, p.Model, r.Model)
	case *event.CostRecorded:
		if p.CostUSD != nil {
			r.CostUSD += *p.CostUSD
		}
	case *event.ToolStarted:
		r.addTool(p.ToolName)
	case *event.TurnCompleted:
		r.endTurn(p.Status, p.Outcome, p.DurationMs, p.Usage, p.CostUSD)
		return true
	case *event.TurnFailed:
		r.endTurn(p.Status, p.Outcome, p.DurationMs, p.Usage, p.CostUSD)
		return true
	}
	return false
}

// endTurn takes over what the last fact of a turn says. Its sums have the calls that
// no fact of their own tells of.
func (r *turnRow) endTurn(status, outcome string, ms int64, usage *event.Usage, cost float64) {
	r.Status, r.Outcome, r.DurationMs = status, outcome, ms
	if usage != nil {
		r.Usage, r.CostUSD = *usage, cost
	}
}

// modelName returns the model of a call as callers name it, or what was known before.
func modelName(provider, model, before string) string {
	switch {
	case model == "":
		return before
	case provider == "" || strings.HasPrefix(model, provider+"/"):
		return model
	}
	return provider + "/" + model
}
