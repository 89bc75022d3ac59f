package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"agentd/store"

	"pgregory.net/rapid"
)

func modelChecks() []check {
	return []check{{"random calls give what the reference gives", modelProperty}}
}

// modelProperty drives the engine and a [Mem] with the same random calls. All
// rounds share the engine's data, so each works on names of its own.
func modelProperty(k *kit) {
	round := 0
	rapid.Check(k.tb, func(t *rapid.T) {
		round++
		m := &machine{kit: k, ref: NewMem(), prefix: fmt.Sprintf("m%d.", round), claims: map[string][]claimed{}}
		t.Repeat(map[string]func(*rapid.T){
			"claim":     m.claim,
			"release":   m.release,
			"append":    m.append,
			"append2":   m.append, // twice as likely
			"read":      m.read,
			"scan":      m.scan,
			"snapshots": m.snapshots,
			"sessions":  m.sessions,
			"blob":      m.blob,
			"reopen":    m.reopen,
		})
		m.everything(t)
	})
}

// machine is an engine and its reference side by side.
type machine struct {
	kit    *kit
	ref    *Mem
	prefix string
	// claims holds the claims of each session, the newest last.
	claims map[string][]claimed
	// opened counts reopens.
	opened int
}

// claimed is one claim on both sides: epochs differ, their order doesn't.
type claimed struct {
	engine, ref store.Claim
	opened      int
}

func (m *machine) ctx() context.Context { return m.kit.ctx }
func (m *machine) s() store.Store       { return m.kit.s }

func (m *machine) session(t *rapid.T) string {
	return m.prefix + rapid.SampledFrom([]string{"a", "a1", "b"}).Draw(t, "session")
}

func (m *machine) claim(t *rapid.T) {
	id := m.session(t)
	got, err := m.s().Claim(m.ctx(), id)
	want, refErr := m.ref.Claim(m.ctx(), id)
	if err != nil || refErr != nil || got.Head != want.Head {
		t.Fatalf("Claim(%s) = %+v, %v; the reference says %+v, %v", id, got, err, want, refErr)
	}
	for _, c := range m.claims[id] {
		if got.Epoch <= c.engine.Epoch {
			t.Fatalf("Claim(%s) returned epoch %d after %d", id, got.Epoch, c.engine.Epoch)
		}
	}
	m.claims[id] = append(m.claims[id], claimed{got, want, m.opened})
}

// pick returns a claim of the session to use, mostly the newest. What a claim of
// an earlier opening is worth before the session was claimed again is not
// specified, so such a one isn't used.
func (m *machine) pick(t *rapid.T, id string) claimed {
	all := m.claims[id]
	if len(all) == 0 || all[len(all)-1].opened != m.opened || rapid.IntRange(0, 20).Draw(t, "no claim") == 0 {
		return claimed{}
	}
	back := rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1, 2}).Draw(t, "claims back")
	return all[max(0, len(all)-1-back)]
}

func (m *machine) release(t *rapid.T) {
	id := m.session(t)
	c := m.pick(t, id)
	err := m.s().Release(m.ctx(), id, c.engine.Epoch)
	refErr := m.ref.Release(m.ctx(), id, c.ref.Epoch)
	if err != nil || refErr != nil {
		t.Fatalf("Release(%s): %v; the reference says %v", id, err, refErr)
	}
}

func (m *machine) append(t *rapid.T) {
	var mine, refs []*store.Batch
	heads := map[string]store.Head{}
	for range rapid.IntRange(1, 3).Draw(t, "batches") {
		id := m.session(t)
		if _, ok := heads[id]; !ok {
			heads[id], _ = m.ref.Head(m.ctx(), id)
		}
		c := m.pick(t, id)
		b := m.batch(t, id, heads[id])
		if len(b.Records) > 0 {
			heads[id] = HeadOf(b.Records)
		}
		r := *b
		r.Index = slices.Clone(b.Index) // should the engine change it
		b.Epoch, r.Epoch = c.engine.Epoch, c.ref.Epoch
		mine, refs = append(mine, b), append(refs, &r)
	}
	errs, want := m.s().Append(m.ctx(), mine), m.ref.Append(m.ctx(), refs)
	if len(errs) != len(want) {
		t.Fatalf("Append of %d batches returned %d errors", len(mine), len(errs))
	}
	for i := range errs {
		if kindOf(errs[i]) != kindOf(want[i]) {
			t.Fatalf("Append, batch %d of %d, session %s: %v; the reference says %v", i, len(errs), mine[i].SessionID, errs[i], want[i])
		}
	}
}

// batch draws a batch that follows head, or misses it by one.
func (m *machine) batch(t *rapid.T, id string, head store.Head) *store.Batch {
	switch rapid.IntRange(0, 9).Draw(t, "miss") {
	case 0:
		head.Sequence++
	case 1:
		head.Sequence = max(1, head.Sequence) - 1
	}
	b := &store.Batch{SessionID: id, Records: Continue(id, head, rapid.IntRange(0, 3).Draw(t, "records"), rapid.IntRange(0, 300).Draw(t, "size"))}
	for range rapid.IntRange(0, 2).Draw(t, "ops") {
		b.Index = append(b.Index, m.indexOp(t))
	}
	if rapid.IntRange(0, 2).Draw(t, "with snapshot") == 0 {
		name := rapid.SampledFrom([]string{"n", "n1", "m"}).Draw(t, "name")
		b.Snapshots = []store.Snapshot{{SessionID: id, Name: name, Sequence: head.Sequence, Hash: head.Hash, Data: rapid.SliceOfN(rapid.Byte(), 0, 10).Draw(t, "data")}}
	}
	if rapid.IntRange(0, 3).Draw(t, "with blob") == 0 {
		b.Blobs = [][]byte{m.content(t)}
	}
	return b
}

