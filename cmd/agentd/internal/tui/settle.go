package tui

import "slices"

// settler keeps a drawing from leaving parts of itself behind when it becomes smaller.
//
// The renderer erases from the first row of what it drew, and counts the way there from
// the row of the cursor. When the new drawing has fewer rows than that, it counts from
// the last of them, and what lies above stays on the screen for good. So a drawing shrinks
// in two steps: first the rows are emptied while the cursor goes up, and once that was
// written to the terminal they go.
//
// What was written is known by a mark in the title of the window, which comes with the
// drawing. Its zero value is right for a drawing that has not begun.
type settler struct {
	// lowest is the lowest row that the cursor may stand in, whichever of the drawings
	// that were handed over is the one that was written last.
	lowest int
	// waiting says that a drawing with the mark was handed over and not seen yet; since
	// is the lowest row of the drawings from that one on.
	waiting bool
	since   int
	mark    bool
}

// isSafe reports whether a drawing of so many rows leaves nothing behind.
func (s *settler) isSafe(rows int) bool { return s.lowest < max(rows, 1) }

// settle returns what may be drawn in place of some lines with the cursor in a row, -1
// for none: the lines themselves, or these with empty rows below and a cursor that is in
// the lines.
func (s *settler) settle(lines []string, row int) (shown []string, cursor int) {
	stands := row
	if row < 0 {
		stands = len(lines) - 1
	}
	if s.isSafe(len(lines)) {
		s.lowest, s.since = max(s.lowest, stands), max(s.since, stands)
		return lines, row
	}
	if stands = min(max(stands, 0), max(len(lines)-1, 0)); !s.waiting {
		s.waiting, s.mark, s.since = true, !s.mark, stands
	}
	s.since = max(s.since, stands)
	return append(slices.Clip(lines), make([]string, s.lowest+1-len(lines))...), stands
}

// written takes the mark of what was written to the terminal.
func (s *settler) written(mark bool) {
	if s.waiting && mark == s.mark {
		s.waiting, s.lowest = false, s.since
	}
}

// await marks the next drawing, so that it is known when that was written.
func (s *settler) await() {
	if !s.waiting {
		s.waiting, s.mark, s.since = true, !s.mark, 0
	}
}

// titleMark is what the mark adds to the title: nothing that is seen.
const titleMark = " "

// marked is a title with the mark.
func (s *settler) marked(title string) string {
	if s.mark {
		title += titleMark
	}
	return title
}

// markedAsWritten is a title with the mark of the drawing that was written last: it
// comes with something else than a drawing.
func (s *settler) markedAsWritten(title string) string {
	if s.mark != s.waiting {
		title += titleMark
	}
	return title
}
