package redact

import (
	"cmp"
	"slices"
	"strings"
)

// gram is how many bytes the filter looks at together.
const gram = 3

// entry is what the index finds: a value, or the keyword of a rule.
type entry struct {
	// rule is the name for the replacement.
	rule string
	// keyword is the text to find; with fold, in any case of ASCII letters.
	keyword string
	fold    bool
	// match decides what around a keyword is the secret; nil for a value, which is
	// the secret itself.
	match matcher
}

// matcher looks at s, which has the keyword at the place at. Unless final, s may
// go on: a matcher that meets its end and can't decide yet says so.
type matcher func(s string, at int, final bool) (start, end int, v verdict)

type verdict uint8

const (
	no verdict = iota
	yes
	// undecided: more text may change the answer.
	undecided
)

// span is a place to replace.
type span struct {
	start, end int
	rule       string
}

// index finds entries in one pass. Three bytes are folded into 15 bits, five
// each, which makes upper and lower case the same; a bitmap of 4 kB says whether
// any entry begins so. Most text ends there, at a shift and a load a byte.
type index struct {
	bits [1 << (5 * gram) / 64]uint64
	// slot gives the bucket of what three bytes fold into; buckets[0] is empty.
	slot    [1 << (5 * gram)]uint16
	buckets [][]entry
	// head1 and head2 are the first one and two bytes of all entries, for the end
	// of a text that may go on.
	head1 [256]bool
	head2 map[[2]byte]bool
}

func hash3(a, b, c byte) uint32 {
	return uint32(a&31) | uint32(b&31)<<5 | uint32(c&31)<<10
}

func (x *index) build(entries []entry) {
	x.buckets = make([][]entry, 1)
	x.head2 = make(map[[2]byte]bool)
	seen := make(map[string]bool)
	for _, e := range entries {
		k := e.keyword
		if e.match == nil && seen[k] {
			continue
		}
		seen[k] = seen[k] || e.match == nil
		h := hash3(k[0], k[1], k[2])
		x.bits[h/64] |= 1 << (h % 64)
		if x.slot[h] == 0 {
			x.slot[h] = uint16(len(x.buckets)) // at most 1<<15 of them
			x.buckets = append(x.buckets, nil)
		}
		x.buckets[x.slot[h]] = append(x.buckets[x.slot[h]], e)
		for _, form := range cases(k[:2], e.fold) {
			x.head1[form[0]] = true
			x.head2[[2]byte{form[0], form[1]}] = true
		}
	}
}

// cases returns the ways in which two bytes may be written.
func cases(two string, fold bool) []string {
	if !fold {
		return []string{two}
	}
	lower, upper := strings.ToLower(two), strings.ToUpper(two)
	return []string{lower, upper, lower[:1] + upper[1:], upper[:1] + lower[1:]}
}

// scan finds all secrets that begin at from or after it; what is before is only
// looked back at. It returns them in order, and up to where everything is decided:
// len(s) if final, and otherwise no secret that begins before safe is unknown,
// whatever follows.
func (x *index) scan(s string, from int, final bool) (spans []span, safe int) {
	f := finds{safe: len(s)}
	if len(s)-from >= gram {
		h := hash3(0, s[from], s[from+1])
		for i := from + gram - 1; i < len(s); i++ {
			h = h>>5 | uint32(s[i]&31)<<10
			if x.bits[h/64]&(1<<(h%64)) != 0 {
				x.matchAt(&f, s, i-gram+1, h, final)
			}
		}
	}
	if !final {
		f.safe = x.tail(s, from, f.safe)
	}
	if len(f.spans) == 0 {
		return nil, f.safe
	}
	return mergeSpans(f.spans, f.safe)
}

// finds is what a scan has found so far.
type finds struct {
	spans []span
	safe  int
	// ruled is up to where a rule has spoken: no other is asked before. This keeps
	// the work linear in a text that is one secret after the other.
	ruled int
}

// add notes a place. One that begins within the last is joined with it at once:
// a value may be found at every byte of a text.
func (f *finds) add(sp span) {
	if n := len(f.spans); n > 0 {
		if last := &f.spans[n-1]; last.start <= sp.start && sp.start < last.end {
			last.end = max(last.end, sp.end)
			return
		}
	}
	f.spans = append(f.spans, sp)
}

// matchAt looks at one place that the filter let through.
func (x *index) matchAt(f *finds, s string, i int, h uint32, final bool) {
	bucket := x.buckets[x.slot[h]]
	for k := range bucket {
		e := &bucket[k]
		if !begins(s[i:], e.keyword, e.fold) {
			if !final && len(s)-i < len(e.keyword) && begins(e.keyword, s[i:], e.fold) {
				f.safe = min(f.safe, i)
			}
			continue
		}
		if e.match == nil {
			f.add(span{i, i + len(e.keyword), e.rule})
			continue
		}
		if i < f.ruled {
			continue
		}
		switch start, end, v := e.match(s, i, final); v {
		case yes:
			f.add(span{start, end, e.rule})
			f.ruled = end
		case undecided:
			f.safe = min(f.safe, start)
		case no:
		}
	}
}

// quiet reports whether no entry begins anywhere in s.
func (x *index) quiet(s string) bool {
	if len(s) < gram {
		return true
	}
	h := hash3(0, s[0], s[1])
	for i := gram - 1; i < len(s); i++ {
		h = h>>5 | uint32(s[i]&31)<<10
		if x.bits[h/64]&(1<<(h%64)) == 0 {
			continue
		}
		for _, e := range x.buckets[x.slot[h]] {
			if begins(s[i-gram+1:], e.keyword, e.fold) {
				return false
			}
		}
	}
	return true
}

// tail holds back the last one or two bytes if something may begin with them.
func (x *index) tail(s string, from, safe int) int {
	n := len(s)
	if n-from >= 2 && x.head2[[2]byte{s[n-2], s[n-1]}] {
		return min(safe, n-2)
	}
	if n-from >= 1 && x.head1[s[n-1]] {
		return min(safe, n-1)
	}
	return safe
}

// begins reports whether s begins with prefix, with fold in any case of ASCII
// letters.
func begins(s, prefix string, fold bool) bool {
	if len(s) < len(prefix) {
		return false
	}
	if !fold {
		return s[:len(prefix)] == prefix
	}
	for i := range len(prefix) {
		if lower(s[i]) != lower(prefix[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// mergeSpans sorts spans and joins those that overlap; the first names the rule, the
// longest wins among those that begin together. A span that reaches over safe
// isn't decided as a whole, so safe is drawn back to its begin.
func mergeSpans(spans []span, safe int) ([]span, int) {
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	out := spans[:1]
	for _, sp := range spans[1:] {
		last := &out[len(out)-1]
		if sp.start < last.end {
			last.end = max(last.end, sp.end)
			continue
		}
		out = append(out, sp)
	}
	for len(out) > 0 && out[len(out)-1].end > safe {
		safe = min(safe, out[len(out)-1].start)
		out = out[:len(out)-1]
	}
	return out, safe
}
