package tool

import (
	"bytes"
	"regexp/syntax"
	"strings"
)

// needle is a piece of text that is in every match of a pattern. Text without it
// needs no regular expression, which is much slower to apply.
type needle struct {
	text []byte
	fold bool // upper and lower case are the same; text is in lower case
}

// needleOf returns the longest needle of a pattern; an empty one is in everything.
func needleOf(re *syntax.Regexp) needle {
	switch re.Op {
	case syntax.OpLiteral:
		return literalNeedle(re)
	case syntax.OpCapture, syntax.OpPlus:
		return needleOf(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return needleOf(re.Sub[0])
		}
	case syntax.OpConcat:
		var best needle
		for _, sub := range re.Sub {
			if n := needleOf(sub); len(n.text) > len(best.text) {
				best = n
			}
		}
		return best
	default:
		// Everything else may match without any text of its own.
	}
	return needle{}
}

func literalNeedle(re *syntax.Regexp) needle {
	text := string(re.Rune)
	if re.Flags&syntax.FoldCase == 0 {
		return needle{text: []byte(text)}
	}
	// K and S have a third form outside ASCII, and so may other characters: the
	// needle is what stands between them.
	best := ""
	for run := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return r >= 0x80 || r == 'k' || r == 's' }) {
		if len(run) > len(best) {
			best = run
		}
	}
	return needle{text: []byte(best), fold: true}
}

// in reports whether data contains the needle. scratch is room for a copy.
func (n needle) in(data []byte, scratch *[]byte) bool {
	if len(n.text) == 0 {
		return true
	}
	if !n.fold {
		return bytes.Contains(data, n.text)
	}
	*scratch = append((*scratch)[:0], data...)
	lower := *scratch
	for i, c := range lower {
		if c >= 'A' && c <= 'Z' {
			lower[i] = c + ('a' - 'A')
		}
	}
	return bytes.Contains(lower, n.text)
}
