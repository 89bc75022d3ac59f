package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"agentd/store"
)

// claim claims a session and fails the check if it can't.
func (k *kit) claim(id string) store.Claim {
	k.Helper()
	c, err := k.s.Claim(k.ctx, id)
	if err != nil {
		k.Fatalf("Claim(%s): %v", shortID(id), err)
	}
	return c
}

// append writes batches and returns their errors, one for each.
func (k *kit) append(batches ...*store.Batch) []error {
	k.Helper()
	errs := k.s.Append(k.ctx, batches)
	if len(errs) != len(batches) {
		k.Fatalf("Append of %d batches returned %d errors", len(batches), len(errs))
	}
	return errs
}

// mustAppend writes batches that have to succeed.
func (k *kit) mustAppend(batches ...*store.Batch) {
	k.Helper()
	for i, err := range k.append(batches...) {
		if err != nil {
			k.Fatalf("Append, batch %d of session %s: %v", i, shortID(batches[i].SessionID), err)
		}
	}
}

// refuse writes one batch that has to fail with want.
func (k *kit) refuse(b *store.Batch, want error) {
	k.Helper()
	if err := k.append(b)[0]; !errors.Is(err, want) {
		k.Errorf("Append to session %s: got error %v, want %v", shortID(b.SessionID), err, want)
	}
}

// grow claims a session, appends n records after its head and returns them.
func (k *kit) grow(id string, n, size int) []store.Record {
	k.Helper()
	c := k.claim(id)
	records := Continue(id, c.Head, n, size)
	k.mustAppend(&store.Batch{SessionID: id, Epoch: c.Epoch, Records: records})
	return records
}

// read returns what a range selects.
func (k *kit) read(id string, r store.Range) []store.Record {
	k.Helper()
	return collectAll(k, fmt.Sprintf("Read(%s, %+v)", shortID(id), r), k.s.Read(k.ctx, id, r))
}

// requireRecords fails unless a session consists of exactly these records.
func (k *kit) requireRecords(id string, want []store.Record) {
	k.Helper()
	if d := diffRecords(k.read(id, store.Range{}), want); d != "" {
		k.Errorf("session %s: %s", shortID(id), d)
	}
	k.headIs(id, HeadOf(want))
}

func (k *kit) head(id string) store.Head {
	k.Helper()
	h, err := k.s.Head(k.ctx, id)
	if err != nil {
		k.Fatalf("Head(%s): %v", shortID(id), err)
	}
	return h
}

func (k *kit) headIs(id string, want store.Head) {
	k.Helper()
	if got := k.head(id); got != want {
		k.Errorf("the head of session %s is %d %.4x, want %d %.4x", shortID(id), got.Sequence, got.Hash, want.Sequence, want.Hash)
	}
}

// value checks an index entry; a nil want means that it must be absent.
func (k *kit) value(kind, key string, want []byte) {
	k.Helper()
	got, err := k.s.Get(k.ctx, kind, key)
	switch {
	case want == nil && !errors.Is(err, store.ErrNotFound):
		k.Errorf("Get(%s, %q) = %s, %v, want ErrNotFound", kind, key, quoteBytes(got), err)
	case want != nil && (err != nil || !bytes.Equal(got, want)):
		k.Errorf("Get(%s, %q) = %s, %v, want %s", kind, key, quoteBytes(got), err, quoteBytes(want))
	}
}

// scan returns what a scan selects.
func (k *kit) scan(s store.Scan) []store.Entry {
	k.Helper()
	return collectAll(k, fmt.Sprintf("Scan(%s)", describeScan(s)), k.s.Scan(k.ctx, s))
}

// scanIs compares a scan with the reference's.
func (k *kit) scanIs(s store.Scan, kind map[string][]byte) {
	k.Helper()
	got, want := k.scan(s), scanMap(kind, s)
	if !equalEntries(got, want) {
		k.Errorf("Scan(%s) = %s, want %s", describeScan(s), entriesText(got), entriesText(want))
	}
}

func equalEntries(a, b []store.Entry) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Kind != b[i].Kind || a[i].Key != b[i].Key || !bytes.Equal(a[i].Value, b[i].Value) {
			return false
		}
	}
	return true
}

func entriesText(list []store.Entry) string {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, " %s/%q=%s", e.Kind, e.Key, quoteBytes(e.Value))
	}
	return "[" + strings.TrimPrefix(b.String(), " ") + "]"
}

