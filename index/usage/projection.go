package usage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"agentd/event"
	"agentd/index"
	"agentd/store"
)

// Name is the projection's, and the kind of its entries. Another form of the entries gets
// another name.
//
//	o/SESSION                            unfinished work of a session
//	l/ACCOUNT/HOUR/SESSION               sums of a session that are in no pack yet
//	p/ROLLUP/ACCOUNT/h|d|m/BUCKET        a pack; the account * stands for all together
//	s                                    how large the packs are
const Name = "usage2"

// everyone stands for all accounts together; no account is escaped to it.
const everyone = "*"

// Levels of packs.
const (
	levelHour  = "h"
	levelDay   = "d"
	levelMonth = "m"
)

// Forms of buckets in keys: texts that are ordered as times are.
const (
	hourForm  = "2006010215"
	dayForm   = "20060102"
	monthForm = "200601"
)

const (
	// defaultLive is [Projection.MaxLive] without a number.
	defaultLive = 1024
	// rewrittenFor bounds how often packs are written: for at least so much of their rows.
	rewrittenFor = 16
	// packedAtOnce is how many of them go into packs in one step: queries wait for it.
	packedAtOnce = 16384
)

// Projection keeps the sums. See [index.Projection].
type Projection struct {
	// MaxLive is how many sums of sessions wait to be packed, unless there are packs so
	// large that it wouldn't pay to write them again; 0 is 1,024. Every query reads them.
	MaxLive int

	// open has the sessions with unfinished work, live the sums that are in no pack.
	open map[string]*openEntry
	live map[liveKey]*liveEntry
	// state is how large the packs are.
	state packState
}

type openEntry struct {
	openSession
	stored, changed bool
}

// liveKey names sums that are in no pack: those of a session in an hour.
type liveKey struct{ account, hour, session string }

type liveEntry struct {
	sums            sums
	stored, changed bool
}

// packState is stored with the packs.
type packState struct {
	// Rows is how many rows the largest one has.
	Rows int `json:"rows"`
}

// New returns the projection.
func New() *Projection { return &Projection{} }

// Name implements [index.Projection].
func (*Projection) Name() string { return Name }

// Types implements [index.Projection].
func (*Projection) Types() []event.Type { return types }

// Fold implements [index.Projection].
func (p *Projection) Fold(ctx context.Context, b *index.Batch, read index.Reader) ([]store.IndexOp, error) {
	if err := p.loadStored(ctx, read, b.Fresh); err != nil {
		return nil, err
	}
	for i := range b.Facts {
		p.foldFact(&b.Facts[i])
	}
	var ops []store.IndexOp
	if len(p.live) >= packedAtOnce { // so many in one batch: the index is being built
		packed, err := p.pack(ctx, read)
		if err != nil {
			return nil, err
		}
		ops = packed
	}
	for id, o := range p.open {
		switch key := "o/" + id; {
		case o.empty():
			if o.stored {
				ops = append(ops, deleteOp(key))
			}
			delete(p.open, id)
		case o.changed:
			v, err := json.Marshal(&o.openSession)
			if err != nil {
				return nil, fmt.Errorf("index/usage: %w", err)
			}
			ops = append(ops, storeOp(key, v))
			o.stored, o.changed = true, false
		}
	}
	for k, l := range p.live {
		if l.changed {
			ops = append(ops, storeOp(k.entryKey(), appendPack(nil, l.sums)))
			l.stored, l.changed = true, false
		}
	}
	return ops, nil
}

func storeOp(key string, value []byte) store.IndexOp {
	return store.IndexOp{Entry: store.Entry{Kind: Name, Key: key, Value: value}}
}

func deleteOp(key string) store.IndexOp {
	return store.IndexOp{Entry: store.Entry{Kind: Name, Key: key}, Delete: true}
}

func (p *Projection) foldFact(f *index.Fact) {
	e := f.Event
	o := p.open[f.SessionID]
	if o == nil {
		o = &openEntry{}
		p.open[f.SessionID] = o
	}
	if _, deleted := e.Payload.(*event.SessionDeleted); deleted {
		o.openSession = openSession{}
		return
	}
	if started, ok := e.Payload.(*event.TurnStarted); ok {
		if f.Workspace == "" {
			o.begin(e, started)
			o.changed = true
		}
		return
	}
	switch e.Payload.(type) {
	case *event.ModelRequested, *event.TurnCompleted, *event.TurnFailed, *event.ActionRequired, *event.ActionResolved:
		o.changed = true
	}
	figures, model, tool, counts := o.count(e)
	if !counts {
		return
	}
	k := liveKey{f.Account, hourOf(e.Time), f.SessionID}
	l := p.live[k]
	if l == nil {
		l = &liveEntry{sums: sums{}}
		p.live[k] = l
	}
	l.sums.record(keyOf(f, o.Workspace, model, tool), &figures)
	l.changed = true
}

// hourOf returns the hour of a time, as keys have it. Times that no clock shows count in the
// first or the last hour that there is.
func hourOf(t time.Time) string {
	t = t.UTC()
	if t.Before(earliest) {
		t = earliest
	}
	if !t.Before(latest) {
		t = latest.Add(-time.Hour)
	}
	return t.Format(hourForm)
}

func (k liveKey) entryKey() string {
	return "l/" + escapeAccount(k.account) + "/" + k.hour + "/" + k.session
}

