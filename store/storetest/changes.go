package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"agentd/store"
)

func changesChecks() []check {
	return []check{
		{"every write of records, in order", changesInOrder},
		{"on from the position of each", changesResume},
		{"what failed, and what has no records, is none", changesOfNothing},
		{"a position is after everything", changesPosition},
		{"a text that is no position", changesBadPosition},
		{"they stay when records go", changesAfterTrim},
		{"readers beside writers get each once", changesBesideWriters},
		{"readers beside writers on two nodes get each once", changesOfNodes},
	}
}

// position returns where the changes end.
func (k *kit) position() string {
	k.Helper()
	p, err := k.s.Position(k.ctx)
	if err != nil {
		k.Fatalf("Position: %v", err)
	}
	return p
}

// changesAre checks what was written after a position, but for the positions.
func (k *kit) changesAre(after string, want ...store.Change) []store.Change {
	k.Helper()
	got := collectAll(k, fmt.Sprintf("Changes(%q)", after), k.s.Changes(k.ctx, after))
	if d := diffChanges(got, want); d != "" {
		k.Errorf("Changes(%q): %s", after, d)
	}
	return got
}

func diffChanges(got, want []store.Change) string {
	for i := range min(len(got), len(want)) {
		g, w := got[i], want[i]
		if g.SessionID != w.SessionID || g.First != w.First || g.Last != w.Last {
			return fmt.Sprintf("change %d is %+v, want %+v", i, g, w)
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d changes, want %d", len(got), len(want))
	}
	return ""
}

func changesInOrder(k *kit) {
	start := k.position()
	k.changesAre(start)
	k.grow("a", 3, 100)
	k.grow("b", 1, 100)
	k.grow("a", 1, 100)
	want := []store.Change{{SessionID: "a", First: 1, Last: 3}, {SessionID: "b", First: 1, Last: 1}, {SessionID: "a", First: 4, Last: 4}}
	k.changesAre(start, want...)
	k.reopen()
	k.changesAre(start, want...)
	k.grow("c", 2, 100)
	k.changesAre(start, append(want, store.Change{SessionID: "c", First: 1, Last: 2})...)
}

// manyChanges is more than an engine reads at a time.
const manyChanges = 700

func changesResume(k *kit) {
	start := k.position()
	a, b := k.claim("a"), k.claim("b")
	recordsA, recordsB := Records("a", 1, manyChanges/2, 80), Records("b", 1, manyChanges/2, 80)
	for i := range manyChanges / 2 {
		k.mustAppend(
			&store.Batch{SessionID: "a", Epoch: a.Epoch, Records: recordsA[i : i+1]},
			&store.Batch{SessionID: "b", Epoch: b.Epoch, Records: recordsB[i : i+1]})
	}
	all := collectAll(k, "Changes", k.s.Changes(k.ctx, start))
	if len(all) != manyChanges {
		k.Fatalf("%d changes, want %d", len(all), manyChanges)
	}
	for i := 0; i < len(all); i += 97 {
		k.changesAre(all[i].Position, all[i+1:]...)
	}
	// Step by step, as one who is cut off after each.
	for at, i := start, 0; i < 20; i++ {
		for c, err := range k.s.Changes(k.ctx, at) {
			if err != nil || diffChanges([]store.Change{c}, all[i:i+1]) != "" {
				k.Fatalf("change %d is %+v, %v, want %+v", i, c, err, all[i])
			}
			at = c.Position
			break
		}
	}
}

func changesOfNothing(k *kit) {
	start := k.position()
	c := k.claim("s")
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: c.Epoch, Index: []store.IndexOp{putOp("k", "key", "v")}})
	k.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: Records("s", 2, 1, 100)}, store.ErrConflict)
	k.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch + 1, Records: Records("s", 1, 1, 100)}, store.ErrFenced)
	k.changesAre(start)
	errs := k.append(
		&store.Batch{SessionID: "t", Epoch: k.claim("t").Epoch, Records: Records("t", 1, 2, 100)},
		&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: Records("s", 7, 1, 100)})
	if errs[0] != nil || !errors.Is(errs[1], store.ErrConflict) {
		k.Fatalf("Append: %v", errs)
	}
	k.changesAre(start, store.Change{SessionID: "t", First: 1, Last: 2})
}

func changesPosition(k *kit) {
	for i := range uint64(3) {
		k.grow("s", 2, 100)
		at := k.position()
		k.changesAre(at)
		k.grow("t", 1, 100)
		k.changesAre(at, store.Change{SessionID: "t", First: i + 1, Last: i + 1})
	}
}

func changesBadPosition(k *kit) {
	k.grow("s", 1, 100)
	k.changesAre("", store.Change{SessionID: "s", First: 1, Last: 1})
	for _, text := range []string{"x", "-1", "1.5", "\x00", "1/2/3", "99999999999999999999999"} {
		if _, err := drainSeq(k.s.Changes(k.ctx, text)); !errors.Is(err, store.ErrPosition) {
			k.Errorf("Changes(%q): %v, want ErrPosition", text, err)
		}
	}
}

func changesAfterTrim(k *kit) {
	start := k.position()
	all := k.grow("s", 4, 100)
	k.trim("s", all[:2])
	k.changesAre(start, store.Change{SessionID: "s", First: 1, Last: 4})
}

func changesBesideWriters(k *kit) {
	readBesideWriters(k, []store.Store{k.s})
}

func changesOfNodes(k *kit) {
	readBesideWriters(k, []store.Store{k.s, k.other()})
}

// readBesideWriters follows the changes on each node, from change to change, while
// sessions grow on all of them.
func readBesideWriters(k *kit, nodes []store.Store) {
	const writers, writes = 4, 40
	start := k.position()
	errs := make([]error, len(nodes)*(writers+1))
	var wg sync.WaitGroup
	for n, s := range nodes {
		for w := range writers {
			wg.Go(func() { errs[n*(writers+1)+w] = writeMany(k.ctx, s, fmt.Sprintf("s%d-%d", n, w), writes) })
		}
		wg.Go(func() { errs[n*(writers+1)+writers] = followChanges(k.ctx, s, start, len(nodes)*writers*writes) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		k.Errorf("%v", err)
	}
}

func writeMany(ctx context.Context, s store.Store, id string, writes int) error {
	c, err := s.Claim(ctx, id)
	if err != nil {
		return err
	}
	head := c.Head
	for range writes {
		r := Continue(id, head, 2, 80)
		if err := s.Append(ctx, []*store.Batch{{SessionID: id, Epoch: c.Epoch, Records: r}})[0]; err != nil {
			return fmt.Errorf("append to %s: %w", id, err)
		}
		head = HeadOf(r)
	}
	return nil
}

// followChanges reads changes until there were as many writes as given, each of two
// records, beginning again now and then.
func followChanges(ctx context.Context, s store.Store, at string, writes int) error {
	seen := map[string]uint64{}
	for left := writes * 2; left > 0; {
		n := 0
		for c, err := range s.Changes(ctx, at) {
			if err != nil {
				return err
			}
			if c.First != seen[c.SessionID]+1 || c.Last < c.First {
				return fmt.Errorf("change %+v comes after %d", c, seen[c.SessionID])
			}
			seen[c.SessionID] = c.Last
			left -= int(c.Last - c.First + 1)
			at = c.Position
			if n++; n == 7 {
				break
			}
		}
	}
	return nil
}
