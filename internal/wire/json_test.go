package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"agentd/fault"
)

// sample has a field of each shape that parameters have.
type sample struct {
	Name  string          `json:"name,omitempty"`
	Count int             `json:"count,omitempty"`
	Big   uint64          `json:"big,omitempty"`
	Rate  *float64        `json:"rate,omitempty"`
	On    bool            `json:"on,omitempty"`
	Raw   json.RawMessage `json:"raw,omitempty"`
	At    json.Number     `json:"at,omitempty"`
	Inner *struct {
		Tags []string         `json:"tags,omitempty"`
		Map  map[string]int64 `json:"map,omitempty"`
	} `json:"inner,omitempty"`
	List []struct {
		ID string `json:"id"`
	} `json:"list,omitempty"`
	Short short      `json:"short,omitzero"`
	From  time.Time  `json:"from,omitzero"`
	To    *time.Time `json:"to,omitempty"`
}

// short reads itself, and refuses with a place of its own.
type short struct{ Text string }

func (s *short) UnmarshalJSON(b []byte) error {
	var object struct {
		Text string `json:"text"`
	}
	if err := Decode(b, &object); err != nil {
		return err
	}
	s.Text = object.Text
	return nil
}

func TestDecodeReads(t *testing.T) {
	var s sample
	err := Decode([]byte("\t{ \"name\":\"é\", \"count\": -3, \"big\":18446744073709551615, \"rate\":1e3, \"on\":true, "+
		"\"raw\": { \"b\" : [ 1 , 2.0 ] , \"a\" : \" x \" }, \"at\": 12, \"inner\":{\"tags\":[\"a\"],\"map\":{\"k\":5}},"+
		"\"list\":[{\"id\":\"i\"}], \"short\":{\"text\":\"t\"} }\r\n"), &s)
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "é" || s.Count != -3 || s.Big != 1<<64-1 || *s.Rate != 1000 || !s.On || s.At != "12" || s.Short.Text != "t" {
		t.Errorf("got %+v", s)
	}
	if want := `{"b":[1,2.0],"a":" x "}`; string(s.Raw) != want {
		t.Errorf("raw is %s, want %s", s.Raw, want)
	}
	if s.Inner.Tags[0] != "a" || s.Inner.Map["k"] != 5 || s.List[0].ID != "i" {
		t.Errorf("got %+v", s)
	}
}

func TestDecodeTakesNothingForAnEmptyObject(t *testing.T) {
	for _, body := range []string{"", " \r\n\t", "{}", `{"name":null,"count":null,"raw":null,"at":null,"inner":null,"list":null}`} {
		s := sample{}
		if err := Decode([]byte(body), &s); err != nil || s.Raw != nil || s.At != "" || s.Inner != nil {
			t.Errorf("%q: %+v, %v", body, s, err)
		}
	}
}

func TestDecodeRefusesByName(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	for body, want := range map[string]struct{ param, reason string }{
		`[]`:                            {"", "must be a JSON object, not a list"},
		`"x"`:                           {"", "must be a JSON object, not a string"},
		`7`:                             {"", "must be a JSON object, not a number"},
		`null`:                          {"", "must be a JSON object, not null"},
		`false`:                         {"", "must be a JSON object, not a boolean"},
		`nul`:                           {"", "not valid JSON"},
		`{"name":`:                      {"", "not valid JSON: it is cut off at byte 8"},
		`{"name":"a"}}`:                 {"", "not valid JSON"},
		`{"name":"a"}x`:                 {"", "not valid JSON"},
		"{\"name\":\"\xc3\"}":           {"", "not valid JSON"},
		`{"other":1}`:                   {"other", "unknown parameter"},
		`{"Name":"a"}`:                  {"Name", "unknown parameter"},
		`{"":1}`:                        {"", "unknown parameter"},
		`{"inner":{"x":1}}`:             {"inner.x", "unknown parameter"},
		`{"list":[{"id":"a"},{"k":1}]}`: {"list[1].k", "unknown parameter"},
		`{"name":"a","name":"a"}`:       {"name", "given twice"},
		`{"raw":{"k":{"d":1,"d":2}}}`:   {"raw.k.d", "given twice"},
		`{"name":{}}`:                   {"name", "an object doesn't fit here; a string is expected"},
		`{"count":"1"}`:                 {"count", "a string doesn't fit here; an integer of 64 bits is expected"},
		`{"count":1.5}`:                 {"count", "a number doesn't fit here"},
		`{"count":1e99}`:                {"count", "a number doesn't fit here"},
		`{"big":-1}`:                    {"big", "a non-negative integer of 64 bits is expected"},
		`{"big":18446744073709551616}`:  {"big", "a non-negative integer"},
		`{"rate":"x"}`:                  {"rate", "a number is expected"},
		`{"rate":1e999}`:                {"rate", "a number"},
		`{"on":1}`:                      {"on", "a boolean is expected"},
		`{"inner":[]}`:                  {"inner", "an object is expected"},
		`{"inner":{"tags":{}}}`:         {"inner.tags", "a list is expected"},
		`{"inner":{"tags":[0]}}`:        {"inner.tags[0]", "a string is expected"},
		`{"inner":{"map":{"k":"v"}}}`:   {"inner.map.k", "an integer"},
		`{"at":true}`:                   {"at", "a number or a string is expected"},
		`{"from":"yesterday"}`:          {"from", "a string doesn't fit here; a time such as 2026-"},
		`{"from":{}}`:                   {"from", "an object doesn't fit here; a time such as 2026-"},
		`{"to":"2026-11-31T00:00:00Z"}`: {"to", "a time such as 2026-"},
		`{"short":{"test":1}}`:          {"short.test", "unknown parameter"},
		`{"short":[]}`:                  {"short", "must be a JSON object"},
		`{"raw":` + deep + `}`:          {"", "more than 64 levels"},
		`{"k` + strings.Repeat("x", 1000) + `":1}`: {Clip("k" + strings.Repeat("x", 1000)), "unknown parameter"},
	} {
		var s sample
		err := Decode([]byte(body), &s)
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.InvalidParams {
			t.Errorf("%.80s: %v", body, err)
			continue
		}
		if f.Param != want.param || !strings.Contains(f.Detail, want.reason) {
			t.Errorf("%.80s: names %q (%s), want %q (%s)", body, f.Param, f.Detail, want.param, want.reason)
		}
	}
}

