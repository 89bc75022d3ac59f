package find

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"agentd/store"
)

// A word with a star may be in most documents, in many words. Which documents have one of
// them is kept as a set of bits. How often is only counted where it matters: in those that
// have all words of the question and are asked for, from the words of the document.

// star is a word of the question with a star, in one segment.
type star struct {
	place int          // of the word in the question
	docs  *documentSet // which documents have one of the words
	words *documentSet // which words it stands for, by their places in the range
}

// stars returns the words with stars; none if one stands for nothing here.
func (s *segmentSearch) stars(ctx context.Context) ([]star, error) {
	var out []star
	for i, w := range s.words {
		if !w.prefix {
			continue
		}
		if len(s.expanded[i]) == 0 {
			return nil, nil
		}
		docs, err := s.documentsWith(ctx, s.expanded[i])
		if err != nil {
			return nil, err
		}
		out = append(out, star{i, docs, s.starWords(i)})
	}
	return out, nil
}

// starWords returns which words of its range a word with a star stands for.
func (s *segmentSearch) starWords(i int) *documentSet {
	of := &s.ranges[i]
	words := newDocumentSet(of.to - of.from)
	for j := range s.expanded[i] {
		words.addDocument(uint32(s.expanded[i][j].place - of.from))
	}
	return words
}

// documentsWith returns which documents have one of several words.
func (s *segmentSearch) documentsWith(ctx context.Context, words []dictWord) (*documentSet, error) {
	set := newDocumentSet(s.segment.docs)
	for i := range words {
		if i%64 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		data, err := s.postingData(ctx, &words[i])
		if err != nil {
			return nil, err
		}
		if !set.addPostings(data, s.segment.docs) {
			return nil, fmt.Errorf("%w: postings of segment %d", store.ErrCorrupt, s.segment.id)
		}
	}
	return set, nil
}

// addPostings adds the documents of postings, and reports whether there are such documents.
// It doesn't count them.
func (d *documentSet) addPostings(data []byte, docs int) bool {
	doc := uint64(0)
	for i := 0; i < len(data); {
		v := uint64(data[i])
		if i++; v >= 0x80 {
			long, n := binary.Uvarint(data[i-1:])
			if n <= 0 {
				return true // what is cut off ends the list
			}
			v = long
			i += n - 1
		}
		if doc += v >> 1; doc >= uint64(docs) {
			return false
		}
		d.bits[doc/64] |= 1 << (doc % 64)
		if v&1 != 0 { // how often
			for i < len(data) && data[i] >= 0x80 {
				i++
			}
			i++
		}
	}
	return true
}

// postingData returns the postings of a word as they are stored. Words are mostly asked for
// in their order, so that the page of the last one has many of the next ones.
func (s *segmentSearch) postingData(ctx context.Context, word *dictWord) ([]byte, error) {
	w := s.segment
	off := w.off[partPost] + word.off
	if w.whole != nil || word.size == 0 || off < 0 || off+word.size > w.size || off/pageSize != (off+word.size-1)/pageSize {
		return w.bytes(ctx, off, word.size) // which also says what is wrong
	}
	page, err := s.listPage.read(ctx, w, off/pageSize)
	if at := off % pageSize; err == nil && at+word.size <= len(page) {
		return page[at : at+word.size], nil
	}
	return w.bytes(ctx, off, word.size)
}

// runWithStars is run for a question that has words with stars.
func (s *segmentSearch) runWithStars(ctx context.Context) error {
	exact, err := s.lists(ctx)
	if err != nil || exact.lack {
		return err
	}
	stars, err := s.stars(ctx)
	if err != nil || stars == nil {
		return err
	}
	m := &starMatches{segmentSearch: s, stars: stars, exact: len(exact.lists), width: len(exact.lists) + len(stars)}
	if len(exact.lists) > 0 {
		err = exact.eachCommon(func(doc uint32, counts []uint32) (bool, error) {
			for i := range stars {
				if !stars[i].docs.has(doc) {
					return true, nil
				}
			}
			return m.keepDocument(ctx, doc, counts)
		})
	} else {
		err = m.takeCommon(ctx)
	}
	if err != nil || len(m.taken) == 0 {
		return err
	}
	if err := m.countStars(ctx); err != nil {
		return err
	}
	for i := range m.taken {
		s.offerMatch(&m.taken[i].document, m.counts[m.width*i:m.width*(i+1)])
	}
	return ctx.Err()
}

