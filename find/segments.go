package find

import (
	"context"

	"agentd/index"
	"agentd/store"
)

// segments is what the projections of this package have in common: a manifest, and how
// segments become one.
type segments struct {
	name     string
	manifest *manifest
	// hasGone reports whether a segment has facts that were removed.
	hasGone func(ctx context.Context, read index.Reader, s segment, gone map[string]uint64) (bool, error)
	// merge makes one segment of several, without what is gone, and counts what is in it.
	merge func(ctx context.Context, read index.Reader, from []segment, gone map[string]uint64) ([]byte, int, error)
}

// Name implements [index.Projection].
func (p *segments) Name() string { return p.name }

// load reads the manifest if what is known of it may be wrong.
func (p *segments) load(ctx context.Context, read index.Reader, fresh bool) (err error) {
	if p.manifest == nil || fresh {
		p.manifest, err = loadManifest(ctx, read, p.name)
	}
	return err
}

// Maintain implements [index.Maintainer]: it merges small segments, and rewrites those
// that have facts which are gone.
func (p *segments) Maintain(ctx context.Context, read index.Reader, fresh bool) ([]store.IndexOp, error) {
	if err := p.load(ctx, read, fresh); err != nil {
		return nil, err
	}
	from, to, ok, err := p.nextMerge(ctx, read)
	if err != nil || (!ok && len(p.manifest.gone) == 0) {
		return nil, err
	}
	m := p.manifest.clone()
	var ops []store.IndexOp
	if ok {
		data, docs, err := p.merge(ctx, read, m.segments[from:to], m.gone)
		if err != nil {
			return nil, err
		}
		ops = m.replace(p.name, from, to, data, docs)
	} else {
		clear(m.gone) // no segment has them any more
	}
	p.manifest = m
	return append(ops, m.op(p.name)), nil
}

// nextMerge returns the segments to write anew: those that have what is gone come first.
func (p *segments) nextMerge(ctx context.Context, read index.Reader) (from, to int, ok bool, err error) {
	if len(p.manifest.gone) > 0 {
		for i, s := range p.manifest.segments {
			if has, err := p.hasGone(ctx, read, s, p.manifest.gone); err != nil || has {
				return i, i + 1, has, err
			}
		}
	}
	from, to, ok = pickMerge(p.manifest.segments)
	return from, to, ok, nil
}
