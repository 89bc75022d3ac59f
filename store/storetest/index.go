package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"agentd/store"

	"pgregory.net/rapid"
)

func indexChecks() []check {
	return []check{
		{"put, replace, delete", indexPut},
		{"operations of a batch apply in order", indexOrder},
		{"only if absent", indexIfAbsent},
		{"only if absent, across sessions in one call", indexIfAbsentAcross},
		{"fresh ones, and some that are said to be", indexFresh},
		{"empty and large values", indexValues},
		{"keys with any bytes", indexBytes},
		{"kinds that are prefixes of each other", indexKinds},
		{"stop early, and what is yielded is the caller's", indexStop},
		{"scans against a map", indexProperty},
		{"paging with a cursor", indexPaging},
	}
}

// ops applies index operations in one batch of the session "index".
func (k *kit) ops(ops ...store.IndexOp) {
	k.Helper()
	k.mustAppend(&store.Batch{SessionID: "index", Epoch: k.claim("index").Epoch, Index: ops})
}

func indexPut(k *kit) {
	k.value("kind", "key", nil)
	k.ops(putOp("kind", "key", "1"))
	k.value("kind", "key", []byte("1"))
	k.ops(putOp("kind", "key", "2"), putOp("kind", "key2", "x"))
	k.value("kind", "key", []byte("2"))
	k.ops(removeOp("kind", "key"), removeOp("kind", "absent"), removeOp("nokind", "absent"))
	k.value("kind", "key", nil)
	k.scanIs(store.Scan{Kind: "kind"}, map[string][]byte{"key2": []byte("x")})
	k.scanIs(store.Scan{Kind: "nokind"}, nil)
}

func indexOrder(k *kit) {
	k.ops(putOp("k", "a", "old"), putOp("k", "c", "old"))
	k.ops(putOp("k", "a", "1"), putOp("k", "a", "2"), putOp("k", "b", "1"), removeOp("k", "b"), removeOp("k", "c"), putOp("k", "c", "new"))
	k.scanIs(store.Scan{Kind: "k"}, map[string][]byte{"a": []byte("2"), "c": []byte("new")})
}

func indexIfAbsent(k *kit) {
	k.ops(putNew("k", "a", "first"))
	c := k.claim("s")
	k.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch, Index: []store.IndexOp{putNew("k", "a", "second")}}, store.ErrExists)
	k.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch, Index: []store.IndexOp{putNew("k", "b", "1"), putNew("k", "b", "2")}}, store.ErrExists)
	k.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch, Index: []store.IndexOp{putOp("k", "c", "1"), putNew("k", "c", "2")}}, store.ErrExists)
	guard := removeOp("k", "a") // a delete can be guarded too, absurd as it is
	guard.IfAbsent = true
	k.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch, Index: []store.IndexOp{guard}}, store.ErrExists)
	k.scanIs(store.Scan{Kind: "k"}, map[string][]byte{"a": []byte("first")})
	k.ops(removeOp("k", "a"), putNew("k", "a", "third"))
	k.value("k", "a", []byte("third"))
	k.ops(removeOp("k", "a"))
	k.ops(putNew("k", "a", ""))
	c = k.claim("s")
	k.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch, Index: []store.IndexOp{putNew("k", "a", "an empty value is a value")}}, store.ErrExists)
}

func indexIfAbsentAcross(k *kit) {
	a, b, c, d := k.claim("a"), k.claim("b"), k.claim("c"), k.claim("d")
	batch := func(id string, epoch, first uint64, ops ...store.IndexOp) *store.Batch {
		return &store.Batch{SessionID: id, Epoch: epoch, Records: Records(id, first, 1, 100), Index: ops}
	}
	errs := k.append(
		batch("a", a.Epoch, 2, putNew("k", "x", "a")), // fails, so x stays free
		batch("b", b.Epoch, 1, putNew("k", "x", "b")),
		batch("c", c.Epoch, 1, putNew("k", "x", "c")),
		batch("b", b.Epoch, 2, removeOp("k", "x")),
		batch("d", d.Epoch, 1, putNew("k", "x", "d")),
	)
	wantErrors(k, errs, store.ErrConflict, nil, store.ErrExists, nil, nil)
	k.value("k", "x", []byte("d"))
	k.requireRecords("a", nil)
	k.requireRecords("c", nil)
}

