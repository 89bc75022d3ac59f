package storetest

import (
	"fmt"
	"slices"
	"strings"

	"agentd/store"
)

func snapshotChecks() []check {
	return []check{
		{"put, replace, not found", snapshotPut},
		{"list in order", snapshotList},
		{"sessions and names that are prefixes of each other", snapshotPrefixes},
		{"empty and large data", snapshotSizes},
	}
}

func sessionsChecks() []check {
	return []check{
		{"in order, after an id", sessionsOrder},
		{"only those with records", sessionsWithRecords},
		{"many", sessionsMany},
	}
}

// snap writes one snapshot and returns it.
func (k *kit) snap(id, name string, seq uint64, data []byte) store.Snapshot {
	k.Helper()
	s := store.Snapshot{SessionID: id, Name: name, Sequence: seq, Hash: store.Genesis(name), Data: data}
	k.mustAppend(&store.Batch{SessionID: id, Epoch: k.claim(id).Epoch, Snapshots: []store.Snapshot{s}})
	return s
}

func snapshotPut(k *kit) {
	k.snapshotIs("s", "state", nil)
	k.grow("s", 3, 100)
	first := k.snap("s", "state", 1, []byte("first"))
	k.snapshotIs("s", "state", &first)
	second := k.snap("s", "state", 3, []byte("2nd"))
	k.snapshotIs("s", "state", &second)
	k.snapshotIs("s", "stat", nil)
	k.snapshotIs("s", "state2", nil)
	k.snapshotIs("t", "state", nil)
	k.reopen()
	k.snapshotIs("s", "state", &second)
}

func snapshotList(k *kit) {
	k.snapshotsAre("s", nil)
	var want []store.Snapshot
	for i, name := range []string{"b", "a", "C", "a/1", "a1", "ab", "state", "thread.x", "thread:x"} {
		want = append(want, k.snap("s", name, uint64(i), fmt.Appendf(nil, "data of %s", name)))
	}
	k.snap("s2", "a", 1, []byte("another session's"))
	slices.SortFunc(want, func(a, b store.Snapshot) int { return strings.Compare(a.Name, b.Name) })
	k.snapshotsAre("s", want)
	want[0] = k.snap("s", want[0].Name, 99, []byte("replaced"))
	k.snapshotsAre("s", want)
}

func (k *kit) snapshotsAre(id string, want []store.Snapshot) {
	k.Helper()
	got := collectAll(k, "Snapshots", k.s.Snapshots(k.ctx, id))
	if !slices.EqualFunc(got, want, equalSnapshot) {
		k.Errorf("Snapshots(%s) = %s, want %s", id, snapshotTexts(got), snapshotTexts(want))
	}
}

func snapshotTexts(list []store.Snapshot) []string {
	var texts []string
	for _, s := range list {
		texts = append(texts, snapshotText(s))
	}
	return texts
}

func snapshotPrefixes(k *kit) {
	want := map[[2]string]store.Snapshot{}
	for _, id := range []string{"a", "a1", "a:1", "a.b"} {
		for _, name := range []string{"b", "1b", ":1b", ".bb", "1"} { // "a" and "1b" look like "a1" and "b"
			want[[2]string{id, name}] = k.snap(id, name, 1, []byte(id+"|"+name))
		}
	}
	for at, snap := range want {
		k.snapshotIs(at[0], at[1], &snap)
	}
	for _, id := range []string{"a", "a1", "a:1", "a.b"} {
		if got := collectAll(k, "Snapshots", k.s.Snapshots(k.ctx, id)); len(got) != 5 {
			k.Errorf("Snapshots(%s) yields %d, want 5", id, len(got))
		}
	}
}

func snapshotSizes(k *kit) {
	empty := k.snap("s", "empty", 0, nil)
	large := k.snap("s", "large", 0, padding(3, 2<<20))
	k.snapshotIs("s", "empty", &empty)
	k.snapshotIs("s", "large", &large)
	k.snapshotsAre("s", []store.Snapshot{empty, large})
}

// sessionsOrder has ids whose order differs between bytes and a language.
func sessionsOrder(k *kit) {
	ids := []string{"a", "B", "b", "A", "a1", "a:1", "a.b", "a-b", "a_b", "a10", "a2", "Z", "z", "0", "9"}
	for _, id := range ids {
		k.grow(id, 1, 50)
	}
	slices.Sort(ids)
	for _, after := range append([]string{"", "a0", "a:", "~", "!"}, ids...) {
		var want []string
		for _, id := range ids {
			if id > after {
				want = append(want, id)
			}
		}
		if got := k.sessionsAfter(after); !slices.Equal(got, want) {
			k.Errorf("Sessions(%q) = %q, want %q", after, got, want)
		}
	}
	for id, err := range k.s.Sessions(k.ctx, "") {
		if err != nil || id != ids[0] {
			k.Errorf("the first session is %q, %v, want %q", id, err, ids[0])
		}
		break
	}
}

func sessionsWithRecords(k *kit) {
	k.claim("claimed")
	k.snap("snapshot", "name", 1, []byte("x"))
	k.mustAppend(&store.Batch{SessionID: "indexed", Epoch: k.claim("indexed").Epoch, Index: []store.IndexOp{putOp("k", "key", "v")}})
	k.refuse(&store.Batch{SessionID: "refused", Epoch: 1, Records: Records("refused", 1, 1, 50)}, store.ErrFenced)
	if got := k.sessionsAfter(""); len(got) != 0 {
		k.Errorf("Sessions = %q, want none", got)
	}
	k.grow("snapshot", 1, 50)
	for range 2 {
		if got := k.sessionsAfter(""); !slices.Equal(got, []string{"snapshot"}) {
			k.Errorf("Sessions = %q, want the one with records", got)
		}
		k.reopen()
	}
}

func sessionsMany(k *kit) {
	const n = 1_500
	var batches []*store.Batch
	want := make([]string, n)
	for i := range n {
		want[i] = fmt.Sprintf("sess_%05d", i)
		batches = append(batches, &store.Batch{SessionID: want[i], Epoch: k.claim(want[i]).Epoch, Records: Records(want[i], 1, 2, 50)})
	}
	k.mustAppend(batches...)
	if got := k.sessionsAfter(""); !slices.Equal(got, want) {
		k.Errorf("Sessions yields %d ids, want %d in order", len(got), n)
	}
	if got := k.sessionsAfter(want[700]); !slices.Equal(got, want[701:]) {
		k.Errorf("Sessions after the 700th yields %d ids, want %d", len(got), n-701)
	}
}
