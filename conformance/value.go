package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// object is a JSON object as it was read. Numbers are json.Number.
type object = map[string]any

// strictVersion is the schema version of the standard's strict profile.
const strictVersion = "lime-profile-0.4.0"

// fact is an event as it was read.
type fact struct {
	object
	typ, id, session string
	// sequence is negative where the event has none.
	sequence int64
	size     int
}

func newFact(o object, size int) *fact {
	f := &fact{object: o, typ: bounded(text(o, "type")), id: bounded(text(o, "eventId")), session: bounded(text(o, "sessionId")), sequence: -1, size: size}
	if n, ok := o["sequence"].(json.Number); ok {
		if i, err := n.Int64(); err == nil && i >= 0 {
			f.sequence = i
		}
	}
	return f
}

func (f *fact) strict() bool    { return text(f.object, "schemaVersion") == strictVersion }
func (f *fact) payload() object { return member(f.object, "payload") }

// ref returns an id that joins the event to others: of the envelope, or else of the
// payload. Words that say that there is none are none.
func (f *fact) ref(name string) string {
	id := text(f.object, name)
	if id == "" {
		id = text(f.payload(), name)
	}
	if slices.Contains([]string{"not_applicable", "unknown", "unavailable", "missing_correlation"}, id) {
		return ""
	}
	return bounded(id)
}

// bounded is an id that may be kept: a long one is its beginning and its hash.
func bounded(id string) string {
	const most = 256
	if len(id) <= most {
		return id
	}
	return fmt.Sprintf("%s…%x", strings.ToValidUTF8(id[:most/2], ""), sha256.Sum256([]byte(id)))
}

// text returns a string member; empty if it is none.
func text(o object, name string) string {
	s, _ := o[name].(string)
	return s
}

// member returns an object member; nil if it is none.
func member(o object, name string) object {
	m, _ := o[name].(object)
	return m
}

// list returns the members of a list that are objects.
func list(o object, name string) []object {
	all, _ := o[name].([]any)
	var out []object
	for _, x := range all {
		if m, ok := x.(object); ok {
			out = append(out, m)
		}
	}
	return out
}

// decodeObject reads one JSON object and nothing behind it.
func decodeObject(data []byte) (object, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var o object
	if err := d.Decode(&o); err != nil {
		if t := new(json.UnmarshalTypeError); errors.As(err, &t) {
			return nil, fmt.Errorf("it is a JSON %s, not an object", t.Value)
		}
		return nil, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if o == nil {
		return nil, errors.New("it is null, not an object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object")
	}
	return o, nil
}

// want is what a member must be.
type want struct {
	name string
	is   func(any) bool
	what string
}

func isText(v any) bool   { s, ok := v.(string); return ok && s != "" }
func isObject(v any) bool { _, ok := v.(object); return ok }
func isList(v any) bool   { _, ok := v.([]any); return ok }
func isNumber(v any) bool { _, ok := v.(json.Number); return ok }
func isTime(v any) bool {
	s, ok := v.(string)
	if !ok {
		return false
	}
	_, err := time.Parse(time.RFC3339, s)
	return err == nil
}

func isCount(v any) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	i, err := n.Int64()
	return err == nil && i >= 0
}

func isOneOf(words ...string) func(any) bool {
	return func(v any) bool {
		s, ok := v.(string)
		return ok && slices.Contains(words, s)
	}
}

// required says which members are missing or are something else.
func required(o object, wants ...want) []string {
	var out []string
	for _, w := range wants {
		v, there := o[w.name]
		switch {
		case !there:
			out = append(out, w.name+" is missing")
		case !w.is(v):
			out = append(out, fmt.Sprintf("%s is %s, not %s", w.name, shorten(v), w.what))
		}
	}
	return out
}

// optional says which members are something else than they may be.
func optional(o object, wants ...want) []string {
	var out []string
	for _, w := range wants {
		if v, there := o[w.name]; there && !w.is(v) {
			out = append(out, fmt.Sprintf("%s is %s, not %s", w.name, shorten(v), w.what))
		}
	}
	return out
}

// shorten is a value in a message.
func shorten(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "unreadable"
	}
	const most = 60
	if len(b) > most {
		return strings.ToValidUTF8(string(b[:most]), "") + "…"
	}
	return string(b)
}
