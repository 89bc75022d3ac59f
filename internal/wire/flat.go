package wire

import (
	"encoding"
	stdjson "encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
)

// Most commands from outside are an object of a few plain strings. Those are read
// without the general decoder, which takes several times as long; whatever is not
// as plain as that is left to it, and so is everything that is wrong.

// flatField is a member that may be a plain string.
type flatField struct {
	index []int
	raw   bool // keeps the JSON
}

// flatStruct are the members of a struct by their names.
type flatStruct map[string]flatField

// maxFlat is how many members one object may have here.
const maxFlat = 16

var flatStructs sync.Map // reflect.Type to flatStruct

// decodeFlat reads an object whose members are strings without escapes, each once,
// for fields of the struct that take strings. It reports whether it did; if not, some
// fields may have been set that the general decoder will set again.
func decodeFlat(data []byte, into any) bool {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return false
	}
	v = v.Elem()
	fields := flatStructOf(v.Type())
	var seen [maxFlat]string
	rest, n := skipSpace(data[1:]), 0
	if len(rest) == 1 && rest[0] == '}' {
		return true
	}
	for {
		name, value, after, ok := flatMember(rest)
		if !ok || n == maxFlat || slices.Contains(seen[:n], string(name)) {
			return false
		}
		f, ok := fields[string(name)]
		if !ok {
			return false
		}
		seen[n] = string(name)
		n++
		if f.raw {
			v.FieldByIndex(f.index).SetBytes(append(append(append(make([]byte, 0, len(value)+2), '"'), value...), '"'))
		} else {
			v.FieldByIndex(f.index).SetString(string(value))
		}
		switch {
		case len(after) == 1 && after[0] == '}':
			return true
		case len(after) > 1 && after[0] == ',':
			rest = skipSpace(after[1:])
		default:
			return false
		}
	}
}

// flatMember reads a name and a string, and what follows them.
func flatMember(data []byte) (name, value, rest []byte, ok bool) {
	if name, rest, ok = plainString(data); !ok {
		return nil, nil, nil, false
	}
	if rest = skipSpace(rest); len(rest) == 0 || rest[0] != ':' {
		return nil, nil, nil, false
	}
	if value, rest, ok = plainString(skipSpace(rest[1:])); !ok {
		return nil, nil, nil, false
	}
	return name, value, skipSpace(rest), true
}

// plainString reads a string of printable ASCII without escapes.
func plainString(data []byte) (s, rest []byte, ok bool) {
	if len(data) == 0 || data[0] != '"' {
		return nil, nil, false
	}
	for i := 1; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			return data[1:i], data[i+1:], true
		case c == '\\' || c < ' ' || c > '~':
			return nil, nil, false
		}
	}
	return nil, nil, false
}

func skipSpace(data []byte) []byte {
	for len(data) > 0 && strings.IndexByte(jsonSpace, data[0]) >= 0 {
		data = data[1:]
	}
	return data
}

// flatStructOf finds the fields of a struct that take a string as it is.
func flatStructOf(t reflect.Type) flatStruct {
	if f, ok := flatStructs.Load(t); ok {
		return f.(flatStruct)
	}
	f := flatStruct{}
	if !hasOwnDecoder(t) {
		for _, sf := range reflect.VisibleFields(t) {
			if kind, ok := flatKind(t, sf); ok {
				name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
				f[name] = kind
			}
		}
	}
	kept, _ := flatStructs.LoadOrStore(t, f)
	return kept.(flatStruct)
}

// flatKind reports how a field takes a string.
func flatKind(in reflect.Type, sf reflect.StructField) (flatField, bool) {
	name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
	if !sf.IsExported() || sf.Anonymous || name == "" || name == "-" || (options != "" && options != "omitempty" && options != "omitzero") || !plainPath(in, sf.Index) {
		return flatField{}, false
	}
	if sf.Type == reflect.TypeFor[stdjson.RawMessage]() {
		return flatField{index: sf.Index, raw: true}, true
	}
	if sf.Type.Kind() != reflect.String || sf.Type == reflect.TypeFor[stdjson.Number]() || hasOwnDecoder(sf.Type) {
		return flatField{}, false
	}
	return flatField{index: sf.Index}, true
}

// plainPath reports whether the structs around a field are embedded without a name,
// a pointer or a decoder of their own.
func plainPath(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		sf := t.Field(i)
		if sf.Type.Kind() != reflect.Struct || sf.Tag.Get("json") != "" || hasOwnDecoder(sf.Type) {
			return false
		}
		t = sf.Type
	}
	return true
}

func hasOwnDecoder(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[stdjson.Unmarshaler]()) || p.Implements(reflect.TypeFor[json.UnmarshalerFrom]()) ||
		p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
