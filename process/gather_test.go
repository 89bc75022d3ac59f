package process

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestGatherKeepsHeadAndTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.IntRange(2, 64).Draw(t, "bound")
		pieces := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 100)).Draw(t, "pieces")
		g := newGather("stdout", bound, nil, time.Now)
		var all []byte
		for _, p := range pieces {
			g.add(p)
			all = append(all, p...)
		}
		o := g.output()
		if len(o.Head)+len(o.Tail) > bound || o.Total != int64(len(all)) {
			t.Fatalf("bound %d: head %d, tail %d, total %d of %d", bound, len(o.Head), len(o.Tail), o.Total, len(all))
		}
		if !bytes.HasPrefix(all, o.Head) || !bytes.Equal(all[o.TailOffset:], o.Tail) {
			t.Fatalf("head %v, tail %v at %d of %v", o.Head, o.Tail, o.TailOffset, all)
		}
		if len(all) <= bound/2*2 && (o.Truncated() || !bytes.Equal(o.Bytes(), all)) {
			t.Fatalf("something is missing: %+v", o)
		}
		if o.Dropped() < 0 || o.Truncated() != (o.Dropped() > 0) {
			t.Fatalf("dropped %d", o.Dropped())
		}
	})
}

func TestGatherHandsOn(t *testing.T) {
	now := time.Unix(0, 0)
	var got []Chunk
	g := newGather("stdout", 100, func(c Chunk) {
		c.Data = bytes.Clone(c.Data)
		got = append(got, c)
	}, func() time.Time { return now })

	g.add([]byte("first"))
	if len(got) != 1 || got[0].Offset != 0 || string(got[0].Data) != "first" {
		t.Fatalf("the first piece waits: %v", got)
	}
	g.add([]byte("se"))
	g.add([]byte("cond"))
	if wait, pending := g.due(); len(got) != 1 || !pending || wait != gatherFor {
		t.Fatalf("pieces aren't gathered: %v, %v, %v", got, wait, pending)
	}
	g.flush()
	if len(got) != 2 || got[1].Offset != 5 || string(got[1].Data) != "second" {
		t.Fatalf("%v", got)
	}

	// A flood is handed on within the rate, with offsets that show the gap.
	got = nil
	piece := make([]byte, readSize)
	for range 100 * burstBytes / readSize {
		g.add(piece)
	}
	g.flush()
	handed := 0
	for _, c := range got {
		handed += len(c.Data)
	}
	if handed > burstBytes || handed < burstBytes-2*readSize {
		t.Errorf("%d bytes were handed on", handed)
	}
	now = now.Add(time.Second)
	got = nil
	g.add([]byte("after"))
	g.flush()
	if want := int64(11 + 100*burstBytes); len(got) != 1 || got[0].Offset != want {
		t.Errorf("after the flood: %v, want offset %d", got, want)
	}
}

// TestAFloodOfSmallPiecesIsHandedOnInLargeOnes: what a process prints faster than it is
// handed on costs few pieces, however small the reads are.
func TestAFloodOfSmallPiecesIsHandedOnInLargeOnes(t *testing.T) {
	const seconds = 60
	for _, size := range []int{512, 4 << 10, readSize} {
		now := time.Unix(0, 0)
		pieces, bytes := 0, 0
		g := newGather("stdout", 1<<20, func(c Chunk) { pieces, bytes = pieces+1, bytes+len(c.Data) }, func() time.Time { return now })
		p := make([]byte, size)
		// Ten megabytes a second, ten times what is handed on.
		step := time.Second * time.Duration(size) / (10 << 20)
		for now.Before(time.Unix(seconds, 0)) {
			g.add(p)
			now = now.Add(step)
		}
		g.flush()
		if most := 2*burstBytes/largeChunkSize + 10*seconds; pieces > most {
			t.Errorf("reads of %d bytes: %d pieces in %d s, more than %d", size, pieces, seconds, most)
		}
		if most := burstBytes + rateBytes*(seconds+1); bytes > most || bytes < most/2 {
			t.Errorf("reads of %d bytes: %d bytes were handed on, of %d that may be", size, bytes, most)
		}
	}
}
