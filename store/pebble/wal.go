package pebble

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Pebble's log is a file of 32 KiB blocks, filled with chunks. A record is one
// chunk or a first, middle and last one. A chunk is
//
//	checksum 4 · length 2 · encoding 1 · log number 4 · synced offset 8 · payload
//
// The synced offset says how much of the log was durable when the chunk was
// written. The first log of a new store is begun before Pebble has chosen that format:
// its chunks have encodings that are less by shortEncoding, and no synced offset. A log is
// longer than its records while it is written, with zeros behind them. It may reuse an old file, so behind its end there may be chunks of
// an older log, recognised by their number.
const (
	logBlock       = 32 << 10
	logHeader      = 19
	logShortHeader = 11
	encFull        = 9
	encFirst       = 10
	encMiddle      = 11
	encLast        = 12
	encTrailer     = 5 // written with the next log's number when a log is closed
	shortEncoding  = 4
)

// tail is what was found behind the last readable record of a log.
type tail struct {
	end    int64 // where the readable records end
	closed bool  // there is a trailer: nothing can follow
	torn   bool  // a chunk of this log begins at end, or goes on there, and can't be read
	later  int   // readable chunks of this log behind it
	proof  bool  // one of them says that what is unreadable was synced
}

// damaged reports whether something of this log can't be read.
func (t tail) damaged() bool { return !t.closed && (t.torn || t.later > 0) }

func (t tail) String() string {
	if t.later > 0 {
		return fmt.Sprintf("a record at offset %d can't be read, and %d readable pieces follow that are lost with it", t.end, t.later)
	}
	return fmt.Sprintf("the last record, at offset %d, can't be read: it was being written when the process stopped, or it is damaged", t.end)
}

// scanLog reads a log as Pebble does and looks at what is behind the point where
// Pebble stops.
func scanLog(data []byte, number uint64) tail {
	s := logScanner{data: data, number: uint32(number)}
	return s.scan()
}

type logScanner struct {
	data   []byte
	number uint32
}

// chunk is a readable piece of a log.
type chunk struct {
	encoding byte
	synced   uint64
	next     int // offset behind the chunk
}

func (s *logScanner) scan() tail {
	var t tail
	pos, inRecord := 0, false
	for {
		pos = s.skipPadding(pos)
		if s.trailer(pos) && !inRecord {
			return tail{end: int64(pos), closed: true}
		}
		c, ok := s.read(pos)
		if !ok {
			break
		}
		pos = c.next
		inRecord = c.encoding == encFirst || c.encoding == encMiddle
		if !inRecord {
			t.end = int64(pos)
		}
	}
	t.torn = inRecord || s.bearsNumber(pos)
	s.lookBehind(&t, pos)
	return t
}

// skipPadding steps over the zeros that fill a block in which no header fits.
func (s *logScanner) skipPadding(pos int) int {
	if left := logBlock - pos%logBlock; left < logHeader && pos+left <= len(s.data) {
		for _, b := range s.data[pos : pos+left] {
			if b != 0 {
				return pos
			}
		}
		return pos + left
	}
	return pos
}

// trailer reports whether the log was closed at pos.
func (s *logScanner) trailer(pos int) bool {
	if pos+logShortHeader > len(s.data) || s.data[pos+6] != encTrailer {
		return false
	}
	return binary.LittleEndian.Uint32(s.data[pos+7:]) == s.number+1
}

// read returns the chunk at pos if it is whole and of this log.
func (s *logScanner) read(pos int) (chunk, bool) {
	if pos+logShortHeader > len(s.data) {
		return chunk{}, false
	}
	h := s.data[pos:]
	enc, header := encodingOf(h[6])
	if header == 0 || pos+header > len(s.data) || binary.LittleEndian.Uint32(h[7:]) != s.number {
		return chunk{}, false
	}
	end := pos + header + int(binary.LittleEndian.Uint16(h[4:]))
	if end > len(s.data) || (end-1)/logBlock != pos/logBlock {
		return chunk{}, false
	}
	if logChecksum(s.data[pos+6:end]) != binary.LittleEndian.Uint32(h) {
		return chunk{}, false
	}
	c := chunk{encoding: enc, next: end}
	if header == logHeader {
		c.synced = binary.LittleEndian.Uint64(h[11:])
	}
	return c, true
}

// encodingOf returns which part of a record a chunk is, and how long its header is; 0 if
// there is no such encoding.
func encodingOf(b byte) (enc byte, header int) {
	switch {
	case b >= encFull && b <= encLast:
		return b, logHeader
	case b >= encFull-shortEncoding && b <= encLast-shortEncoding:
		return b + shortEncoding, logShortHeader
	}
	return 0, 0
}

// logChecksum is the checksum of a chunk, from its encoding on.
func logChecksum(b []byte) uint32 {
	c := crc32Update(0, b)
	return (c>>15 | c<<17) + 0xa282ead8
}

// bearsNumber reports whether what begins at pos was a chunk of this log: its
// number is there, or it would be whole with the right number.
func (s *logScanner) bearsNumber(pos int) bool {
	if pos+logShortHeader > len(s.data) {
		return s.cutHeader(pos)
	}
	h := s.data[pos:]
	if n := binary.LittleEndian.Uint32(h[7:]); n == s.number || (n == s.number+1 && h[6] != encTrailer) {
		return true
	}
	_, header := encodingOf(h[6])
	end := pos + header + int(binary.LittleEndian.Uint16(h[4:]))
	if header == 0 || end > len(s.data) {
		return false
	}
	fixed := append([]byte(nil), s.data[pos+6:end]...)
	binary.LittleEndian.PutUint32(fixed[1:], s.number)
	return logChecksum(fixed) == binary.LittleEndian.Uint32(h)
}

// cutHeader reports whether the file ends inside a header.
func (s *logScanner) cutHeader(pos int) bool {
	for i := pos; i < len(s.data); i++ {
		if s.data[i] != 0 {
			return true
		}
	}
	return false
}

// lookBehind searches for readable chunks of this log behind pos. A damaged
// length hides where the next chunk begins, so every offset is tried.
func (s *logScanner) lookBehind(t *tail, pos int) {
	number := binary.LittleEndian.AppendUint32(nil, s.number)
	for i := pos + 1; i+logShortHeader <= len(s.data); {
		next := bytes.Index(s.data[i+7:], number)
		if next < 0 {
			return
		}
		i += next
		c, ok := s.read(i)
		if !ok {
			i++
			continue
		}
		t.later++
		t.proof = t.proof || c.synced > uint64(pos)
		i = c.next
	}
}
