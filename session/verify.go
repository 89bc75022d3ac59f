package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"agentd/event"
	"agentd/state"
	"agentd/store"
)

// Problem is one difference between what is stored and what the facts say.
type Problem struct {
	SessionID string `json:"sessionId,omitempty"`
	// Sequence is the fact at which it was found; 0 if it isn't about one.
	Sequence uint64 `json:"sequence,omitempty"`
	// What is chain, base, fact, snapshot, mark, index or blob.
	What string `json:"what"`
	// Detail says what differs, for people.
	Detail string `json:"detail"`
}

func (p Problem) String() string {
	if p.Sequence > 0 {
		return fmt.Sprintf("%s, fact %d: %s: %s", p.SessionID, p.Sequence, p.What, p.Detail)
	}
	if p.SessionID == "" {
		return fmt.Sprintf("%s: %s", p.What, p.Detail)
	}
	return fmt.Sprintf("%s: %s: %s", p.SessionID, p.What, p.Detail)
}

// Report is the result of a verification.
type Report struct {
	Sessions  int64 `json:"sessions"`
	Events    int64 `json:"events"`
	Bytes     int64 `json:"bytes"`
	Snapshots int64 `json:"snapshots"`
	Entries   int64 `json:"indexEntries"`
	Blobs     int64 `json:"blobs"`
	// Trimmed counts the sessions whose first facts were removed, Removed these: they
	// are verified from the state that replaced them, which nothing here can prove.
	Trimmed  int64     `json:"trimmedSessions"`
	Removed  int64     `json:"removedEvents"`
	Problems []Problem `json:"problems"`
}

// VerifyOptions say what to verify. The zero value means everything.
type VerifyOptions struct {
	// Sessions restricts the verification to these sessions, without blobs.
	Sessions []string
	// Progress, if set, is called after each session by one goroutine at a time.
	Progress func(Report)
}

// Verify folds every session again from its first fact, or from the state that replaced those
// that were removed, hashes its chain, and compares the stored snapshots, records and index entries with what comes out.
// It changes nothing, and may run beside a runtime that has the store open as
// long as nothing is appended in the meantime. The error says why the verification
// itself could not go on; differences are in the report.
func Verify(ctx context.Context, s store.Store, opt VerifyOptions) (*Report, error) {
	v := &verification{store: s, opt: opt, report: &Report{Problems: []Problem{}}}
	var err error
	if v.cards, err = cardsMark(ctx, s); err != nil {
		return v.report, fmt.Errorf("session: verify: %w", err)
	}
	ids := make(chan string)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for id := range ids {
				v.add(v.session(ctx, id))
			}
		})
	}
	err = v.feed(ctx, ids)
	close(ids)
	wg.Wait()
	if err == nil && len(opt.Sessions) == 0 {
		err = v.blobs(ctx)
	}
	return v.report, err
}

type verification struct {
	store store.Store
	opt   VerifyOptions
	// cards says how the cards came to be; sessions of earlier releases have none until
	// they were made.
	cards string

	mu     sync.Mutex
	report *Report
}

