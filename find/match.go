package find

import (
	"context"
	"fmt"
	"slices"

	"agentd/store"
)

// segmentSearch looks for words in one segment.
type segmentSearch struct {
	*wordQuestion
	segment *wordSegment
	gone    map[string]uint64
	offer   func(match)
	room    *searchRoom
	// expanded are the words that each word of the question with a star stands for here.
	expanded [][]dictWord
	// left is how many facts are offered at most, full says that there are more.
	left int
	full bool

	sessions []segmentSession
	few      *documentSet // what is asked for, if it is few
	ofKinds  *documentSet // what is of the types that are asked for, if not all are
	docs     []byte       // all documents, if they are kept
	docPage  lastPage     // of the documents, if they are not
	listPage lastPage     // of the postings
	// ranges are where the words of the question are in the dictionary, postingBytes is
	// how much says in which documents they are.
	ranges       []wordRange
	postingBytes int
	// byDocuments says that the words of what is asked for are looked at instead.
	byDocuments bool
}

// lastPage is the page of a segment that was read last, which most often has what is read next.
type lastPage struct {
	page   []byte // nil before the first
	number int
}

func (p *lastPage) read(ctx context.Context, w *wordSegment, number int) ([]byte, error) {
	if p.page == nil || p.number != number {
		page, err := w.page(ctx, number)
		if err != nil {
			return nil, err
		}
		p.page, p.number = page, number
	}
	return p.page, nil
}

// searchRoom is memory that the searches of one question use one after another.
type searchRoom struct {
	lists [][]posting // for each word without a star
	word  []posting   // the words of one document, or the documents of one word
	// counts are by document.
	counts []uint32
}

// run offers the newest matches of the segment.
func (s *segmentSearch) run(ctx context.Context) error {
	if err := s.findRanges(ctx); err != nil || s.lacksWord() {
		return err
	}
	if err := s.loadDocuments(ctx); err != nil || s.wantsNone() {
		return err
	}
	switch {
	case s.byDocuments:
		return s.runByDocuments(ctx)
	case slices.ContainsFunc(s.words, func(w queryWord) bool { return w.prefix }):
		return s.runWithStars(ctx)
	}
	exact, err := s.lists(ctx)
	if err != nil || exact.lack {
		return err
	}
	return exact.eachCommon(func(doc uint32, counts []uint32) (bool, error) {
		err := s.offerDocument(ctx, doc, counts)
		return !s.full, err
	})
}

// wordLists are the postings of words without a star, the shortest first.
type wordLists struct {
	lists [][]posting
	// lack says that a word has none.
	lack bool
}

// eachCommon calls f with the documents that are in all lists, the newest first, and with
// how often they have each word, until it returns false or an error.
func (l *wordLists) eachCommon(f func(doc uint32, counts []uint32) (bool, error)) error {
	rarest, others := l.lists[0], l.lists[1:]
	counts := make([]uint32, 0, len(l.lists))
	for _, p := range slices.Backward(rarest) {
		counts = append(counts[:0], p.count)
		for i := range others {
			others[i] = upTo(others[i], p.doc)
			last := len(others[i]) - 1
			if last < 0 || others[i][last].doc != p.doc {
				break
			}
			counts = append(counts, others[i][last].count)
		}
		if len(counts) < len(l.lists) {
			continue
		}
		if more, err := f(p.doc, counts); err != nil || !more {
			return err
		}
	}
	return nil
}

// loadDocuments reads which facts of which sessions the segment has, once.
func (s *segmentSearch) loadDocuments(ctx context.Context) (err error) {
	if s.sessions != nil {
		return nil
	}
	if s.sessions, err = s.segment.sessionList(ctx); err != nil {
		return err
	}
	if s.docs, err = s.segment.documents(ctx); err != nil {
		return err
	}
	if slices.Contains(s.kinds, false) {
		span, err := s.segment.documentSpan(ctx)
		if err != nil {
			return err
		}
		s.ofKinds = span.documentsOf(s.kinds)
	}
	return s.planSearch(ctx)
}

