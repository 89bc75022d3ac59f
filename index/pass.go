package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"agentd/fault"
	"agentd/store"
	"agentd/store/storefault"
)

// progress is how far a projection has come.
type progress struct {
	// Position is that of the last change that was folded.
	Position string `json:"position"`
	// Generation counts the writes, so that a node notices those of another.
	Generation uint64 `json:"generation"`
	// Build is set while the sessions that were there before Position are folded.
	Build *build `json:"build,omitempty"`
	// Overlap says that changes after Position may have been folded by the build.
	Overlap bool `json:"overlap,omitempty"`
}

// build is how far the first pass over all sessions has come.
type build struct {
	// After is the last session that is folded whole, Session the one that is folded
	// through a sequence.
	After   string `json:"after,omitempty"`
	Session string `json:"session,omitempty"`
	Through uint64 `json:"through,omitempty"`
}

// place says where in the facts a projection is; those at the same place are folded together.
func (p *progress) place() string {
	if p.Build == nil {
		return fmt.Sprintf("%s\n%v", p.Position, p.Overlap)
	}
	return fmt.Sprintf("%s\n%s\n%s\n%d", p.Position, p.Build.After, p.Build.Session, p.Build.Through)
}

// track is the projections that are at one place.
type track struct {
	at          *progress
	projections []Projection
}

// otherNodeWait is how long a node waits for another one that folds before it looks again.
const otherNodeWait = 20 * time.Millisecond

// pass folds everything that is durable when it begins. If another node folds and nobody
// waits here, that node is left to it; what it doesn't come to is folded later.
func (x *Indexer) pass(ctx context.Context, awaited bool) error {
	for {
		done, err := x.round(ctx)
		var owned *store.OwnedError
		switch {
		case err == nil && done:
			return nil
		case err == nil:
		case errors.As(err, &owned) && !awaited:
			ring(x.wake)
			return nil
		case errors.As(err, &owned):
			select {
			case <-ctx.Done():
				return indexFault(ctx.Err())
			case <-time.After(otherNodeWait):
			}
		case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrConflict):
			x.forgetStored()
		default:
			x.forgetStored()
			return indexFault(err)
		}
	}
}

// maintain lets the projections put their entries in order, and lets other nodes fold.
func (x *Indexer) maintain(ctx context.Context) error {
	defer x.releaseClaim(ctx)
	if x.epoch == 0 {
		if x.tidy {
			return nil // nothing was folded here
		}
		claim, err := x.opt.Store.Claim(ctx, ClaimedSession)
		if owned := (*store.OwnedError)(nil); errors.As(err, &owned) {
			return nil // the other node does it
		}
		if err != nil {
			return indexFault(err)
		}
		x.epoch = claim.Epoch
		if _, err := x.loadTracks(ctx); err != nil {
			return indexFault(err)
		}
	}
	x.tidy = false
	for _, p := range x.opt.Projections {
		m, ok := p.(Maintainer)
		for ok && len(x.hurry) == 0 && ctx.Err() == nil {
			more, err := x.maintainOnce(ctx, m)
			if err != nil {
				x.forgetStored()
				return indexFault(err)
			}
			if !more {
				break
			}
		}
	}
	x.tidy = len(x.hurry) == 0
	return nil
}

func (x *Indexer) maintainOnce(ctx context.Context, m Maintainer) (more bool, err error) {
	name := m.Name()
	ops, err := m.Maintain(ctx, x.opt.Store, x.fresh[name])
	if err != nil || len(ops) == 0 {
		return false, err
	}
	x.fresh[name] = true // until it is stored
	st := *x.states[name]
	st.Generation++
	op, err := st.op(name)
	if err != nil {
		return false, err
	}
	write := &store.Batch{SessionID: ClaimedSession, Epoch: x.epoch, Index: append(ops, op)}
	if err := x.opt.Store.Append(ctx, []*store.Batch{write})[0]; err != nil {
		return false, err
	}
	x.states[name], x.fresh[name] = &st, false
	return true, nil
}

// op returns what stores the progress.
func (p *progress) op(name string) (store.IndexOp, error) {
	data, err := json.Marshal(p)
	return store.IndexOp{Entry: store.Entry{Kind: kindState, Key: name, Value: data}}, err
}

// forgetStored drops everything that is remembered of what is stored.
func (x *Indexer) forgetStored() {
	x.epoch = 0
	clear(x.states)
}

