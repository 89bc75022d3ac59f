package usage

// finder finds things in a list by their hashes. Unlike a map it keeps neither the things
// nor their places beside the list, which is most of the cost of a map with very many.
type finder struct {
	// slots have the places, counted from 1, where the hashes of things lead to; hashes are
	// those of the things in the list.
	slots, hashes []uint32
}

// find returns the place of the thing with a hash that same tells to be the one; or, with
// false, the place at the end of the list, where the caller puts it.
func (f *finder) find(hash uint32, same func(place uint32) bool) (place uint32, found bool) {
	if 2*len(f.hashes) >= len(f.slots) {
		f.grow(4 * len(f.slots))
	}
	i := f.slot(hash)
	for ; f.slots[i] != 0; i = f.slot(i + 1) {
		if at := f.slots[i] - 1; f.hashes[at] == hash && same(at) {
			return at, true
		}
	}
	f.hashes = append(f.hashes, hash)
	f.slots[i] = uint32(len(f.hashes))
	return f.slots[i] - 1, false
}

func (f *finder) slot(hash uint32) uint32 { return hash & uint32(len(f.slots)-1) }

const fewSlots = 64

// grow makes room for slots, of which there is a power of two.
func (f *finder) grow(slots int) {
	f.slots = make([]uint32, max(fewSlots, slots))
	for at, hash := range f.hashes {
		i := f.slot(hash)
		for f.slots[i] != 0 {
			i = f.slot(i + 1)
		}
		f.slots[i] = uint32(at + 1)
	}
}

// reset forgets all things.
func (f *finder) reset() {
	clear(f.slots)
	f.hashes = f.hashes[:0]
}
