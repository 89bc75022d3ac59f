package event_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"agentd/event"
	"agentd/event/eventtest"
)

// events.md, "Event envelope": large outputs, artifacts and raw payloads are referenced,
// not copied into every event. Whatever an event says, it is stored in at most 32 KiB, and
// its reference gives back the whole payload.
func TestEveryEventIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := eventtest.Event(t, eventtest.Type().Draw(t, "type"))
		inflate(t, reflect.ValueOf(e.Payload).Elem(), "")
		kept := map[string][]byte{}
		keep := func(b []byte) string {
			ref := fmt.Sprintf("sha256:%x", sha256.Sum256(b))
			kept[ref] = bytes.Clone(b)
			return ref
		}
		read := func(ref string) ([]byte, error) {
			if b, ok := kept[ref]; ok {
				return b, nil
			}
			return nil, errors.New("nothing is there")
		}
		data, err := event.AppendBounded(nil, e, keep)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > event.MaxBytes {
			t.Fatalf("%d bytes", len(data))
		}
		shown, err := event.Decode(data)
		if err == nil {
			err = event.Check(shown)
		}
		if err != nil {
			t.Fatalf("what is stored doesn't satisfy the catalogue: %v\n%s", err, data)
		}
		back, err := event.DecodeWhole(data, read)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := event.AppendJSON(nil, back), event.AppendJSON(nil, e); !bytes.Equal(got, want) {
			t.Fatalf("the whole event is\n%s\nnot\n%s", got, want)
		}
		if _, err := event.DecodeWhole(data, func(string) ([]byte, error) { return nil, errors.New("gone") }); (err != nil) != shown.IsCut() {
			t.Fatalf("cut: %v, without its content: %v", shown.IsCut(), err)
		}
	})
}

// inflate makes some of a payload's texts, lists and raw values huge.
func inflate(t *rapid.T, v reflect.Value, enum string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			inflate(t, v.Elem(), enum)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				inflate(t, v.Field(i), f.Tag.Get("enum"))
			}
		}
	case reflect.String:
		if enum == "" && rapid.Bool().Draw(t, "long text") {
			v.SetString(v.String() + strings.Repeat(rapid.SampledFrom([]string{"a", "\x01", "漢", "\u2028", "\"", "🙂"}).Draw(t, "text"), 8_000))
		}
	case reflect.Slice:
		if !rapid.Bool().Draw(t, "long list") {
			return
		}
		if v.Type() == reflect.TypeFor[event.Raw]() {
			v.SetBytes([]byte(rapid.SampledFrom([]string{
				`{"a":"` + strings.Repeat("b", 40_000) + `"}`, `[` + strings.Repeat("[1],", 9_000) + `2]`, `"` + strings.Repeat(`\u0001`, 9_000) + `"`,
			}).Draw(t, "raw")))
			return
		}
		if v.Len() == 0 {
			return
		}
		many := reflect.MakeSlice(v.Type(), 0, 1000)
		for range 1000 {
			many = reflect.Append(many, v.Index(v.Len()-1))
		}
		if v.Len() > 1 {
			inflate(t, v.Index(0), enum) // its pointers, if any, are its own
			many.Index(0).Set(v.Index(0))
		}
		v.Set(many)
	case reflect.Map:
		if v.Len() > 0 && rapid.Bool().Draw(t, "many keys") {
			first := v.MapIndex(v.MapKeys()[0])
			for i := range 3000 {
				v.SetMapIndex(reflect.ValueOf(fmt.Sprintf("key%d", i)).Convert(v.Type().Key()), first)
			}
		}
	}
}

// An event whose ids and refs alone are too large can't be written.
func TestTooLargeEnvelopeIsRefused(t *testing.T) {
	e := &event.Event{
		Type: event.TypeRuntimeWarning, Refs: map[string]string{"trajectoryRef": strings.Repeat("r", event.MaxBytes)},
		Payload: &event.RuntimeNotice{Code: "code", Message: "message"},
	}
	if _, err := event.AppendBounded(nil, e, func([]byte) string { return "sha256:" }); !errors.Is(err, event.ErrTooLarge) {
		t.Fatal(err)
	}
}

func TestJSONPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, limit := rapid.String().Draw(t, "text"), rapid.IntRange(0, 200).Draw(t, "limit")
		n := event.JSONPrefix(s, limit)
		if got := len(event.AppendString(nil, s[:n])) - 2; got > limit {
			t.Fatalf("%q takes %d bytes, %d fit", s[:n], got, limit)
		}
		if n == len(s) {
			return
		}
		_, size := utf8.DecodeRuneInString(s[n:])
		if got := len(event.AppendString(nil, s[:n+size])) - 2; got <= limit {
			t.Fatalf("%q fits, too", s[:n+size])
		}
	})
}

// The limit costs an ordinary event one comparison.
func BenchmarkAppendBounded(b *testing.B) {
	e := sample()
	keep := func([]byte) string { return "" }
	b.ReportAllocs()
	buf := make([]byte, 0, 4096)
	for b.Loop() {
		var err error
		if buf, err = event.AppendBounded(buf[:0], e, keep); err != nil {
			b.Fatal(err)
		}
	}
}
