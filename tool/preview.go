package tool

import (
	"fmt"
	"strings"

	"agentd/internal/clip"
)

// Preview returns text, or its beginning and its end with a line between them
// that says what is missing, in at most n bytes. It cuts between lines if they
// are short enough, else between characters.
func Preview(text string, n int) string {
	if len(text) <= n {
		return text
	}
	const note = 64 // room for the line between
	if n <= note {
		return text[:clip.RuneStart(text, max(n, 0))]
	}
	room := n - note
	head := cutLineEnd(text, room-room/4)
	tail := cutLineStart(text, len(text)-room/4)
	lines := strings.Count(text[head:tail], "\n")
	between := fmt.Sprintf("[… %d bytes left out …]\n", tail-head)
	if lines > 1 {
		between = fmt.Sprintf("[… %d lines, %d bytes left out …]\n", lines, tail-head)
	}
	if head > 0 && text[head-1] != '\n' {
		between = "\n" + between
	}
	return text[:head] + between + text[tail:]
}

// cutLineEnd returns where to end a beginning of at most n bytes: after a line, if
// that keeps at least half of it.
func cutLineEnd(text string, n int) int {
	if i := strings.LastIndexByte(text[:n], '\n') + 1; i >= n/2 && i > 0 {
		return i
	}
	return clip.RuneStart(text, n)
}

// cutLineStart returns where to begin an end that starts at n at the earliest.
func cutLineStart(text string, n int) int {
	rest := text[n:]
	if i := strings.IndexByte(rest, '\n') + 1; i > 0 && i <= len(rest)/2 {
		return n + i
	}
	for n < len(text) && text[n]&0xC0 == 0x80 {
		n++
	}
	return n
}
