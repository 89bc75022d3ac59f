package otlp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"agentd/store"
)

// Marks say which sessions have facts that a collector may not have. A mark is an
// index entry that is written with the first such fact, in the same batch, and
// removed when everything is sent and nothing of the session is open. So a start
// looks at the sessions that were left, and not at all there are.

const (
	// kindMark is the kind of marks: a name, the process's beginning and a number →
	// session. The name is claimed by the process, so others can tell whether it lives.
	kindMark = "telemetry_mark"
	// markName begins the names.
	markName = "telemetry.marks"
	// kindMarked has one entry once a store's sessions are marked; before, all are
	// looked at.
	kindMarked = "telemetry_marked"
	// maxMarks bounds the marks that are remembered. Those of more sessions are only
	// written, again and again, and left to the next start.
	maxMarks = 1 << 16
	// marksAtOnce is how many marks are written or removed in one batch.
	marksAtOnce = 1000
)

// markingStore is a store that marks the sessions whose facts it is given. Any
// goroutine may use it.
type markingStore struct {
	store.Store

	mu sync.Mutex
	// name is what the marks of this process are under, names are all that it claimed,
	// those of processes that are gone too.
	name  string
	names map[string]uint64
	// stamp tells the marks of this process from others', also of the same name.
	stamp string
	next  uint64
	open  map[string]*mark
}

// mark is what is known of a session's mark.
type mark struct {
	key string
	// last is the newest fact that is durable, flying counts appends under way, and
	// durable says that the mark is.
	last    uint64
	flying  int
	durable bool
}

func newMarkingStore(s store.Store) *markingStore {
	return &markingStore{Store: s, stamp: fmt.Sprintf("%016x%s", time.Now().UnixNano(), rand.Text()[:8]), names: map[string]uint64{}, open: map[string]*mark{}}
}

// Append implements [store.Store].
func (m *markingStore) Append(ctx context.Context, batches []*store.Batch) []error {
	m.addMarks(ctx, batches)
	errs := m.Store.Append(ctx, batches)
	m.recordOutcomes(batches, errs)
	return errs
}

// addMarks adds marks to batches of sessions that have none.
func (m *markingStore) addMarks(ctx context.Context, batches []*store.Batch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range batches {
		if len(b.Records) == 0 {
			continue
		}
		x := m.open[b.SessionID]
		if x == nil {
			x = &mark{key: m.newMarkKey(ctx)}
			if len(m.open) < maxMarks {
				m.open[b.SessionID] = x
			}
		}
		x.flying++
		if !x.durable {
			b.Index = append(b.Index, store.IndexOp{Entry: store.Entry{Kind: kindMark, Key: x.key, Value: []byte(b.SessionID)}})
		}
	}
}

// newMarkKey names a mark. The lock is held.
func (m *markingStore) newMarkKey(ctx context.Context) string {
	if m.name == "" {
		// Without a claim another node may send what this one does too.
		m.name = m.claimFreeName(ctx)
	}
	m.next++
	return fmt.Sprintf("%s/%s/%08x", m.name, m.stamp, m.next)
}

// claimFreeName finds a name that no other node has. One that isn't claimed is better than no
// marks. The lock is held.
func (m *markingStore) claimFreeName(ctx context.Context) string {
	for n := range maxOwners {
		name := fmt.Sprintf("%s.%d", markName, n)
		if _, ok := m.claimName(ctx, name); ok {
			return name
		}
		if ctx.Err() != nil {
			break
		}
	}
	return markName + ".unclaimed"
}

// claimName claims a name, with the marks under it; another node that has it keeps it
// until a time, or longer. The lock is held.
func (m *markingStore) claimName(ctx context.Context, name string) (until time.Time, ok bool) {
	if _, ours := m.names[name]; ours {
		return until, true
	}
	c, err := m.Store.Claim(ctx, name)
	if err == nil {
		m.names[name] = c.Epoch
		return until, true
	}
	if owned, ok := errors.AsType[*store.OwnedError](err); ok {
		return owned.Until, false
	}
	return time.Now().Add(lastBackoff), false
}

// release gives the names back.
func (m *markingStore) release(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, epoch := range m.names {
		_ = m.Store.Release(ctx, name, epoch) // its lease ends anyway
	}
	clear(m.names)
}

// recordOutcomes notes what became of batches.
func (m *markingStore) recordOutcomes(batches []*store.Batch, errs []error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, b := range batches {
		x := m.open[b.SessionID]
		if x == nil || len(b.Records) == 0 {
			continue
		}
		x.flying--
		switch err := errs[i]; {
		case err == nil, errors.Is(err, store.ErrUnknownOutcome):
			x.durable, x.last = true, max(x.last, b.Records[len(b.Records)-1].Sequence)
		case !x.durable && x.flying == 0:
			delete(m.open, b.SessionID)
		}
	}
}

// settle forgets the mark of a session of which everything through a fact is sent,
// and returns its key; empty if there is none, or the session moved on.
func (m *markingStore) settle(sessionID string, through uint64) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.open[sessionID]
	if x == nil || x.flying > 0 || x.last > through {
		return ""
	}
	delete(m.open, sessionID)
	return x.key
}

// leftovers returns the marks of processes that are gone: keys by session. Other nodes
// may be gone too and their time not over: again is when to look.
func (m *markingStore) leftovers(ctx context.Context) (left map[string][]string, again time.Time, err error) {
	theirs := map[string]bool{}
	left = map[string][]string{}
	for e, err := range m.Store.Scan(ctx, store.Scan{Kind: kindMark}) {
		if err != nil {
			return nil, again, err
		}
		name, rest, _ := strings.Cut(e.Key, "/")
		if _, known := theirs[name]; !known {
			m.mu.Lock()
			until, ours := m.claimName(ctx, name)
			m.mu.Unlock()
			if theirs[name] = !ours; !ours && (again.IsZero() || until.Before(again)) {
				again = until
			}
		}
		if !theirs[name] && !strings.HasPrefix(rest, m.stamp+"/") {
			left[string(e.Value)] = append(left[string(e.Value)], e.Key)
		}
	}
	return left, again, nil
}

// removal takes marks out of the store.
func removal(keys []string) []store.IndexOp {
	ops := make([]store.IndexOp, 0, len(keys))
	for _, key := range keys {
		ops = append(ops, store.IndexOp{Entry: store.Entry{Kind: kindMark, Key: key}, Delete: true})
	}
	return ops
}
