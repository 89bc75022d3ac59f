package find

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync/atomic"

	"agentd/index"
	"agentd/store"
)

// A segment of words is, in this order:
//
//	header     16 numbers of 4 bytes
//	documents  docSize bytes each: which fact a document is
//	sessions   8 bytes each: the offset of its names, its first sequence here
//	names      id and account of each session
//	blocks     the first word of each block of the dictionary, and its offset
//	dictionary blocks of words, each with the number and the size of its postings
//	lists      the postings of each word: documents, ascending, and how often it is in them
//	groups     4 bytes each: the offset of the words of some documents
//	forward    the words of each document by their places in the dictionary, as postings
//
// Numbers of fixed size are little-endian, all others are varints.
const (
	headerSize = 64
	docSize    = 16
	// blockWords is how many words a block of the dictionary has.
	blockWords = 64
	// wordFormat is the first number of the header.
	wordFormat = 2
)

// sessionTerm is what the dictionary has for all documents of a session; no word begins so.
func sessionTerm(id string) string { return "\x00" + id }

func isSessionTerm(word []byte) bool { return len(word) > 0 && word[0] == 0 }

// document is a fact that is searched.
type document struct {
	session  uint32 // its place in the segment's sessions
	sequence uint32
	time     int64 // in milliseconds
	kind     uint8 // its place in searchedTypes
	length   uint8 // see lengthCode
}

func (d *document) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, d.session)
	b = binary.LittleEndian.AppendUint32(b, d.sequence)
	t := uint64(max(d.time, 0))
	b = append(b, byte(t), byte(t>>8), byte(t>>16), byte(t>>24), byte(t>>32), byte(t>>40))
	return append(b, d.kind, d.length)
}

func parseDocument(b []byte) document {
	t := uint64(binary.LittleEndian.Uint32(b[8:])) | uint64(b[12])<<32 | uint64(b[13])<<40
	return document{
		session: binary.LittleEndian.Uint32(b), sequence: binary.LittleEndian.Uint32(b[4:]),
		time: int64(t), kind: b[14], length: b[15],
	}
}

// lengthCode keeps a number of words in a byte, 16 steps for each doubling.
func lengthCode(words int) uint8 {
	return uint8(min(math.Round(16*math.Log2(float64(max(words, 1)))), 255))
}

// codedLengths are the lengths that the codes stand for.
var codedLengths = func() (lengths [256]float64) {
	for code := range lengths {
		lengths[code] = math.Exp2(float64(code) / 16)
	}
	return lengths
}()

// segmentSession is a session of a segment.
type segmentSession struct {
	id, account string
	// first is the lowest sequence of a document of it.
	first uint32
}

// wordWriter makes a segment. Documents and words are added in ascending order.
type wordWriter struct {
	docs     []byte
	count    int
	sessions []segmentSession
	places   map[string]uint32

	blocks, dict, post []byte
	blockCount, words  int
	lastWord           []byte
	// sizes are those of the postings of each word, sessionTerms how many of the words,
	// the first ones, stand for sessions.
	sizes        []uint32
	sessionTerms int
}

func newWordWriter() *wordWriter { return &wordWriter{places: map[string]uint32{}} }

// addDocument adds a fact and returns its number.
func (w *wordWriter) addDocument(sessionID, account string, d document) uint32 {
	place, ok := w.places[sessionID]
	if !ok {
		place = uint32(len(w.sessions))
		w.places[sessionID] = place
		w.sessions = append(w.sessions, segmentSession{id: sessionID, account: account, first: d.sequence})
	}
	d.session = place
	w.sessions[place].first = min(w.sessions[place].first, d.sequence)
	w.docs = d.append(w.docs)
	w.count++
	return uint32(w.count - 1)
}

// addWord adds a word with its postings.
func (w *wordWriter) addWord(word, postings []byte, documents int) {
	shared := 0
	if w.words%blockWords == 0 {
		w.blocks = append(binary.AppendUvarint(w.blocks, uint64(len(word))), word...)
		w.blocks = binary.AppendUvarint(w.blocks, uint64(len(w.dict)))
		w.blockCount++
		w.dict = binary.AppendUvarint(w.dict, uint64(len(w.post)))
	} else {
		for shared < min(len(word), len(w.lastWord)) && word[shared] == w.lastWord[shared] {
			shared++
		}
	}
	w.dict = binary.AppendUvarint(w.dict, uint64(shared))
	w.dict = binary.AppendUvarint(w.dict, uint64(len(word)-shared))
	w.dict = append(w.dict, word[shared:]...)
	w.dict = binary.AppendUvarint(w.dict, uint64(documents))
	w.dict = binary.AppendUvarint(w.dict, uint64(len(postings)))
	w.post = append(w.post, postings...)
	w.lastWord = append(w.lastWord[:0], word...)
	w.sizes = append(w.sizes, uint32(len(postings)))
	if isSessionTerm(word) {
		w.sessionTerms++
	}
	w.words++
}

