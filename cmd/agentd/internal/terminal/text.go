// Package terminal makes text for terminals.
//
// # Contract
//
// What others wrote goes through [Plain] or [PlainBlock] before it is shown: it can't
// move the cursor or change colours. What a person is asked about goes through [Exact]:
// it can't hide anything either. Colour is wanted or not, which an [Ink] knows.
// Nothing here writes. Everything may be used by many goroutines.
package terminal

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"agentd/event"
)

// Plain makes what others wrote safe to show: it can't move the cursor,
// change colours or break a line.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r' || unicode.In(r, unicode.Zl, unicode.Zp):
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, s)
}

// colour is what an [Ink] paints with.
var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// Coloured is PlainBlock that keeps colours. It is for lines that were put together from
// our own text and that of others: the last place where what was forgotten is caught.
func Coloured(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && r != '\t' && r != ' ' && !unicode.IsPrint(r) }) {
		return s
	}
	var b strings.Builder
	at := 0
	for _, c := range colour.FindAllStringIndex(s, -1) {
		b.WriteString(PlainBlock(s[at:c[0]]))
		b.WriteString(s[c[0]:c[1]])
		at = c[1]
	}
	return b.String() + PlainBlock(s[at:])
}

// Exact makes what others wrote safe to show and leaves nothing out: a character that
// isn't seen, or looks like a space and is none, is shown as a symbol or by its number.
// It is for what a person decides about. Lines and tabs stay.
func Exact(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r < ' ':
			b.WriteRune('\u2400' + r)
		case !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Clip shortens a text to so many columns; wide characters take two.
func Clip(s string, most int) string { return ansi.Truncate(s, most, "…") }

// PlainBlock is Plain that keeps lines and tabs.
func PlainBlock(s string) string {
	var b strings.Builder
	for piece := range strings.SplitAfterSeq(s, "\n") {
		body, end := strings.CutSuffix(piece, "\n")
		for i, field := range strings.Split(body, "\t") {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(Plain(field))
		}
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Wrap breaks a plain text at a width.
func Wrap(text string, cols int) []string {
	return strings.Split(ansi.Wrap(strings.ReplaceAll(text, "\t", "    "), max(cols-1, 1), ""), "\n")
}

// Sentences breaks lines that people read at the spaces, so that each fits a width, 0 for
// any. A line that goes on is indented as it began. A word that is too long, such as a
// path or an id, stays whole: it may be copied.
func Sentences(text string, cols int) string {
	if cols <= 0 {
		return text
	}
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		at := 0
		for j, word := range strings.Split(line, " ") {
			wide := ansi.StringWidth(word)
			switch {
			case j == 0:
			case at+1+wide >= cols && at > len(indent):
				b.WriteString("\n" + indent)
				at = len(indent)
			default:
				b.WriteByte(' ')
				at++
			}
			b.WriteString(word)
			at += wide
		}
	}
	return b.String()
}

// Took says how long something took, as far as it matters to people.
func Took(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Second:
		return strconv.FormatInt(ms, 10) + "ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	}
	return d.Round(time.Second).String()
}

// Money says what something cost. Small sums keep two digits that count.
func Money(usd float64) string {
	switch {
	case usd == 0:
		return "$0"
	case usd < 0.0001:
		return "<$0.0001"
	case usd < 0.1:
		return "$" + strconv.FormatFloat(usd, 'f', 4, 64)
	}
	return "$" + strconv.FormatFloat(usd, 'f', 2, 64)
}

// Count writes a number of tokens.
func Count(n int64) string {
	switch {
	case n < 10_000:
		return strconv.FormatInt(n, 10)
	case n < 1_000_000:
		return strconv.FormatFloat(float64(n)/1000, 'f', 1, 64) + "k"
	}
	return strconv.FormatFloat(float64(n)/1e6, 'f', 2, 64) + "M"
}

// Tokens says how many a turn took.
func Tokens(u *event.Usage) string {
	if u == nil {
		return ""
	}
	in := Count(u.InputTokens) + " in"
	if u.CachedInputTokens > 0 {
		in += " (" + Count(u.CachedInputTokens) + " cached)"
	}
	return in + " / " + Count(u.OutputTokens) + " out"
}

// Plural writes a number of things.
func Plural[N int | int64 | uint64](n N, what string) string {
	said := fmt.Sprintf("%d %s", n, what)
	if n == 1 {
		return said
	}
	if stem, ends := strings.CutSuffix(said, "y"); ends && !strings.ContainsAny(stem[len(stem)-1:], "aeou") {
		return stem + "ies"
	}
	return said + "s"
}

// JoinDots joins the texts that aren't empty with dots.
func JoinDots(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}
