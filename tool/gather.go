package tool

import (
	"bytes"
	"fmt"
	"sync"
	"unicode/utf8"
)

// binarySample is how much of the beginning decides whether it is text.
const binarySample = 8000

// Gatherer keeps the beginning and the end of what is written to it, in bounded
// memory: of n bytes the first three quarters and the last quarter. It never
// fails, and many goroutines may use it.
type Gatherer struct {
	headMax, tailMax int

	mu    sync.Mutex
	head  []byte
	tail  []byte // a ring once it is full; next is where the oldest byte stands
	next  int
	total int64
	// sample of the first bytes is the head's beginning, unless the bound is small.
	sample []byte
}

// NewGatherer returns a Gatherer that keeps at most limit bytes; below 64 it
// keeps 64.
func NewGatherer(limit int64) *Gatherer {
	n := int(max(limit, 64))
	return &Gatherer{headMax: n - n/4, tailMax: n / 4}
}

// Write implements io.Writer.
func (g *Gatherer) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(p)
	g.total += int64(n)
	if room := binarySample - len(g.sample); room > 0 && len(g.head) == g.headMax {
		g.sample = append(g.sample, p[:min(room, n)]...)
	}
	if room := g.headMax - len(g.head); room > 0 {
		k := min(room, n)
		g.head = append(g.head, p[:k]...)
		p = p[k:]
	}
	g.keepTail(p)
	return n, nil
}

// keepTail puts p after what the tail has, over its oldest bytes.
func (g *Gatherer) keepTail(p []byte) {
	if len(p) > g.tailMax {
		p = p[len(p)-g.tailMax:]
	}
	if room := g.tailMax - len(g.tail); room > 0 {
		k := min(room, len(p))
		g.tail = append(g.tail, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(g.tail[g.next:], p)
		p = p[k:]
		g.next = (g.next + k) % g.tailMax
	}
}

// Total is the number of bytes that were written.
func (g *Gatherer) Total() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.total
}

// Binary reports whether what was written doesn't look like text.
func (g *Gatherer) Binary() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return IsBinary(g.head[:min(len(g.head), binarySample)]) || IsBinary(g.sample)
}

// Parts returns what was kept as valid UTF-8, cut between characters, and how
// many bytes in the middle were dropped. If none were, everything is in head.
func (g *Gatherer) Parts() (head, tail []byte, dropped int64) {
	g.mu.Lock()
	raw := append(bytes.Clone(g.tail[g.next:]), g.tail[:g.next]...)
	first := bytes.Clone(g.head)
	total := g.total
	g.mu.Unlock()

	if int64(len(first)+len(raw)) == total {
		head = validUTF8(append(first, raw...))
		if limit := g.headMax + g.tailMax; len(head) > limit {
			// Replacing bytes that are no UTF-8 made it longer than what may be kept.
			return head[:runeStart(head, g.headMax)], tailOf(head, g.tailMax), int64(len(head) - limit)
		}
		return head, nil, 0
	}
	head, tail = cutHead(first), raw[runeAfter(raw, 0):]
	dropped = total - int64(len(head)+len(tail))
	return bound(validUTF8(head), g.headMax), tailOf(validUTF8(tail), g.tailMax), dropped
}

// Bytes returns what was kept as one text, with a line that says what is missing
// where something is, and the number of bytes that were dropped.
func (g *Gatherer) Bytes() (text []byte, dropped int64) {
	head, tail, dropped := g.Parts()
	if dropped == 0 {
		return head, 0
	}
	var b bytes.Buffer
	b.Grow(len(head) + len(tail) + 64)
	b.Write(head)
	if !bytes.HasSuffix(head, []byte("\n")) {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "[… %d bytes left out …]\n", dropped)
	b.Write(tail)
	return b.Bytes(), dropped
}

// cutHead takes a character from the end of b that isn't complete.
func cutHead(b []byte) []byte {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			return b
		}
	}
	return b
}

func bound(b []byte, n int) []byte {
	if len(b) <= n {
		return b
	}
	return b[:runeStart(b, n)]
}

func tailOf(b []byte, n int) []byte {
	if len(b) <= n {
		return b
	}
	return b[runeAfter(b, len(b)-n):]
}

// IsBinary reports whether a sample from the beginning of a file or an output
// doesn't look like text: it has a zero byte, or much that is neither UTF-8 nor a
// character that text is made of.
func IsBinary(sample []byte) bool {
	if len(sample) > binarySample {
		sample = sample[:binarySample]
	}
	if bytes.IndexByte(sample, 0) >= 0 {
		return true
	}
	sample = cutHead(sample)
	odd := 0
	for i := 0; i < len(sample); {
		c := sample[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(sample[i:])
			if r == utf8.RuneError && size == 1 {
				odd++
			}
			i += size
			continue
		}
		// Backspace and escape are part of what terminals are sent.
		if c < ' ' && (c < '\b' || c > '\r') && c != 0x1b {
			odd++
		}
		i++
	}
	// A few odd bytes in a short text are another encoding.
	return odd > 3 && odd*10 > len(sample)*3
}
