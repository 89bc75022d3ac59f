package find

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strings"

	"agentd/store"
)

// A word with a star stands for the first words, in the order of letters, that begin like
// it and are in a fact that is asked for. What other accounts wrote, what was removed and
// how facts are spread over segments has no say in which words these are, nor in whether
// there are more.

// expandWords finds, for the words with a star, the words of each segment that they stand
// for. It reports whether there are more than are looked for.
func (q *wordQuestion) expandWords(ctx context.Context, segments []*segmentSearch) (cut bool, err error) {
	for i, w := range q.words {
		if !w.prefix {
			continue
		}
		found := expansion{}
		for _, s := range segments {
			if s.expanded[i], err = s.wantedWords(ctx, i, &found); err != nil {
				return false, err
			}
			found.addWords(s.expanded[i])
		}
		if found.end == "" {
			continue
		}
		cut = true
		for _, s := range segments {
			s.expanded[i] = slices.DeleteFunc(s.expanded[i], func(d dictWord) bool { return string(d.text) >= found.end })
		}
	}
	return cut, nil
}

// expansion is what a word with a star stands for, as far as it is known.
type expansion struct {
	// words are in their order: one more than a star stands for, if there are so many.
	words []string
	// end is the first word that is too much; empty if none is.
	end string
	// before is scratch.
	before []string
}

// addWords adds words of a segment, which are in their order.
func (x *expansion) addWords(words []dictWord) {
	x.before, x.words = x.words, x.before[:0]
	known := x.before
	for (len(known) > 0 || len(words) > 0) && len(x.words) <= maxExpansion {
		switch {
		case len(words) == 0 || len(known) > 0 && known[0] < string(words[0].text):
			x.words, known = append(x.words, known[0]), known[1:]
		case len(known) > 0 && known[0] == string(words[0].text):
			x.words, known, words = append(x.words, known[0]), known[1:], words[1:]
		default:
			x.words, words = append(x.words, string(words[0].text)), words[1:]
		}
	}
	if len(x.words) > maxExpansion {
		x.end = x.words[maxExpansion]
	}
}

// behind reports whether a word comes after all that are looked for.
func (x *expansion) behind(word []byte) bool { return x.end != "" && string(word) > x.end }

// wordList has words of a dictionary that stay valid.
type wordList struct {
	words []dictWord
	texts []byte
}

// newWordList makes room for the words of a range that a star may stand for.
func newWordList(of *wordRange) *wordList {
	most := min(of.to-of.from, maxExpansion+1)
	return &wordList{words: make([]dictWord, 0, most), texts: make([]byte, 0, usualWord*most)}
}

// usualWord is how long words are, or more.
const usualWord = 8

func (l *wordList) addWord(d *dictWord) {
	word := *d
	l.texts = append(l.texts, d.text...)
	word.text = l.texts[len(l.texts)-len(d.text) : len(l.texts) : len(l.texts)]
	l.words = append(l.words, word)
}

// wantedWords returns the first words of the segment that one of the question with a star
// stands for and that are in a fact that is asked for, there or in a segment before: one
// more than it may stand for, if there are so many. What comes behind the end of what is
// known isn't looked at.
func (s *segmentSearch) wantedWords(ctx context.Context, of int, known *expansion) ([]dictWord, error) {
	if err := s.loadDocuments(ctx); err != nil || s.wantsNone() {
		return nil, err
	}
	if s.byDocuments {
		return s.fewWords(ctx, s.ranges[of], known)
	}
	prefix := s.words[of].text
	out := newWordList(&s.ranges[of])
	var failed error
	before := known.words // those that may be found elsewhere, too
	err := s.segment.eachFrom(ctx, prefix, func(d *dictWord) bool {
		if !strings.HasPrefix(string(d.text), prefix) || known.behind(d.text) {
			return false
		}
		for len(before) > 0 && before[0] < string(d.text) {
			before = before[1:]
		}
		wanted := len(before) > 0 && before[0] == string(d.text)
		if !wanted {
			if wanted, failed = s.hasWanted(ctx, d); failed != nil {
				return false
			}
		}
		if wanted {
			out.addWord(d)
		}
		return len(out.words) <= maxExpansion
	})
	if err == nil {
		err = failed
	}
	return out.words, err
}

// hasWanted reports whether a word is in a fact that is asked for.
func (s *segmentSearch) hasWanted(ctx context.Context, word *dictWord) (bool, error) {
	if s.wantsAll() {
		return true, nil
	}
	data, err := s.postingData(ctx, word)
	if err != nil {
		return false, err
	}
	doc := uint64(0)
	for i := 0; i < len(data); {
		v, n := uvarint(data, i)
		i += n
		doc += v >> 1
		if v&1 != 0 {
			_, n := uvarint(data, i)
			i += n
		}
		if _, wanted, err := s.wantedDocument(ctx, uint32(doc)); wanted || err != nil {
			return wanted, err
		}
	}
	return false, nil
}

// wantsAll reports whether every fact is asked for.
func (s *segmentSearch) wantsAll() bool {
	return s.caller.Admin && s.sessionID == "" && len(s.gone) == 0 && s.from == math.MinInt64 && s.to == math.MaxInt64 && !slices.Contains(s.kinds, false)
}

// wantsNone reports whether the segment has nothing that is asked for.
func (s *segmentSearch) wantsNone() bool { return s.few != nil && s.few.count == 0 }

// fewSessions is up to how many sessions are looked up one by one.
const fewSessions = 256

