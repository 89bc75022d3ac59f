package usage

import (
	"bytes"
	"hash/maphash"
)

// sumUp answers a bucket from all that was read of it: with rows as long as some are
// wanted, and with how many there are.
func (a *answer) sumUp(bucket string) error {
	sources := a.buckets[bucket]
	delete(a.buckets, bucket)
	top := &topRows{wanted: max(a.wanted-len(a.rows), 0)}
	var n int
	var err error
	if a.by&BySession != 0 {
		n, err = a.sumSessions(sources, top)
	} else {
		n, err = a.sumByText(sources, top)
	}
	if err != nil {
		return err
	}
	a.total += n
	start := startOf(bucket)
	for _, r := range top.inOrder() {
		row := Row{Start: start, Key: r.key(), Figures: r.Figures}
		if a.By&^a.by != 0 {
			row.Key.Account = a.Account
		}
		a.rows = append(a.rows, row)
	}
	return nil
}

// rowKey names a row of a bucket: the numbers of the texts of its key.
type rowKey [keyParts]uint32

func (k *rowKey) hash() uint32 {
	h := uint64(0)
	for _, n := range k {
		h = (h ^ uint64(n)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return uint32(h >> 32)
}

// keySet is a set of keys.
type keySet struct {
	keys  []rowKey
	byKey finder
}

// place returns where a key is, and adds it.
func (s *keySet) place(key *rowKey) uint32 {
	at, found := s.byKey.find(key.hash(), func(at uint32) bool { return s.keys[at] == *key })
	if !found {
		s.keys = append(s.keys, *key)
	}
	return at
}

func (s *keySet) reset() {
	s.keys = s.keys[:0]
	s.byKey.reset()
}

// textSums sums up rows by the texts of their keys, which have numbers: 0 is the empty one.
type textSums struct {
	keySet
	sums   []Figures
	texts  [][]byte
	byText finder
	seed   maphash.Seed
}

// sumByText sums up by what is asked for other than sessions.
func (a *answer) sumByText(sources []*source, top *topRows) (int, error) {
	t := &a.texts
	t.reset()
	t.sums = t.sums[:0]
	for _, s := range sources {
		err := s.eachRow(a.ctx, a.entries, func(r *rowReader) {
			key := a.keyOf(s, r)
			at := t.place(&key)
			if top.wanted == 0 {
				r.skipFigures()
				return
			}
			if int(at) == len(t.sums) {
				t.sums = append(t.sums, Figures{})
			}
			r.addFigures(&t.sums[at])
		})
		if err != nil {
			return 0, err
		}
	}
	for i := range t.sums {
		row := topRow{Figures: t.sums[i]}
		for _, part := range a.parts {
			row.parts[part] = t.texts[t.keys[i][part]]
		}
		top.offer(&row)
	}
	return len(t.keys), nil
}

// keyOf returns the key of a row by the parts that are asked for, but for the session.
func (a *answer) keyOf(s *source, r *rowReader) (key rowKey) {
	if s.texts.numbers == nil {
		a.texts.numberAll(s.texts)
	}
	for _, part := range a.parts {
		key[part] = s.texts.numbers[r.places[part]]
	}
	return key
}

func (t *textSums) numberAll(texts *sourceTexts) {
	if t.texts == nil {
		t.seed = maphash.MakeSeed()
		t.numberOf(nil)
	}
	for _, text := range texts.list {
		texts.numbers = append(texts.numbers, t.numberOf(text))
	}
}

// numberOf returns the number of a text, which stays as it is.
func (t *textSums) numberOf(text []byte) uint32 {
	n, found := t.byText.find(uint32(maphash.Bytes(t.seed, text)), func(n uint32) bool { return bytes.Equal(t.texts[n], text) })
	if !found {
		t.texts = append(t.texts, text)
	}
	return n
}
