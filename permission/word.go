package permission

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// word is an argument as the program gets it, as far as that can be known.
type word struct {
	// text has a hole where something is known only when it runs.
	text string
	// splits says that it may become several words, or none.
	splits bool
	// expands says that this is because of a variable or a command, not of a
	// pattern of file names, which keeps its beginning.
	expands bool
	// path says that it is the path of a file that was found: it doesn't begin with a
	// dash.
	path bool
	// names are what it may stand for if it names a file; nil says no more than the text.
	names [][]rune
}

func (w word) known() bool { return !strings.ContainsRune(w.text, hole) }

// unknownWords stands for any number of words.
func unknownWords() word { return word{text: string(hole), splits: true, expands: true} }

func knownWords(texts ...string) []word {
	out := make([]word, len(texts))
	for i, t := range texts {
		out[i] = word{text: t}
	}
	return out
}

func wordTexts(words []word) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w.text
	}
	return out
}

func (a *analyser) words(in []*syntax.Word) []word {
	out := make([]word, len(in))
	for i, w := range in {
		out[i] = a.wordOf(w)
	}
	return out
}

func wordsText(words []word) string { return visibleText(strings.Join(wordTexts(words), " ")) }

// wordOf undoes quoting and escapes; what is expanded becomes a hole.
func wordOf(w *syntax.Word) word {
	if w == nil {
		return word{}
	}
	if braces(w) {
		return unknownWords()
	}
	var b strings.Builder
	out := word{}
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			text, glob := unescape(p.Value)
			out.splits = out.splits || glob
			b.WriteString(text)
		case *syntax.SglQuoted:
			if p.Dollar {
				b.WriteString(ansi(p.Value))
			} else {
				b.WriteString(p.Value)
			}
		case *syntax.DblQuoted:
			for _, in := range p.Parts {
				if lit, ok := in.(*syntax.Lit); ok {
					b.WriteString(unescapeQuoted(lit.Value))
					continue
				}
				b.WriteRune(hole)
				if manyWords(in) {
					out.splits, out.expands = true, true
				}
			}
		default:
			b.WriteRune(hole)
			out.splits, out.expands = true, true
		}
	}
	out.text = b.String()
	return out
}

// manyWords says that an expansion is several words even in quotes.
func manyWords(p syntax.WordPart) bool {
	e, ok := p.(*syntax.ParamExp)
	if !ok {
		return false
	}
	if e.Param != nil && e.Param.Value == "@" || e.Names != 0 || e.Excl {
		return true
	}
	index, ok := e.Index.(*syntax.Word)
	return ok && index.Lit() == "@" || e.Exp != nil
}

// unescape undoes backslashes outside of quotes. A pattern of file names is a
// hole: the files decide what becomes of it.
func unescape(s string) (text string, glob bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] != '\n' {
				b.WriteByte(s[i])
			}
		case c == '*' || c == '?' || (c == '[' && strings.IndexByte(s[i:], ']') > 0):
			b.WriteRune(hole)
			glob = true
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), glob
}

// unescapeQuoted undoes backslashes within double quotes.
func unescapeQuoted(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// braces says that a word may be a list in braces, which bash makes several words
// of. It errs on the side of yes.
func braces(w *syntax.Word) bool {
	open, list, closed := false, false, false
	for _, p := range w.Parts {
		lit, ok := p.(*syntax.Lit)
		if !ok {
			continue
		}
		for i := 0; i < len(lit.Value); i++ {
			switch c := lit.Value[i]; {
			case c == '\\':
				i++
			case c == '{':
				open = true
			case open && (c == ',' || strings.HasPrefix(lit.Value[i:], "..")):
				list = true
			case open && list && c == '}':
				closed = true
			}
		}
	}
	return closed
}

// ansi undoes the escapes of $'…'.
func ansi(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		n := ansiEscape(&b, s[i:])
		if n == 0 {
			b.WriteByte('\\')
			b.WriteByte(s[i])
			n = 1
		}
		i += n - 1
	}
	return b.String()
}

// ansiEscape writes what an escape stands for and returns its length; 0 if it is
// none.
func ansiEscape(b *strings.Builder, s string) int {
	const names, values = "abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?"
	if i := strings.IndexByte(names, s[0]); i >= 0 {
		b.WriteByte(values[i])
		return 1
	}
	digits := func(set string, from, most int) string {
		n := from
		for n < len(s) && n < from+most && strings.IndexByte(set, s[n]) >= 0 {
			n++
		}
		return s[from:n]
	}
	const hexadecimal = "0123456789abcdefABCDEF"
	var d string
	base, from := 16, 1
	switch s[0] {
	case 'x':
		d = digits(hexadecimal, 1, 2)
	case 'u':
		d = digits(hexadecimal, 1, 4)
	case 'U':
		d = digits(hexadecimal, 1, 8)
	case 'c':
		if len(s) > 1 {
			b.WriteByte(s[1] & 0x1f)
			return 2
		}
		return 0
	default:
		base, from = 8, 0
		d = digits("01234567", 0, 3)
	}
	if d == "" {
		return 0
	}
	v, err := strconv.ParseUint(d, base, 32)
	switch {
	case err != nil || v == 0:
		b.WriteByte(hole) // bash ends the word here; no honest line has that
	case s[0] == 'u' || s[0] == 'U':
		b.Write(utf8.AppendRune(nil, rune(v))) // an invalid one becomes U+FFFD
	default:
		b.WriteByte(byte(v))
	}
	return from + len(d)
}
