package session

import (
	"sync/atomic"
	"time"
)

// Figures are the measurements of a manager, for operators.
type Figures struct {
	// Loaded counts the sessions in memory, Waiting the batches in the journal's
	// queue, Subscribers those who follow one session, Feeds those who follow all.
	Loaded, Waiting, Subscribers, Feeds int
	// Commits counts the writes to the store, Batches and Facts what they held,
	// Bytes the size of the facts, Failures the batches that were not written.
	Commits, Batches, Facts, Bytes, Failures uint64
	// AppendCounts counts commits by duration: AppendCounts[i] those up to
	// AppendBounds[i] seconds, the last one those above; AppendSeconds is their sum.
	AppendBounds  []float64
	AppendCounts  []uint64
	AppendSeconds float64
	// TrimmedSessions counts how often a session's events were removed,
	// TrimmedEvents and TrimmedBytes what was.
	TrimmedSessions, TrimmedEvents, TrimmedBytes uint64
	// RetainEvents is how long events of sessions at rest are kept; 0 is for ever.
	RetainEvents time.Duration
}

// appendBounds, in seconds, reach from a fast disk to one that is stuck.
var appendBounds = [...]float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 10}

// tally counts what the journal does.
type tally struct {
	commits, batches, facts, bytes, failures atomic.Uint64
	nanoseconds                              atomic.Int64
	counts                                   [len(appendBounds) + 1]atomic.Uint64

	trimmedSessions, trimmedEvents, trimmedBytes atomic.Uint64
}

// trimmed counts one removal.
func (t *tally) trimmed(r *Trimmed) {
	t.trimmedSessions.Add(1)
	t.trimmedEvents.Add(r.Events)
	t.trimmedBytes.Add(uint64(r.Bytes))
}

// committed counts one commit. Durations and sizes are counted once a commit,
// not once a fact.
func (t *tally) committed(group []*pending, took time.Duration) {
	i := 0
	for i < len(appendBounds) && took.Seconds() > appendBounds[i] {
		i++
	}
	var facts, bytes, failures uint64
	for _, p := range group {
		if p.err != nil {
			failures++
			continue
		}
		facts += uint64(len(p.batch.Records))
		for r := range p.batch.Records {
			bytes += uint64(len(p.batch.Records[r].Data))
		}
	}
	t.counts[i].Add(1)
	t.nanoseconds.Add(took.Nanoseconds())
	t.commits.Add(1)
	t.batches.Add(uint64(len(group)))
	t.facts.Add(facts)
	t.bytes.Add(bytes)
	t.failures.Add(failures)
}

// Figures returns the measurements so far.
func (m *Manager) Figures() Figures {
	t := &m.journal.tally
	f := Figures{
		Loaded: m.Loaded(), Waiting: m.journal.waiting(),
		Commits: t.commits.Load(), Batches: t.batches.Load(), Facts: t.facts.Load(), Bytes: t.bytes.Load(), Failures: t.failures.Load(),
		RetainEvents: m.opt.RetainEvents, TrimmedSessions: t.trimmedSessions.Load(), TrimmedEvents: t.trimmedEvents.Load(), TrimmedBytes: t.trimmedBytes.Load(),
		AppendBounds: appendBounds[:], AppendSeconds: time.Duration(t.nanoseconds.Load()).Seconds(),
	}
	for i := range t.counts {
		f.AppendCounts = append(f.AppendCounts, t.counts[i].Load())
	}
	f.Subscribers, f.Feeds = m.topics.followers()
	return f
}

// waiting is the length of the journal's queue.
func (j *journal) waiting() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.queue)
}

// followers counts those who follow one session and those who follow all.
func (ts *topics) followers() (subscribers, feeds int) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.byID {
		subscribers += t.size()
	}
	return subscribers, len(ts.feeds)
}
