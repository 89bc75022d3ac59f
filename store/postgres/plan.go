package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"agentd/store"
)

// maxWave bounds the bytes of one transaction's parameters.
const maxWave = 32 << 20

const (
	// anyHead is what a unit expects that has no records.
	anyHead = -1
	// noHead is what a unit expects whose records are out of order: no session
	// is ever there.
	noHead = math.MaxInt64
)

// unit is one or more batches of a session that are written together or not at
// all: the first is judged, the others follow from it.
type unit struct {
	session  string
	epoch    uint64
	expected int64 // the head before, or anyHead, or noHead
	head     uint64
	hash     store.Hash
	batches  []int // positions in the call
	absent   []store.IndexKey
	// isNew: the session has no row; see ClaimNew.
	isNew bool
	// contradicts: the first batch needs a key absent that it puts itself.
	contradicts bool
	// trim removes records; such a unit is a wave of its own.
	trim *store.Trim
}

// wave is a part of a call that is one transaction: no two of its batches
// contend for anything, given that all of them are written.
type wave struct {
	units []*unit
	of    map[string]*unit
	keys  map[store.IndexKey]bool // that its batches change
	bytes int
}

// group is the plan of one call of Append. Waves are planned one after another
// because what comes later depends on what was written.
type group struct {
	batches []*store.Batch
	errs    []error
	next    int
	failed  map[string]bool
}

func newGroup(batches []*store.Batch) *group {
	return &group{batches: batches, errs: make([]error, len(batches)), failed: map[string]bool{}}
}

// fail settles a batch; later batches of its session fail with it.
func (g *group) fail(i int, err error) {
	g.errs[i] = err
	g.failed[g.batches[i].SessionID] = true
}

// failUnit settles a unit that was judged: its first batch has the error, the
// others found the head elsewhere because of it.
func (g *group) failUnit(u *unit, err error) {
	for n, i := range u.batches {
		if n > 0 {
			err = errEarlier
		}
		g.fail(i, err)
	}
}

// failAll settles units that met a failure which is not theirs.
func (g *group) failAll(units []*unit, err error) {
	for _, u := range units {
		for _, i := range u.batches {
			g.fail(i, err)
		}
	}
}

var errEarlier = fmt.Errorf("%w: an earlier batch of the session failed", store.ErrConflict)

// nextWave takes batches in order until one contends with the wave. It is nil
// when all are settled or taken.
func (g *group) nextWave() *wave {
	w := &wave{of: map[string]*unit{}, keys: map[store.IndexKey]bool{}}
	for ; g.next < len(g.batches); g.next++ {
		b := g.batches[g.next]
		if g.failed[b.SessionID] {
			g.fail(g.next, errEarlier)
			continue
		}
		if err := checkBatch(b); err != nil {
			g.fail(g.next, err)
			continue
		}
		if !w.addBatch(g.next, b) {
			break
		}
	}
	if len(w.units) == 0 {
		return nil
	}
	// Rows are locked in this order, so that two transactions don't wait crosswise.
	slices.SortFunc(w.units, func(a, b *unit) int { return strings.Compare(a.session, b.session) })
	return w
}

// addBatch adds a batch unless it contends with the wave.
func (w *wave) addBatch(i int, b *store.Batch) bool {
	size := sizeOf(b)
	if len(w.units) > 0 && (w.bytes+size > maxWave || w.touches(b) || b.Trim != nil || w.units[0].trim != nil) {
		return false
	}
	u := w.of[b.SessionID]
	if u == nil {
		u = newUnit(b)
		w.units = append(w.units, u)
		w.of[b.SessionID] = u
	} else if !u.follows(b) {
		return false
	}
	u.extend(i, b)
	w.bytes += size
	for _, op := range b.Index {
		w.keys[op.ID()] = true
	}
	return true
}

// touches reports whether b needs a key absent that the wave changes, so that
// only the next transaction can tell.
func (w *wave) touches(b *store.Batch) bool {
	return slices.ContainsFunc(b.Index, func(op store.IndexOp) bool {
		return op.IfAbsent && w.keys[op.ID()]
	})
}

func newUnit(b *store.Batch) *unit {
	u := &unit{session: b.SessionID, epoch: b.Epoch, expected: anyHead, trim: b.Trim}
	if len(b.Records) > 0 {
		u.expected = expectedHead(b.Records)
	}
	u.absent, u.contradicts = needs(b.Index)
	return u
}

// expectedHead returns the head that records continue, or noHead.
func expectedHead(records []store.Record) int64 {
	first := records[0].Sequence
	if first == 0 || first > math.MaxInt64-uint64(len(records)) {
		return noHead
	}
	for i, r := range records {
		if r.Sequence != first+uint64(i) {
			return noHead
		}
	}
	return int64(first - 1)
}