func (m *machine) kind(t *rapid.T) string {
	return m.prefix + rapid.SampledFrom([]string{"k", "k1"}).Draw(t, "kind")
}

func (m *machine) indexOp(t *rapid.T) store.IndexOp {
	op := putOp(m.kind(t), anyKey().Draw(t, "key"), string(rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "value")))
	switch rapid.IntRange(0, 4).Draw(t, "op") {
	case 0:
		op.Value, op.Delete = nil, true
	case 1, 2:
		op.IfAbsent = true
	case 3:
		op.Fresh = true
	}
	return op
}

func (m *machine) content(t *rapid.T) []byte {
	return []byte(m.prefix + rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "content"))
}

func (m *machine) read(t *rapid.T) {
	edge := rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Range(0, 12), rapid.Uint64())
	r := store.Range{
		After: edge.Draw(t, "after"), Before: edge.Draw(t, "before"),
		Limit: rapid.IntRange(0, 5).Draw(t, "limit"), Reverse: rapid.Bool().Draw(t, "reverse"),
	}
	m.readIs(t, m.session(t), r)
}

func (m *machine) readIs(t *rapid.T, id string, r store.Range) {
	want := collectAll(t, "the reference's Read", m.ref.Read(m.ctx(), id, r))
	if d := diffRecords(m.kit.withReporter(t).read(id, r), want); d != "" {
		t.Fatalf("Read(%s, %+v): %s", id, r, d)
	}
}

func (m *machine) scan(t *rapid.T) { m.scanLike(t, anyScan(t, m.kind(t))) }

func (m *machine) scanLike(t *rapid.T, s store.Scan) {
	got := m.kit.withReporter(t).scan(s)
	want := collectAll(t, "the reference's Scan", m.ref.Scan(m.ctx(), s))
	if !equalEntries(got, want) {
		t.Fatalf("Scan(%s) = %s, want %s", describeScan(s), entriesText(got), entriesText(want))
	}
	for _, e := range want {
		m.kit.withReporter(t).value(e.Kind, e.Key, e.Value)
	}
}

func (m *machine) snapshots(t *rapid.T) { m.snapshotsOf(t, m.session(t)) }

func (m *machine) snapshotsOf(t *rapid.T, id string) {
	m.kit.withReporter(t).snapshotsAre(id, collectAll(t, "the reference's Snapshots", m.ref.Snapshots(m.ctx(), id)))
}

func (m *machine) sessions(t *rapid.T) {
	after := m.prefix + rapid.SampledFrom([]string{"", "a", "a0", "a1", "b"}).Draw(t, "after")
	var got []string
	for id, err := range m.s().Sessions(m.ctx(), after) {
		if err != nil {
			t.Fatalf("Sessions(%s): %v", after, err)
		}
		if !strings.HasPrefix(id, m.prefix) {
			break // another round's
		}
		got = append(got, id)
	}
	want := collectAll(t, "the reference's Sessions", m.ref.Sessions(m.ctx(), after))
	if !slices.Equal(got, want) {
		t.Fatalf("Sessions(%s) = %q, want %q", after, got, want)
	}
}

func (m *machine) blob(t *rapid.T) {
	content := m.content(t)
	switch rapid.IntRange(0, 3).Draw(t, "blob op") {
	case 0:
		err, refErr := m.s().DeleteBlob(m.ctx(), refOf(content)), m.ref.DeleteBlob(m.ctx(), refOf(content))
		if err != nil || refErr != nil {
			t.Fatalf("DeleteBlob: %v; the reference says %v", err, refErr)
		}
	case 1:
		m.kit.withReporter(t).putBlob(content)
		if _, err := m.ref.PutBlob(m.ctx(), strings.NewReader(string(content))); err != nil {
			t.Fatalf("the reference's PutBlob: %v", err)
		}
	}
	var want []byte
	if b, err := m.ref.OpenBlob(m.ctx(), refOf(content)); err == nil {
		want, _ = io.ReadAll(b) // from memory
	}
	m.kit.withReporter(t).blobIs(refOf(content), want)
}

// reopen is drawn as often as the others but is slow, so it mostly passes.
func (m *machine) reopen(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "really") != 0 {
		return
	}
	m.kit.reopen()
	if err := m.ref.Close(); err != nil {
		t.Fatalf("close the reference: %v", err)
	}
	m.ref = m.ref.Node()
	m.opened++
}

// everything compares all that there is.
func (m *machine) everything(t *rapid.T) {
	for _, name := range []string{"a", "a1", "b"} {
		id := m.prefix + name
		want, _ := m.ref.Head(m.ctx(), id)
		m.kit.withReporter(t).headIs(id, want)
		m.readIs(t, id, store.Range{})
		m.snapshotsOf(t, id)
	}
	for _, name := range []string{"k", "k1"} {
		m.scanLike(t, store.Scan{Kind: m.prefix + name})
	}
}

// kindOf returns the sentinel that an error is, for comparison.
func kindOf(err error) string {
	if err == nil {
		return "nil"
	}
	for _, e := range []error{
		store.ErrConflict, store.ErrFenced, store.ErrExists, store.ErrNotFound, store.ErrNoSpace,
		store.ErrFailed, store.ErrUnknownOutcome, store.ErrCorrupt, store.ErrClosed,
	} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return "another error"
}
