package find

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"agentd/store"
)

// Beside the words with their documents a segment has the documents with their words. Who
// asks for few of its documents, because of whose they are, when they were written or what
// kind they are of, is answered from these: what others wrote then costs nothing.

// listOverhead is what finding the words of a document costs, in bytes that could be read
// instead.
const listOverhead = 16

// groupDocs is how many documents share an offset.
const groupDocs = 16

// forward returns which words each document has, by their places in the dictionary and as
// postings are written, and the offset of each group of documents.
func (w *wordWriter) forward() (groups, lists []byte) {
	first := make([]uint32, w.count+1) // of each document, among all postings
	w.eachPosting(func(_ int, p posting) { first[p.doc+1]++ })
	for doc := range w.count {
		first[doc+1] += first[doc]
	}
	words := make([]posting, first[w.count])
	next := slices.Clone(first)
	w.eachPosting(func(place int, p posting) {
		words[next[p.doc]] = posting{uint32(place), p.count}
		next[p.doc]++
	})
	lists = make([]byte, 0, 2*len(words)+w.count)
	var list postingList
	for doc := range w.count {
		if doc%groupDocs == 0 {
			groups = binary.LittleEndian.AppendUint32(groups, uint32(len(lists)))
		}
		list.reset()
		for _, p := range words[first[doc]:first[doc+1]] {
			list.appendPosting(p)
		}
		lists = binary.AppendUvarint(lists, uint64(len(list.data)))
		lists = append(lists, list.data...)
	}
	return groups, lists
}

// eachPosting calls f with the postings of all words and the place of each. What stands for
// a session is passed over: a document says itself which one it is of.
func (w *wordWriter) eachPosting(f func(place int, p posting)) {
	var list []posting
	at := 0
	for place, size := range w.sizes {
		if place >= w.sessionTerms {
			list = decodePostings(list[:0], w.post[at:at+int(size)])
			for _, p := range list {
				f(place, p)
			}
		}
		at += int(size)
	}
}

// forwardReader reads the words of documents of one segment.
type forwardReader struct {
	segment *wordSegment
	group   int // whose lists are in data, if there are any
	data    []byte
}

// words appends the words of a document, by their places in the dictionary.
func (r *forwardReader) words(ctx context.Context, to []posting, doc int) ([]posting, error) {
	if group := doc / groupDocs; r.data == nil || r.group != group {
		data, err := r.segment.groupLists(ctx, group)
		if err != nil {
			return nil, err
		}
		r.group, r.data = group, data
	}
	d := decoder{data: r.data}
	for range doc % groupDocs {
		d.takeBytes(d.uint())
	}
	list := d.takeBytes(d.uint())
	if d.failed {
		return nil, r.segment.damagedForward()
	}
	return decodePostings(to, list), nil
}

func (w *wordSegment) damagedForward() error {
	return fmt.Errorf("%w: words of documents of segment %d", store.ErrCorrupt, w.id)
}

// groupLists returns the lists of a group of documents.
func (w *wordSegment) groupLists(ctx context.Context, group int) ([]byte, error) {
	most := w.off[partForward] - w.off[partGroups]
	head, err := w.bytes(ctx, w.off[partGroups]+4*group, min(8, most-4*group))
	if err != nil {
		return nil, err
	}
	from, to := int(binary.LittleEndian.Uint32(head)), w.off[partEnd]-w.off[partForward]
	if len(head) == 8 {
		to = int(binary.LittleEndian.Uint32(head[4:]))
	}
	if to < from {
		return nil, w.damagedForward()
	}
	return w.bytes(ctx, w.off[partForward]+from, to-from)
}

// wordRange is where the words that a word of a query stands for are in a dictionary.
type wordRange struct {
	from, to int // their places
	size     int // of their postings
}

func (r *wordRange) has(place uint32) bool { return int(place) >= r.from && int(place) < r.to }

// rangeOf returns where the words are that one of a query stands for.
func (w *wordSegment) rangeOf(ctx context.Context, of queryWord) (r wordRange, err error) {
	first, err := w.firstFrom(ctx, of.text)
	if err != nil {
		return r, err
	}
	if !of.prefix {
		if r = (wordRange{from: first.place, to: first.place}); string(first.text) == of.text {
			r.to, r.size = r.to+1, first.size
		}
		return r, nil
	}
	// No byte of UTF-8 is the greatest, so there is one behind the last.
	behind := []byte(of.text)
	behind[len(behind)-1]++
	end, err := w.firstFrom(ctx, string(behind))
	return wordRange{from: first.place, to: end.place, size: end.off - first.off}, err
}

// firstFrom returns the first word of the dictionary that is not before one, and the end of
// the dictionary if there is none.
func (w *wordSegment) firstFrom(ctx context.Context, from string) (dictWord, error) {
	found := dictWord{place: w.words, off: w.off[partGroups] - w.off[partPost]}
	err := w.eachFrom(ctx, from, func(d *dictWord) bool {
		found = *d
		return false
	})
	return found, err
}

// findRanges finds where the words of the question are in the dictionary, once.
func (s *segmentSearch) findRanges(ctx context.Context) error {
	if s.ranges != nil {
		return nil
	}
	ranges := make([]wordRange, len(s.words))
	for i, w := range s.words {
		var err error
		if ranges[i], err = s.segment.rangeOf(ctx, w); err != nil {
			return err
		}
		s.postingBytes += ranges[i].size
	}
	s.ranges = ranges
	return nil
}

