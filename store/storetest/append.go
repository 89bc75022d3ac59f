package storetest

import (
	"errors"
	"fmt"
	"math"

	"agentd/store"
)

func appendChecks() []check {
	return []check{
		{"first records", appendFirst},
		{"next records", appendNext},
		{"behind the head", appendBehind},
		{"ahead of the head", appendAhead},
		{"sequences with gaps are refused", appendGaps},
		{"batch without anything", appendNothing},
		{"batch without records", appendNoRecords},
		{"several batches of one session", appendSeveral},
		{"a failed batch leaves other sessions alone", appendOthersGoOn},
		{"after a failed batch the session's later ones conflict", appendLaterConflict},
		{"a call with many sessions", appendManySessions},
		{"order of judgement", appendPrecedence},
	}
}

func appendFirst(k *kit) {
	c := k.claim("s")
	records := Records("s", 1, 3, 200)
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: records})
	k.requireRecords("s", records)
}

func appendNext(k *kit) {
	c := k.claim("s")
	all := Records("s", 1, 7, 200)
	for _, part := range [][]store.Record{all[:1], all[1:2], all[2:7]} {
		k.mustAppend(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: part})
	}
	k.requireRecords("s", all)
}

func appendBehind(k *kit) {
	all := k.grow("s", 5, 100)
	c := k.claim("s")
	for _, from := range []int{0, 1, 4} {
		k.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: all[from:]}, store.ErrConflict)
	}
	zero := store.Record{Sequence: 0, Data: []byte(`{}`)}
	k.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: []store.Record{zero}}, store.ErrConflict)
	k.requireRecords("s", all)
}

func appendAhead(k *kit) {
	c := k.claim("s")
	k.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: Records("s", 2, 1, 100)}, store.ErrConflict)
	all := k.grow("s", 5, 100)
	c = k.claim("s")
	for _, first := range []uint64{7, 100, math.MaxUint64} {
		ahead := store.Record{Sequence: first, Data: []byte(`{}`)}
		k.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: []store.Record{ahead}}, store.ErrConflict)
	}
	k.requireRecords("s", all)
}

func appendGaps(k *kit) {
	c := k.claim("s")
	r := Records("s", 1, 4, 100)
	bad := map[string][]store.Record{
		"a gap":      {r[0], r[2]},
		"a repeat":   {r[0], r[1], r[1]},
		"wrong turn": {r[0], r[2], r[1]},
	}
	for _, name := range sortedKeys(bad) {
		err := k.append(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: bad[name]})[0]
		if err == nil || errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrFailed) {
			k.Errorf("a batch with %s in its sequences: got error %v, want a refusal", name, err)
		}
	}
	k.requireRecords("s", nil)
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: r})
	k.requireRecords("s", r)
}

func appendNothing(k *kit) {
	if errs := k.s.Append(k.ctx, nil); len(errs) != 0 {
		k.Errorf("Append of no batches returned %v", errs)
	}
	c := k.claim("s")
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: c.Epoch})
	k.requireRecords("s", nil)
	k.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch + 1}, store.ErrFenced)
	k.refuse(&store.Batch{SessionID: "unclaimed", Epoch: 1}, store.ErrFenced)
}

func appendNoRecords(k *kit) {
	c := k.claim("s")
	snap := store.Snapshot{SessionID: "s", Name: "n", Data: []byte("d")}
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: c.Epoch, Snapshots: []store.Snapshot{snap}, Index: []store.IndexOp{putOp("kind", "key", "v")}})
	k.snapshotIs("s", "n", &snap)
	k.value("kind", "key", []byte("v"))
	k.requireRecords("s", nil)
	all := k.grow("s", 2, 100)
	c = k.claim("s")
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: c.Epoch, Index: []store.IndexOp{putOp("kind", "key", "w")}})
	k.value("kind", "key", []byte("w"))
	k.requireRecords("s", all)
}

func appendSeveral(k *kit) {
	c := k.claim("s")
	all := Records("s", 1, 6, 100)
	k.mustAppend(
		&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: all[:2], Index: []store.IndexOp{putOp("kind", "key", "1")}},
		&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: all[2:3], Index: []store.IndexOp{putOp("kind", "key", "2")}},
		&store.Batch{SessionID: "s", Epoch: c.Epoch, Index: []store.IndexOp{putOp("kind", "other", "3")}},
		&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: all[3:]},
	)
	k.requireRecords("s", all)
	k.value("kind", "key", []byte("2"))
	k.value("kind", "other", []byte("3"))
}