func parseLiveKey(key string) (liveKey, bool) {
	parts := strings.SplitN(key, "/", 4)
	if len(parts) != 4 {
		return liveKey{}, false
	}
	account, err := url.PathUnescape(strings.TrimPrefix(parts[1], "."))
	return liveKey{account, parts[2], parts[3]}, err == nil
}

// escapeAccount makes an account a part of a key.
func escapeAccount(account string) string { return "." + url.PathEscape(account) }

// loadStored reads what is stored, if what is known of it may be wrong.
func (p *Projection) loadStored(ctx context.Context, read index.Reader, fresh bool) error {
	if p.open != nil && !fresh {
		return nil
	}
	p.open, p.live, p.state = map[string]*openEntry{}, map[liveKey]*liveEntry{}, packState{}
	for e, err := range read.Scan(ctx, store.Scan{Kind: Name, Prefix: "o/"}) {
		if err != nil {
			return err
		}
		o := &openEntry{stored: true}
		if err := json.Unmarshal(e.Value, &o.openSession); err != nil {
			return damaged(e.Key, err)
		}
		p.open[strings.TrimPrefix(e.Key, "o/")] = o
	}
	for e, err := range read.Scan(ctx, store.Scan{Kind: Name, Prefix: "l/"}) {
		if err != nil {
			return err
		}
		k, ok := parseLiveKey(e.Key)
		if !ok {
			return damaged(e.Key, errPack)
		}
		l := &liveEntry{sums: sums{}, stored: true}
		if err := eachInPack(e.Value, l.sums.record); err != nil {
			return damaged(e.Key, err)
		}
		p.live[k] = l
	}
	v, err := read.Get(ctx, Name, "s")
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(v, &p.state); err != nil {
		return damaged("s", err)
	}
	return nil
}

func damaged(key string, err error) error {
	return fmt.Errorf("%w: index entry %s %s: %w", store.ErrCorrupt, Name, key, err)
}

// Maintain implements [index.Maintainer]: it packs the sums of sessions when there are
// many.
func (p *Projection) Maintain(ctx context.Context, read index.Reader, fresh bool) ([]store.IndexOp, error) {
	if err := p.loadStored(ctx, read, fresh); err != nil {
		return nil, err
	}
	if len(p.live) <= max(cmp.Or(p.MaxLive, defaultLive), p.state.Rows/rewrittenFor) {
		return nil, nil
	}
	return p.pack(ctx, read)
}

// pack moves sums into packs: those of one step's worth.
func (p *Projection) pack(ctx context.Context, read index.Reader) ([]store.IndexOp, error) {
	w := &packer{packs: map[string]sums{}}
	var ops []store.IndexOp
	moved := 0
	for k, l := range p.live {
		if moved == packedAtOnce {
			break
		}
		moved++
		if err := w.addSums(k, l.sums); err != nil {
			return nil, err
		}
		if l.stored {
			ops = append(ops, deleteOp(k.entryKey()))
		}
		delete(p.live, k)
	}
	packed, rows, err := w.finish(ctx, read)
	if err != nil {
		return nil, err
	}
	p.state.Rows = max(p.state.Rows, rows)
	v, err := json.Marshal(p.state)
	if err != nil {
		return nil, fmt.Errorf("index/usage: %w", err)
	}
	return append(append(ops, packed...), storeOp("s", v)), nil
}

// packer adds sums to packs.
type packer struct {
	// packs are what is added, by the keys of the packs.
	packs map[string]sums
}

// addSums adds the sums of a session in an hour: to all levels of its account and of all
// accounts. Of an account's hours only the whole is kept; everything else is quickly
// summed up from it.
func (w *packer) addSums(k liveKey, s sums) error {
	at, err := time.Parse(hourForm, k.hour)
	if err != nil {
		return damaged(k.entryKey(), err)
	}
	levels := [...][2]string{{levelHour, k.hour}, {levelDay, at.Format(dayForm)}, {levelMonth, at.Format(monthForm)}}
	own := escapeAccount(k.account)
	for _, r := range rollups {
		// A session has few rows that differ in what the rollup has: they are summed up
		// before they go into many packs.
		kept := s
		if r != whole {
			kept = make(sums, len(s))
			for key, f := range s {
				kept.record(r.has.keepParts(key), f)
			}
		}
		for _, level := range levels {
			w.addTo(packKey(r, everyone, level[0], level[1]), kept)
			if level[0] != levelHour || r == whole {
				w.addTo(packKey(r, own, level[0], level[1]), kept)
			}
		}
	}
	return nil
}

func packKey(r rollup, account, level, bucket string) string {
	return "p/" + r.name + "/" + account + "/" + level + "/" + bucket
}

func (w *packer) addTo(pack string, rows sums) {
	s := w.packs[pack]
	if s == nil {
		s = sums{}
		w.packs[pack] = s
	}
	for k, f := range rows {
		s.record(k, f)
	}
}

// finish returns the packs with what they had before, and the rows of the largest.
func (w *packer) finish(ctx context.Context, read index.Reader) (ops []store.IndexOp, rows int, err error) {
	for key, s := range w.packs {
		old, err := read.Get(ctx, Name, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, 0, err
		}
		if err == nil {
			if err := eachInPack(old, s.record); err != nil {
				return nil, 0, damaged(key, err)
			}
		}
		rows = max(rows, len(s))
		ops = append(ops, storeOp(key, appendPack(nil, s)))
	}
	return ops, rows, nil
}
