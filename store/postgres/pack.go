package postgres

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/klauspost/compress/s2"

	"agentd/store"
)

// Records that are appended to a session in one transaction share rows: a pack is a row whose
// sequence is that of its last record, and whose hash is the last record's followed by the
// first sequence. So a statement that deletes or moves whole rows needn't know of packs, and
// a node of a version that doesn't know them finds a row that doesn't match its checksum,
// never records that aren't right.
//
// data of a pack is a byte that says in which form the contents are, the number of records,
// the length of each, the hashes of all but the last, and the contents behind one another.

const (
	// maxPacked and maxPackedBytes bound the records and the contents of a pack. A read that
	// ends within a pack looks for it among the next maxPacked sequences.
	maxPacked      = 32
	maxPackedBytes = 64 << 10
	// compressFrom is the size from which contents are compressed if that makes them smaller,
	// also those of one record.
	compressFrom = 512

	hashSize     = len(store.Hash{})
	packHashSize = hashSize + 8
)

// Forms of a pack's contents.
const (
	packRaw byte = iota
	packS2
)

// beyondPack returns a bound for rows that have records before a sequence: none of them ends
// there or later.
func beyondPack(before int64) int64 {
	return before + min(maxPacked-1, math.MaxInt64-before)
}

// eventRow is a row of agentd.events.
type eventRow struct {
	sequence int64
	// key has the hash of the last record, and in a pack the first sequence.
	key  []byte
	crc  int64
	data []byte
}

// first returns the sequence of the row's first record.
func (r *eventRow) first() int64 {
	if len(r.key) != packHashSize {
		return r.sequence
	}
	return int64(binary.BigEndian.Uint64(r.key[hashSize:]))
}

// records returns what is in the row, or what is wrong with it.
func (r *eventRow) records(session string) ([]store.Record, error) {
	if checksum(session, uint64(r.sequence), r.key, r.data) != r.crc {
		return nil, fmt.Errorf("postgres: read: %w: session %s: record %d doesn't match its checksum", store.ErrCorrupt, session, r.sequence)
	}
	if len(r.key) != packHashSize {
		return []store.Record{{Sequence: uint64(r.sequence), Data: r.data, Hash: toHash(r.key)}}, nil
	}
	list, ok := r.unpack()
	if !ok {
		return nil, fmt.Errorf("postgres: read: %w: session %s: the records %d to %d can't be read", store.ErrCorrupt, session, r.first(), r.sequence)
	}
	return list, nil
}

func (r *eventRow) unpack() ([]store.Record, bool) {
	data := r.data
	if len(data) == 0 {
		return nil, false
	}
	form, data := data[0], data[1:]
	number := func() int {
		n, size := binary.Uvarint(data)
		if size <= 0 || n > math.MaxInt32 {
			return -1
		}
		data = data[size:]
		return int(n)
	}
	n, first := number(), r.first()
	if n < 1 || n > maxPacked || first < 1 || r.sequence-first != int64(n-1) {
		return nil, false
	}
	var lengths [maxPacked]int
	total := 0
	for i := range n {
		if lengths[i] = number(); lengths[i] < 0 {
			return nil, false
		}
		total += lengths[i]
	}
	if len(data) < (n-1)*hashSize {
		return nil, false
	}
	hashes, contents := data[:(n-1)*hashSize], data[(n-1)*hashSize:]
	if form == packS2 {
		if size, err := s2.DecodedLen(contents); err != nil || size != total {
			return nil, false
		}
		var err error
		if contents, err = s2.Decode(nil, contents); err != nil {
			return nil, false
		}
	}
	if form > packS2 || len(contents) != total {
		return nil, false
	}
	list := make([]store.Record, n)
	for i := range list {
		list[i].Sequence = uint64(first) + uint64(i)
		list[i].Data, contents = contents[:lengths[i]:lengths[i]], contents[lengths[i]:]
		if i < n-1 {
			list[i].Hash, hashes = toHash(hashes[:hashSize]), hashes[hashSize:]
		}
	}
	list[n-1].Hash = toHash(r.key[:hashSize])
	return list, true
}

// packer makes rows of records. It is for one goroutine.
type packer struct {
	// packs says whether records may share a row.
	packs  bool
	packed bool // whether there was a pack
	joined []byte
}

// rows calls put with the rows of records that follow one another.
func (p *packer) rows(session string, records []*store.Record, put func(*eventRow)) {
	for len(records) > 0 {
		n := 1
		for size := len(records[0].Data); p.packs && n < len(records) && n < maxPacked; n++ {
			if size += len(records[n].Data); size > maxPackedBytes {
				break
			}
		}
		row := p.rowOf(session, records[:n])
		put(&row)
		records = records[n:]
	}
}

// rowOf returns the row of some records.
func (p *packer) rowOf(session string, list []*store.Record) eventRow {
	last := list[len(list)-1]
	row := eventRow{sequence: int64(last.Sequence), key: last.Hash[:], data: nonNil(last.Data)}
	if packed := p.packData(list); packed != nil {
		p.packed = true
		row.key = binary.BigEndian.AppendUint64(append(make([]byte, 0, packHashSize), last.Hash[:]...), list[0].Sequence)
		row.data = packed
	}
	row.crc = checksum(session, last.Sequence, row.key, row.data)
	return row
}

// packData returns the data of a pack, nil if the record is better off alone.
func (p *packer) packData(list []*store.Record) []byte {
	if !p.packs || (len(list) == 1 && (len(list[0].Data) < compressFrom || len(list[0].Data) > maxPackedBytes)) {
		return nil
	}
	p.joined = p.joined[:0]
	for _, r := range list {
		p.joined = append(p.joined, r.Data...)
	}
	size := len(p.joined)
	data := make([]byte, 1, 1+binary.MaxVarintLen32*(len(list)+1)+hashSize*len(list)+s2.MaxEncodedLen(size))
	data = binary.AppendUvarint(data, uint64(len(list)))
	for _, r := range list {
		data = binary.AppendUvarint(data, uint64(len(r.Data)))
	}
	for _, r := range list[:len(list)-1] {
		data = append(data, r.Hash[:]...)
	}
	if size >= compressFrom {
		small := s2.Encode(data[len(data):cap(data)], p.joined)
		if len(small) < size-size/8 {
			data[0] = packS2
			return data[:len(data)+len(small)]
		}
	}
	if len(list) == 1 {
		return nil
	}
	data[0] = packRaw
	return append(data, p.joined...)
}

// packing decides whether records are packed. While a node that can't read packs has a lease,
// they aren't: each append asks the database for such nodes, and one that packed while there
// is one is rejected and tried again without packs. The zero value packs.
type packing struct {
	former atomic.Bool // whether there was such a node when the database was asked last
	// decide, if not nil, decides for tests.
	decide atomic.Pointer[func() bool]
}

func (p *packing) mayPack() bool {
	if decide := p.decide.Load(); decide != nil {
		return (*decide)()
	}
	return !p.former.Load()
}
