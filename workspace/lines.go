package workspace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// diffContext is the number of equal lines around a change.
	diffContext = 3
	// maxEdits bounds the search for the shortest script of edits; texts that
	// differ more are shown as replaced where they differ.
	maxEdits = 1000
)

// edit replaces lines [a0,a1) of the old text by lines [b0,b1) of the new.
type edit struct{ a0, a1, b0, b1 int }

// unified writes the hunks that lead from one text to the other.
func unified(w *strings.Builder, old, now string) {
	a, b := splitLines(old), splitLines(now)
	for _, hunk := range hunks(editsOf(intern(a, b))) {
		writeHunk(w, a, b, hunk)
	}
}

// splitLines keeps the line ends, so that a missing last one shows.
func splitLines(text string) []string { return slices.Collect(strings.Lines(text)) }

// intern gives equal lines equal numbers.
func intern(a, b []string) ([]int32, []int32) {
	ids := map[string]int32{}
	number := func(lines []string) []int32 {
		out := make([]int32, len(lines))
		for i, line := range lines {
			id, ok := ids[line]
			if !ok {
				id = int32(len(ids))
				ids[line] = id
			}
			out[i] = id
		}
		return out
	}
	return number(a), number(b)
}

// editsOf returns the edits between two texts, in order, neighbours joined.
func editsOf(a, b []int32) []edit {
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	end := 0
	for end < len(a)-start && end < len(b)-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	a, b = a[start:len(a)-end], b[start:len(b)-end]
	if len(a) == 0 && len(b) == 0 {
		return nil
	}
	edits, ok := shortest(a, b)
	if !ok {
		edits = []edit{{0, len(a), 0, len(b)}}
	}
	for i := range edits {
		e := &edits[i]
		e.a0, e.a1, e.b0, e.b1 = e.a0+start, e.a1+start, e.b0+start, e.b1+start
	}
	return edits
}

// shortest finds a shortest script by Myers' greedy search: after d edits,
// reach[k] is how far into a one can be on the diagonal k = x-y.
func shortest(a, b []int32) ([]edit, bool) {
	limit := min(len(a)+len(b), maxEdits)
	reach := make([]int, 2*limit+3)
	at := func(k int) *int { return &reach[k+limit+1] }
	var trace [][]int
	for d := 0; d <= limit; d++ {
		for k := -d; k <= d; k += 2 {
			x := stepTo(*at(k - 1), *at(k + 1), k, d)
			y := x - k
			for x < len(a) && y < len(b) && y >= 0 && a[x] == b[y] {
				x, y = x+1, y+1
			}
			*at(k) = x
			if x >= len(a) && y >= len(b) {
				return backtrack(trace, len(a), len(b), d), true
			}
		}
		trace = append(trace, slices.Clone(reach[limit+1-d:limit+1+d+1]))
	}
	return nil, false
}

// stepTo returns where a diagonal is entered: by an insertion from the one above
// or by a deletion from the one below, whichever reaches further.
func stepTo(below, above, k, d int) int {
	if k == -d || k != d && below < above {
		return above
	}
	return below + 1
}

// backtrack walks the trace back. trace[d] has the reach on diagonals -d to d.
func backtrack(trace [][]int, x, y, d int) []edit {
	var edits []edit
	for ; d > 0; d-- {
		k := x - y
		last := func(k int) int {
			if k < -(d-1) || k > d-1 {
				return -1
			}
			return trace[d-1][k+d-1]
		}
		down := k == -d || k != d && last(k-1) < last(k+1)
		from := k + 1
		if !down {
			from = k - 1
		}
		px := last(from)
		py := px - from
		if down {
			edits = prepend(edits, edit{px, px, py, py + 1})
		} else {
			edits = prepend(edits, edit{px, px + 1, py, py})
		}
		x, y = px, py
	}
	slices.Reverse(edits)
	return edits
}

// prepend adds an edit that comes before the last one in a reversed list, joined
// with it if nothing is between them.
func prepend(edits []edit, e edit) []edit {
	if n := len(edits); n > 0 && edits[n-1].a0 == e.a1 && edits[n-1].b0 == e.b1 {
		edits[n-1].a0, edits[n-1].b0 = e.a0, e.b0
		return edits
	}
	return append(edits, e)
}

// hunks groups edits whose context touches.
func hunks(edits []edit) [][]edit {
	var out [][]edit
	for _, e := range edits {
		if n := len(out); n > 0 {
			last := out[n-1]
			if e.a0-last[len(last)-1].a1 <= 2*diffContext {
				out[n-1] = append(last, e)
				continue
			}
		}
		out = append(out, []edit{e})
	}
	return out
}

func writeHunk(w *strings.Builder, a, b []string, edits []edit) {
	first, last := edits[0], edits[len(edits)-1]
	before := min(diffContext, first.a0)
	after := min(diffContext, len(a)-last.a1)
	a0, a1 := first.a0-before, last.a1+after
	b0, b1 := first.b0-before, last.b1+after
	fmt.Fprintf(w, "@@ -%s +%s @@\n", hunkSpan(a0, a1), hunkSpan(b0, b1))
	at := a0
	for _, e := range edits {
		writeLines(w, ' ', a[at:e.a0])
		writeLines(w, '-', a[e.a0:e.a1])
		writeLines(w, '+', b[e.b0:e.b1])
		at = e.a1
	}
	writeLines(w, ' ', a[at:a1])
}

// hunkSpan returns lines [from,to) as a hunk's header has them: an empty range
// stands after the line before it.
func hunkSpan(from, to int) string {
	switch to - from {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return strconv.Itoa(from + 1)
	default:
		return fmt.Sprintf("%d,%d", from+1, to-from)
	}
}

func writeLines(w *strings.Builder, sign byte, lines []string) {
	for _, line := range lines {
		w.WriteByte(sign)
		w.WriteString(line)
		if !strings.HasSuffix(line, "\n") {
			w.WriteString("\n\\ No newline at end of file\n")
		}
	}
}