func appendOthersGoOn(k *kit) {
	good1, good2, bad := k.claim("good1"), k.claim("good2"), k.claim("bad")
	r1, r2 := Records("good1", 1, 2, 100), Records("good2", 1, 2, 100)
	errs := k.append(
		&store.Batch{SessionID: "good1", Epoch: good1.Epoch, Records: r1[:1]},
		&store.Batch{SessionID: "bad", Epoch: bad.Epoch, Records: Records("bad", 2, 1, 100)},
		&store.Batch{SessionID: "fenced", Epoch: 9, Records: Records("fenced", 1, 1, 100)},
		&store.Batch{SessionID: "good2", Epoch: good2.Epoch, Records: r2},
		&store.Batch{SessionID: "good1", Epoch: good1.Epoch, Records: r1[1:]},
	)
	wantErrors(k, errs, nil, store.ErrConflict, store.ErrFenced, nil, nil)
	k.requireRecords("good1", r1)
	k.requireRecords("good2", r2)
	k.requireRecords("bad", nil)
	k.requireRecords("fenced", nil)
}

func appendLaterConflict(k *kit) {
	c, d := k.claim("s"), k.claim("t")
	r := Records("s", 1, 3, 100)
	k.mustAppend(&store.Batch{SessionID: "t", Epoch: d.Epoch, Index: []store.IndexOp{putOp("kind", "taken", "t")}})
	errs := k.append(
		&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: r[:1]},
		&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: r[1:2], Index: []store.IndexOp{putNew("kind", "taken", "s")}},
		&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: r[1:2]}, // would fit
		&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: r[2:3]}, // would fit if the second had not failed
		&store.Batch{SessionID: "s", Epoch: c.Epoch, Index: []store.IndexOp{putOp("kind", "key", "s")}},
		&store.Batch{SessionID: "s", Epoch: c.Epoch + 1, Records: r[1:2]},
	)
	wantErrors(k, errs, nil, store.ErrExists, store.ErrConflict, store.ErrConflict, store.ErrConflict, store.ErrConflict)
	k.requireRecords("s", r[:1])
	k.value("kind", "key", nil)
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: r[1:]})
	k.requireRecords("s", r)
}

func appendManySessions(k *kit) {
	var batches []*store.Batch
	want := map[string][]store.Record{}
	for i := range 200 {
		id := fmt.Sprintf("many-%03d", i)
		want[id] = Records(id, 1, 1+i%3, 50+i)
		batches = append(batches, &store.Batch{SessionID: id, Epoch: k.claim(id).Epoch, Records: want[id]})
	}
	k.mustAppend(batches...)
	for _, id := range sortedKeys(want) {
		k.requireRecords(id, want[id])
	}
}

// appendPrecedence: a caller that lost its session must learn that, whatever
// else is wrong with its batch.
func appendPrecedence(k *kit) {
	k.mustAppend(&store.Batch{SessionID: "t", Epoch: k.claim("t").Epoch, Index: []store.IndexOp{putOp("kind", "taken", "t")}})
	old := k.claim("s")
	now := k.claim("s")
	taken := []store.IndexOp{putNew("kind", "taken", "s")}
	ahead := Records("s", 2, 1, 100)
	k.refuse(&store.Batch{SessionID: "s", Epoch: old.Epoch, Records: ahead, Index: taken}, store.ErrFenced)
	k.refuse(&store.Batch{SessionID: "s", Epoch: now.Epoch, Records: ahead, Index: taken}, store.ErrConflict)
	k.refuse(&store.Batch{SessionID: "s", Epoch: now.Epoch, Records: Records("s", 1, 1, 100), Index: taken}, store.ErrExists)
}

// wantErrors compares the errors of a call with the kinds that are expected.
func wantErrors(k *kit, errs []error, want ...error) {
	k.Helper()
	for i, err := range errs {
		if !errors.Is(err, want[i]) {
			k.Errorf("batch %d: got error %v, want %v", i, err, want[i])
		}
	}
}
