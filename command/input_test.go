package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"agentd/event"
)

// The short way for plain texts gives what the long way gives.
func TestAPlainInputBecomesWhatAnyOtherWould(t *testing.T) {
	texts := rapid.OneOf(rapid.StringMatching(`[ -~]{1,60}`), rapid.StringMatching(`[ a-z.]{1,60}`), rapid.StringN(1, 40, -1))
	rapid.Check(t, func(t *rapid.T) {
		text := texts.Draw(t, "text")
		in, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "unescaped") && isPlain(`"`+text+`"`) {
			in = []byte(`"` + text + `"`)
		}
		got, err := normalInput(event.Raw(in))
		if err != nil {
			t.Fatal(err)
		}
		var want string
		if err := json.Unmarshal(in, &want); err != nil {
			t.Fatal(err)
		}
		long, err := encodeParts([]Part{{Type: "text", Text: want}})
		if err != nil || !bytes.Equal(got, long) {
			t.Fatalf("got  %s\nwant %s (%v)", got, long, err)
		}
		if plain, ok := PlainText(got); ok && plain != want || !ok && isPlain(string(in)) {
			t.Fatalf("the text of %s is %q (%v), want %q", got, plain, ok, want)
		}
	})
	for _, in := range []string{``, `[]`, `[{"type":"text","text":""}]`, `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, `[{"type":"text","text":"a","ref":"b"}]`, `[{"type":"text","text":"a\n"}]`} {
		if text, ok := PlainText(event.Raw(in)); ok {
			t.Errorf("%s was taken for the text %q", in, text)
		}
	}
	if _, err := normalInput(event.Raw(`""`)); err == nil {
		t.Error("an empty text was accepted")
	}
}

// TestPlainAndEscapedParametersAreTheSame holds the short way in which plain strings
// are read against the general one, which an escape asks for, for every parameter.
func TestPlainAndEscapedParametersAreTheSame(t *testing.T) {
	seen := 0
	for _, d := range Catalog() {
		for _, sf := range reflect.VisibleFields(reflect.TypeOf(d.New()).Elem()) {
			name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			plain, err := Decode(d.Name, fmt.Appendf(nil, `{%q: "aA"}`, name))
			escaped, wrong := Decode(d.Name, fmt.Appendf(nil, `{%q: "\u0061A"}`, name))
			if (err == nil) != (wrong == nil) || (err != nil && err.Error() != wrong.Error()) {
				t.Errorf("%s.%s: %v, escaped %v", d.Name, name, err, wrong)
				continue
			}
			if err != nil {
				continue
			}
			seen++
			if raw := reflect.ValueOf(escaped).Elem().FieldByIndex(sf.Index); sf.Type == reflect.TypeFor[event.Raw]() && string(raw.Bytes()) == `"\u0061A"` {
				raw.SetBytes([]byte(`"aA"`)) // what is kept as it came keeps its escapes
			}
			if !reflect.DeepEqual(plain, escaped) {
				t.Errorf("%s.%s: %+v, escaped %+v", d.Name, name, plain, escaped)
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d parameters take a string", seen)
	}
}