// snapshotIs checks a snapshot; a nil want means that it must be absent.
func (k *kit) snapshotIs(id, name string, want *store.Snapshot) {
	k.Helper()
	got, err := k.s.Snapshot(k.ctx, id, name)
	switch {
	case want == nil && !errors.Is(err, store.ErrNotFound):
		k.Errorf("Snapshot(%s, %s) = %s, %v, want ErrNotFound", shortID(id), name, snapshotText(got), err)
	case want != nil && (err != nil || !equalSnapshot(got, *want)):
		k.Errorf("Snapshot(%s, %s) = %s, %v, want %s", shortID(id), name, snapshotText(got), err, snapshotText(*want))
	}
}

func equalSnapshot(a, b store.Snapshot) bool {
	same := bytes.Equal(a.Data, b.Data)
	return same && a.SessionID == b.SessionID && a.Name == b.Name && a.Sequence == b.Sequence && a.Hash == b.Hash
}

// putBlob stores a blob and fails the check if it can't.
func (k *kit) putBlob(content []byte) store.BlobInfo {
	k.Helper()
	info, err := k.s.PutBlob(k.ctx, bytes.NewReader(content))
	if err != nil {
		k.Fatalf("PutBlob of %d bytes: %v", len(content), err)
	}
	if want := infoOf(content); info != want {
		k.Fatalf("PutBlob = %+v, want %+v", info, want)
	}
	return info
}

// blobIs checks a blob's content; a nil want means that it must be absent.
func (k *kit) blobIs(ref string, want []byte) {
	k.Helper()
	b, err := k.s.OpenBlob(k.ctx, ref)
	if want == nil {
		if !errors.Is(err, store.ErrNotFound) {
			k.Errorf("OpenBlob(%.15s): %v, want ErrNotFound", ref, err)
		}
		return
	}
	if err != nil {
		k.Errorf("OpenBlob(%.15s): %v", ref, err)
		return
	}
	got, err := io.ReadAll(b)
	if err != nil || !bytes.Equal(got, want) {
		k.Errorf("blob %.15s: read %d bytes, %v, want the %d that were put", ref, len(got), err, len(want))
	}
	if b.Info() != infoOf(want) {
		k.Errorf("the info of blob %.15s is %+v, want %+v", ref, b.Info(), infoOf(want))
	}
	if err := b.Close(); err != nil {
		k.Errorf("close blob %.15s: %v", ref, err)
	}
}

// sessionsAfter returns the ids of all sessions after one.
func (k *kit) sessionsAfter(id string) []string {
	k.Helper()
	return collectAll(k, fmt.Sprintf("Sessions(%s)", shortID(id)), k.s.Sessions(k.ctx, id))
}

// collectAll drains an iterator without copying: engines must not reuse buffers.
func collectAll[V any](r reporter, what string, seq iter.Seq2[V, error]) []V {
	r.Helper()
	list, err := drainSeq(seq)
	if err != nil {
		r.Fatalf("%s, after %d: %v", what, len(list), err)
	}
	return list
}

func drainSeq[V any](seq iter.Seq2[V, error]) ([]V, error) {
	var list []V
	for v, err := range seq {
		if err != nil {
			return list, err
		}
		list = append(list, v)
	}
	return list, nil
}

// quoteBytes prints bytes, long ones in part.
func quoteBytes(p []byte) string {
	if len(p) > 40 {
		return fmt.Sprintf("%q…(%d)", p[:30], len(p))
	}
	return fmt.Sprintf("%q", p)
}

func snapshotText(s store.Snapshot) string {
	return fmt.Sprintf("{%s %s at %d %.4x %s}", shortID(s.SessionID), s.Name, s.Sequence, s.Hash, quoteBytes(s.Data))
}

// shortID keeps long ids out of messages.
func shortID(id string) string {
	if len(id) > 24 {
		return fmt.Sprintf("%s…(%d)", id[:20], len(id))
	}
	return id
}

func putOp(kind, key, value string) store.IndexOp {
	return store.IndexOp{Entry: store.Entry{Kind: kind, Key: key, Value: []byte(value)}}
}

func putNew(kind, key, value string) store.IndexOp {
	op := putOp(kind, key, value)
	op.IfAbsent = true
	return op
}

func removeOp(kind, key string) store.IndexOp {
	return store.IndexOp{Entry: store.Entry{Kind: kind, Key: key}, Delete: true}
}

// describeScan prints a scan so that odd bytes can be read.
func describeScan(s store.Scan) string {
	return fmt.Sprintf("%s prefix %q after %q limit %d reverse %v", s.Kind, s.Prefix, s.After, s.Limit, s.Reverse)
}
