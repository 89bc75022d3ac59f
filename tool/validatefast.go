package tool

import (
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// fastObject recognises the inputs that most calls have: an object of few
// strings, whole numbers and booleans. It only ever says "certainly valid";
// everything else is judged, and explained, by the full validator.
type fastObject struct {
	props    []fastProp
	required uint64
}

type fastProp struct {
	name     string
	kind     byte // s, i or b
	nonEmpty bool
	maxLen   int // 0: none
	min, max int64
	enum     []string
}

// fastLimit is within what every reader of JSON takes as an exact whole number.
const fastLimit = 1 << 53

// annotations are fields of a compiled schema that assert nothing.
var annotations = []string{"DraftVersion", "Location", "Title", "Description", "Default", "Comment", "ReadOnly", "WriteOnly", "Examples", "Deprecated", "ID", "Anchor"}

// onlyHas reports whether s asserts nothing but what fields name. It looks at all
// fields, so that a keyword that a later version of the validator learns is not
// overlooked.
func onlyHas(s *jsonschema.Schema, fields ...string) bool {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.IsExported() && !v.Field(i).IsZero() && !slices.Contains(fields, f.Name) && !slices.Contains(annotations, f.Name) {
			return false
		}
	}
	return true
}

func hasType(s *jsonschema.Schema, name string) bool {
	return s.Types != nil && slices.Equal(s.Types.ToStrings(), []string{name})
}

// newFastObject returns nil for schemas that it isn't made for.
func newFastObject(s *jsonschema.Schema) *fastObject {
	if !onlyHas(s, "Types", "Properties", "Required", "AdditionalProperties") || !hasType(s, "object") || len(s.Properties) > 64 {
		return nil
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties != false {
		return nil
	}
	o := &fastObject{}
	for name, p := range s.Properties {
		fp, ok := newFastProp(name, p)
		if !ok {
			// A call that doesn't use this one can still be recognised.
			continue
		}
		if slices.Contains(s.Required, name) {
			o.required |= 1 << len(o.props)
		}
		o.props = append(o.props, fp)
	}
	for _, r := range s.Required {
		if !slices.ContainsFunc(o.props, func(p fastProp) bool { return p.name == r }) {
			return nil
		}
	}
	return o
}

func newFastProp(name string, s *jsonschema.Schema) (fastProp, bool) {
	p := fastProp{name: name}
	switch {
	case hasType(s, "boolean") && onlyHas(s, "Types"):
		p.kind = 'b'
		return p, true
	case hasType(s, "string") && onlyHas(s, "Types", "MinLength", "MaxLength", "Enum"):
		return p.asString(s)
	case hasType(s, "integer") && onlyHas(s, "Types", "Minimum", "Maximum"):
		return p.asInteger(s)
	}
	return p, false
}

func (p fastProp) asString(s *jsonschema.Schema) (fastProp, bool) {
	p.kind = 's'
	if s.MinLength != nil {
		if p.nonEmpty = *s.MinLength == 1; !p.nonEmpty && *s.MinLength != 0 {
			return p, false
		}
	}
	if s.MaxLength != nil {
		if p.maxLen = *s.MaxLength; p.maxLen == 0 {
			return p, false
		}
	}
	if s.Enum != nil {
		for _, v := range s.Enum.Values {
			word, ok := v.(string)
			if !ok {
				return p, false
			}
			p.enum = append(p.enum, word)
		}
	}
	return p, true
}

func (p fastProp) asInteger(s *jsonschema.Schema) (fastProp, bool) {
	p.kind, p.min, p.max = 'i', -fastLimit, fastLimit
	if s.Minimum != nil {
		if !s.Minimum.IsInt() || !s.Minimum.Num().IsInt64() {
			return p, false
		}
		p.min = max(p.min, s.Minimum.Num().Int64())
	}
	if s.Maximum != nil {
		if !s.Maximum.IsInt() || !s.Maximum.Num().IsInt64() {
			return p, false
		}
		p.max = min(p.max, s.Maximum.Num().Int64())
	}
	return p, true
}

// accepts reports whether doc is certainly valid.
func (o *fastObject) accepts(doc []byte) bool {
	s := fastScan{b: doc}
	if !s.acceptByte('{') {
		return false
	}
	var seen uint64
	for first := true; ; first = false {
		if s.acceptByte('}') {
			break
		}
		if !first && !s.acceptByte(',') {
			return false
		}
		i, ok := s.property(o)
		if !ok || seen&(1<<i) != 0 {
			return false
		}
		seen |= 1 << i
	}
	s.space()
	return s.i == len(s.b) && seen&o.required == o.required
}

// fastScan is a place in JSON.
type fastScan struct {
	b []byte
	i int
}

func (s *fastScan) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\t' || s.b[s.i] == '\r') {
		s.i++
	}
}

// acceptByte skips blanks, and c if it is next.
func (s *fastScan) acceptByte(c byte) bool {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// property reads a name and its value, and returns which property it is.
func (s *fastScan) property(o *fastObject) (int, bool) {
	name, plain, ok := s.text()
	if !ok || !plain || !s.acceptByte(':') {
		return 0, false
	}
	i := slices.IndexFunc(o.props, func(p fastProp) bool { return p.name == string(name) })
	return i, i >= 0 && s.value(&o.props[i])
}

func (s *fastScan) value(p *fastProp) bool {
	switch p.kind {
	case 'b':
		return s.acceptLiteral("true") || s.acceptLiteral("false")
	case 'i':
		return s.integer(p.min, p.max)
	}
	raw, plain, ok := s.text()
	switch {
	case !ok, p.nonEmpty && len(raw) == 0, p.maxLen > 0 && len(raw) > p.maxLen:
		return false
	case p.enum != nil:
		return plain && slices.ContainsFunc(p.enum, func(w string) bool { return w == string(raw) })
	}
	return true
}

func (s *fastScan) acceptLiteral(w string) bool {
	s.space()
	if len(s.b)-s.i >= len(w) && string(s.b[s.i:s.i+len(w)]) == w {
		s.i += len(w)
		return true
	}
	return false
}

func (s *fastScan) integer(low, high int64) bool {
	neg := s.acceptByte('-')
	if neg && s.i < len(s.b) && (s.b[s.i] < '0' || s.b[s.i] > '9') {
		return false
	}
	start, n := s.i, int64(0)
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' && s.i-start < 16 {
		n = n*10 + int64(s.b[s.i]-'0')
		s.i++
	}
	digits := s.i - start
	if digits == 0 || digits > 15 || digits > 1 && s.b[start] == '0' {
		return false
	}
	if s.i < len(s.b) && (s.b[s.i] == '.' || s.b[s.i] == 'e' || s.b[s.i] == 'E') {
		return false
	}
	if neg {
		n = -n
	}
	return n >= low && n <= high
}

// text reads a string and returns what stands between its quotes. plain says that
// it has no escapes. Escapes by number are left to the full validator.
func (s *fastScan) text() (raw []byte, plain, ok bool) {
	if !s.acceptByte('"') {
		return nil, false, false
	}
	plain = true
	start := s.i
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			raw = s.b[start:s.i]
			s.i++
			return raw, plain, utf8.Valid(raw)
		case c < ' ':
			return nil, false, false
		case c == '\\':
			plain = false
			s.i++
			if s.i >= len(s.b) || !simpleEscape(s.b[s.i]) {
				return nil, false, false
			}
		}
	}
	return nil, false, false
}

func simpleEscape(c byte) bool {
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	}
	return false
}
