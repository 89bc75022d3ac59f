package permission

import "math/bits"

// bitset is a set of small numbers.
type bitset []uint64

// newBitset returns an empty set for numbers below n.
func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

func (b bitset) set(i int) { b[i/64] |= 1 << (i % 64) }

func (b bitset) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

// or adds what is in another set, which isn't larger.
func (b bitset) or(other bitset) {
	for i, w := range other {
		b[i] |= w
	}
}

// meets says that a number is in both sets.
func (b bitset) meets(other bitset) bool {
	for i := range min(len(b), len(other)) {
		if b[i]&other[i] != 0 {
			return true
		}
	}
	return false
}

func (b bitset) empty() bool {
	for _, w := range b {
		if w != 0 {
			return false
		}
	}
	return true
}

// from becomes every number that isn't below the lowest of another set.
func (b bitset) from(other bitset) {
	found := false
	for i := range b {
		switch w := other[i]; {
		case found:
			b[i] = ^uint64(0)
		case w != 0:
			found = true
			b[i] = ^uint64(0) << bits.TrailingZeros64(w)
		default:
			b[i] = 0
		}
	}
}

// advance becomes the successors of the numbers that are in now and in steps, and the
// numbers that are in now and in stays. A nil set of steps is empty.
func (b bitset) advance(now, steps, stays bitset) {
	carry := uint64(0)
	for i := range b {
		moved := uint64(0)
		if steps != nil {
			moved = now[i] & steps[i]
		}
		b[i] = moved<<1 | carry | now[i]&stays[i]
		carry = moved >> 63
	}
}