func putFresh(kind, key, value string) store.IndexOp {
	op := putOp(kind, key, value)
	op.Fresh = true
	return op
}

func indexFresh(k *kit) {
	a, b, c := k.claim("a"), k.claim("b"), k.claim("c")
	batch := func(id string, epoch, first uint64, ops ...store.IndexOp) *store.Batch {
		return &store.Batch{SessionID: id, Epoch: epoch, Records: Records(id, first, 1, 100), Index: ops}
	}
	k.ops(putFresh("k", "w", "1"), putFresh("k", "x", "1"), removeOp("k", "x"), putFresh("k", "y", "1"), putFresh("k", "y", "2"))
	k.scanIs(store.Scan{Kind: "k"}, map[string][]byte{"w": []byte("1"), "y": []byte("2")})
	errs := k.append(
		batch("a", a.Epoch, 1, putFresh("k", "w", "there after all"), putFresh("k", "z", "1")),
		batch("b", b.Epoch, 1, putNew("k", "y", "refused")),
		batch("c", c.Epoch, 1, putFresh("k", "v", "1"), removeOp("k", "y")),
	)
	wantErrors(k, errs, nil, store.ErrExists, nil)
	k.scanIs(store.Scan{Kind: "k"}, map[string][]byte{"v": []byte("1"), "w": []byte("there after all"), "z": []byte("1")})
}

func indexValues(k *kit) {
	large := string(padding(7, 300<<10))
	k.ops(putOp("k", "empty", ""), putOp("k", "large", large), putOp("k", "zeros", "\x00\x00"))
	want := map[string][]byte{"empty": {}, "large": []byte(large), "zeros": []byte("\x00\x00")}
	k.scanIs(store.Scan{Kind: "k"}, want)
	for key, v := range want {
		k.value("k", key, v)
	}
	k.ops(putOp("k", "large", ""))
	k.value("k", "large", []byte{})
}

// oddKeys are keys at the edges of what an encoding of keys gets wrong: bytes
// that sort last, that end strings, that escape, and keys that continue others.
var oddKeys = []string{
	"\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "a", "a\x00", "a\x00b", "a\x01", "a\xff", "a\xff\xff", "a\xff\xffb",
	"a/b", "aa", "b", "\x7f", "\x80", "\xc3\xa9", "\xfe", "\xfe\xff", "\xff", "\xff\x00", "\xff\xff", "\xff\xff\xff", "%", "_", "a%", "\\", "A", "Z", "z", "ä",
}

func indexBytes(k *kit) {
	var ops []store.IndexOp
	want := map[string][]byte{}
	for i, key := range oddKeys {
		want[key] = fmt.Appendf(nil, "%d", i)
		ops = append(ops, putOp("k", key, string(want[key])))
	}
	k.ops(ops...)
	edges := append([]string{""}, oddKeys...)
	for _, reverse := range []bool{false, true} {
		for _, x := range edges {
			k.scanIs(store.Scan{Kind: "k", Prefix: x, Reverse: reverse}, want)
			k.scanIs(store.Scan{Kind: "k", After: x, Reverse: reverse}, want)
			k.scanIs(store.Scan{Kind: "k", After: x, Prefix: "a", Limit: 3, Reverse: reverse}, want)
			k.scanIs(store.Scan{Kind: "k", After: x, Prefix: "\xff", Reverse: reverse}, want)
		}
	}
	for key, v := range want {
		k.value("k", key, v)
	}
	k.ops(removeOp("k", "a\xff"), removeOp("k", "\x00"))
	delete(want, "a\xff")
	delete(want, "\x00")
	k.scanIs(store.Scan{Kind: "k"}, want)
}

func indexKinds(k *kit) {
	kinds := []string{"k", "k1", "k.1", "kk", "K", "k/", "k-a", strings.Repeat("k", 64)}
	for _, kind := range kinds {
		k.ops(putOp(kind, "key", "of "+kind), putOp(kind, "1key", "1 of "+kind), putOp(kind, "\xff", "last of "+kind))
	}
	for _, kind := range kinds {
		want := map[string][]byte{"key": []byte("of " + kind), "1key": []byte("1 of " + kind), "\xff": []byte("last of " + kind)}
		k.scanIs(store.Scan{Kind: kind}, want)
		k.scanIs(store.Scan{Kind: kind, Reverse: true}, want)
		k.scanIs(store.Scan{Kind: kind, After: "\xff"}, want)
		k.value(kind, "key", want["key"])
	}
	k.ops(removeOp("k", "key"))
	k.value("k1", "key", []byte("of k1"))
}

