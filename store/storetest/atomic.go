package storetest

import (
	"crypto/sha256"
	"errors"

	"agentd/store"
)

func atomicChecks() []check {
	return []check{
		{"ErrConflict leaves nothing", func(k *kit) { leavesNothing(k, store.ErrConflict) }},
		{"ErrFenced leaves nothing", func(k *kit) { leavesNothing(k, store.ErrFenced) }},
		{"ErrExists leaves nothing", func(k *kit) { leavesNothing(k, store.ErrExists) }},
		{"success leaves everything", leavesEverything},
		{"a blob that was there survives a failed batch", oldBlobSurvives},
	}
}

// fullBatch returns a batch with something of everything, for a session that holds
// one record and for which taken is a key that exists.
func fullBatch(epoch uint64) *store.Batch {
	r := Records("s", 2, 2, 300)
	return &store.Batch{
		SessionID: "s", Epoch: epoch, Records: r,
		Snapshots: []store.Snapshot{
			{SessionID: "s", Name: "old", Sequence: 3, Hash: r[1].Hash, Data: []byte("replaced")},
			{SessionID: "s", Name: "new", Sequence: 3, Hash: r[1].Hash, Data: []byte("new")},
		},
		Index: []store.IndexOp{
			putOp("kind", "old", "replaced"), putOp("kind", "new", "new"), removeOp("kind", "removed"), putNew("kind", "absent", "x"),
		},
		Blobs: [][]byte{[]byte("a blob of the batch")},
	}
}

func prepareAtomic(k *kit) store.Claim {
	c := k.claim("s")
	k.mustAppend(&store.Batch{
		SessionID: "s", Epoch: c.Epoch, Records: Records("s", 1, 1, 300),
		Snapshots: []store.Snapshot{{SessionID: "s", Name: "old", Sequence: 1, Data: []byte("first")}},
		Index:     []store.IndexOp{putOp("kind", "old", "first"), putOp("kind", "removed", "still here"), putOp("kind", "taken", "t")},
	})
	return c
}

func leavesNothing(k *kit, want error) {
	c := prepareAtomic(k)
	b := fullBatch(c.Epoch)
	switch {
	case errors.Is(want, store.ErrConflict):
		b.Records = b.Records[1:]
	case errors.Is(want, store.ErrFenced):
		k.claim("s")
	case errors.Is(want, store.ErrExists):
		b.Index = append(b.Index, putNew("kind", "taken", "x"))
	}
	k.refuse(b, want)
	untouched(k)
	k.reopen()
	untouched(k)
}

// untouched checks that all is as prepare left it.
func untouched(k *kit) {
	k.Helper()
	k.requireRecords("s", Records("s", 1, 1, 300))
	k.snapshotIs("s", "old", &store.Snapshot{SessionID: "s", Name: "old", Sequence: 1, Data: []byte("first")})
	k.snapshotIs("s", "new", nil)
	k.scanIs(store.Scan{Kind: "kind"}, map[string][]byte{"old": []byte("first"), "removed": []byte("still here"), "taken": []byte("t")})
	k.blobIs(refOf([]byte("a blob of the batch")), nil)
}

func leavesEverything(k *kit) {
	b := fullBatch(prepareAtomic(k).Epoch)
	k.mustAppend(b)
	for range 2 {
		k.requireRecords("s", Records("s", 1, 3, 300))
		k.snapshotIs("s", "old", &b.Snapshots[0])
		k.snapshotIs("s", "new", &b.Snapshots[1])
		k.scanIs(store.Scan{Kind: "kind"}, map[string][]byte{
			"old": []byte("replaced"), "new": []byte("new"), "absent": []byte("x"), "taken": []byte("t"),
		})
		k.blobIs(refOf(b.Blobs[0]), b.Blobs[0])
		k.reopen()
	}
}

func oldBlobSurvives(k *kit) {
	b := fullBatch(prepareAtomic(k).Epoch)
	k.putBlob(b.Blobs[0])
	b.Records = b.Records[1:]
	k.refuse(b, store.ErrConflict)
	k.blobIs(refOf(b.Blobs[0]), b.Blobs[0])
}

func refOf(content []byte) string { return store.RefOf(sha256.Sum256(content)) }

func infoOf(content []byte) store.BlobInfo {
	return store.BlobInfo{Ref: refOf(content), Size: int64(len(content))}
}