// findFew finds what is asked for in the segment if it is few: most of what has a word is
// then passed over by its number alone, or isn't looked at.
func (s *segmentSearch) findFew(ctx context.Context) error {
	if s.wantsAll() {
		return nil
	}
	if s.sessionID != "" {
		return s.findInSessions(ctx, []string{s.sessionID})
	}
	sessions := len(s.sessions)
	if !s.caller.Admin {
		own, err := s.segment.sessionsOf(ctx, s.caller.Account)
		if err != nil {
			return err
		}
		if sessions = len(own); sessions <= fewSessions && sessions <= len(s.sessions)/s.tuning.fewOf {
			return s.findInSessions(ctx, own)
		}
	}
	span, err := s.segment.documentSpan(ctx)
	if err != nil {
		return err
	}
	kinds := s.segment.docs
	if s.ofKinds != nil {
		kinds = s.ofKinds.count
	}
	switch {
	case s.to <= span.from || span.to < s.from:
		s.few = newDocumentSet(s.segment.docs)
		return nil
	case sessions <= len(s.sessions)/s.tuning.fewOf, kinds <= s.segment.docs/s.tuning.fewOf, span.from < s.from, s.to <= span.to:
		return s.findAmongAll(ctx)
	}
	return nil
}

// sessionsOf returns the ids of an account's sessions in the segment. They are sorted out
// once, so that what others have costs nothing.
func (w *wordSegment) sessionsOf(ctx context.Context, account string) ([]string, error) {
	if known := w.accounts.Load(); known != nil {
		return (*known)[account], nil
	}
	list, err := w.sessionList(ctx)
	if err != nil {
		return nil, err
	}
	accounts := map[string][]string{}
	for i := range list {
		accounts[list[i].account] = append(accounts[list[i].account], list[i].id)
	}
	w.accounts.Store(&accounts)
	return accounts[account], nil
}

// findInSessions finds what is asked for in some sessions.
func (s *segmentSearch) findInSessions(ctx context.Context, ids []string) error {
	few := newDocumentSet(s.segment.docs)
	for _, id := range ids {
		postings, err := s.segment.postingsOf(ctx, s.room.word[:0], sessionTerm(id))
		if err != nil {
			return err
		}
		s.room.word = postings
		for _, p := range postings {
			_, wanted, err := s.wantedDocument(ctx, p.doc)
			if err != nil {
				return err
			}
			if wanted {
				few.addDocument(p.doc)
			}
		}
	}
	s.few = few
	return nil
}

// candidates goes over the documents of the types that are asked for.
func (s *segmentSearch) candidates() iter.Seq[uint32] {
	if s.ofKinds != nil {
		return s.ofKinds.ascending()
	}
	return func(yield func(uint32) bool) {
		for doc := range uint32(s.segment.docs) {
			if !yield(doc) {
				return
			}
		}
	}
}

// findAmongAll finds what is asked for by looking at all documents, until it is clear that
// it isn't few.
func (s *segmentSearch) findAmongAll(ctx context.Context) error {
	few := newDocumentSet(s.segment.docs)
	for doc := range s.candidates() {
		_, wanted, err := s.wantedDocument(ctx, doc)
		if err != nil {
			return err
		}
		if !wanted {
			continue
		}
		if few.addDocument(doc); few.count > s.segment.docs/s.tuning.fewOf {
			return nil
		}
	}
	s.few = few
	return nil
}

// documentSet is a set of documents by their numbers, or of words by their places.
type documentSet struct {
	bits  []uint64
	count int
}

func newDocumentSet(documents int) *documentSet {
	return &documentSet{bits: make([]uint64, (documents+63)/64)}
}

func (d *documentSet) addDocument(doc uint32) {
	bit := uint64(1) << (doc % 64)
	if d.bits[doc/64]&bit == 0 {
		d.bits[doc/64] |= bit
		d.count++
	}
}

// ascending goes over the set from its least number on.
func (d *documentSet) ascending() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i, left := range d.bits {
			for ; left != 0; left &= left - 1 {
				if !yield(uint32(64*i + bits.TrailingZeros64(left))) {
					return
				}
			}
		}
	}
}

// descending goes over the set from its greatest number on.
func (d *documentSet) descending() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i, left := range slices.Backward(d.bits) {
			for left != 0 {
				n := bits.Len64(left) - 1
				left &^= 1 << n
				if !yield(uint32(64*i + n)) {
					return
				}
			}
		}
	}
}

// has reports whether a document is in the set. A number that no document has is in it:
// reading the document finds what is wrong.
func (d *documentSet) has(doc uint32) bool {
	i := int(doc / 64)
	return i >= len(d.bits) || d.bits[i]&(1<<(doc%64)) != 0
}

// wantedDocument reads a document and reports whether it is asked for, words aside.
func (s *segmentSearch) wantedDocument(ctx context.Context, doc uint32) (document, bool, error) {
	if s.few != nil && !s.few.has(doc) || s.ofKinds != nil && !s.ofKinds.has(doc) {
		return document{}, false, nil
	}
	d, err := s.document(ctx, int(doc))
	if err != nil {
		return d, false, err
	}
	if int(d.session) >= len(s.sessions) || int(d.kind) >= len(s.kinds) {
		return d, false, fmt.Errorf("%w: documents of segment %d", store.ErrCorrupt, s.segment.id)
	}
	if !s.kinds[d.kind] || d.time < s.from || d.time >= s.to {
		return d, false, nil
	}
	of := &s.sessions[d.session]
	return d, s.wantsSession(of) && (len(s.gone) == 0 || uint64(d.sequence) > s.gone[of.id]), nil
}

func (s *segmentSearch) wantsSession(of *segmentSession) bool {
	return s.caller.Sees(of.account) && (s.sessionID == "" || s.sessionID == of.id)
}
