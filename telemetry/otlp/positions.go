package otlp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"agentd/event"
	"agentd/store"
)

// Positions say how far the telemetry of each session has got. They are index
// entries beside the facts, written when the collector has taken what they stand
// for, so after a kill the next process goes on where the last one was believed:
// nothing is lost, and at most what was not confirmed is sent again.

const (
	// kindTelemetry is the kind of the entries; the key is the session.
	kindTelemetry = "telemetry"
	// telemetryOwner is what the entries are written in the name of. It has no facts,
	// so it is in no list of sessions. Nodes that share a store have one each.
	telemetryOwner = "telemetry.positions"
	// maxOwners bounds the nodes.
	maxOwners = 256
	// metaTelemetry is when a store's telemetry was sent for the first time. What was
	// there before is never sent by itself.
	metaTelemetry = "telemetryBegan"
	// catchUpFor bounds how old what an earlier process left may be: who was without
	// telemetry for a week doesn't want that week at once.
	catchUpFor = 24 * time.Hour
)

// position is how far a session's telemetry has got.
type position struct {
	// Sent is the last fact whose telemetry the collector has, or that had none.
	Sent uint64 `json:"sent"`
	// From is a fact after which nothing that was open matters any more: reading goes
	// on after it.
	From uint64 `json:"from"`
}

// positions keeps them. Any goroutine may use it.
type positions struct {
	store store.Store

	mu    sync.Mutex // one write at a time
	owner string
	epoch uint64
}

// load returns a session's position; false if there is none.
func (p *positions) load(ctx context.Context, sessionID string) (pos position, ok bool, err error) {
	v, err := p.store.Get(ctx, kindTelemetry, sessionID)
	if errors.Is(err, store.ErrNotFound) {
		return position{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(v, &pos)
	}
	if err != nil {
		return position{}, false, fmt.Errorf("position of session %s: %w", sessionID, err)
	}
	return pos, true, nil
}

// save makes positions durable, with other changes of the index. A claim that another
// process took over is claimed again, once.
func (p *positions) save(ctx context.Context, reached map[string]position, more ...store.IndexOp) error {
	batch := &store.Batch{Index: more}
	for id, pos := range reached {
		v, err := json.Marshal(pos)
		if err != nil {
			return err
		}
		batch.Index = append(batch.Index, store.IndexOp{Entry: store.Entry{Kind: kindTelemetry, Key: id, Value: v}})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for again := range 2 {
		if p.owner == "" || again > 0 {
			if err := p.claimOwner(ctx); err != nil {
				return err
			}
		}
		batch.SessionID, batch.Epoch = p.owner, p.epoch
		err := p.store.Append(ctx, []*store.Batch{batch})[0]
		if !errors.Is(err, store.ErrFenced) {
			return err
		}
	}
	return store.ErrFenced
}

// claimOwner finds a name that no other node has.
func (p *positions) claimOwner(ctx context.Context) error {
	for n := range maxOwners {
		name := fmt.Sprintf("%s.%d", telemetryOwner, n)
		c, err := p.store.Claim(ctx, name)
		if _, owned := errors.AsType[*store.OwnedError](err); owned {
			continue
		}
		if err != nil {
			return err
		}
		p.owner, p.epoch = name, c.Epoch
		return nil
	}
	return errors.New("too many nodes write positions")
}

// release gives the name back.
func (p *positions) release(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owner != "" {
		_ = p.store.Release(ctx, p.owner, p.epoch) // its lease ends anyway
		p.owner = ""
	}
}

// firstSent returns since when the store's telemetry is sent.
func (p *positions) firstSent(ctx context.Context, now time.Time) (time.Time, error) {
	v, err := p.store.SetMeta(ctx, metaTelemetry, []byte(now.UTC().Format(time.RFC3339Nano)))
	if err != nil {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339Nano, string(v))
	if oldest := now.Add(-catchUpFor); at.Before(oldest) {
		at = oldest
	}
	return at, err
}

// unsentStretch returns the facts of a session that no collector has, those since a time.
// False says that there are none.
func (p *positions) unsentStretch(ctx context.Context, sessionID string, since time.Time) (stretch, bool, error) {
	last, ok, err := p.firstHead(ctx, sessionID, store.Range{Reverse: true, Limit: 1})
	if err != nil || !ok || last.Time.Before(since) {
		return stretch{}, false, err
	}
	pos, known, err := p.load(ctx, sessionID)
	if err != nil || known {
		return stretch{first: pos.Sent + 1, last: last.Sequence}, pos.Sent < last.Sequence, err
	}
	var gone uint64 // what retention removed can't be sent
	if base, err := p.store.Base(ctx, sessionID); err == nil {
		gone = base.Sequence
	} else if !errors.Is(err, store.ErrNotFound) {
		return stretch{}, false, err
	}
	for rec, err := range p.store.Read(ctx, sessionID, store.Range{After: gone, Before: last.Sequence + 1}) {
		if err != nil {
			return stretch{}, false, err
		}
		var head event.Event
		if _, err := event.DecodeHeader(rec.Data, &head); err == nil && !head.Time.Before(since) {
			return stretch{first: rec.Sequence, last: last.Sequence}, true, nil
		}
	}
	return stretch{}, false, nil
}

// firstHead returns the head of the first fact in a range.
func (p *positions) firstHead(ctx context.Context, sessionID string, r store.Range) (head event.Event, ok bool, err error) {
	for rec, err := range p.store.Read(ctx, sessionID, r) {
		if err != nil {
			return head, false, err
		}
		_, err = event.DecodeHeader(rec.Data, &head)
		return head, err == nil, err
	}
	return head, false, nil
}
