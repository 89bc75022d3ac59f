package find

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"agentd/event"
	"agentd/index"
	"agentd/store"
)

// manifestKey is the entry that lists a projection's segments.
const manifestKey = "m"

// segment is a part of an index: rows or documents that were added one after the other.
type segment struct {
	id   uint64
	size int // in bytes
	docs int
}

// manifest says what an index consists of.
type manifest struct {
	// next is the id of the next segment.
	next uint64
	// segments, the oldest first.
	segments []segment
	// gone are sessions whose facts were removed through a sequence, until no segment
	// has them.
	gone map[string]uint64
}

// deletedThrough stands for all facts that a session ever had.
const deletedThrough = math.MaxUint64

func loadManifest(ctx context.Context, read index.Reader, kind string) (*manifest, error) {
	data, err := read.Get(ctx, kind, manifestKey)
	if errors.Is(err, store.ErrNotFound) {
		return &manifest{next: 1, gone: map[string]uint64{}}, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := decodeManifest(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	return m, nil
}

func (m *manifest) op(kind string) store.IndexOp {
	return store.IndexOp{Entry: store.Entry{Kind: kind, Key: manifestKey, Value: m.encode()}}
}

func (m *manifest) encode() []byte {
	b := binary.AppendUvarint(nil, m.next)
	b = binary.AppendUvarint(b, uint64(len(m.segments)))
	for _, s := range m.segments {
		b = binary.AppendUvarint(b, s.id)
		b = binary.AppendUvarint(b, uint64(s.size))
		b = binary.AppendUvarint(b, uint64(s.docs))
	}
	b = binary.AppendUvarint(b, uint64(len(m.gone)))
	for _, id := range slices.Sorted(maps.Keys(m.gone)) {
		b = appendText(b, id)
		b = binary.AppendUvarint(b, m.gone[id])
	}
	return b
}

func decodeManifest(data []byte) (*manifest, error) {
	d := decoder{data: data}
	m := &manifest{next: d.uint(), gone: map[string]uint64{}}
	for n := d.uint(); n > 0 && !d.failed; n-- {
		m.segments = append(m.segments, segment{id: d.uint(), size: int(d.uint()), docs: int(d.uint())})
	}
	for n := d.uint(); n > 0 && !d.failed; n-- {
		id := d.text()
		m.gone[id] = d.uint()
	}
	if d.failed {
		return nil, fmt.Errorf("%w: the list of segments", store.ErrCorrupt)
	}
	return m, nil
}

// clone returns a copy that can be changed.
func (m *manifest) clone() *manifest {
	return &manifest{next: m.next, segments: slices.Clone(m.segments), gone: maps.Clone(m.gone)}
}

// addSegment stores a new segment and lists it.
func (m *manifest) addSegment(kind string, data []byte, docs int) []store.IndexOp {
	s := segment{id: m.next, size: len(data), docs: docs}
	m.next++
	m.segments = append(m.segments, s)
	return putPages(kind, s.id, data)
}

// replace puts one segment, or none, in the place of some.
func (m *manifest) replace(kind string, from, to int, data []byte, docs int) []store.IndexOp {
	var ops []store.IndexOp
	for _, s := range m.segments[from:to] {
		ops = append(ops, removePages(kind, s)...)
	}
	var put []segment
	if docs > 0 {
		put = []segment{{id: m.next, size: len(data), docs: docs}}
		ops = append(ops, putPages(kind, m.next, data)...)
		m.next++
	}
	m.segments = slices.Concat(m.segments[:from:from], put, m.segments[to:])
	return ops
}

// noteRemoved takes over what facts say about removed facts, and reports whether one did.
func (m *manifest) noteRemoved(facts []index.Fact) bool {
	noted := false
	for i := range facts {
		switch p := facts[i].Event.Payload.(type) {
		case *event.SessionDeleted:
			m.gone[p.DeletedSessionID] = deletedThrough
			noted = true
		case *event.SnapshotRepaired:
			id := facts[i].SessionID
			if p.Reason == reasonRetention && m.gone[id] < p.GapTo {
				m.gone[id] = p.GapTo
				noted = true
			}
		}
	}
	return noted
}

// reasonRetention is the reason of a fact that says that earlier ones were removed.
const reasonRetention = "retention"

const (
	// fanout is how many segments of one level become one of the next.
	fanout = 8
	// fullSegment is how many documents a segment has that isn't merged any more,
	// maxMerged how many a merge makes at most. They bound how long a merge takes, and
	// so for how long it can hold up a query.
	fullSegment = 32 << 10
	maxMerged   = 64 << 10
)

// level of a segment: those of one level differ in size by less than the fan-out.
func (s *segment) level() int {
	level := 0
	for n := s.docs; n >= fanout; n /= fanout {
		level++
	}
	return level
}

// pickMerge returns which adjacent segments are to become one: the newest of a level,
// with all smaller ones among them, once they are many. It is false if none are.
func pickMerge(segments []segment) (from, to int, ok bool) {
	for level := 0; ; level++ {
		from = len(segments)
		for from > 0 && segments[from-1].level() <= level && segments[from-1].docs < fullSegment {
			from--
		}
		docs := 0
		for to = from; to < len(segments) && docs+segments[to].docs <= maxMerged; to++ {
			docs += segments[to].docs
		}
		if to-from >= fanout {
			return from, to, true
		}
		if from == 0 || segments[from-1].docs >= fullSegment {
			return 0, 0, false
		}
	}
}

// decoder reads what the append functions wrote. After a failure it returns zeros.
type decoder struct {
	data   []byte
	failed bool
}

func (d *decoder) uint() uint64 {
	if len(d.data) > 0 && d.data[0] < 0x80 { // most are small
		v := d.data[0]
		d.data = d.data[1:]
		return uint64(v)
	}
	return d.longUint()
}

func (d *decoder) longUint() uint64 {
	v, n := binary.Uvarint(d.data)
	if n <= 0 {
		d.failed, d.data = true, nil
		return 0
	}
	d.data = d.data[n:]
	return v
}

func (d *decoder) takeBytes(n uint64) []byte {
	if n > uint64(len(d.data)) {
		d.failed, d.data = true, nil
		return nil
	}
	b := d.data[:n]
	d.data = d.data[n:]
	return b
}

func (d *decoder) text() string { return string(d.takeBytes(d.uint())) }

func (d *decoder) float() float64 {
	b := d.takeBytes(8)
	if len(b) < 8 {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