// releaseClaim lets other nodes fold.
func (x *Indexer) releaseClaim(ctx context.Context) {
	if x.epoch == 0 {
		return
	}
	if err := x.opt.Store.Release(ctx, ClaimedSession, x.epoch); err != nil {
		x.opt.Logger.Debug("the claim of the index was not released", "error", err)
	}
	x.epoch = 0
}

// round folds one batch of each track, and reports whether all that was durable when it began
// is folded. What comes meanwhile isn't waited for: under a steady load there is always some,
// and folding it by the handful writes the same entries again and again.
func (x *Indexer) round(ctx context.Context) (done bool, err error) {
	if x.epoch == 0 {
		if idle, err := x.isIdle(ctx); err != nil || idle {
			return idle, err
		}
		claim, err := x.opt.Store.Claim(ctx, ClaimedSession)
		if err != nil {
			return false, err
		}
		x.epoch = claim.Epoch
		if err := x.removeFormer(ctx); err != nil {
			return false, err
		}
	}
	tracks, err := x.loadTracks(ctx)
	if err != nil {
		return false, err
	}
	now, err := x.opt.Store.Position(ctx)
	if err != nil {
		return false, err
	}
	idle, ended := true, true
	for _, t := range tracks {
		b, err := x.gather(ctx, t)
		if err != nil {
			return false, err
		}
		if b.unchanged {
			continue
		}
		idle, ended = false, ended && b.ended
		if err := x.fold(ctx, t, b); err != nil {
			return false, err
		}
	}
	if !idle {
		if len(tracks) > 1 {
			ring(x.wake) // they come to one place when a later pass finds nothing to fold
		}
		return ended, nil
	}
	return true, x.joinTracks(ctx, tracks, now)
}

// joinTracks brings projections that have folded everything to one place, so that they
// are folded together from there on.
func (x *Indexer) joinTracks(ctx context.Context, tracks []*track, now string) error {
	if len(tracks) < 2 {
		return nil
	}
	for _, t := range tracks {
		if err := x.fold(ctx, t, &gathered{next: progress{Position: now}}); err != nil {
			return err
		}
	}
	return nil
}

// isIdle reports whether there is nothing to fold; it claims nothing.
func (x *Indexer) isIdle(ctx context.Context) (bool, error) {
	seen := map[string]bool{}
	for _, p := range x.opt.Projections {
		st, err := x.loadState(ctx, p.Name())
		if err == nil && st == nil {
			return x.isEmpty(ctx)
		}
		if err != nil || st.Build != nil || st.Overlap {
			return false, err
		}
		if seen[st.Position] {
			continue
		}
		seen[st.Position] = true
		for _, err := range x.opt.Store.Changes(ctx, st.Position) {
			return false, err
		}
	}
	return len(seen) < 2, nil
}

// isCurrent reports whether every fact is in the index, as far as a look at what is
// stored says. It may be called by any goroutine.
func (x *Indexer) isCurrent(ctx context.Context) (bool, error) {
	x.mu.Lock()
	running := x.running
	x.mu.Unlock()
	if !running {
		return false, errStopping
	}
	seen := map[string]bool{}
	for _, p := range x.opt.Projections {
		st, err := storedProgress(ctx, x.opt.Store, p.Name())
		if err != nil || st == nil || st.Build != nil || st.Overlap {
			return false, indexFault(err)
		}
		if seen[st.Position] {
			continue
		}
		seen[st.Position] = true
		for _, err := range x.opt.Store.Changes(ctx, st.Position) {
			return false, indexFault(err)
		}
	}
	return true, nil
}

// isEmpty reports whether there are no sessions.
func (x *Indexer) isEmpty(ctx context.Context) (bool, error) {
	for _, err := range x.opt.Store.Sessions(ctx, "") {
		return false, err
	}
	return true, nil
}

// loadState returns the stored progress of a projection, nil if there is none.
func (x *Indexer) loadState(ctx context.Context, name string) (*progress, error) {
	st, err := storedProgress(ctx, x.opt.Store, name)
	if err != nil {
		return nil, err
	}
	if known := x.states[name]; st == nil || known == nil || known.Generation != st.Generation {
		x.fresh[name] = true
	}
	x.states[name] = st
	return st, nil
}

