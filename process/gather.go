package process

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Bounds of what is handed to a callback, and how it is gathered.
const (
	// readSize is how much is read at once.
	readSize = 32 << 10
	// chunkSize is the largest of the first pieces, gatherFor how long a small one of
	// them waits for more.
	chunkSize = 32 << 10
	gatherFor = 20 * time.Millisecond
	// After manyBytes the pieces are fewer and larger.
	manyBytes      = 64 << 10
	largeChunkSize = 256 << 10
	gatherLarge    = 200 * time.Millisecond
	// burstBytes go out at once, rateBytes a second after that.
	burstBytes = 8 << 20
	rateBytes  = 1 << 20
	// defaultMaxOutput bounds what is kept of a stream.
	defaultMaxOutput = 1 << 20
)

// Chunk is a piece of output.
type Chunk struct {
	// Stream is stdout, stderr or tty.
	Stream string
	// Offset of the first byte in the stream.
	Offset int64
	// Data is valid during the call alone.
	Data []byte
}

// Output is what was kept of a stream: its head, and its tail if there was more
// than that.
type Output struct {
	Head, Tail []byte
	// Total counts all bytes; TailOffset is where the tail begins. Between the head
	// and there nothing was kept.
	Total, TailOffset int64
}

// Dropped counts the bytes that were not kept.
func (o Output) Dropped() int64 { return o.Total - int64(len(o.Head)) - int64(len(o.Tail)) }

// Truncated tells whether something was not kept.
func (o Output) Truncated() bool { return o.Dropped() > 0 }

// Bytes are head and tail together.
func (o Output) Bytes() []byte {
	return append(append(make([]byte, 0, len(o.Head)+len(o.Tail)), o.Head...), o.Tail...)
}

// Last is the end of what was written, at most n bytes of it.
func (o Output) Last(n int) string {
	b := o.Tail
	if len(b) == 0 {
		b = o.Head
	}
	return string(b[max(0, len(b)-n):])
}

// gather keeps the head and the tail of a stream and hands pieces on.
type gather struct {
	stream  string
	half    int
	emit    func(Chunk)
	limiter *rate.Limiter
	now     func() time.Time
	// reads counts the beginnings and the ends of reads: it is odd while one waits.
	reads atomic.Int64

	mu    sync.Mutex
	head  []byte
	ring  []byte // the last bytes, once the head is full
	next  int    // where the ring goes on
	total int64

	// gap says that pieces are left out until a large one may go out: what trickled
	// through a full limiter would be a fact for each small read.
	gap           bool
	pending       []byte // for emit; used by the reader alone
	pendingOffset int64
	since         time.Time
}

func newGather(stream string, maxBytes int, emit func(Chunk), now func() time.Time) *gather {
	return &gather{
		stream: stream, half: max(maxBytes/2, 1), emit: emit, now: now,
		limiter: rate.NewLimiter(rateBytes, burstBytes),
	}
}

// add takes a piece of the stream. Only the stream's reader calls it.
func (g *gather) add(p []byte) {
	g.mu.Lock()
	offset := g.total
	g.storePiece(p)
	g.total += int64(len(p))
	g.mu.Unlock()
	if g.emit == nil {
		return
	}
	now := g.now()
	if g.gap = g.gap && g.limiter.TokensAt(now) < largeChunkSize || !g.limiter.AllowN(now, len(p)); g.gap {
		g.flush()
		return
	}
	largest, _ := g.pieces(offset)
	if len(g.pending) > 0 && (g.pendingOffset+int64(len(g.pending)) != offset || len(g.pending)+len(p) > largest) {
		g.flush()
	}
	if len(g.pending) == 0 {
		g.pendingOffset, g.since = offset, g.now()
	}
	g.pending = append(g.pending, p...)
	// The first piece goes out at once: a reader waits for a sign of life.
	if offset == 0 || len(g.pending) >= largest {
		g.flush()
	}
}

// storePiece stores a piece in the head, then in the ring.
func (g *gather) storePiece(p []byte) {
	if room := g.half - len(g.head); room > 0 {
		n := min(room, len(p))
		g.head = append(g.head, p[:n]...)
		p = p[n:]
	}
	if len(p) > g.half {
		p = p[len(p)-g.half:]
	}
	for len(p) > 0 {
		if len(g.ring) < g.half {
			n := min(g.half-len(g.ring), len(p))
			g.ring = append(g.ring, p[:n]...)
			p, g.next = p[n:], len(g.ring)%g.half
			continue
		}
		n := copy(g.ring[g.next:], p)
		p, g.next = p[n:], (g.next+n)%g.half
	}
}

// due says how long the pending piece may still wait; false if there is none.
func (g *gather) due() (time.Duration, bool) {
	if len(g.pending) == 0 {
		return 0, false
	}
	_, wait := g.pieces(g.pendingOffset)
	return wait - g.now().Sub(g.since), true
}

// pieces says how large a piece at an offset can be, and how long it may wait for that.
func (g *gather) pieces(offset int64) (largest int, wait time.Duration) {
	if offset < manyBytes {
		return chunkSize, gatherFor
	}
	return largeChunkSize, gatherLarge
}

// flush hands the pending piece on.
func (g *gather) flush() {
	if len(g.pending) == 0 {
		return
	}
	g.emit(Chunk{Stream: g.stream, Offset: g.pendingOffset, Data: g.pending})
	g.pending = g.pending[:0]
}

// output is what was kept so far.
func (g *gather) output() Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := Output{Head: append([]byte(nil), g.head...), Total: g.total}
	if len(g.ring) == g.half {
		o.Tail = append(append(o.Tail, g.ring[g.next:]...), g.ring[:g.next]...)
	} else {
		o.Tail = append(o.Tail, g.ring...)
	}
	o.TailOffset = g.total - int64(len(o.Tail))
	return o
}