// starMatches are the newest of the documents that have all words and are asked for.
type starMatches struct {
	*segmentSearch
	stars []star
	exact int // how many words have no star
	taken []numberedDocument
	// counts are how often each document has each word: first those without a star. There
	// are width numbers for each.
	counts []uint32
	width  int
}

type numberedDocument struct {
	document
	number uint32
}

// keepDocument keeps a document that has all words, and how often it has those without a star. It
// reports whether more are wanted.
func (m *starMatches) keepDocument(ctx context.Context, doc uint32, counts []uint32) (bool, error) {
	d, wanted, err := m.takeDocument(ctx, doc)
	if err != nil || !wanted {
		return !m.full, err
	}
	m.taken = append(m.taken, numberedDocument{d, doc})
	m.counts = append(m.counts, counts...)
	for range m.stars {
		m.counts = append(m.counts, 0)
	}
	return true, nil
}

// takeCommon takes the documents that have a word of each star.
func (m *starMatches) takeCommon(ctx context.Context) error {
	for i, all := range slices.Backward(m.stars[0].docs.bits) {
		for _, other := range m.stars[1:] {
			all &= other.docs.bits[i]
		}
		if m.ofKinds != nil {
			all &= m.ofKinds.bits[i]
		}
		for all != 0 {
			n := bits.Len64(all) - 1
			all &^= 1 << n
			if more, err := m.keepDocument(ctx, uint32(64*i+n), nil); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// countStars counts how often the documents have the words with stars: by the words of each
// of them, or by the documents of all words, whatever has less to read.
func (m *starMatches) countStars(ctx context.Context) error {
	postings := 0
	for i := range m.stars {
		for _, w := range m.expanded[m.stars[i].place] {
			postings += w.size
		}
	}
	if m.tuning.documentCost*m.segment.bytesPerDocument()*float64(len(m.taken)) < float64(postings) {
		return m.countByDocuments(ctx)
	}
	return m.countByPostings(ctx)
}

func (m *starMatches) countByDocuments(ctx context.Context) error {
	reader := forwardReader{segment: m.segment}
	for i := range m.taken {
		words, err := reader.words(ctx, m.room.word[:0], int(m.taken[i].number))
		if err != nil {
			return err
		}
		m.room.word = words
		for j := range m.stars {
			of := &m.stars[j]
			m.counts[m.width*i+m.exact+j] = of.count(&m.ranges[of.place], words)
		}
	}
	return nil
}

// count returns how often a document has one of the words, by the words that it has.
func (t *star) count(of *wordRange, words []posting) uint32 {
	n := uint32(0)
	for _, p := range words[placeFrom(words, uint32(of.from)):] {
		if int(p.doc) >= of.to {
			break
		}
		if t.words.has(p.doc - uint32(of.from)) {
			n += p.count
		}
	}
	return n
}

func (m *starMatches) countByPostings(ctx context.Context) error {
	lowest := m.taken[len(m.taken)-1].number
	for j := range m.stars {
		counts := slices.Grow(m.room.counts[:0], m.segment.docs-int(lowest))[:m.segment.docs-int(lowest)]
		m.room.counts = counts
		clear(counts)
		words := m.expanded[m.stars[j].place]
		for i := range words {
			data, err := m.postingData(ctx, &words[i])
			if err != nil {
				return err
			}
			m.room.word = decodePostings(m.room.word[:0], data)
			for _, p := range m.room.word[placeFrom(m.room.word, lowest):] {
				counts[p.doc-lowest] += p.count // there is such a document: see documentsWith
			}
		}
		for i := range m.taken {
			m.counts[m.width*i+m.exact+j] = counts[m.taken[i].number-lowest]
		}
	}
	return nil
}

// placeFrom returns the place of the first posting that isn't before a number.
func placeFrom(list []posting, number uint32) int {
	i, _ := slices.BinarySearchFunc(list, number, func(p posting, number uint32) int { return cmp.Compare(p.doc, number) })
	return i
}
