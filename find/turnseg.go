package find

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"agentd/event"
	"agentd/index"
	"agentd/store"
)

// turnRow is what the index has of a turn. Its ids and its input are in the fact at First.
type turnRow struct {
	SessionID, Account string
	// First is the sequence of turn.submitted, Last that of the turn's newest fact.
	First, Last     uint64
	Status, Outcome string
	Model           string
	Workspace       string
	// Tools are the names of the tools that were called, ordered, one a line.
	Tools string
	// Started is when the turn left the queue, or was submitted, in microseconds.
	Started    int64
	DurationMs int64
	CostUSD    float64
	Usage      event.Usage
}

func (r *turnRow) startedAt() time.Time { return time.UnixMicro(r.Started).UTC() }

// addTool notes that a tool was called.
func (r *turnRow) addTool(name string) {
	tools := strings.Split(r.Tools, "\n")
	if r.Tools == "" {
		tools = nil
	}
	if i, found := slices.BinarySearch(tools, name); !found {
		r.Tools = strings.Join(slices.Insert(tools, i, name), "\n")
	}
}

// turnWriter makes a segment of turns: a table of texts, and rows that refer to it.
type turnWriter struct {
	texts  []byte
	places map[string]uint64
	rows   []byte
	count  int
	last   int64 // when the row before started
}

func newTurnWriter() *turnWriter {
	return &turnWriter{places: map[string]uint64{}}
}

func (w *turnWriter) place(text string) uint64 {
	n, ok := w.places[text]
	if !ok {
		n = uint64(len(w.places))
		w.places[text] = n
		w.texts = appendText(w.texts, text)
	}
	return n
}

func (w *turnWriter) addRow(r *turnRow) {
	b := w.rows
	for _, text := range []string{r.SessionID, r.Account, r.Status, r.Outcome, r.Model, r.Workspace, r.Tools} {
		b = binary.AppendUvarint(b, w.place(text))
	}
	b = binary.AppendUvarint(b, r.First)
	b = binary.AppendUvarint(b, r.Last-r.First)
	b = binary.AppendUvarint(b, zigzag(r.Started-w.last))
	b = binary.AppendUvarint(b, uint64(max(r.DurationMs, 0)))
	for _, n := range []int64{r.Usage.InputTokens, r.Usage.OutputTokens, r.Usage.CachedInputTokens, r.Usage.ReasoningTokens} {
		b = binary.AppendUvarint(b, uint64(max(n, 0)))
	}
	if r.CostUSD == 0 {
		b = append(b, 0)
	} else {
		b = append(b, 1)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(r.CostUSD))
	}
	w.rows, w.last = b, r.Started
	w.count++
}

func zigzag(n int64) uint64 { return uint64(n<<1) ^ uint64(n>>63) }

func unzigzag(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }

func (w *turnWriter) finish() []byte {
	b := binary.AppendUvarint(nil, uint64(len(w.places)))
	b = append(b, w.texts...)
	b = binary.AppendUvarint(b, uint64(w.count))
	return append(b, w.rows...)
}

// decodeTurns calls f with the rows of a segment.
func decodeTurns(data []byte, f func(*turnRow)) error {
	d := decoder{data: data}
	texts := make([]string, 0, min(d.peek(), uint64(len(data))))
	for n := d.uint(); n > 0 && !d.failed; n-- {
		texts = append(texts, d.text())
	}
	text := func() string {
		if n := d.uint(); n < uint64(len(texts)) {
			return texts[n]
		}
		d.failed = true
		return ""
	}
	last := int64(0)
	for n := d.uint(); n > 0 && !d.failed; n-- {
		r := turnRow{SessionID: text(), Account: text(), Status: text(), Outcome: text(), Model: text(), Workspace: text(), Tools: text()}
		r.First = d.uint()
		r.Last = r.First + d.uint()
		last += unzigzag(d.uint())
		r.Started, r.DurationMs = last, int64(d.uint())
		r.Usage = event.Usage{InputTokens: int64(d.uint()), OutputTokens: int64(d.uint()), CachedInputTokens: int64(d.uint()), ReasoningTokens: int64(d.uint())}
		if flag := d.takeBytes(1); len(flag) == 1 && flag[0] == 1 {
			r.CostUSD = d.float()
		}
		if !d.failed {
			f(&r)
		}
	}
	if d.failed {
		return fmt.Errorf("%w: a segment of turns", store.ErrCorrupt)
	}
	return nil
}

// peek returns the number that comes next.
func (d *decoder) peek() uint64 {
	v, _ := binary.Uvarint(d.data)
	return v
}

// readTurns calls f with the rows of a stored segment.
func readTurns(ctx context.Context, read index.Reader, s segment, f func(*turnRow)) error {
	r := segmentReader{read: read, kind: TurnsName, id: s.id, size: s.size}
	data, err := r.bytes(ctx, 0, s.size)
	if err != nil {
		return err
	}
	return decodeTurns(data, f)
}

// turnsHaveGone reports whether a segment has turns whose first fact was removed.
func turnsHaveGone(ctx context.Context, read index.Reader, s segment, gone map[string]uint64) (has bool, err error) {
	err = readTurns(ctx, read, s, func(r *turnRow) { has = has || r.First <= gone[r.SessionID] })
	return has, err
}

// mergeTurns makes one segment of several, without what is gone.
func mergeTurns(ctx context.Context, read index.Reader, from []segment, gone map[string]uint64) ([]byte, int, error) {
	w := newTurnWriter()
	for _, s := range from {
		err := readTurns(ctx, read, s, func(r *turnRow) {
			if r.First > gone[r.SessionID] {
				w.addRow(r)
			}
		})
		if err != nil {
			return nil, 0, err
		}
	}
	return w.finish(), w.count, nil
}
