package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"
)

// maxDepth bounds how deep JSON may be nested that is read from outside.
const maxDepth = 100

// canonicalOf returns a value's canonical JSON: no white space, the members of
// objects ordered by name, strings and numbers in their shortest form. Hashes are
// taken of it, so that they outlive programs which write the same JSON otherwise.
func canonicalOf(v any) ([]byte, error) {
	raw, err := plainJSON(v)
	if err != nil {
		return nil, err
	}
	return canonical(raw)
}

// plainJSON encodes a value without the escapes that only web pages need.
func plainJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("evidence: encode: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// canonical brings JSON that is known to be valid into its canonical form.
func canonical(raw []byte) ([]byte, error) {
	r := &rewriter{in: raw}
	return r.value(make([]byte, 0, len(raw)), 0)
}

// nextCanonical returns the decoder's next value in canonical form.
func nextCanonical(dec *json.Decoder) ([]byte, error) {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return nil, err
	}
	return canonical(raw)
}

// rewriter goes once through valid JSON.
type rewriter struct {
	in []byte
	at int
}

// peek returns the next byte that isn't white space.
func (r *rewriter) peek() byte {
	for r.at < len(r.in) {
		switch c := r.in[r.at]; c {
		case ' ', '\t', '\n', '\r', ',', ':':
			r.at++
		default:
			return c
		}
	}
	return 0
}

func (r *rewriter) value(dst []byte, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errors.New("it is nested too deeply")
	}
	switch r.peek() {
	case '{':
		return r.object(dst, depth+1)
	case '[':
		return r.array(dst, depth+1)
	case '"':
		return r.text(dst)
	}
	begin := r.at
	for r.at < len(r.in) && !strings.ContainsRune(" \t\n\r,:]}", rune(r.in[r.at])) {
		r.at++
	}
	literal := r.in[begin:r.at]
	if len(literal) == 0 {
		return nil, errors.New("it is not JSON")
	}
	if c := literal[0]; c == 't' || c == 'f' || c == 'n' {
		return append(dst, literal...), nil
	}
	return append(dst, canonicalNumber(json.Number(literal))...), nil
}

// text appends a string; one that needs no thought is copied.
func (r *rewriter) text(dst []byte) ([]byte, error) {
	begin, plain := r.at, true
	for r.at++; r.at < len(r.in) && r.in[r.at] != '"'; r.at++ {
		switch c := r.in[r.at]; {
		case c == '\\':
			plain = false
			r.at++
		case c >= 0x7f:
			plain = false
		}
	}
	r.at++
	if r.at > len(r.in) {
		return nil, errors.New("it is not JSON")
	}
	if plain {
		return append(dst, r.in[begin:r.at]...), nil
	}
	var s string
	if err := json.Unmarshal(r.in[begin:r.at], &s); err != nil {
		return nil, err
	}
	b, err := plainJSON(s)
	return append(dst, b...), err
}

func (r *rewriter) array(dst []byte, depth int) ([]byte, error) {
	r.at++
	dst = append(dst, '[')
	for n := 0; r.peek() != ']'; n++ {
		if n > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = r.value(dst, depth); err != nil {
			return nil, err
		}
	}
	r.at++
	return append(dst, ']'), nil
}

// object appends an object with its members in order.
func (r *rewriter) object(dst []byte, depth int) ([]byte, error) {
	type member struct{ name, value []byte }
	var members []member
	var text []byte
	r.at++
	for r.peek() != '}' {
		begin := len(text)
		var err error
		if text, err = r.text(text); err != nil {
			return nil, err
		}
		middle := len(text)
		if text, err = r.value(text, depth); err != nil {
			return nil, err
		}
		members = append(members, member{text[begin:middle:middle], text[middle:len(text):len(text)]})
	}
	r.at++
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	dst = append(dst, '{')
	for i, m := range members {
		if i > 0 {
			if bytes.Equal(members[i-1].name, m.name) {
				return nil, fmt.Errorf("it has the field %s twice", m.name)
			}
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, m.name...), ':'), m.value...)
	}
	return append(dst, '}'), nil
}

// canonicalNumber returns a number as an integer if it is one, else as the
// shortest form of what a double holds.
func canonicalNumber(n json.Number) string {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return strconv.FormatInt(i, 10)
	}
	f, err := n.Float64()
	if err != nil {
		return n.String()
	}
	if f > -1<<53 && f < 1<<53 && f == float64(int64(f)) {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// digest hashes one section: a value, or a list item by item.
type digest struct {
	sum   hash.Hash
	items int64
}

func newDigest(list bool) *digest {
	d := &digest{sum: sha256.New()}
	if list {
		d.sum.Write([]byte("[\n")) // a list of one is not its element
	}
	return d
}

// add takes the value, or the next item, in canonical form.
func (d *digest) add(canonical []byte) {
	d.sum.Write(canonical)
	d.sum.Write([]byte("\n"))
	d.items++
}

func (d *digest) hex() string { return hex.EncodeToString(d.sum.Sum(nil)) }