func indexStop(k *kit) {
	var ops []store.IndexOp
	for i := range 50 {
		ops = append(ops, putOp("k", fmt.Sprintf("%02d", i), "value"))
	}
	k.ops(ops...)
	n := 0
	for _, err := range k.s.Scan(k.ctx, store.Scan{Kind: "k"}) {
		if err != nil {
			k.Fatalf("Scan: %v", err)
		}
		if n++; n == 5 {
			break
		}
	}
	all := k.scan(store.Scan{Kind: "k"})
	for _, e := range all {
		if !bytes.Equal(e.Value, []byte("value")) {
			k.Errorf("the value of %s changed after it was yielded: %q", e.Key, e.Value)
		}
		clear(e.Value)
	}
	k.value("k", "00", []byte("value"))
	if n != 5 || len(all) != 50 {
		k.Errorf("the loop ran %d times, want 5; the scan yields %d entries, want 50", n, len(all))
	}
}

// anyKey draws keys that often share prefixes and edges.
func anyKey() *rapid.Generator[string] {
	piece := rapid.SampledFrom([]string{"a", "b", "\x00", "\x01", "\xff", "\xfe", "/", "ab"})
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(piece, 1, 4).Draw(t, "pieces"), "")
	})
}

// indexProperty makes random changes in a kind of its own and compares random
// scans with those of a map.
func indexProperty(k *kit) {
	round := 0
	rapid.Check(k.tb, func(t *rapid.T) {
		k := k.withReporter(t)
		round++
		kind, want := fmt.Sprintf("p%d.", round), map[string][]byte{}
		for range rapid.IntRange(1, 3).Draw(t, "batches") {
			k.ops(anyOps(t, kind, want)...)
		}
		for range 10 {
			k.scanIs(anyScan(t, kind), want)
		}
	})
}

// anyOps draws the operations of a batch and applies them to the map too.
func anyOps(t *rapid.T, kind string, want map[string][]byte) []store.IndexOp {
	var ops []store.IndexOp
	for _, key := range rapid.SliceOfN(anyKey(), 0, 12).Draw(t, "keys") {
		if rapid.IntRange(0, 4).Draw(t, "delete") == 0 {
			ops = append(ops, removeOp(kind, key))
			delete(want, key)
			continue
		}
		value := rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "value")
		ops = append(ops, putOp(kind, key, string(value)))
		want[key] = value
	}
	return ops
}

func anyScan(t *rapid.T, kind string) store.Scan {
	edge := rapid.OneOf(rapid.Just(""), anyKey())
	return store.Scan{
		Kind:    kind,
		Prefix:  edge.Draw(t, "prefix"),
		After:   edge.Draw(t, "after"),
		Limit:   rapid.IntRange(0, 6).Draw(t, "limit"),
		Reverse: rapid.Bool().Draw(t, "reverse"),
	}
}

func indexPaging(k *kit) {
	var ops []store.IndexOp
	want := map[string][]byte{}
	for i := range 1_234 {
		key := fmt.Sprintf("item/%d\xff", i*7919%1_234)
		want[key] = []byte("v")
		ops = append(ops, putOp("k", key, "v"))
	}
	k.ops(append(ops, putOp("k", "item", "before"), putOp("k", "item0", "after"))...)
	for _, reverse := range []bool{false, true} {
		var got []store.Entry
		for cursor := ""; ; {
			page := k.scan(store.Scan{Kind: "k", Prefix: "item/", After: cursor, Limit: 100, Reverse: reverse})
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			cursor = page[len(page)-1].Key
			if len(got) > len(want) {
				break // an engine that ignores the cursor would go on for ever
			}
		}
		if reverse {
			slices.Reverse(got)
		}
		if all := scanMap(want, store.Scan{Kind: "k"}); !equalEntries(got, all) {
			k.Errorf("paging (reverse %v) found %d entries, want %d in order", reverse, len(got), len(all))
		}
	}
}