// finish returns the segment.
func (w *wordWriter) finish() []byte {
	var index, names []byte
	for i := range w.sessions {
		index = binary.LittleEndian.AppendUint32(index, uint32(len(names)))
		index = binary.LittleEndian.AppendUint32(index, w.sessions[i].first)
		names = appendText(appendText(names, w.sessions[i].id), w.sessions[i].account)
	}
	groups, lists := w.forward()
	parts := [][]byte{w.docs, index, names, w.blocks, w.dict, w.post, groups, lists}
	head := []uint32{wordFormat, uint32(w.count), uint32(len(w.sessions)), uint32(w.blockCount), uint32(w.words)}
	off := uint32(headerSize)
	for _, p := range parts {
		head = append(head, off)
		off += uint32(len(p))
	}
	head = append(head, off)
	out := make([]byte, 0, off)
	for _, n := range head {
		out = binary.LittleEndian.AppendUint32(out, n)
	}
	out = append(out, make([]byte, headerSize-len(out))...)
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// The parts of a segment, as the header gives their offsets.
const (
	partDocs = iota
	partSessions
	partNames
	partBlocks
	partDict
	partPost
	partGroups
	partForward
	partEnd
)

// wordSegment is an open segment.
type wordSegment struct {
	segmentReader
	docs, sessions, words int
	off                   [partEnd + 1]int
	// firstWords and blockAt are the first words and the offsets of the blocks.
	firstWords []string
	blockAt    []int
	// known are the sessions, accounts those of each account and docData the documents, once
	// they were read; keepDocs says that documents are kept.
	known    atomic.Pointer[[]segmentSession]
	accounts atomic.Pointer[map[string][]string]
	docData  atomic.Pointer[[]byte]
	keepDocs atomic.Bool
	span     atomic.Pointer[segmentSpan]
}

// openWords opens a segment: it reads which blocks there are.
func openWords(ctx context.Context, read index.Reader, kind string, s segment, cache *pageCache) (*wordSegment, error) {
	w := &wordSegment{segmentReader: segmentReader{read: read, kind: kind, id: s.id, size: s.size, cache: cache}}
	head, err := w.bytes(ctx, 0, headerSize)
	if err != nil {
		return nil, err
	}
	number := func(i int) int { return int(binary.LittleEndian.Uint32(head[4*i:])) }
	if number(0) != wordFormat {
		return nil, fmt.Errorf("%w: segment %d of %s has format %d", store.ErrCorrupt, s.id, kind, number(0))
	}
	w.docs, w.sessions, w.words = number(1), number(2), number(4)
	blocks := number(3)
	for i := range w.off {
		w.off[i] = number(5 + i)
	}
	data, err := w.bytes(ctx, w.off[partBlocks], w.off[partDict]-w.off[partBlocks])
	if err != nil {
		return nil, err
	}
	d := decoder{data: data}
	for range blocks {
		w.firstWords = append(w.firstWords, d.text())
		w.blockAt = append(w.blockAt, int(d.uint()))
	}
	w.blockAt = append(w.blockAt, w.off[partPost]-w.off[partDict])
	if d.failed || w.off[partEnd] != s.size {
		return nil, fmt.Errorf("%w: segment %d of %s", store.ErrCorrupt, s.id, kind)
	}
	return w, nil
}

// sessionList returns the sessions of the segment. They are read once: a search asks for
// most of them.
func (w *wordSegment) sessionList(ctx context.Context) ([]segmentSession, error) {
	if known := w.known.Load(); known != nil {
		return *known, nil
	}
	heads, err := w.bytes(ctx, w.off[partSessions], w.off[partNames]-w.off[partSessions])
	if err != nil {
		return nil, err
	}
	names, err := w.bytes(ctx, w.off[partNames], w.off[partBlocks]-w.off[partNames])
	if err != nil {
		return nil, err
	}
	list := make([]segmentSession, w.sessions)
	accounts := map[string]string{} // few, of many sessions
	d := decoder{data: names}
	for i := range list {
		if 8*(i+1) > len(heads) {
			d.failed = true
			break
		}
		id, account := d.text(), d.takeBytes(d.uint())
		kept, ok := accounts[string(account)]
		if !ok {
			kept = string(account)
			accounts[kept] = kept
		}
		list[i] = segmentSession{id: id, account: kept, first: binary.LittleEndian.Uint32(heads[8*i+4:])}
	}
	if d.failed {
		return nil, fmt.Errorf("%w: sessions of segment %d", store.ErrCorrupt, w.id)
	}
	w.known.Store(&list)
	return list, nil
}

// documents returns the documents of a segment whose are kept in memory, else nil.
func (w *wordSegment) documents(ctx context.Context) ([]byte, error) {
	if !w.keepDocs.Load() {
		w.docData.Store(nil)
		return nil, nil
	}
	if data := w.docData.Load(); data != nil {
		return *data, nil
	}
	data, err := w.bytes(ctx, w.off[partDocs], docSize*w.docs)
	if err != nil {
		return nil, err
	}
	w.docData.Store(&data)
	return data, nil
}

// dictWord is a word of the dictionary. Its text is valid until the next one is read.
type dictWord struct {
	text      []byte
	place     int // in the dictionary
	documents int
	off, size int // of its postings
}

// eachFrom calls f with the words of the dictionary that are not before one, until it
// returns false.
func (w *wordSegment) eachFrom(ctx context.Context, from string, f func(*dictWord) bool) error {
	block := sort.Search(len(w.firstWords), func(i int) bool { return w.firstWords[i] > from }) - 1
	for block = max(block, 0); block < len(w.firstWords); block++ {
		more, err := w.eachInBlock(ctx, block, func(d *dictWord) bool { return string(d.text) < from || f(d) })
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// eachInBlock calls f with the words of a block of the dictionary, until it returns false.
func (w *wordSegment) eachInBlock(ctx context.Context, block int, f func(*dictWord) bool) (more bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	data, err := w.bytes(ctx, w.off[partDict]+w.blockAt[block], w.blockAt[block+1]-w.blockAt[block])
	if err != nil {
		return false, err
	}
	d := decoder{data: data}
	entry := dictWord{place: block * blockWords, off: int(d.uint())}
	for ; len(d.data) > 0; entry.place++ {
		shared := d.uint()
		suffix := d.takeBytes(d.uint())
		if d.failed || shared > uint64(len(entry.text)) {
			return false, fmt.Errorf("%w: dictionary of segment %d", store.ErrCorrupt, w.id)
		}
		entry.text = append(entry.text[:shared], suffix...)
		entry.documents, entry.size = int(d.uint()), int(d.uint())
		if !f(&entry) {
			return false, nil
		}
		entry.off += entry.size
	}
	return true, nil
}

// posting says how often a word is in a document.
type posting struct {
	doc   uint32
	count uint32
}

// postings appends the postings of a word.
func (w *wordSegment) postings(ctx context.Context, to []posting, word *dictWord) ([]posting, error) {
	data, err := w.bytes(ctx, w.off[partPost]+word.off, word.size)
	if err != nil {
		return nil, err
	}
	to = slices.Grow(to, word.documents)
	return decodePostings(to, data), nil
}

// postingsOf appends the postings of a word; none if the segment doesn't have it.
func (w *wordSegment) postingsOf(ctx context.Context, to []posting, word string) ([]posting, error) {
	var found *dictWord
	err := w.eachFrom(ctx, word, func(d *dictWord) bool {
		if string(d.text) == word {
			found = d
		}
		return false
	})
	if err != nil || found == nil {
		return to, err
	}
	return w.postings(ctx, to, found)
}

func decodePostings(to []posting, data []byte) []posting {
	doc := uint64(0)
	for i := 0; i < len(data); {
		v, n := uvarint(data, i)
		i += n
		doc += v >> 1
		p := posting{doc: uint32(doc), count: 1}
		if v&1 != 0 {
			count, n := uvarint(data, i)
			i += n
			p.count = uint32(count)
		}
		to = append(to, p)
	}
	return to
}

// uvarint returns the number at a place and how many bytes it takes. Most take one: a
// search decodes millions of them.
func uvarint(data []byte, at int) (uint64, int) {
	if at < len(data) && data[at] < 0x80 {
		return uint64(data[at]), 1
	}
	v, n := binary.Uvarint(data[min(at, len(data)):])
	if n <= 0 {
		return 0, len(data) // what is cut off ends the list
	}
	return v, n
}

// postingList is a word's postings while they are written.
type postingList struct {
	data      []byte
	last      uint32 // the document that was written last
	documents int
	// current is the document that is counted; nothing is counted before the first.
	current posting
}

// count adds a document once more.
func (l *postingList) countDocument(doc uint32) {
	if l.current.count > 0 && l.current.doc == doc {
		l.current.count++
		return
	}
	l.flush()
	l.current = posting{doc: doc, count: 1}
}

func (l *postingList) flush() {
	if l.current.count > 0 {
		l.appendPosting(l.current)
	}
	l.current.count = 0
}

func (l *postingList) appendPosting(p posting) {
	v := uint64(p.doc-l.last) << 1
	if p.count > 1 {
		l.data = binary.AppendUvarint(l.data, v|1)
		l.data = binary.AppendUvarint(l.data, uint64(p.count))
	} else {
		l.data = binary.AppendUvarint(l.data, v)
	}
	l.last = p.doc
	l.documents++
}

func (l *postingList) reset() { *l = postingList{data: l.data[:0]} }
