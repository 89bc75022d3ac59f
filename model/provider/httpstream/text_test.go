package httpstream

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		`"plain"`: "plain", `""`: "", `null`: "", `"a\nb\t\"c\"\\\/\b\f\r"`: "a\nb\t\"c\"\\/\b\f\r",
		`"\u00e4\ud83d\udc4b"`: "ä👋", `"ä👋"`: "ä👋", `"\u0041\\u0041"`: `A\u0041`,
	} {
		var got Text
		if err := json.Unmarshal([]byte(in), &got); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{`7`, `{}`, `["a"]`, `true`} {
		var got Text
		if json.Unmarshal([]byte(in), &got) == nil {
			t.Errorf("%s is taken for a text", in)
		}
	}
}

func TestJoiner(t *testing.T) {
	for _, c := range []struct {
		name   string
		pieces []string
		want   string
	}{
		{"whole", []string{`"a"`, `"ä"`}, "aä"},
		{"by bytes", []string{"\"\xf0\"", "\"\x9f\"", "\"\x91\"", "\"\x8b\""}, "👋"},
		{"by units", []string{`"\ud83d"`, `"\udc4b"`}, "👋"},
		{"by units, with an empty piece between", []string{`"\ud83d"`, `""`, `"\udc4b!"`}, "👋!"},
		{"two halves of different ones", []string{`"\ud83d"`, `"x"`}, "\uFFFDx"},
		{"second half alone", []string{`"\udc4bx"`}, "\uFFFDx"},
		{"first half at the end", []string{`"x\ud83d"`}, "x\uFFFD"},
		{"half of bytes at the end", []string{"\"x\xe4\xb8\""}, "x\uFFFD"},
		{"wrong bytes", []string{"\"a\xffb\""}, "a\uFFFDb"},
		{"half of bytes, then something else", []string{"\"\xe4\xb8\"", `"x"`}, "\uFFFDx"},
	} {
		var j Joiner
		var got strings.Builder
		for _, p := range c.pieces {
			var text Text
			if err := json.Unmarshal([]byte(p), &text); err != nil {
				t.Fatal(err)
			}
			got.WriteString(j.Add(text))
		}
		got.WriteString(j.Flush())
		if got.String() != c.want {
			t.Errorf("%s: %q", c.name, got.String())
		}
	}
}

// TestJoinerOfAnyCut: however a text is cut into bytes, it comes out whole.
func TestJoinerOfAnyCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.String().Draw(t, "text")
		var j Joiner
		got := ""
		for rest := whole; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			piece := j.Add(Text(rest[:n]))
			if !utf8.ValidString(piece) {
				t.Fatalf("%q is no UTF-8", piece)
			}
			got += piece
			rest = rest[n:]
		}
		if got += j.Flush(); got != whole {
			t.Fatalf("%q became %q", whole, got)
		}
	})
}

func TestAppendStringIsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		if rapid.Bool().Draw(t, "text") {
			s = rapid.String().Draw(t, "text")
		}
		var got string
		if err := json.Unmarshal(AppendString(nil, s), &got); err != nil || got != strings.ToValidUTF8(s, "\uFFFD") && utf8.ValidString(s) {
			t.Fatalf("%q became %q, %v", s, got, err)
		}
	})
}

// TestWhatCantBeReadIsSaidPlainly: what is told of an answer that can't be read names
// neither our types nor the decoder's states.
func TestWhatCantBeReadIsSaidPlainly(t *testing.T) {
	var into struct {
		Usage struct {
			Tokens int `json:"tokens"`
		} `json:"usage"`
	}
	for text, want := range map[string]string{
		`not json`:                    `the server sent what can't be read: it is not valid JSON in not json`,
		`{"usage":`:                   `the server sent what can't be read: it is not valid JSON in {"usage":`,
		`{"usage":{"tokens":"many"}}`: `the server sent what can't be read: "usage.tokens" can't be a JSON string there in {"usage":{"tokens":"many"}}`,
	} {
		if got := asMalformed(json.Unmarshal([]byte(text), &into), []byte(text)).Error(); !strings.HasSuffix(got, want) {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}
