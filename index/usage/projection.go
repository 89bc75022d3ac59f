package usage

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"agentd/event"
	"agentd/index"
	"agentd/store"
)

// Name is the projection's, and the kind of its entries. Another form of the entries gets
// another name, and the one before goes to [Former].
//
//	o/SESSION                            unfinished work of a session
//	l/GENERATION/ACCOUNT/HOUR/SESSION    sums of a session that are nowhere else yet
//	r                                    sums by hour and session that are in no pack yet
//	p/ROLLUP/ACCOUNT/h|d|m/BUCKET        a pack; the account * stands for all together
//	q/ROLLUP/ACCOUNT/h|d|m/BUCKET/N      more rows of a pack
//	c/ACCOUNT/h|d|m/SPAN                 how many rows the buckets of a month or year have
//	s                                    the generation, and how large the packs are
const Name = "usage4"

// Former are the names that the projection had in earlier versions.
var Former = []string{"usage2", "usage3"}

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
	defaultLive = 2048
	// liveShare is which part of what waits is in entries of its own: a query reads each.
	liveShare = 4
	// rewrittenFor bounds how often what is large is written: for at least so much of it.
	rewrittenFor = 16
	// packedAtOnce is how many of them go into packs in one step: queries wait for it.
	packedAtOnce = 16384
)

// Projection keeps the sums. See [index.Projection].
type Projection struct {
	// MaxLive is how many sums of sessions wait to be packed, unless there are packs so
	// large that it wouldn't pay to write them again; 0 is 2,048. Every query reads them.
	MaxLive int
	// ChunkSize is how many bytes of the rows of a pack are in one entry, about; 0 is 64 KiB.
	ChunkSize int

	// open has the sessions with unfinished work, live the sums that have entries of their
	// own, recent those that wait together to be packed.
	open   map[string]*openEntry
	live   map[liveKey]*liveEntry
	recent map[liveKey]sums
	state  state
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

// state is stored with the entries.
type state struct {
	// Rows is how many rows the largest pack has.
	Rows int `json:"rows"`
	// Generation counts how often sums went from some entries to others. Who reads finds
	// them in one place if it is the same before and after.
	Generation uint64 `json:"generation"`
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
	if len(p.live)+len(p.recent) >= packedAtOnce { // so many in one batch: the index is being built
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
			ops = append(ops, storeOp(k.entryKey(p.state.Generation), encodeSession(k.session, l.sums)))
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

// livePrefix begins the keys of sums that are nowhere else. With the generation in it no
// one who reads comes across those that were there before.
func livePrefix(generation uint64) string { return fmt.Sprintf("l/%016x/", generation) }

func (k liveKey) entryKey(generation uint64) string {
	return livePrefix(generation) + escapeAccount(k.account) + "/" + k.hour + "/" + k.session
}

func parseLiveKey(key string) (liveKey, bool) {
	parts := strings.SplitN(key, "/", 5)
	if len(parts) != 5 {
		return liveKey{}, false
	}
	account, err := url.PathUnescape(strings.TrimPrefix(parts[2], "."))
	return liveKey{account, parts[3], parts[4]}, err == nil
}

// escapeAccount makes an account a part of a key.
func escapeAccount(account string) string { return "." + url.PathEscape(account) }
