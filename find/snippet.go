package find

import (
	"strings"
	"unicode"

	"agentd/internal/clip"
)

// snippetSize is how many bytes of a text a snippet shows, or a little more.
const snippetSize = 160

// marked is a word of a text that was looked for.
type marked struct{ start, end, word int }

// snippet returns the part of a text that has the most of the words, on one line, with
// these marked.
func snippet(text string, words []queryWord) string {
	var found []marked
	eachWord(text, func(word []byte, start, end int) {
		if i := matches(words, word); i >= 0 {
			found = append(found, marked{start, end, i})
		}
	})
	if len(found) == 0 {
		return markText(clip.Prefix(text, snippetSize), nil, 0, false, len(text) > snippetSize)
	}
	first, last := bestWindow(found, len(words))
	from := max(found[first].start-max((snippetSize-(found[last].end-found[first].start))/2, 0), 0)
	to := min(max(from+snippetSize, found[last].end), len(text))
	from, to = wordStart(text, from), wordStart(text, to)
	to = max(to, found[last].end)
	from = min(from, found[first].start)
	var inside []marked
	for _, m := range found {
		if m.start >= from && m.end <= to {
			inside = append(inside, m)
		}
	}
	return markText(text[from:to], inside, from, from > 0, to < len(text))
}

// bestWindow returns the found words that stand close together and are of most kinds.
func bestWindow(found []marked, kinds int) (first, last int) {
	best, low := 0, 0
	counts := make([]int, kinds)
	distinct := 0
	for high := range found {
		if counts[found[high].word]++; counts[found[high].word] == 1 {
			distinct++
		}
		for found[high].end-found[low].start > snippetSize && low < high {
			if counts[found[low].word]--; counts[found[low].word] == 0 {
				distinct--
			}
			low++
		}
		if distinct > best {
			best, first, last = distinct, low, high
		}
	}
	return first, last
}

// wordStart returns the beginning of the character at i, or that of its word if it is near.
func wordStart(text string, i int) int {
	if i >= len(text) {
		return len(text)
	}
	i = clip.RuneStart(text, i)
	near := clip.RuneStart(text, max(i-16, 0))
	if space := strings.LastIndexFunc(text[near:i], unicode.IsSpace); space >= 0 {
		return near + space + 1
	}
	return i
}

// markText puts marks around words of a text that begins at an offset, and the rest on
// one line.
func markText(text string, words []marked, at int, before, after bool) string {
	var b strings.Builder
	if before {
		b.WriteString("…")
	}
	done := 0
	for _, m := range words {
		writeLine(&b, text[done:m.start-at])
		b.WriteString("**")
		writeLine(&b, text[m.start-at:m.end-at])
		b.WriteString("**")
		done = m.end - at
	}
	writeLine(&b, text[done:])
	out := strings.TrimSpace(b.String())
	if after {
		out += "…"
	}
	return out
}

// writeLine writes text with each run of white space as one space, and without what
// would look like a mark.
func writeLine(b *strings.Builder, text string) {
	space, star := strings.HasSuffix(b.String(), " "), false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r):
			if !space {
				b.WriteByte(' ')
			}
			space, star = true, false
			continue
		case r == '*' && star:
			continue
		}
		b.WriteRune(r)
		space, star = false, r == '*'
	}
}
