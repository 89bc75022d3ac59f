package find

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"agentd/event"
	"agentd/index"
	"agentd/store"
	"agentd/store/storefault"
)

// WordsName is the name of the projection that search reads.
const WordsName = "find_words_2"

// words is the projection that search reads.
type words struct{ segments }

func newWords() *words {
	return &words{segments{name: WordsName, hasGone: wordsHaveGone, merge: mergeWords}}
}

// Types implements [index.Projection].
func (*words) Types() []event.Type {
	return append(slices.Clone(searchedTypes), event.TypeSessionDeleted, event.TypeSnapshotRepaired)
}

// Fold implements [index.Projection].
func (p *words) Fold(ctx context.Context, b *index.Batch, read index.Reader) ([]store.IndexOp, error) {
	if err := p.load(ctx, read, b.Fresh); err != nil {
		return nil, err
	}
	m := p.manifest.clone()
	changed := m.noteRemoved(b.Facts)
	batch := wordBatch{writer: newWordWriter(), lists: map[string]*postingList{}}
	contents := storefault.Watch(read)
	for i := range b.Facts {
		f := &b.Facts[i]
		kind := slices.Index(searchedTypes, f.Event.Type)
		if kind < 0 || f.Event.Sequence <= m.gone[f.SessionID] {
			continue
		}
		batch.addFact(f, uint8(kind), textOf(ctx, contents, f.Event.Payload))
	}
	// A fact whose text is only out of reach is looked at again with all its words. A bucket that
	// is away must not hold up the lists and what else is searched.
	if err := contents.Err(); err != nil && !errors.Is(err, store.ErrAway) {
		return nil, err
	}
	if batch.writer.count == 0 && !changed {
		return nil, nil
	}
	var ops []store.IndexOp
	if batch.writer.count > 0 {
		ops = m.addSegment(WordsName, batch.finish(), batch.writer.count)
	}
	p.manifest = m
	return append(ops, m.op(WordsName)), nil
}

// wordBatch collects the words of some facts.
type wordBatch struct {
	writer *wordWriter
	lists  map[string]*postingList
}

func (b *wordBatch) addFact(f *index.Fact, kind uint8, text string) {
	doc := uint32(b.writer.count)
	length := 0
	eachWord(text, func(word []byte, _, _ int) {
		length++
		b.list(word).countDocument(doc)
	})
	if length == 0 {
		return
	}
	b.writer.addDocument(f.SessionID, f.Account, document{
		sequence: uint32(f.Event.Sequence), time: f.Event.Time.UnixMilli(), kind: kind, length: lengthCode(length),
	})
	b.list([]byte(sessionTerm(f.SessionID))).countDocument(doc)
}

func (b *wordBatch) list(word []byte) *postingList {
	l := b.lists[string(word)]
	if l == nil {
		l = &postingList{}
		b.lists[string(word)] = l
	}
	return l
}

func (b *wordBatch) finish() []byte {
	for _, word := range slices.Sorted(maps.Keys(b.lists)) {
		l := b.lists[word]
		l.flush()
		b.writer.addWord([]byte(word), l.data, l.documents)
	}
	return b.writer.finish()
}

// wordsHaveGone reports whether a segment has facts that were removed.
func wordsHaveGone(ctx context.Context, read index.Reader, of segment, gone map[string]uint64) (bool, error) {
	w, err := openWords(ctx, read, WordsName, of, nil)
	if err != nil {
		return false, err
	}
	sessions, err := w.sessionList(ctx)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(sessions, func(s segmentSession) bool { return uint64(s.first) <= gone[s.id] }), nil
}

// mergeSource is a segment that is merged.
type mergeSource struct {
	*wordSegment
	// numbers are the new numbers of its documents; dropped ones have none.
	numbers []uint32
	word    dictWord
	scratch []posting
	next    func() bool // moves to the next word
	ended   bool
}

const dropped = ^uint32(0)

// mergeWords makes one segment of several, without what is gone.
func mergeWords(ctx context.Context, read index.Reader, segments []segment, gone map[string]uint64) ([]byte, int, error) {
	out := newWordWriter()
	sources := make([]*mergeSource, 0, len(segments))
	for _, s := range segments {
		src, err := openSource(ctx, read, s)
		if err != nil {
			return nil, 0, err
		}
		if err := src.copyDocuments(ctx, out, gone); err != nil {
			return nil, 0, err
		}
		sources = append(sources, src)
	}
	var list postingList
	for least := leastWord(sources); least != nil; least = leastWord(sources) {
		list.reset()
		for _, s := range sources {
			if s.ended || !bytes.Equal(s.word.text, least) {
				continue
			}
			if err := s.moveWord(ctx, &list); err != nil {
				return nil, 0, err
			}
		}
		if list.documents > 0 {
			out.addWord(least, list.data, list.documents)
		}
	}
	return out.finish(), out.count, nil
}

// leastWord returns a copy of the first word that is left, nil if none is.
func leastWord(sources []*mergeSource) (least []byte) {
	for _, s := range sources {
		if !s.ended && (least == nil || bytes.Compare(s.word.text, least) < 0) {
			least = s.word.text
		}
	}
	return bytes.Clone(least)
}

// moveWord appends the postings of the current word, as far as their documents are left,
// and goes to the next one.
func (s *mergeSource) moveWord(ctx context.Context, to *postingList) (err error) {
	if s.scratch, err = s.postings(ctx, s.scratch[:0], &s.word); err != nil {
		return err
	}
	for _, p := range s.scratch {
		if n := s.numbers[p.doc]; n != dropped {
			to.appendPosting(posting{n, p.count})
		}
	}
	s.ended = !s.next()
	return nil
}

// openSource reads a whole segment and goes to its first word.
func openSource(ctx context.Context, read index.Reader, s segment) (*mergeSource, error) {
	w, err := openWords(ctx, read, WordsName, s, nil)
	if err != nil {
		return nil, err
	}
	whole, err := w.bytes(ctx, 0, s.size)
	if err != nil {
		return nil, err
	}
	w.whole = whole
	src := &mergeSource{wordSegment: w}
	block, d := -1, decoder{}
	src.next = func() bool {
		for len(d.data) == 0 {
			if block++; block == len(w.firstWords) {
				return false
			}
			at := w.off[partDict]
			d.data = whole[at+w.blockAt[block] : at+w.blockAt[block+1]]
			src.word = dictWord{text: src.word.text[:0], off: int(d.uint())}
		}
		src.word.off += src.word.size
		src.word.text = append(src.word.text[:d.uint()], d.takeBytes(d.uint())...)
		src.word.documents, src.word.size = int(d.uint()), int(d.uint())
		return !d.failed
	}
	src.ended = !src.next()
	return src, nil
}

// copyDocuments adds the documents that are left, and numbers them.
func (s *mergeSource) copyDocuments(ctx context.Context, out *wordWriter, gone map[string]uint64) error {
	names, err := s.sessionList(ctx)
	if err != nil {
		return err
	}
	s.numbers = make([]uint32, s.docs)
	for i := range s.numbers {
		d := parseDocument(s.whole[headerSize+docSize*i:])
		of := &names[d.session]
		if uint64(d.sequence) <= gone[of.id] {
			s.numbers[i] = dropped
			continue
		}
		s.numbers[i] = out.addDocument(of.id, of.account, d)
	}
	return nil
}