// upTo leaves out the postings behind a document. Steps grow, so that a long list is not
// walked for the sake of a short one.
func upTo(list []posting, doc uint32) []posting {
	step := 1
	for step < len(list) && list[len(list)-step].doc > doc {
		step *= 2
	}
	low, high := max(len(list)-step, 0), len(list)-step/2
	i, found := slices.BinarySearchFunc(list[low:high], doc, func(p posting, doc uint32) int { return int(int64(p.doc) - int64(doc)) })
	if found {
		i++
	}
	return list[:low+i]
}

// lists returns the postings of all words without a star, and of the session that is asked
// for.
func (s *segmentSearch) lists(ctx context.Context) (*wordLists, error) {
	var words []string
	if s.sessionID != "" {
		words = append(words, sessionTerm(s.sessionID))
	}
	for _, w := range s.words {
		if !w.prefix {
			words = append(words, w.text)
		}
	}
	if s.room.lists == nil {
		s.room.lists = make([][]posting, len(words))
	}
	out := &wordLists{}
	for i, w := range words {
		list, err := s.segment.postingsOf(ctx, s.room.lists[i][:0], w)
		if err != nil {
			return nil, err
		}
		s.room.lists[i] = list
		if len(list) == 0 {
			return &wordLists{lack: true}, nil
		}
		if s.sessionID != "" && i == 0 {
			for j := range list {
				list[j].count = 0 // it says where, not how well
			}
		}
		out.lists = append(out.lists, list)
	}
	slices.SortFunc(out.lists, func(a, b []posting) int { return len(a) - len(b) })
	return out, nil
}

// offerDocument offers a document that has all words, if it is asked for. It reorders how
// often it has each.
func (s *segmentSearch) offerDocument(ctx context.Context, doc uint32, counts []uint32) error {
	d, wanted, err := s.takeDocument(ctx, doc)
	if err != nil || !wanted {
		return err
	}
	s.offerMatch(&d, counts)
	return nil
}

// takeDocument reads a document that has all words, and reports whether it is asked for and
// not one too many.
func (s *segmentSearch) takeDocument(ctx context.Context, doc uint32) (document, bool, error) {
	d, wanted, err := s.wantedDocument(ctx, doc)
	if err != nil || !wanted {
		return d, false, err
	}
	if s.full = s.left == 0; s.full {
		return d, false, nil
	}
	s.left--
	return d, true, nil
}

// offerMatch offers a document by how often it has each word.
func (s *segmentSearch) offerMatch(d *document, counts []uint32) {
	slices.Sort(counts) // the sum depends on the order, in its last digits
	s.offer(match{score: scoreOf(counts, codedLengths[d.length]), time: d.time, session: s.sessions[d.session].id, sequence: uint64(d.sequence)})
}

// document reads a document.
func (s *segmentSearch) document(ctx context.Context, doc int) (document, error) {
	if doc >= s.segment.docs {
		return document{}, fmt.Errorf("%w: postings of segment %d", store.ErrCorrupt, s.segment.id)
	}
	if s.docs != nil {
		return parseDocument(s.docs[docSize*doc:]), nil
	}
	off := headerSize + docSize*doc
	page, err := s.docPage.read(ctx, s.segment, off/pageSize)
	if err != nil {
		return document{}, err
	}
	return parseDocument(page[off%pageSize:]), nil
}

// The parameters of BM25, and the length that texts are compared with. All are fixed: a
// rank that depended on how often a word is in all sessions would change between two
// pages, and would tell of sessions that the caller may not see.
const (
	saturation   = 1.2
	lengthWeight = 0.75
	usualLength  = 64
)

// scoreOf says how well a text of some length fits, by how often it has each word.
func scoreOf(counts []uint32, length float64) float64 {
	norm := saturation * (1 - lengthWeight + lengthWeight*length/usualLength)
	score := 0.0
	for _, n := range counts {
		score += float64(n) * (saturation + 1) / (float64(n) + norm)
	}
	return score
}
