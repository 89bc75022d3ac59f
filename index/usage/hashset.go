package usage

import (
	"math/bits"
	"slices"
)

// hashSet is a set of hashes that may say to have one that it hasn't.
type hashSet struct {
	bits []uint64
	mask uint32
}

// reset forgets all, and makes room for so many.
func (s *hashSet) reset(hashes int) {
	words := 1 << bits.Len(uint(hashes)/2) // 32 to 64 bits for each
	s.bits = slices.Grow(s.bits[:0], words)[:words]
	clear(s.bits)
	s.mask = uint32(words*64 - 1)
}

// insert adds a hash, and reports whether it may have been there.
func (s *hashSet) insert(hash uint32) bool {
	had := s.has(hash)
	s.bits[hash&s.mask/64] |= bitsOf(hash)
	return had
}

func (s *hashSet) has(hash uint32) bool { return s.bits[hash&s.mask/64]&bitsOf(hash) == bitsOf(hash) }

// bitsOf returns the bits of a hash in its word: two, which few others have both.
func bitsOf(hash uint32) uint64 { return 1<<(hash%64) | 1<<(hash>>26) }
