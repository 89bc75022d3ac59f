package storetest

import (
	"fmt"
	"math"
	"strings"

	"agentd/store"
)

func readChecks() []check {
	return []check{
		{"a session that doesn't exist", readNothing},
		{"every range", readRanges},
		{"stop early", readStop},
		{"an iterator can be used twice", readTwice},
		{"bytes are exact", readExact},
		{"what is yielded is the caller's", readOwned},
		{"ids that are prefixes of each other", readPrefixes},
		{"ids of 128 characters", readLongIDs},
		{"large records", readLarge},
		{"many records", readMany},
	}
}

func readNothing(k *kit) {
	k.grow("other", 3, 100)
	k.claim("claimed")
	for _, id := range []string{"absent", "claimed", "othe", "other2"} {
		k.requireRecords(id, nil)
		for _, r := range []store.Range{{Reverse: true}, {After: 1, Limit: 3}, {Before: 2}} {
			if got := k.read(id, r); len(got) != 0 {
				k.Errorf("Read(%s, %+v) yields %d records of a session that doesn't exist", id, r, len(got))
			}
		}
	}
}

func readRanges(k *kit) {
	k.grow("r", 3, 100) // a neighbour on each side
	k.grow("t", 3, 100)
	all := k.grow("s", 10, 100)
	for _, after := range []uint64{0, 1, 5, 9, 10, 11, math.MaxUint64 - 1, math.MaxUint64} {
		for _, before := range []uint64{0, 1, 2, 6, 10, 11, 12, math.MaxUint64} {
			for _, limit := range []int{0, 1, 3, 10, 100, math.MaxInt} {
				for _, reverse := range []bool{false, true} {
					r := store.Range{After: after, Before: before, Limit: limit, Reverse: reverse}
					if d := diffRecords(k.read("s", r), inRange(all, r)); d != "" {
						k.Errorf("Read(%+v): %s", r, d)
					}
				}
			}
		}
	}
}

func readStop(k *kit) {
	k.grow("s", 20, 100)
	for _, reverse := range []bool{false, true} {
		n := 0
		for _, err := range k.s.Read(k.ctx, "s", store.Range{Reverse: reverse}) {
			if err != nil {
				k.Fatalf("Read: %v", err)
			}
			if n++; n == 7 {
				break
			}
		}
		if n != 7 {
			k.Errorf("the loop ran %d times, want 7", n)
		}
	}
	k.grow("s", 1, 100)
}

func readTwice(k *kit) {
	all := k.grow("s", 5, 100)
	seq := k.s.Read(k.ctx, "s", store.Range{After: 1})
	for range 2 {
		if d := diffRecords(collectAll(k, "Read", seq), all[1:]); d != "" {
			k.Errorf("%s", d)
		}
	}
}

// readExact holds JSON that a store which parses and prints again would change,
// and hashes that have nothing to do with the data.
func readExact(k *kit) {
	c := k.claim("s")
	var records []store.Record
	for i, data := range []string{
		`{"b":1, "a" : [ 1.0,1e3 ,-0 ],  "a":"twice"}`, "{\n\t\"z\": \"\\u0000\\u00e9é\\/\"\r\n}", `{}`, ` {"x":12345678901234567890123} `,
		`{"emoji":"🙂","lone":"\ud800"}`, `"` + strings.Repeat(`\\`, 500) + `'$1 ?; --"`, "\x00\x01\xfe\xff",
	} {
		r := store.Record{Sequence: uint64(i) + 1, Data: []byte(data)}
		for j := range r.Hash {
			r.Hash[j] = byte(i * j)
		}
		records = append(records, r)
	}
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: records})
	k.requireRecords("s", records)
	k.reopen()
	k.requireRecords("s", records)
}

func readOwned(k *kit) {
	all := k.grow("s", 5, 100)
	for _, r := range k.read("s", store.Range{}) {
		clear(r.Data)
	}
	k.requireRecords("s", all)
}

func readPrefixes(k *kit) {
	ids := []string{"a", "a1", "a:1", "a.b", "a-", "a_", "aa", "A", "a10", "a2", "1", "10"}
	want := map[string][]store.Record{}
	for i, id := range ids {
		want[id] = k.grow(id, 3+i, 100)
	}
	for _, id := range ids {
		k.requireRecords(id, want[id])
		r := store.Range{Reverse: true, Limit: 2}
		if d := diffRecords(k.read(id, r), inRange(want[id], r)); d != "" {
			k.Errorf("session %s: %s", id, d)
		}
	}
}

func readLongIDs(k *kit) {
	base := strings.Repeat("x", 127)
	ids := []string{base, base + "x", base + "y", "x" + strings.Repeat("_.:-", 31) + "end"}
	want := map[string][]store.Record{}
	for i, id := range ids {
		want[id] = k.grow(id, 1+i, 100)
	}
	for _, id := range ids {
		k.requireRecords(id, want[id])
	}
}

func readLarge(k *kit) {
	all := k.grow("s", 3, 1<<20)
	k.requireRecords("s", all)
	if d := diffRecords(k.read("s", store.Range{Reverse: true, Limit: 1}), all[2:]); d != "" {
		k.Errorf("the newest: %s", d)
	}
	k.reopen()
	k.requireRecords("s", all)
}

// readMany crosses every place where the encoding of a sequence gets longer, and
// the page sizes that an engine may have.
func readMany(k *kit) {
	const total, step = 10_000, 500
	all := Records("s", 1, total, 60)
	c := k.claim("s")
	for at := 0; at < total; at += step {
		k.mustAppend(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: all[at : at+step]})
	}
	k.requireRecords("s", all)
	for _, r := range []store.Range{
		{Reverse: true},
		{After: 254, Before: 258},
		{After: 254, Before: 258, Reverse: true},
		{After: 9_990},
		{Before: 1_025, Reverse: true, Limit: 5_000},
		{After: 100, Limit: 5_000},
		{After: 4_095, Before: 8_193},
	} {
		if d := diffRecords(k.read("s", r), inRange(all, r)); d != "" {
			k.Errorf("Read(%+v): %s", r, d)
		}
	}
	for at := uint64(0); at < total; at += 999 { // paging, as a client does it
		page := k.read("s", store.Range{After: at, Limit: 999})
		if err := contiguous(page, at+1); err != nil {
			k.Errorf("page after %d: %v", at, err)
		}
	}
}

// contiguous checks that records are numbered from first without gaps.
func contiguous(records []store.Record, first uint64) error {
	for i, r := range records {
		if want := first + uint64(i); r.Sequence != want {
			return fmt.Errorf("sequence %d where %d is next", r.Sequence, want)
		}
	}
	return nil
}