func storedProgress(ctx context.Context, s store.Store, name string) (*progress, error) {
	data, err := s.Get(ctx, kindState, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	st := &progress{}
	if err := json.Unmarshal(data, st); err != nil {
		return nil, fmt.Errorf("%w: progress of index %s: %w", store.ErrCorrupt, name, err)
	}
	return st, nil
}

// loadTracks groups the projections by their place. One without a place begins to be
// built, from the sessions that there are now.
func (x *Indexer) loadTracks(ctx context.Context) ([]*track, error) {
	var tracks []*track
	byPlace := map[string]*track{}
	begin := ""
	for _, p := range x.opt.Projections {
		st, err := x.loadState(ctx, p.Name())
		if err != nil {
			return nil, err
		}
		if st == nil {
			if begin == "" {
				if begin, err = x.opt.Store.Position(ctx); err != nil {
					return nil, err
				}
			}
			st = &progress{Position: begin, Build: &build{}}
			x.states[p.Name()] = st
		}
		t := byPlace[st.place()]
		if t == nil {
			t = &track{at: st}
			byPlace[st.place()] = t
			tracks = append(tracks, t)
		}
		t.projections = append(t.projections, p)
	}
	return tracks, nil
}

// fold stores what follows from a batch, with the place after it.
func (x *Indexer) fold(ctx context.Context, t *track, b *gathered) error {
	write := &store.Batch{SessionID: ClaimedSession, Epoch: x.epoch}
	next := map[string]*progress{}
	defer func() { clear(x.selected) }()
	for _, p := range t.projections {
		name := p.Name()
		if len(b.facts) > 0 {
			ops, err := p.Fold(ctx, &Batch{Facts: x.factsFor(p, b), Fresh: x.fresh[name]}, x.opt.Store)
			if err != nil {
				return fmt.Errorf("index: %s: %w", name, err)
			}
			write.Index = append(write.Index, ops...)
			x.fresh[name] = true // until it is stored
		}
		st := b.next
		st.Generation = x.states[name].Generation + 1
		op, err := st.op(name)
		if err != nil {
			return err
		}
		write.Index = append(write.Index, op)
		for _, op := range b.ops {
			op.Kind, op.Key = kindBuilt, name+"/"+op.Key
			write.Index = append(write.Index, op)
		}
		next[name] = &st
	}
	if err := x.opt.Store.Append(ctx, []*store.Batch{write})[0]; err != nil {
		return err
	}
	for name, st := range next {
		x.states[name] = st
		if len(b.facts) > 0 {
			x.fresh[name] = false
		}
	}
	return nil
}

// removeFormer removes the entries of projections of earlier versions. Those that are
// unknown stay: another node may be of a later version.
func (x *Indexer) removeFormer(ctx context.Context) error {
	if x.formerGone {
		return nil
	}
	for _, name := range x.opt.Former {
		for _, scan := range []store.Scan{{Kind: name}, {Kind: kindBuilt, Prefix: name + "/"}, {Kind: kindState, Prefix: name}} {
			if err := x.removeEntries(ctx, scan); err != nil {
				return err
			}
		}
	}
	x.formerGone = true
	return nil
}

// removedAtOnce is how many entries are removed in one write.
const removedAtOnce = 1024

func (x *Indexer) removeEntries(ctx context.Context, scan store.Scan) error {
	scan.Limit = removedAtOnce
	for {
		write := &store.Batch{SessionID: ClaimedSession, Epoch: x.epoch}
		for e, err := range x.opt.Store.Scan(ctx, scan) {
			if err != nil {
				return err
			}
			if scan.Kind == kindState && e.Key != scan.Prefix {
				continue // the name of another projection begins like this one's
			}
			write.Index = append(write.Index, store.IndexOp{Entry: store.Entry{Kind: e.Kind, Key: e.Key}, Delete: true})
		}
		if len(write.Index) == 0 {
			return nil
		}
		if err := x.opt.Store.Append(ctx, []*store.Batch{write})[0]; err != nil {
			return err
		}
	}
}

// indexFault says to a caller why the index isn't up to date.
func indexFault(err error) error {
	if err == nil {
		return nil
	}
	if known := storefault.Of(err); known != nil {
		return known
	}
	return fault.Wrap(fault.Unavailable, err, "the index could not be brought up to date; try again")
}

// factsFor returns the facts that a projection wants, until it is called again.
func (x *Indexer) factsFor(p Projection, b *gathered) []Fact {
	wanted := x.wanted[p.Name()]
	clear(x.selected)
	x.selected = x.selected[:0]
	for i := range b.facts {
		if wanted[b.facts[i].Event.Type] {
			x.selected = append(x.selected, b.facts[i])
		}
	}
	return x.selected
}
