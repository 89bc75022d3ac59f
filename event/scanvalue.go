package event

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The methods here read one value each, as the encoder writes it, for the
// generated decoders. They return false at anything else, valid or not; then
// encoding/json reads the whole payload and is the judge.

// key reads a field's name and the colon behind it.
func (s *scanner) key() ([]byte, bool) {
	b, ok := s.plainString()
	return b, ok && s.acceptByte(':')
}

// acceptLiteral steps over a literal.
func (s *scanner) acceptLiteral(w string) bool {
	if len(s.data)-s.i < len(w) || string(s.data[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

func (s *scanner) null() bool { return s.acceptLiteral("null") }

func (s *scanner) bool(v *bool) bool {
	if s.acceptLiteral("true") {
		*v = true
		return true
	}
	return s.acceptLiteral("false")
}

func (s *scanner) int(v *int64) bool {
	var n uint64
	negative := s.acceptByte('-')
	if !s.uint(&n) || !s.numberEnds() {
		return false
	}
	if negative {
		*v = -int64(n)
		return n <= -math.MinInt64
	}
	*v = int64(n)
	return n <= math.MaxInt64
}

// numberEnds reports whether an integer ends here: no fraction, no exponent.
func (s *scanner) numberEnds() bool {
	return s.i < len(s.data) && (s.data[s.i] == ',' || s.data[s.i] == '}' || s.data[s.i] == ']')
}

func (s *scanner) optionalInt(v *OptionalInt) bool {
	if s.null() {
		*v = NullInt()
		return true
	}
	v.Present = true
	return s.int(&v.Value)
}

// scalar returns the bytes of a number or a literal.
func (s *scanner) scalar() []byte {
	start := s.i
	for s.i < len(s.data) && !s.numberEnds() {
		s.i++
	}
	return s.data[start:s.i]
}

func (s *scanner) float(v *float64) bool {
	b := s.scalar()
	// ParseFloat takes more than JSON has, such as "1_0", "Inf" and "0x1p-2".
	if len(b) == 0 || b[0] != '-' && !isDigit(b[0]) || !isDigit(b[len(b)-1]) || !json.Valid(b) {
		return false
	}
	f, err := strconv.ParseFloat(string(b), 64)
	*v = f
	return err == nil
}

// raw copies any JSON value that is compact.
func (s *scanner) raw(v *Raw) bool {
	if s.i >= len(s.data) {
		return false
	}
	start := s.i
	switch s.data[s.i] {
	case '{', '[':
		if s.value() == nil {
			return false
		}
	case '"':
		if !s.skipString() {
			return false
		}
	default:
		s.scalar()
		if last := s.data[s.i-1]; s.i == start || isSpace(last) || isSpace(s.data[start]) {
			return false
		}
	}
	b := s.data[start:s.i]
	if !json.Valid(b) {
		return false
	}
	*v = append(Raw(nil), b...)
	return true
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// text reads a string, escapes included.
func (s *scanner) text(v *string) bool {
	start := s.i + 1
	if b, ok := s.plainString(); ok {
		*v = string(b)
		return true
	}
	if start > len(s.data) || s.data[start-1] != '"' {
		return false
	}
	return s.escapedText(start, v)
}

// escapedText reads a string whose inside begins at start and isn't plain.
func (s *scanner) escapedText(start int, v *string) bool {
	s.i = start - 1
	if !s.skipString() {
		return false
	}
	in := s.data[start : s.i-1]
	if !utf8.Valid(in) {
		return false
	}
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); {
		end := untilEscape(in, i)
		if end < 0 {
			return false
		}
		out = append(out, in[i:end]...)
		if i = end; i == len(in) {
			break
		}
		var n int
		if out, n = appendUnescaped(out, in[i:]); n == 0 {
			return false
		}
		i += n
	}
	*v = string(out)
	return true
}

// untilEscape returns where the next backslash is, or the end; -1 for a control
// character on the way, which JSON doesn't allow.
func untilEscape(b []byte, i int) int {
	for ; i < len(b); i++ {
		if b[i] == '\\' {
			return i
		}
		if b[i] < 0x20 {
			return -1
		}
	}
	return i
}

// appendUnescaped appends what the escape at the start of b stands for and
// returns its length, or 0 if it isn't one that the encoder writes.
func appendUnescaped(dst, b []byte) ([]byte, int) {
	if len(b) < 2 {
		return dst, 0
	}
	switch b[1] {
	case '"', '\\', '/':
		return append(dst, b[1]), 2
	case 'n':
		return append(dst, '\n'), 2
	case 't':
		return append(dst, '\t'), 2
	case 'r':
		return append(dst, '\r'), 2
	case 'b':
		return append(dst, '\b'), 2
	case 'f':
		return append(dst, '\f'), 2
	case 'u':
		return appendUnicode(dst, b)
	}
	return dst, 0
}

// unicodeEscape is the length of an escape such as \u2028.
const unicodeEscape = 6

// appendUnicode handles one escaped character; a pair of surrogates is left to
// encoding/json.
func appendUnicode(dst, b []byte) ([]byte, int) {
	if len(b) < unicodeEscape {
		return dst, 0
	}
	var r rune
	for _, c := range b[2:unicodeEscape] {
		d, ok := hexValue(c)
		if !ok {
			return dst, 0
		}
		r = r<<4 | d
	}
	if !utf8.ValidRune(r) {
		return dst, 0
	}
	return utf8.AppendRune(dst, r), unicodeEscape
}

func hexValue(c byte) (rune, bool) {
	switch {
	case isDigit(c):
		return rune(c - '0'), true
	case c >= 'a' && c <= 'f':
		return rune(c-'a') + 10, true
	case c >= 'A' && c <= 'F':
		return rune(c-'A') + 10, true
	}
	return 0, false
}

// strings reads a list of strings.
func (s *scanner) strings(v *[]string) bool {
	return scanList(s, v, func(item *string) bool { return s.text(item) })
}

// enum reads one of the words of a closed set, which needs no copy. Another value is
// left to encoding/json: reading doesn't judge.
func (s *scanner) enum(v *string, words string) bool {
	b, ok := s.plainString()
	for at := 0; ok && len(b) > 0 && at+len(b) <= len(words); {
		end := at + len(b)
		if words[at:end] == string(b) && (end == len(words) || words[end] == ' ') {
			*v = words[at:end]
			return true
		}
		next := strings.IndexByte(words[at:], ' ')
		if next < 0 {
			return false
		}
		at += next + 1
	}
	return false
}

// fieldDecoder is a payload, or a struct in one. decodeField reads the value of a key and
// returns the key's own bit.
type fieldDecoder interface {
	decodeField(s *scanner, key []byte) (bit uint64, ok bool)
}

// decodeObject reads a struct. Keys may come in any order, but each at most once.
func decodeObject(s *scanner, v fieldDecoder) bool {
	if !s.acceptByte('{') {
		return false
	}
	if s.acceptByte('}') {
		return true
	}
	for seen := uint64(0); ; {
		key, ok := s.key()
		if !ok {
			return false
		}
		bit, ok := v.decodeField(s, key)
		if !ok || seen&bit != 0 {
			return false
		}
		seen |= bit
		if !s.acceptByte(',') {
			return s.acceptByte('}')
		}
	}
}

// decodePointer reads a struct that may be null.
func decodePointer[T any, P interface {
	*T
	fieldDecoder
}](s *scanner, v *P) bool {
	if s.null() {
		return true
	}
	*v = new(T)
	return decodeObject(s, *v)
}

// decodeScalar reads a value that may be null.
func decodeScalar[T any](s *scanner, v **T, read func(*scanner, *T) bool) bool {
	if s.null() {
		return true
	}
	*v = new(T)
	return read(s, *v)
}

// decodeList reads a list of structs.
func decodeList[T any, P interface {
	*T
	fieldDecoder
}](s *scanner, v *[]T) bool {
	return scanList(s, v, func(item *T) bool { return decodeObject(s, P(item)) })
}

// scanList reads a list whose elements read does.
func scanList[T any](s *scanner, v *[]T, read func(*T) bool) bool {
	if !s.acceptByte('[') {
		return false
	}
	*v = []T{}
	if s.acceptByte(']') {
		return true
	}
	for {
		var zero T
		*v = append(*v, zero)
		if !read(&(*v)[len(*v)-1]) {
			return false
		}
		if !s.acceptByte(',') {
			return s.acceptByte(']')
		}
	}
}
