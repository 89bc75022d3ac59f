package evidence

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"
)

const (
	// markBlock is how many bytes lie between two marks at first, maxMarks how many
	// there are at most: in a long file they lie further apart.
	markBlock = 128
	maxMarks  = 1 << 15
)

var (
	markTable = crc32.MakeTable(crc32.Castagnoli)
	// markTop finds an entry of the table: each has another highest byte.
	markTop = func() (byTop [256]byte) {
		for i, sum := range markTable {
			byTop[sum>>24] = byte(i)
		}
		return byTop
	}()
)

// marks show where in a file a change is: checksums of its bytes up to regular
// positions. Hashes show that something was changed, and the signature that the marks
// are those of the export; a checksum that was forged on purpose hides the place and
// nothing else. They are about bytes, and useless once the same content was written in
// another layout.
type marks struct {
	// Block is the number of bytes between two marks.
	Block int64 `json:"block"`
	// From is the first byte that these marks are about, Head the checksum of those
	// before it: the id and the time of an export, so that all else is the same in two
	// exports of the same facts. The last byte is the one before the proof.
	From int64  `json:"from,omitempty"`
	Head uint32 `json:"head,omitempty"`
	// Sums are the checksums, four bytes each.
	Sums []byte `json:"sums"`
}

// marker makes the marks of what is written to it.
type marker struct {
	block, inBlock int64
	sum            uint32
	sums           []uint32
	from           int64
	head           uint32
}

// begin makes what was written so far the head.
func (m *marker) begin() {
	from := m.from + int64(len(m.sums))*m.block + m.inBlock
	*m = marker{block: markBlock, from: from, head: m.sum}
}

func newMarker() *marker { return &marker{block: markBlock} }

// Write never fails.
func (m *marker) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part := p[:min(int64(len(p)), m.block-m.inBlock)]
		m.sum = crc32.Update(m.sum, markTable, part)
		m.inBlock += int64(len(part))
		p = p[len(part):]
		if m.inBlock == m.block {
			m.full()
		}
	}
	return n, nil
}

// full ends a block. When there are too many, every second mark goes.
func (m *marker) full() {
	m.sums, m.inBlock = append(m.sums, m.sum), 0
	if len(m.sums) < maxMarks {
		return
	}
	for i := range len(m.sums) / 2 {
		m.sums[i] = m.sums[2*i+1]
	}
	m.sums, m.block = m.sums[:len(m.sums)/2], 2*m.block
}

func (m *marker) marks() *marks {
	sums := m.sums
	if m.inBlock > 0 || len(sums) == 0 {
		sums = append(slices.Clip(sums), m.sum)
	}
	out := &marks{Block: m.block, From: m.from, Head: m.head, Sums: make([]byte, 0, 4*len(sums))}
	for _, s := range sums {
		out.Sums = binary.BigEndian.AppendUint32(out.Sums, s)
	}
	return out
}

// place is where a change begins: at the byte from if exact, else somewhere from
// there to before until.
type place struct {
	from, until int64
	exact       bool
}

// first returns the place of the first change in what was marked; nil if all marks
// hold. Marks that no export has could make it slow.
func (m *marks) first(r io.Reader) (*place, error) {
	if m.Block < markBlock || m.Block > 1<<24 || m.From < 0 || m.From > 1<<20 || len(m.Sums)%4 != 0 || len(m.Sums) > 4*maxMarks {
		return nil, errors.New("the marks can't be used")
	}
	in := bufio.NewReader(r)
	p, err := differs(in, make([]byte, m.From), 0, new(uint32), m.Head)
	if p != nil || err != nil {
		return p, err
	}
	block, at, sum := make([]byte, m.Block), m.From, uint32(0)
	for rest := m.Sums; len(rest) > 0; rest = rest[4:] {
		p, err := differs(in, block, at, &sum, binary.BigEndian.Uint32(rest))
		if p != nil || err != nil {
			return p, err
		}
		at += m.Block
	}
	return nil, nil //nolint:nilnil // nothing was changed, which is not an error
}

// differs reads the next block and says where it differs from its checksum.
func differs(r *bufio.Reader, block []byte, at int64, sum *uint32, want uint32) (*place, error) {
	n, err := io.ReadFull(r, block)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	before := *sum
	if *sum = crc32.Update(before, markTable, block[:n]); *sum == want {
		return nil, nil //nolint:nilnil // nothing was changed, which is not an error
	}
	i, ok := changedByte(n, *sum^want)
	if !ok {
		next, _ := r.Peek(1)
		i, ok = shifted(block[:n], next, before, want)
	}
	if ok {
		return &place{from: at + int64(i), until: at + int64(i) + 1, exact: true}, nil
	}
	return &place{from: at, until: at + max(int64(n), 1)}, nil
}

// changedByte finds the one byte of a block which, if it alone was another, explains
// by how much the checksum is wrong. A checksum is linear: the difference that one
// byte makes goes through the bytes after it whatever they are, so it can be
// followed back from the end of the block.
func changedByte(length int, difference uint32) (at int, ok bool) {
	for i := length - 1; i >= 0; i-- {
		k := markTop[difference>>24]
		if markTable[k] == difference {
			if ok {
				return 0, false // two explanations are none
			}
			at, ok = i, true
		}
		difference = (difference^markTable[k])<<8 | uint32(k)
	}
	return at, ok
}

// proofLine begins the line of the proof in a file that this package wrote.
var proofLine = []byte("\n\"integrity\":")

// maxProof bounds the proof of a file whose sections can't be read.
const maxProof = 4 << 20

// lastProof looks for the proof at the end of a file, and returns it with the offset
// of its value and the size of the file. There may be none.
func lastProof(r io.Reader) (proof []byte, at, size int64, err error) {
	var tail []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		size += int64(n)
		if tail = append(tail, buf[:n]...); len(tail) > 2*maxProof {
			tail = append(tail[:0], tail[len(tail)-maxProof:]...)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, 0, size, err
		}
	}
	i := bytes.LastIndex(tail, proofLine)
	if i < 0 {
		return nil, 0, size, nil
	}
	begin := i + len(proofLine)
	return tail[begin:], size - int64(len(tail)-begin), size, nil
}
