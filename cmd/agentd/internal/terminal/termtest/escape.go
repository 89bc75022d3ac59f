package termtest

import (
	"slices"
	"strconv"
	"strings"
)

// escape carries out a sequence and returns its length; 0 if it isn't whole.
func (e *Emulator) escape(s string) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '[':
		return e.csi(s)
	case ']':
		return e.osc(s)
	case 'M': // one line up
		if first, end := e.region(); e.row == first {
			e.shiftLines(first, end, -1)
		} else {
			e.row = max(e.row-1, e.top)
		}
	case '7', '8', '=', '>':
		// nothing that is drawn depends on them
	default:
		e.Unknown = append(e.Unknown, s[:2])
	}
	return 2
}

// osc takes a command to the terminal: a title, or a notification.
func (e *Emulator) osc(s string) int {
	end, after := strings.IndexByte(s, '\a'), 1
	if i := strings.Index(s, "\x1b\\"); i >= 0 && (end < 0 || i < end) {
		end, after = i, 2
	}
	if end < 0 {
		return 0
	}
	number, text, _ := strings.Cut(s[2:end], ";")
	switch number {
	case "0", "2":
		e.Title = text
	case "9", "777":
		e.Notices = append(e.Notices, s[2:end])
	case "10", "11", "12", "110", "111", "112":
		// colours
	default:
		e.Unknown = append(e.Unknown, s[:end+after])
	}
	return end + after
}

// csi takes a control sequence.
func (e *Emulator) csi(s string) int {
	end := 2
	for end < len(s) && (s[end] < 0x40 || s[end] > 0x7e) {
		end++
	}
	if end == len(s) {
		return 0
	}
	args, final := s[2:end], s[end]
	if strings.ContainsAny(args, "?><=$ ") {
		e.private(s[:end+1], args, final)
		return end + 1
	}
	var n []int
	for field := range strings.SplitSeq(args, ";") {
		v, err := strconv.Atoi(field)
		if err != nil {
			v = 0
		}
		n = append(n, v)
	}
	if !e.moves(final, n) && !e.changes(final, n) && final != 'm' && final != 'h' && final != 'l' {
		e.Unknown = append(e.Unknown, s[:end+1])
	}
	return end + 1
}

// private takes the modes and questions that only some terminals know.
func (e *Emulator) private(all, args string, final byte) {
	switch {
	case args == "?1049" && final == 'h' && e.main == nil:
		e.main = &screen{lines: e.lines, top: e.top, row: e.row, col: e.col}
		e.lines, e.top, e.row, e.col = make([][]string, e.Rows), 0, 0, 0
	case args == "?1049" && final == 'l' && e.main != nil:
		e.lines, e.top, e.row, e.col = e.main.lines, e.main.top, e.main.row, e.main.col
		e.main = nil
	case final == 'h', final == 'l', final == 'p', final == 'u', final == 'm', final == 'q', final == 'W':
		// modes, questions about them, keyboard protocols, the shape of the cursor, tab stops
	default:
		e.Unknown = append(e.Unknown, all)
	}
}

// moves puts the cursor elsewhere, and reports whether the sequence does.
func (e *Emulator) moves(final byte, n []int) bool {
	by := max(n[0], 1)
	bottom := e.top + e.Rows - 1
	switch final {
	case 'A':
		e.row = max(e.row-by, e.top)
	case 'B':
		e.row = min(e.row+by, bottom)
	case 'C':
		e.col = min(e.col+by, e.Cols-1)
	case 'D':
		e.col = max(e.col-by, 0)
	case 'E':
		e.row, e.col = min(e.row+by, bottom), 0
	case 'F':
		e.row, e.col = max(e.row-by, e.top), 0
	case 'G', '`':
		e.col = min(by-1, e.Cols-1)
	case 'd':
		e.row = min(e.top+by-1, bottom)
	case 'H', 'f':
		e.row, e.col = min(e.top+by-1, bottom), 0
		if len(n) > 1 {
			e.col = min(max(n[1], 1)-1, e.Cols-1)
		}
	case 'I':
		e.col = min((e.col/8+by)*8, e.Cols-1)
	case 'Z':
		e.col = max(((e.col+7)/8-by)*8, 0)
	default:
		return false
	}
	e.reach(e.row)
	return true
}

// changes erases, inserts and deletes, and reports whether the sequence does.
func (e *Emulator) changes(final byte, n []int) bool {
	by := max(n[0], 1)
	line := e.lines[e.row]
	switch final {
	case 'J':
		e.erase(n[0])
	case 'K':
		e.eraseLine(n[0])
	case 'X':
		for i := e.col; i < min(e.col+by, len(line)); i++ {
			line[i] = " "
		}
	case 'P':
		if e.col < len(line) {
			e.lines[e.row] = slices.Delete(line, e.col, min(e.col+by, len(line)))
		}
	case '@':
		if e.col < len(line) {
			e.lines[e.row] = slices.Insert(line, e.col, slices.Repeat([]string{" "}, by)...)[:min(len(line)+by, e.Cols)]
		}
	case 'b':
		for range by {
			e.putRune(e.last)
		}
	case 'L', 'M':
		if _, end := e.region(); e.row < end {
			e.shiftLines(e.row, end, map[byte]int{'L': -by, 'M': by}[final])
		}
		e.col = 0
	case 'S', 'T':
		first, end := e.region()
		e.shiftLines(first, end, map[byte]int{'S': by, 'T': -by}[final])
	case 'r':
		e.scrollIn(n)
	case 't', 'c', 'n', 's', 'u', 'g':
		// questions, saved positions, tab stops
	default:
		return false
	}
	return true
}

func (e *Emulator) erase(how int) {
	switch how {
	case 0:
		e.lines = e.lines[:e.row+1]
		e.lines[e.row] = e.lines[e.row][:min(e.col, len(e.lines[e.row]))]
		if e.main != nil {
			e.reach(e.top + e.Rows - 1)
		}
	case 1:
		for i := e.top; i < e.row; i++ {
			e.lines[i] = nil
		}
		e.eraseLine(1)
	case 2:
		e.reach(e.top + e.Rows - 1)
		for i := e.top; i < len(e.lines); i++ {
			e.lines[i] = nil
		}
	}
}

func (e *Emulator) eraseLine(how int) {
	line := e.lines[e.row]
	switch how {
	case 0:
		e.lines[e.row] = line[:min(e.col, len(line))]
	case 1:
		for i := range min(e.col+1, len(line)) {
			line[i] = " "
		}
	default:
		e.lines[e.row] = nil
	}
}

// scrollIn sets the rows that scroll, and puts the cursor into the corner.
func (e *Emulator) scrollIn(n []int) {
	e.from, e.to = max(n[0], 1)-1, e.Rows
	if len(n) > 1 && n[1] > 0 {
		e.to = min(n[1], e.Rows)
	}
	if e.from == 0 && e.to == e.Rows || e.from >= e.to {
		e.from, e.to = 0, 0
	}
	e.row, e.col = e.top, 0
}

// region returns the lines that scroll, without the last.
func (e *Emulator) region() (first, end int) {
	if e.to == 0 {
		return e.top, e.top + e.Rows
	}
	return e.top + e.from, e.top + min(e.to, e.Rows)
}

// shiftLines moves lines up by so many, or down if it is negative; those that leave are
// lost.
func (e *Emulator) shiftLines(first, end, by int) {
	e.reach(end - 1)
	was := slices.Clone(e.lines[first:end])
	for i := range was {
		e.lines[first+i] = nil
		if from := i + by; from >= 0 && from < len(was) {
			e.lines[first+i] = was[from]
		}
	}
}
