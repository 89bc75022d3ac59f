package httpstream

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net"
	"slices"

	"agentd/event"
)

// Body is a JSON object in pieces, which are written one after the other and
// never copied into one: most of a long conversation was encoded before.
type Body struct{ pieces [][]byte }

// Len is the number of bytes.
func (b Body) Len() int64 {
	var n int64
	for _, p := range b.pieces {
		n += int64(len(p))
	}
	return n
}

// Bytes returns the body in one piece.
func (b Body) Bytes() []byte { return bytes.Join(b.pieces, nil) }

func (b Body) reader() io.ReadCloser { return &bodyReader{pieces: b.pieces} }

// bodyReader reads the pieces, which other readers of the body share.
type bodyReader struct {
	pieces [][]byte
	offset int
}

// Read implements [io.Reader].
func (r *bodyReader) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && len(r.pieces) > 0 {
		got := copy(p[n:], r.pieces[0][r.offset:])
		n += got
		r.offset += got
		if r.offset == len(r.pieces[0]) {
			r.pieces, r.offset = r.pieces[1:], 0
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// unread is the number of bytes that were not read yet.
func (r *bodyReader) unread() int64 { return Body{r.pieces}.Len() - int64(r.offset) }

// WriteTo implements [io.WriterTo]: to a socket all pieces go at once.
func (r *bodyReader) WriteTo(w io.Writer) (int64, error) {
	if len(r.pieces) == 0 {
		return 0, nil
	}
	left := net.Buffers(slices.Clone(r.pieces))
	left[0] = left[0][r.offset:]
	r.pieces, r.offset = nil, 0
	return left.WriteTo(w)
}

// Close implements [io.Closer].
func (*bodyReader) Close() error { return nil }

// Object builds a [Body], member by member.
type Object struct {
	extra  map[string]json.RawMessage
	pieces [][]byte
	begun  bool
}

// NewObject returns an object with the members that the options add.
func (c *Conn) NewObject() *Object { return &Object{extra: c.extra} }

// Raw adds a member whose value is JSON already.
func (o *Object) Raw(name string, value []byte) {
	if extra, ok := o.extra[name]; ok {
		value = mergeMember(value, extra)
	}
	if value == nil {
		return
	}
	o.key(name)
	o.pieces = append(o.pieces, value)
}

// String adds a text.
func (o *Object) String(name, value string) {
	o.Raw(name, AppendString(make([]byte, 0, len(value)+2), value))
}

// Pieces adds a member whose value is JSON already, in pieces. They are not
// copied, and must not change as long as the body is used.
func (o *Object) Pieces(name string, pieces [][]byte) {
	if extra, ok := o.extra[name]; ok {
		o.Raw(name, extra)
		return
	}
	o.key(name)
	o.pieces = append(o.pieces, pieces...)
}

func (o *Object) key(name string) {
	b := append(make([]byte, 0, len(name)+4), ',')
	if !o.begun {
		b[0] = '{'
		o.begun = true
	}
	o.extra = withoutKey(o.extra, name)
	b = AppendString(b, name)
	o.pieces = append(o.pieces, append(b, ':'))
}

// Body ends the object: the members that only the options know come last.
func (o *Object) Body() Body {
	for _, name := range slices.Sorted(maps.Keys(o.extra)) {
		if !isNull(o.extra[name]) {
			o.Raw(name, o.extra[name])
		}
	}
	if !o.begun {
		return Body{pieces: [][]byte{[]byte("{}")}}
	}
	o.pieces = append(o.pieces, []byte("}"))
	return Body{pieces: o.pieces}
}

// withoutKey returns m without the key; m belongs to the options and isn't changed.
func withoutKey(m map[string]json.RawMessage, key string) map[string]json.RawMessage {
	if _, ok := m[key]; !ok {
		return m
	}
	m = maps.Clone(m)
	delete(m, key)
	return m
}

func isNull(b []byte) bool { return bytes.Equal(trimSpace(b), []byte("null")) }

// mergeMember returns what the options make of a member: nothing for null, both for
// objects, and otherwise their own value.
func mergeMember(value, extra []byte) []byte {
	if isNull(extra) {
		return nil
	}
	var ours, theirs map[string]json.RawMessage
	if json.Unmarshal(value, &ours) != nil || json.Unmarshal(extra, &theirs) != nil {
		return extra
	}
	maps.Copy(ours, theirs)
	b, err := json.Marshal(ours)
	if err != nil {
		return extra
	}
	return b
}

// compactJSON removes the space between the tokens of valid JSON.
func compactJSON(b []byte) []byte {
	var buf bytes.Buffer
	if json.Compact(&buf, b) != nil {
		return b
	}
	return buf.Bytes()
}

// AppendString appends s as a JSON string. What is no UTF-8 is replaced.
func AppendString(dst []byte, s string) []byte { return event.AppendString(dst, s) }

// Separated returns b ready for the next element of a list.
func Separated(b []byte) []byte {
	if len(b) > 0 && b[len(b)-1] != '[' {
		b = append(b, ',')
	}
	return b
}

// Elements returns the elements of a JSON list as they stand, separated by commas; nil if
// it is no list or has none.
func Elements(list []byte) []byte {
	var elements []json.RawMessage
	if json.Unmarshal(list, &elements) != nil || len(elements) == 0 {
		return nil
	}
	var b []byte
	for _, e := range elements {
		b = append(Separated(b), e...)
	}
	return b
}

// AppendDataURL appends a data URL as a JSON string.
func AppendDataURL(dst []byte, mediaType string, data []byte) []byte {
	dst = AppendString(dst, "data:"+mediaType+";base64,")
	dst = base64.StdEncoding.AppendEncode(dst[:len(dst)-1], data)
	return append(dst, '"')
}

// AppendBase64 appends data in base64 as a JSON string.
func AppendBase64(dst, data []byte) []byte {
	dst = base64.StdEncoding.AppendEncode(append(dst, '"'), data)
	return append(dst, '"')
}
