package event

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"unicode/utf8"
)

// MaxBytes is the largest event, as JSON.
const MaxBytes = 32 << 10

// PayloadRef is the name in [Event.Refs] under which the whole payload of an event is
// that would have been larger than [MaxBytes]. The payload of such an event shows the
// beginning of each long text and list.
const PayloadRef = "payload"

// ErrTooLarge says that what identifies an event is larger than an event may be.
var ErrTooLarge = errors.New("the event is too large")

// AppendBounded is [AppendJSON] for an event that is stored: the result is at most
// [MaxBytes] long. If e would be longer, keep is given the whole payload and returns its
// reference, e names it in Refs from then on, and what is appended shows the beginnings of
// long texts and lists. The payload of e itself stays whole.
func AppendBounded(dst []byte, e *Event, keep func(payload []byte) string) ([]byte, error) {
	start := len(dst)
	if dst = AppendJSON(dst, e); len(dst)-start <= MaxBytes {
		return dst, nil
	}
	whole := e.Payload.appendJSON(nil)
	refs := maps.Clone(e.Refs)
	if refs == nil {
		refs = map[string]string{}
	}
	refs[PayloadRef] = keep(whole)
	e.Refs = refs
	shown := *e
	for _, c := range cuts {
		if err := shown.DecodePayload(whole); err != nil {
			return nil, err
		}
		c.shorten(reflect.ValueOf(shown.Payload).Elem())
		if dst = AppendJSON(dst[:start], &shown); len(dst)-start <= MaxBytes {
			return dst, nil
		}
	}
	return nil, fmt.Errorf("%w: %s needs %d bytes without its long texts, at most %d fit", ErrTooLarge, e.Type, len(dst)-start, MaxBytes)
}

// IsCut reports whether the stored payload shows only a part of what is at its reference.
func (e *Event) IsCut() bool { return e.Refs[PayloadRef] != "" }

// WholePayload returns the whole payload of an event whose header was decoded: what is
// given, or what read returns for the reference that the event names.
func (e *Event) WholePayload(payload []byte, read func(ref string) ([]byte, error)) ([]byte, error) {
	ref := e.Refs[PayloadRef]
	if ref == "" {
		return payload, nil
	}
	whole, err := read(ref)
	if err != nil {
		return nil, fmt.Errorf("event: the payload of %s: %w", e.Type, err)
	}
	return whole, nil
}

// DecodeWhole is [Decode] with the whole payload, which is read where the event shows
// only a part of it.
func DecodeWhole(data []byte, read func(ref string) ([]byte, error)) (*Event, error) {
	e := new(Event)
	payload, err := DecodeHeader(data, e)
	if err != nil {
		return nil, err
	}
	if payload, err = e.WholePayload(payload, read); err != nil {
		return nil, err
	}
	if err := e.DecodePayload(payload); err != nil {
		return nil, err
	}
	return e, nil
}

// cut says how much of a payload's values is shown.
type cut struct {
	// text bounds a string and a raw value, as JSON.
	text int
	// items bounds lists and maps.
	items int
}

// cuts are tried one after the other: with the last one, every payload of the catalogue
// fits.
var cuts = []cut{{4 << 10, 256}, {1 << 10, 64}, {512, 16}, {256, 4}, {160, 1}}

var rawType = reflect.TypeFor[Raw]()

// shorten shortens what is long in a value that can be set.
func (c cut) shorten(v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // the rest has a fixed size
	case reflect.Pointer:
		if !v.IsNil() {
			c.shorten(v.Elem())
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			if f.CanSet() {
				c.shorten(f)
			}
		}
	case reflect.String:
		v.SetString(c.cutText(v.String()))
	case reflect.Slice:
		if v.Type() == rawType {
			v.SetBytes(c.raw(v.Bytes()))
			return
		}
		if v.Len() > c.items {
			v.SetLen(c.items)
		}
		for i := range v.Len() {
			c.shorten(v.Index(i))
		}
	case reflect.Map:
		c.shortenMap(v)
	}
}

// shortenMap keeps the first entries of a map, in the order of their keys.
func (c cut) shortenMap(m reflect.Value) {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	for i, k := range keys {
		value := reflect.New(m.Type().Elem()).Elem()
		value.Set(m.MapIndex(k))
		m.SetMapIndex(k, reflect.Value{})
		if i < c.items && JSONPrefix(k.String(), c.text) == len(k.String()) {
			c.shorten(value)
			m.SetMapIndex(k, value)
		}
	}
}

func (c cut) cutText(s string) string {
	if n := JSONPrefix(s, c.text); n < len(s) {
		return s[:n] + "…"
	}
	return s
}

// raw returns a value of the same JSON type that shows the beginning of a long one.
func (c cut) raw(raw Raw) Raw {
	if len(raw) <= c.text {
		return raw
	}
	switch raw[0] {
	case '{':
		return append(appendString([]byte(`{"preview":`), c.cutText(string(raw))), '}')
	case '[':
		return append(appendString([]byte{'['}, c.cutText(string(raw))), ']')
	}
	return appendString(nil, c.cutText(string(raw)))
}

// JSONPrefix returns the length of the longest beginning of s, in whole characters, that
// takes at most limit bytes within a JSON string.
func JSONPrefix(s string, limit int) int {
	if len(s)*6 <= limit {
		return len(s)
	}
	for i := 0; i < len(s); {
		var size, takes int
		if c := s[i]; c < utf8.RuneSelf {
			size, takes = 1, escapedSize(c)
		} else if r, n := utf8.DecodeRuneInString(s[i:]); (r == utf8.RuneError && n == 1) || r == '\u2028' || r == '\u2029' {
			size, takes = n, len(`\u2028`)
		} else {
			size, takes = n, n
		}
		if limit -= takes; limit < 0 {
			return i
		}
		i += size
	}
	return len(s)
}

// escapedSize is what an ASCII character takes within a JSON string.
func escapedSize(c byte) int {
	switch {
	case plain[c]:
		return 1
	case c == '"', c == '\\', c == '\n', c == '\r', c == '\t', c == '\b', c == '\f':
		return 2
	}
	return len(`\u0000`)
}