// needs returns the keys that a batch needs absent when it is written, and
// whether it puts one of them itself before.
func needs(ops []store.IndexOp) (absent []store.IndexKey, contradicts bool) {
	there := map[store.IndexKey]bool{}
	for _, op := range ops {
		exists, touched := there[op.ID()]
		switch {
		case op.IfAbsent && touched && exists:
			contradicts = true
		case op.IfAbsent && !touched:
			absent = append(absent, op.ID())
		}
		there[op.ID()] = !op.Delete
	}
	return absent, contradicts
}

// follows reports whether b is written whenever u is.
func (u *unit) follows(b *store.Batch) bool {
	if b.Epoch != u.epoch || slices.ContainsFunc(b.Index, func(op store.IndexOp) bool { return op.IfAbsent }) {
		return false
	}
	if len(b.Records) == 0 {
		return true
	}
	return u.expected != anyHead && u.expected != noHead && expectedHead(b.Records) == int64(u.head)
}

// newSessions returns those of the units' sessions that have no row yet.
func newSessions(units []*unit) []string {
	var ids []string
	for _, u := range units {
		if u.isNew {
			ids = append(ids, u.session)
		}
	}
	return ids
}

func (u *unit) extend(i int, b *store.Batch) {
	u.batches = append(u.batches, i)
	if n := len(b.Records); n > 0 {
		u.head, u.hash = b.Records[n-1].Sequence, b.Records[n-1].Hash
	}
}

// change is what a transaction does to one index entry.
type change struct {
	store.Entry
	absent bool // must not be there before
	fresh  bool // is hardly there before
	delete bool // is not there after
}

// foldIndexOps folds the index operations of units, in the order of the call, to one
// change a key, ordered by key so that two transactions never wait crosswise.
func foldIndexOps(batches []*store.Batch, units []*unit) []change {
	var order []int
	for _, u := range units {
		order = append(order, u.batches...)
	}
	slices.Sort(order)
	byKey := map[store.IndexKey]*change{}
	for _, i := range order {
		for _, op := range batches[i].Index {
			c := byKey[op.ID()]
			if c == nil {
				c = &change{absent: op.IfAbsent, fresh: op.Fresh}
				byKey[op.ID()] = c
			}
			c.Entry, c.delete = op.Entry, op.Delete
		}
	}
	list := make([]change, 0, len(byKey))
	for _, c := range byKey {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b change) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Key, b.Key))
	})
	return list
}

// found is what the database says about the sessions and keys of a wave.
type found struct {
	sessions map[string]sessionRow
	keys     map[store.IndexKey]bool
	trims    map[string]bool // sessions in which the last record that goes is there
}

type sessionRow struct{ epoch, head int64 }

// judge says why a unit can't be written, or nil.
func (f found) judge(u *unit) error {
	row := f.sessions[u.session]
	claimed := row.epoch == int64(u.epoch) && row.epoch > 0
	if u.isNew {
		claimed = row.epoch == 0
	}
	if !claimed {
		return fmt.Errorf("%w: session %s has epoch %d, the batch %d", store.ErrFenced, u.session, row.epoch, u.epoch)
	}
	if u.expected != anyHead && u.expected != row.head {
		return fmt.Errorf("%w: session %s is at %d", store.ErrConflict, u.session, row.head)
	}
	if err := f.judgeTrim(u, row.head); err != nil {
		return err
	}
	if u.contradicts {
		return fmt.Errorf("%w: the batch puts it itself", store.ErrExists)
	}
	for _, k := range u.absent {
		if f.keys[k] {
			return fmt.Errorf("%w: %s %q", store.ErrExists, k.Kind, k.Key)
		}
	}
	return nil
}

// checkBatch refuses what the tables can't hold, before it makes the transaction
// of others fail.
func checkBatch(b *store.Batch) error {
	if err := checkText("session id", b.SessionID); err != nil {
		return err
	}
	for i := range b.Snapshots {
		if err := checkText("snapshot name", b.Snapshots[i].Name); err != nil {
			return err
		}
	}
	for i := range b.Index {
		if err := checkText("kind", b.Index[i].Kind); err != nil {
			return err
		}
	}
	return nil
}

func checkText(what, s string) error {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("postgres: the %s %q is not UTF-8 without NUL", what, s)
	}
	if s == "" {
		return errors.New("postgres: the " + what + " is empty")
	}
	return nil
}

// sizeOf estimates the bytes that a batch adds to a transaction.
func sizeOf(b *store.Batch) int {
	n := 256
	for i := range b.Records {
		n += len(b.Records[i].Data) + len(b.SessionID) + 64
	}
	for i := range b.Snapshots {
		n += len(b.Snapshots[i].Data) + 128
	}
	for i := range b.Index {
		n += len(b.Index[i].Key) + len(b.Index[i].Value) + 64
	}
	for _, c := range b.Blobs {
		n += len(c)
	}
	if b.Trim != nil {
		n += len(b.Trim.Data)
	}
	return n
}
