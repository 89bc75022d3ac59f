package usage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/index"
	"agentd/store"
)

// loadStored reads what is stored, if what is known of it may be wrong.
func (p *Projection) loadStored(ctx context.Context, read index.Reader, fresh bool) error {
	if p.open != nil && !fresh {
		return nil
	}
	p.open = nil // until all is read
	open, live, recent := map[string]*openEntry{}, map[liveKey]*liveEntry{}, map[liveKey]sums{}
	for e, err := range read.Scan(ctx, store.Scan{Kind: Name, Prefix: "o/"}) {
		if err != nil {
			return err
		}
		o := &openEntry{stored: true}
		if err := json.Unmarshal(e.Value, &o.openSession); err != nil {
			return damaged(e.Key, err)
		}
		open[strings.TrimPrefix(e.Key, "o/")] = o
	}
	st, err := loadState(ctx, read)
	if err != nil {
		return err
	}
	for e, err := range read.Scan(ctx, store.Scan{Kind: Name, Prefix: livePrefix(st.Generation)}) {
		if err != nil {
			return err
		}
		k, s, err := readLive(ctx, read, &e)
		if err != nil {
			return err
		}
		live[k] = &liveEntry{sums: s, stored: true}
	}
	parts, err := openRecent(ctx, read)
	if err != nil {
		return err
	}
	for _, s := range parts {
		if err := s.eachSum(ctx, read, func(k Key, of sums) { recent[liveKey{k.Account, s.hour, k.Session}] = of }); err != nil {
			return err
		}
	}
	p.open, p.live, p.recent, p.state = open, live, recent, st
	return nil
}

// eachSum calls do with the sums of each group, and with one of their keys.
func (s *source) eachSum(ctx context.Context, entries Entries, do func(Key, sums)) error {
	var failed error
	err := s.eachGroup(func(g *group, _, at int) {
		of, err := s.sums(ctx, entries, g, at)
		failed = cmp.Or(failed, err)
		for k := range of {
			do(k, of)
			return
		}
	})
	return cmp.Or(err, failed)
}

// readLive returns the sums of an entry of their own.
func readLive(ctx context.Context, entries Entries, e *store.Entry) (liveKey, sums, error) {
	k, ok := parseLiveKey(e.Key)
	if !ok {
		return k, nil, damaged(e.Key, errPack)
	}
	s, err := openPack(e.Key, e.Value)
	if err != nil {
		return k, nil, err
	}
	all := sums{}
	err = s.eachSum(ctx, entries, func(_ Key, of sums) { all.addAll(of) })
	return k, all, err
}

// loadState returns what is stored about the entries.
func loadState(ctx context.Context, entries Entries) (st state, err error) {
	v, err := entries.Get(ctx, Name, "s")
	if errors.Is(err, store.ErrNotFound) {
		return st, nil
	}
	if err != nil {
		return st, err
	}
	if err := json.Unmarshal(v, &st); err != nil {
		return st, damaged("s", err)
	}
	return st, nil
}

func damaged(key string, err error) error {
	return fmt.Errorf("%w: index entry %s %s: %w", store.ErrCorrupt, Name, key, err)
}

// Maintain implements [index.Maintainer]: when there are many sums of sessions it puts them
// together, and when there are very many, into packs.
func (p *Projection) Maintain(ctx context.Context, read index.Reader, fresh bool) ([]store.IndexOp, error) {
	if err := p.loadStored(ctx, read, fresh); err != nil {
		return nil, err
	}
	most := cmp.Or(p.MaxLive, defaultLive)
	switch {
	case len(p.live)+len(p.recent) > max(most, p.state.Rows/rewrittenFor):
		return p.pack(ctx, read)
	case len(p.live) > max(most/liveShare, len(p.recent)/rewrittenFor):
		return p.nextGeneration(p.gather())
	}
	return nil, nil
}

// gather puts the sums that have entries of their own to those that wait to be packed.
func (p *Projection) gather() []store.IndexOp {
	var ops []store.IndexOp
	for k, l := range p.live {
		if l.stored {
			ops = append(ops, deleteOp(k.entryKey(p.state.Generation)))
		}
		if had := p.recent[k]; had != nil {
			had.addAll(l.sums)
		} else {
			p.recent[k] = l.sums
		}
	}
	clear(p.live)
	return ops
}

// nextGeneration stores what waits to be packed, and that it was changed.
func (p *Projection) nextGeneration(ops []store.IndexOp) ([]store.IndexOp, error) {
	p.state.Generation++
	v, err := json.Marshal(p.state)
	if err != nil {
		return nil, fmt.Errorf("index/usage: %w", err)
	}
	if len(p.recent) == 0 {
		return append(ops, storeOp("s", v), deleteOp(recentKey)), nil
	}
	return append(ops, storeOp("s", v), storeOp(recentKey, encodeRecent(p.recent))), nil
}

// pack moves sums into packs: those of one step's worth.
func (p *Projection) pack(ctx context.Context, read index.Reader) ([]store.IndexOp, error) {
	ops := p.gather()
	w := &packer{read: read, chunkSize: cmp.Or(p.ChunkSize, defaultChunk), packs: map[packID]map[groupID]*addition{}, counts: map[bucketID]*bucketCounts{}}
	moved := 0
	for k, s := range p.recent {
		if moved == packedAtOnce {
			break
		}
		moved++
		if err := w.addSums(k, s); err != nil {
			return nil, err
		}
		delete(p.recent, k)
	}
	packed, err := w.finish(ctx)
	if err != nil {
		return nil, err
	}
	p.state.Rows = max(p.state.Rows, w.rows)
	return p.nextGeneration(append(ops, packed...))
}

// recentKey is the key of the sums that wait to be packed.
const recentKey = "r"

// encodeRecent encodes sums by hour.
func encodeRecent(recent map[liveKey]sums) []byte {
	hours := map[string][]liveKey{}
	for k := range recent {
		hours[k.hour] = append(hours[k.hour], k)
	}
	d := newDictionary()
	var segments []segment
	for hour, keys := range hours {
		slices.SortFunc(keys, func(a, b liveKey) int {
			return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.session, b.session))
		})
		groups := make([]group, 0, len(keys))
		for _, k := range keys {
			groups = append(groups, d.groupOf(k.session, recent[k]))
		}
		body, _ := appendGroups(nil, groups, maxGroup)
		segments = append(segments, segment{hour: hour, body: body})
	}
	return d.encodeSegments(segments)
}

// openRecent reads the sums that wait to be packed, by their hours.
func openRecent(ctx context.Context, entries Entries) ([]segment, error) {
	value, err := entries.Get(ctx, Name, recentKey)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return openSegments(recentKey, value)
}
