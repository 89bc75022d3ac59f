package evidence

import (
	"hash/crc32"
	"slices"
)

// maxShifted is the longest block in which a byte more or less is looked for: in a
// longer one a checksum fits too often by chance, and it takes too long.
const maxShifted = 4096

// shifted finds the one byte of a block which, if it alone was put in or taken out,
// explains its checksum: where the block first differs from what it was. Next is what
// follows the block, if anything does, and before the checksum of what stands before.
func shifted(block, next []byte, before, want uint32) (at int, ok bool) {
	if len(block) == 0 || len(block) > maxShifted {
		return 0, false
	}
	at = -1
	found := func(was []byte) bool {
		i := int(firstDifference(block, was))
		same := at < 0 || at == i
		at = i
		return same // two explanations are none
	}
	if !putIn(slices.Concat(block, next), before, want, found) {
		return 0, false
	}
	rest := block
	if len(next) > 0 { // what was there took the place of the last one
		rest = block[:len(block)-1]
	}
	if !takenOut(rest, before, want, found) {
		return 0, false
	}
	return at, at >= 0
}

// putIn tells what the block was if each of its bytes is one too many.
func putIn(block []byte, before, want uint32, found func(was []byte) bool) bool {
	for i, sum := 0, before; i < len(block); i++ {
		if crc32.Update(sum, markTable, block[i+1:]) == want && !found(slices.Delete(slices.Clone(block), i, i+1)) {
			return false
		}
		sum = crc32.Update(sum, markTable, block[i:i+1])
	}
	return true
}

// takenOut tells what the block was if a byte is missing at each of its places.
func takenOut(block []byte, before, want uint32, found func(was []byte) bool) bool {
	for i, sum := 0, before; i <= len(block); i++ {
		rest := block[i:]
		zero := crc32.Update(crc32.Update(sum, markTable, []byte{0}), markTable, rest)
		if x, ok := byteAt(len(rest), zero^want); ok && !found(slices.Insert(slices.Clone(block), i, x)) {
			return false
		}
		if i < len(block) {
			sum = crc32.Update(sum, markTable, block[i:i+1])
		}
	}
	return true
}

// byteAt returns the byte which, in place of a zero with so many bytes after it, makes
// that difference to a checksum.
func byteAt(after int, difference uint32) (byte, bool) {
	for range after {
		k := markTop[difference>>24]
		difference = (difference^markTable[k])<<8 | uint32(k)
	}
	k := markTop[difference>>24]
	return k, markTable[k] == difference
}
