package find

import (
	"unicode"
	"unicode/utf8"
)

// maxWord is how many bytes of a word count; longer ones are told apart by these.
const maxWord = 48

// eachWord calls f with the words of a text, in lower case, and with the place of each.
// A word is a run of letters and digits. In scripts that are written without spaces every
// character is a word. The slice is used again.
func eachWord(text string, f func(word []byte, start, end int)) {
	var buf [maxWord + utf8.UTFMax]byte
	word, start := buf[:0], -1
	flush := func(end int) {
		if start >= 0 {
			f(word, start, end)
			word, start = buf[:0], -1
		}
	}
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			switch {
			case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			case 'A' <= c && c <= 'Z':
				c += 'a' - 'A'
			default:
				flush(i)
				i++
				continue
			}
			if start < 0 {
				start = i
			}
			if len(word) < maxWord {
				word = append(word, c)
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && n == 1 || !unicode.In(r, unicode.Letter, unicode.Digit, unicode.Mark):
			flush(i)
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai):
			flush(i)
			word, start = utf8.AppendRune(word, unicode.ToLower(r)), i
			flush(i + n)
		default:
			if start < 0 {
				start = i
			}
			if len(word)+n <= maxWord {
				word = utf8.AppendRune(word, unicode.ToLower(r))
			}
		}
		i += n
	}
	flush(len(text))
}
