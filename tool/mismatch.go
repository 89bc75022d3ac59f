package tool

import (
	"bytes"
	"fmt"
	"strings"

	"agentd/internal/clip"
)

const (
	// maxNearLines and maxNearBytes bound the texts that are compared to find out what
	// differs.
	maxNearLines = 50_000
	maxNearBytes = 8 << 20
	// maxShown is how much of a line a message shows.
	maxShown = 200
)

// mismatch says why old isn't in content: what differs, and where it would have
// been.
func mismatch(content []byte, in *editInput) *Error {
	e := &Error{
		Category: InvalidInput, Message: fmt.Sprintf("old was not found in %s", quoteName(in.Path)),
		Advice: "Copy it from the file again, exactly.",
	}
	if len(bytes.TrimSpace(content)) == 0 {
		e.Message += ": the file is empty"
		e.Advice = "Use write_file to give it a content."
		return e
	}
	if !smallEnough(content) || !smallEnough([]byte(in.Old)) {
		return e
	}
	lines := strings.Split(string(content), "\n")
	want := strings.Split(in.Old, "\n")
	unixed := strings.ReplaceAll(string(content), "\r\n", "\n")
	if i := strings.Index(unixed, strings.ReplaceAll(in.Old, "\r\n", "\n")); i >= 0 {
		e.Message += fmt.Sprintf(": only the line endings differ, from line %d on; the file mixes LF and CRLF", 1+strings.Count(unixed[:i], "\n"))
		if !strings.Contains(string(content), "\r\n") {
			e.Message = strings.TrimSuffix(e.Message, "; the file mixes LF and CRLF") + "; the file has LF"
		}
		return e
	}
	if at, n := sameButBlanks(lines, want); at >= 0 {
		e.Message += fmt.Sprintf(": only blanks differ in line%s; the file has:\n%s", lineSpan(at+1, at+n), excerpt(lines[at:at+n]))
		return e
	}
	if at, off := sharedBeginning(lines, want); at >= 0 {
		e.Message += fmt.Sprintf(": its first %s as in line %d on, but then line %d of the file is\n%s\nand old has\n%s",
			areLines(off), at+1, at+off+1, showLine(lineAt(lines, at+off)), showLine(want[off]))
		return e
	}
	if at := nearestLine(lines, firstLine(want)); at >= 0 {
		e.Message += fmt.Sprintf(": the nearest is line %d:\n%s", at+1, showLine(lines[at]))
		return e
	}
	e.Message += ": no line is like it"
	e.Advice = "Read the file first, or look for the text with search_files."
	return e
}

// smallEnough reports whether a text is small enough to be compared line by line.
func smallEnough(text []byte) bool {
	return len(text) <= maxNearBytes && bytes.Count(text, newline) < maxNearLines
}

func areLines(n int) string {
	if n == 1 {
		return "line is"
	}
	return fmt.Sprintf("%d lines are", n)
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(the file ends)"
}

func lineSpan(from, to int) string {
	if from == to {
		return fmt.Sprintf(" %d", from)
	}
	return fmt.Sprintf("s %d to %d", from, to)
}

func showLine(s string) string { return clip.Text(strings.TrimRight(s, "\r"), maxShown) }

// excerpt shows lines as they are, at most twenty.
func excerpt(lines []string) string {
	const shown = 20
	var b strings.Builder
	for i, l := range lines {
		if i == shown {
			fmt.Fprintf(&b, "… and %d more", len(lines)-shown)
			break
		}
		b.WriteString(showLine(l))
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// squeeze leaves of blanks in a line only where words are apart.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

func squeezeAll(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = squeeze(l)
	}
	return out
}

// sameButBlanks finds lines that equal want when blanks don't count, and returns
// where and how many; -1 if there are none.
func sameButBlanks(lines, want []string) (at, n int) {
	want = squeezeAll(want)
	for len(want) > 0 && want[0] == "" {
		want = want[1:]
	}
	for len(want) > 0 && want[len(want)-1] == "" {
		want = want[:len(want)-1]
	}
	if len(want) == 0 {
		return -1, 0
	}
	at, n = longestPrefix(squeezeAll(lines), want)
	if n < len(want) {
		return -1, 0
	}
	return at, n
}

// sharedBeginning finds the place where the most first lines of want stand, and
// returns it with their number; -1 if not even the first does.
func sharedBeginning(lines, want []string) (at, n int) {
	if len(want) < 2 || strings.TrimSpace(want[0]) == "" {
		return -1, 0
	}
	// All of want isn't there, except for ends of lines that don't count here.
	return longestPrefix(trimEnds(lines), trimEnds(want)[:len(want)-1])
}

func trimEnds(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = strings.TrimRight(l, "\r")
	}
	return out
}

// longestPrefix finds the first place where the most of want's first lines stand, in
// linear time (Knuth, Morris and Pratt); -1 if there is none.
func longestPrefix(lines, want []string) (at, n int) {
	// back[k] is the length of the longest beginning of want that also ends its first
	// k lines.
	back := make([]int, len(want)+1)
	for k, i := 0, 1; i < len(want); i++ {
		for k > 0 && want[i] != want[k] {
			k = back[k]
		}
		if want[i] == want[k] {
			k++
		}
		back[i+1] = k
	}
	at = -1
	for i, k := 0, 0; i < len(lines); i++ {
		for k > 0 && lines[i] != want[k] {
			k = back[k]
		}
		if lines[i] == want[k] {
			k++
		}
		if k > n {
			at, n = i-k+1, k
		}
		if k == len(want) {
			return at, n
		}
	}
	return at, n
}

func firstLine(lines []string) string {
	for _, l := range lines {
		if strings.TrimSpace(l) != "" {
			return l
		}
	}
	return ""
}

// nearestLine returns the line that shares the most with want, -1 if none shares
// half.
func nearestLine(lines []string, want string) int {
	pairs := pairsOf(want)
	if len(pairs) == 0 {
		return -1
	}
	best, at := 0.5, -1
	for i, l := range lines {
		if s := likeness(pairs, l); s > best {
			best, at = s, i
		}
	}
	return at
}

// pairsOf counts the pairs of neighbouring bytes in a line, blanks squeezed.
func pairsOf(s string) map[[2]byte]int {
	s = squeeze(clip.Text(s, 1000))
	pairs := make(map[[2]byte]int, len(s))
	for i := 1; i < len(s); i++ {
		pairs[[2]byte{s[i-1], s[i]}]++
	}
	return pairs
}

// likeness is the share of pairs that two lines have in common, 0 to 1.
func likeness(a map[[2]byte]int, line string) float64 {
	b := pairsOf(line)
	both, all := 0, 0
	for p, n := range a {
		both += min(n, b[p])
		all += n
	}
	for _, n := range b {
		all += n
	}
	if all == 0 {
		return 0
	}
	return 2 * float64(both) / float64(all)
}