func (v *verification) feed(ctx context.Context, ids chan<- string) error {
	send := func(id string) error {
		select {
		case ids <- id:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, id := range v.opt.Sessions {
		if err := send(id); err != nil {
			return err
		}
	}
	if len(v.opt.Sessions) > 0 {
		return nil
	}
	for id, err := range v.store.Sessions(ctx, "") {
		if err == nil {
			err = send(id)
		}
		if err != nil {
			return fmt.Errorf("session: verify: %w", err)
		}
	}
	return nil
}

func (v *verification) add(one Report) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.report
	r.Sessions++
	r.Events += one.Events
	r.Bytes += one.Bytes
	r.Snapshots += one.Snapshots
	r.Entries += one.Entries
	r.Trimmed += one.Trimmed
	r.Removed += one.Removed
	r.Problems = append(r.Problems, one.Problems...)
	if v.opt.Progress != nil {
		v.opt.Progress(*r)
	}
}

// refold is the verification of one session.
type refold struct {
	*verification
	ctx     context.Context //nolint:containedctx // a refold lives within one call
	id      string
	state   *state.Session
	chain   *store.Chain
	stored  store.Snapshot
	records map[string]recordSum
	entries map[store.IndexKey]indexSum
	// marks are those that no fact was compared with yet.
	marks map[uint64]store.Entry
	// base is the last fact that was removed.
	base   uint64
	report Report
}

type recordSum struct {
	sequence uint64
	sum      [sha256.Size]byte
}

type indexSum struct {
	gone bool
	sum  [sha256.Size]byte
	// first is what an earlier release wrote; zero if that is the same.
	first [sha256.Size]byte
}

func (v *verification) session(ctx context.Context, id string) Report {
	f := &refold{verification: v, ctx: ctx, id: id, records: map[string]recordSum{}, entries: map[store.IndexKey]indexSum{}, marks: map[uint64]store.Entry{}}
	st, hash, err := origin(ctx, v.store, id)
	if err != nil {
		f.problemf(0, "base", "%v", err)
		return f.report
	}
	f.state, f.chain, f.base = st, store.NewChain(hash), st.Sequence
	if f.base > 0 {
		f.report.Trimmed, f.report.Removed = 1, int64(f.base)
	}
	if f.stored, err = v.store.Snapshot(ctx, id, stateSnapshot); err != nil && !errors.Is(err, store.ErrNotFound) {
		f.problemf(0, "snapshot", "%v", err)
	}
	f.loadMarks()
	if f.facts() {
		f.leftMarks()
		f.snapshots()
		f.index()
	}
	return f.report
}

func (f *refold) problemf(seq uint64, what, format string, args ...any) {
	f.report.Problems = append(f.report.Problems, Problem{SessionID: f.id, Sequence: seq, What: what, Detail: fmt.Sprintf(format, args...)})
}

// facts folds all facts; false if they can't be followed to the end.
func (f *refold) facts() bool {
	for rec, err := range f.store.Read(f.ctx, f.id, store.Range{After: f.base}) {
		if err != nil {
			f.problemf(f.state.Sequence+1, "fact", "can't be read: %v", err)
			return false
		}
		if rec.Sequence != f.state.Sequence+1 {
			f.problemf(f.state.Sequence+1, "fact", "is missing: the next one stored is %d", rec.Sequence)
			return false
		}
		if f.chain.Next(rec.Data) != rec.Hash {
			f.problemf(rec.Sequence, "chain", "the stored hash is not the hash of the fact and of the hash before")
			return false
		}
		if !f.foldRecord(rec) {
			return false
		}
		f.report.Events++
		f.report.Bytes += int64(len(rec.Data))
	}
	if f.state.Sequence == f.base {
		f.problemf(0, "fact", "there are no facts")
		return false
	}
	return true
}

func (f *refold) foldRecord(rec store.Record) bool {
	e, err := store.DecodeFact(f.ctx, f.store, rec.Data)
	if err == nil && len(rec.Data) > event.MaxBytes && e.IsCut() {
		err = fmt.Errorf("it shows a part of its payload and still has %d bytes", len(rec.Data))
	}
	if err == nil && (e.Sequence != rec.Sequence || e.SessionID != f.id) {
		err = fmt.Errorf("it claims to be fact %d of session %s", e.Sequence, e.SessionID)
	}
	if err == nil {
		err = event.Check(e)
	}
	if err != nil {
		f.problemf(rec.Sequence, "fact", "%v", err)
		return false
	}
	evicted, err := f.state.Apply(e)
	if err != nil {
		f.problemf(rec.Sequence, "fact", "%v", err)
		return false
	}
	for _, x := range evicted {
		data, err := x.Encode()
		if err != nil {
			f.problemf(rec.Sequence, "fact", "%v", err)
			return false
		}
		f.records[x.Name] = recordSum{rec.Sequence, sha256.Sum256(data)}
	}
	if err := f.derive(e, rec.Data); err != nil {
		f.problemf(rec.Sequence, "fact", "%v", err)
		return false
	}
	if rec.Sequence == f.stored.Sequence {
		f.compareState(rec)
	}
	f.compareMark(&rec)
	return true
}

func (f *refold) derive(e *event.Event, data []byte) error {
	ops, err := indexFact(nil, f.state, e, changesSummary(e.Payload))
	if err != nil {
		return err
	}
	if ops, err = indexPeers(ops, f.state, e); err != nil {
		return err
	}
	ops = indexPayload(indexKept(ops, e, data), e)
	if f.state.Status == state.SessionDeleted {
		clear(f.entries) // what followed from the facts before is gone
	}
	for _, op := range ops {
		want := indexSum{gone: op.Delete, sum: sha256.Sum256(op.Value)}
		if isSessions(op.Kind) {
			want.first = sha256.Sum256(firstSummary(op.Value))
		}
		f.entries[op.Entry.ID()] = want
	}
	return nil
}

// compareState checks the stored state against the fold, at the fact that it is of.
func (f *refold) compareState(rec store.Record) {
	if f.stored.Hash != rec.Hash {
		f.problemf(rec.Sequence, "snapshot", "the state was stored with another hash than the fact has")
	}
	data, err := unpackState(f.stored.Data)
	if err != nil {
		f.problemf(rec.Sequence, "snapshot", "%v", err)
		return
	}
	f.compareEncoded(rec.Sequence, "snapshot", data)
}

// compareEncoded compares a stored state of this version with the fold.
func (f *refold) compareEncoded(sequence uint64, what string, stored []byte) {
	if st, err := state.Decode(stored); err == nil && st.Version == state.Version {
		if want := f.state.Encode(); !bytes.Equal(want, stored) {
			f.problemf(sequence, what, "the stored state is not what the facts fold to (at byte %d)", firstDifference(want, stored))
		}
	}
}

func firstDifference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// snapshots compares the records of what left the working set.
func (f *refold) snapshots() {
	if f.stored.Sequence > f.state.Sequence {
		f.problemf(0, "snapshot", "the stored state is of fact %d, the last fact is %d", f.stored.Sequence, f.state.Sequence)
	}
	for s, err := range f.store.Snapshots(f.ctx, f.id) {
		if err != nil {
			f.problemf(0, "snapshot", "can't be read: %v", err)
			return
		}
		f.report.Snapshots++
		if s.Name == stateSnapshot {
			if string(s.Data) == importMark {
				f.problemf(0, "snapshot", "an import of the session was cut off: repeat it with the same file")
			}
			continue
		}
		want, ok := f.records[s.Name]
		delete(f.records, s.Name)
		if !ok {
			if s.Sequence > f.base { // the fact that an earlier one follows from is gone
				f.problemf(s.Sequence, "snapshot", "the record %s follows from no fact", s.Name)
			}
		} else if want.sequence != s.Sequence || want.sum != sha256.Sum256(s.Data) {
			f.problemf(want.sequence, "snapshot", "the record %s is not what the facts fold to", s.Name)
		}
	}
	for name, want := range f.records {
		f.problemf(want.sequence, "snapshot", "the record %s is missing", name)
	}
}

// index compares the derived index entries.
func (f *refold) index() {
	f.entries[store.IndexKey{Kind: kindOpen, Key: f.id}] = indexSum{gone: !f.state.HasOpenWork(), sum: sha256.Sum256(nil)}
	for k, want := range f.entries {
		value, err := f.store.Get(f.ctx, k.Kind, k.Key)
		f.report.Entries++
		switch {
		case errors.Is(err, store.ErrNotFound):
			if !want.gone && (f.cards != "" || !isCard(k.Kind)) {
				f.problemf(0, "index", "the entry %s %s is missing", k.Kind, k.Key)
			}
		case err != nil:
			f.problemf(0, "index", "the entry %s %s can't be read: %v", k.Kind, k.Key, err)
		case want.gone:
			f.problemf(0, "index", "the entry %s %s should be gone", k.Kind, k.Key)
		case isCard(k.Kind) && f.cards == cardsMadeLater:
		case sha256.Sum256(value) != want.sum && sha256.Sum256(value) != want.first:
			f.problemf(0, "index", "the entry %s %s is not what the facts say", k.Kind, k.Key)
		}
	}
}

// blobs reads every blob that a session refers to and compares it with its name.
func (v *verification) blobs(ctx context.Context) error {
	last := ""
	for e, err := range v.store.Scan(ctx, store.Scan{Kind: kindRef}) {
		if err != nil {
			return fmt.Errorf("session: verify blobs: %w", err)
		}
		ref, _, _ := bytes.Cut([]byte(e.Key), []byte("/"))
		if string(ref) == last {
			continue
		}
		last = string(ref)
		v.report.Blobs++
		if err := v.blob(ctx, last); err != nil {
			v.report.Problems = append(v.report.Problems, Problem{What: "blob", Detail: fmt.Sprintf("%s: %v", last, err)})
		}
	}
	return nil
}

func (v *verification) blob(ctx context.Context, ref string) error {
	b, err := v.store.OpenBlob(ctx, ref)
	if err != nil {
		return err
	}
	defer b.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, b); err != nil {
		return err
	}
	if got := store.RefOf(store.Hash(sum.Sum(nil))); got != ref {
		return fmt.Errorf("the content has the hash %s", got)
	}
	return nil
}