func TestDepthCountsBracketsOutsideOfStrings(t *testing.T) {
	inside := strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1)
	for body, want := range map[string]bool{
		`{"raw":` + inside + `}`:                          true,
		`{"raw":[` + inside + `]}`:                        false,
		`{"name":"` + strings.Repeat("[{", 500) + `"}`:    true,
		`{"name":"\"` + strings.Repeat("[", 500) + `\\"}`: true,
	} {
		var s sample
		if err := Decode([]byte(body), &s); (err == nil) != want {
			t.Errorf("%.60s: %v", body, err)
		}
	}
}

func TestDecodeValueNamesTheWholePath(t *testing.T) {
	var list []struct {
		ID string `json:"id"`
	}
	err := DecodeValue("input", []byte(`[{"id":"a"},{"id":2}]`), &list)
	var f *fault.Error
	if !errors.As(err, &f) || f.Param != "input[1].id" {
		t.Errorf("got %v", err)
	}
	var text string
	if err := DecodeValue("input", []byte(`{}`), &text); !errors.As(err, &f) || f.Param != "input" {
		t.Errorf("got %v", err)
	}
	if err := DecodeValue("input", []byte(`"ok"`), &text); err != nil || text != "ok" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestClipKeepsCharactersWhole(t *testing.T) {
	if got := Clip(strings.Repeat("é", 200)); !utf8.ValidString(got) || len(got) > 130 {
		t.Errorf("got %q", got)
	}
	if got := Clip("short"); got != "short" {
		t.Errorf("got %q", got)
	}
	if got := Clip("a\xff"); !utf8.ValidString(got) {
		t.Errorf("got %q", got)
	}
}

// sameAsGeneral checks what is read without the general decoder against it.
func sameAsGeneral(t *testing.T, body []byte) bool {
	t.Helper()
	var flat, general sample
	body = bytes.Trim(body, jsonSpace)
	if len(body) == 0 || body[0] != '{' || !decodeFlat(body, &flat) {
		return false
	}
	if at := decodeInto(body, &general); at != nil || !reflect.DeepEqual(flat, general) {
		t.Errorf("%s: read as %+v; the general decoder has %+v, %v", body, flat, general, at)
	}
	return true
}

func TestPlainObjectsAreReadAsOthersAre(t *testing.T) {
	for body, plain := range map[string]bool{
		`{}`: true, ` { } `: true, `{"name":"x"}`: true, "{ \"name\" :\t\"x y/<>&'\" ,\"raw\":\"r\"}": true, `{"raw":""}`: true, `{"name":""}`: true,
		`{"name":"x","name":"y"}`: false, `{"name":null}`: false, `{"name":"\u0078"}`: false, "{\"name\":\"\x7f\"}": false, `{"name":"ü"}`: false,
		`{"Name":"x"}`: false, `{"unknown":"x"}`: false, `{"name":"x",}`: false, `{"name":"x"`: false, `{"name":"x"}}`: false, `{"name" "x"}`: false,
		`{"name":x}`: false, `{"at":"x"}`: false, `{"inner":"x"}`: false, `{,"name":"x"}`: false, `{"name":"x"} {}`: false, `{`: false,
	} {
		if got := sameAsGeneral(t, []byte(body)); got != plain {
			t.Errorf("%s: plain is %t", body, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`, `{"name":"x","raw":{"a":[1]}}`, `{"inner":{"tags":["a"]},"list":[{"id":"1"}]}`, `{"at":1}`, `{"short":{"text":"x"}}`, `{"a":1,"a":2}`, "\xff", `[[[[`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var s sample
		err := Decode(body, &s)
		sameAsGeneral(t, body)
		if err != nil {
			var known *fault.Error
			if !errors.As(err, &known) || known.Kind != fault.InvalidParams || known.Detail == "" || !utf8.ValidString(known.Detail) {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		// What is strict for us is valid for everybody.
		if trimmed := strings.Trim(string(body), jsonSpace); trimmed != "" && !json.Valid([]byte(trimmed)) {
			t.Fatalf("%q was taken and isn't JSON", body)
		}
		if len(s.Raw) > 0 && !json.Valid(s.Raw) {
			t.Fatalf("%q: raw is %q", body, s.Raw)
		}
	})
}