// lacksWord reports whether the segment has nothing for one of the words.
func (s *segmentSearch) lacksWord() bool {
	return slices.ContainsFunc(s.ranges, func(r wordRange) bool { return r.from == r.to })
}

// searchTuning says how a search is made. What is found doesn't depend on it.
type searchTuning struct {
	// cheapPostings is up to how many bytes of postings are read without looking for what
	// could be left out.
	cheapPostings int
	// fewOf is what part of a segment is few: one of so many.
	fewOf int
	// documentCost is what it costs to read a byte of the words of a document, beside a
	// byte of postings.
	documentCost float64
}

var usualTuning = searchTuning{cheapPostings: 1 << 10, fewOf: 8, documentCost: 1}

// planSearch decides whether words are looked up in the documents that are asked for, or
// documents by their words: whatever has less to read.
func (s *segmentSearch) planSearch(ctx context.Context) error {
	if err := s.findRanges(ctx); err != nil || s.postingBytes <= s.tuning.cheapPostings {
		return err
	}
	if err := s.findFew(ctx); err != nil || s.few == nil {
		return err
	}
	s.byDocuments = s.tuning.documentCost*s.segment.bytesPerDocument()*float64(s.few.count) < float64(s.postingBytes)
	return nil
}

// bytesPerDocument is how much is read for the words of a document, about.
func (w *wordSegment) bytesPerDocument() float64 {
	return listOverhead + float64(w.off[partEnd]-w.off[partForward])/float64(w.docs)
}

// eachFew calls f with the documents that are asked for and their words, the newest first,
// until it returns false or an error.
func (s *segmentSearch) eachFew(ctx context.Context, f func(doc uint32, words []posting) (bool, error)) error {
	reader := forwardReader{segment: s.segment}
	for doc := range s.few.descending() {
		words, err := reader.words(ctx, s.room.word[:0], int(doc))
		if err != nil {
			return err
		}
		s.room.word = words
		if more, err := f(doc, words); err != nil || !more {
			return err
		}
	}
	return ctx.Err()
}

// fewWords is wantedWords for a search by documents.
func (s *segmentSearch) fewWords(ctx context.Context, of wordRange, known *expansion) ([]dictWord, error) {
	seen := newDocumentSet(of.to - of.from)
	err := s.eachFew(ctx, func(_ uint32, words []posting) (bool, error) {
		for _, p := range words {
			if of.has(p.doc) {
				seen.addDocument(p.doc - uint32(of.from))
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	out := newWordList(&of)
	block := -1
	for place := range seen.ascending() {
		place := of.from + int(place)
		if place/blockWords == block {
			continue // it was found with its block
		}
		block = place / blockWords
		more, err := s.segment.eachInBlock(ctx, block, func(d *dictWord) bool {
			if known.behind(d.text) || len(out.words) > maxExpansion {
				return false
			}
			if d.place >= of.from && d.place < of.to && seen.has(uint32(d.place-of.from)) {
				out.addWord(d)
			}
			return true
		})
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	return out.words, nil
}

// runByDocuments offers the newest matches among the few documents that are asked for.
func (s *segmentSearch) runByDocuments(ctx context.Context) error {
	sets := make([]*documentSet, len(s.words)) // which words a star stands for, by their places
	for i, w := range s.words {
		if w.prefix {
			sets[i] = s.starWords(i)
		}
	}
	counts := make([]uint32, len(s.words))
	return s.eachFew(ctx, func(doc uint32, words []posting) (bool, error) {
		clear(counts)
		for _, p := range words {
			for i := range counts {
				if of := &s.ranges[i]; of.has(p.doc) && (sets[i] == nil || sets[i].has(p.doc-uint32(of.from))) {
					counts[i] += p.count
				}
			}
		}
		if slices.Contains(counts, 0) {
			return true, nil
		}
		err := s.offerDocument(ctx, doc, counts)
		return !s.full, err
	})
}

// segmentSpan says what the documents of a segment are like.
type segmentSpan struct {
	from, to int64          // the times of the first one and the last one, in milliseconds
	kinds    []*documentSet // which there are of each kind
}

// documentSpan returns what the documents are like. They are looked at once.
func (w *wordSegment) documentSpan(ctx context.Context) (*segmentSpan, error) {
	if known := w.span.Load(); known != nil {
		return known, nil
	}
	data, err := w.bytes(ctx, w.off[partDocs], docSize*w.docs)
	if err != nil {
		return nil, err
	}
	span := &segmentSpan{from: math.MaxInt64, to: math.MinInt64}
	for range searchedTypes {
		span.kinds = append(span.kinds, newDocumentSet(w.docs))
	}
	for doc := range uint32(w.docs) {
		d := parseDocument(data[docSize*doc:])
		if int(d.kind) >= len(span.kinds) {
			return nil, fmt.Errorf("%w: documents of segment %d", store.ErrCorrupt, w.id)
		}
		span.from, span.to = min(span.from, d.time), max(span.to, d.time)
		span.kinds[d.kind].addDocument(doc)
	}
	w.span.Store(span)
	return span, nil
}

// documentsOf returns the documents of some kinds, which must not be changed.
func (s *segmentSpan) documentsOf(kinds []bool) *documentSet {
	var out *documentSet
	shared := false // with what is kept
	for kind, is := range kinds {
		switch of := s.kinds[kind]; {
		case !is:
		case out == nil:
			out, shared = of, true
		default:
			if shared {
				out, shared = &documentSet{bits: slices.Clone(out.bits), count: out.count}, false
			}
			for i, bits := range of.bits {
				out.bits[i] |= bits
			}
			out.count += of.count
		}
	}
	return out
}
