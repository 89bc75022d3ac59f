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
	docs     []byte       // all documents, if they are kept
	page     []byte       // of the documents, if they are not
	pageAt   int
	// ranges are where the words of the question are in the dictionary, postingBytes is
	// how much says in which documents they are.
	ranges       []wordRange
	postingBytes int
	// byDocuments says that the words of what is asked for are looked at instead.
	byDocuments bool
}

// searchRoom is memory that the searches of one question use one after another.
type searchRoom struct {
	lists  [][]posting // for each word
	word   []posting   // for one of the words that a star stands for
	counts []uint32    // by document
}

// run offers the newest matches of the segment.
func (s *segmentSearch) run(ctx context.Context) error {
	if err := s.findRanges(ctx); err != nil || s.lacksWord() {
		return err
	}
	if err := s.loadDocuments(ctx); err != nil || s.wantsNone() {
		return err
	}
	if s.byDocuments {
		return s.runByDocuments(ctx)
	}
	lists, err := s.lists(ctx)
	if err != nil || lists == nil {
		return err
	}
	rarest := lists[0]
	counts := make([]uint32, len(lists))
	for _, p := range slices.Backward(rarest) {
		counts[0] = p.count
		all := true
		for i := 1; i < len(lists) && all; i++ {
			lists[i] = upTo(lists[i], p.doc)
			last := len(lists[i]) - 1
			all = last >= 0 && lists[i][last].doc == p.doc
			if all {
				counts[i] = lists[i][last].count
			}
		}
		if !all {
			continue
		}
		if err := s.offerDocument(ctx, p.doc, counts); err != nil || s.full {
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
	s.pageAt = -1
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

// lists returns the postings of all words, the shortest first; nil if one has none.
func (s *segmentSearch) lists(ctx context.Context) ([][]posting, error) {
	words := s.words
	if s.sessionID != "" {
		words = append([]queryWord{{text: sessionTerm(s.sessionID)}}, words...)
	}
	if s.room.lists == nil {
		s.room.lists = make([][]posting, len(words))
	}
	lists := make([][]posting, 0, len(words))
	for i, w := range words {
		list, err := s.list(ctx, s.room.lists[i][:0], w, i-(len(words)-len(s.words)))
		if err != nil {
			return nil, err
		}
		s.room.lists[i] = list
		if len(list) == 0 {
			return nil, nil
		}
		if s.sessionID != "" && i == 0 {
			for j := range list {
				list[j].count = 0 // it says where, not how well
			}
		}
		lists = append(lists, list)
	}
	slices.SortFunc(lists, func(a, b []posting) int { return len(a) - len(b) })
	return lists, nil
}

// list appends the postings of a word, or of all that it stands for as one of the
// question's.
func (s *segmentSearch) list(ctx context.Context, to []posting, w queryWord, place int) ([]posting, error) {
	if w.prefix {
		return s.joined(ctx, to, s.expanded[place])
	}
	return s.segment.postingsOf(ctx, to, w.text)
}

// joined appends the postings of several words, added up.
func (s *segmentSearch) joined(ctx context.Context, to []posting, entries []dictWord) ([]posting, error) {
	switch len(entries) {
	case 0:
		return to, nil
	case 1:
		return s.segment.postings(ctx, to, &entries[0])
	}
	s.room.counts = slices.Grow(s.room.counts[:0], s.segment.docs)
	counts := s.room.counts[:s.segment.docs]
	clear(counts)
	for i := range entries {
		var err error
		if s.room.word, err = s.segment.postings(ctx, s.room.word[:0], &entries[i]); err != nil {
			return nil, err
		}
		for _, p := range s.room.word {
			if int(p.doc) >= len(counts) {
				return nil, fmt.Errorf("%w: postings of segment %d", store.ErrCorrupt, s.segment.id)
			}
			counts[p.doc] += p.count
		}
	}
	for doc, n := range counts {
		if n > 0 {
			to = append(to, posting{uint32(doc), n})
		}
	}
	return to, nil
}

// offerDocument offers a document that has all words, if it is asked for. It reorders how
// often it has each.
func (s *segmentSearch) offerDocument(ctx context.Context, doc uint32, counts []uint32) error {
	d, wanted, err := s.wantedDocument(ctx, doc)
	if err != nil || !wanted {
		return err
	}
	of := &s.sessions[d.session]
	if s.full = s.left == 0; s.full {
		return nil
	}
	s.left--
	slices.Sort(counts) // the sum depends on the order, in its last digits
	s.offer(match{score: scoreOf(counts, codedLengths[d.length]), time: d.time, session: of.id, sequence: uint64(d.sequence)})
	return nil
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
	if off/pageSize != s.pageAt {
		var err error
		if s.page, err = s.segment.page(ctx, off/pageSize); err != nil {
			return document{}, err
		}
		s.pageAt = off / pageSize
	}
	return parseDocument(s.page[off%pageSize:]), nil
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
