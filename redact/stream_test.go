package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"agentd/redact"
)

// through sends a text through a stream in pieces whose lengths are cuts, again
// and again, and returns what comes out.
func through(r *redact.Redactor, text string, cuts []int) (string, redact.Found) {
	s := r.Stream()
	var out strings.Builder
	for i := 0; text != ""; i++ {
		n := min(len(text), max(1, cuts[i%len(cuts)]))
		out.WriteString(s.Text(text[:n]))
		text = text[n:]
	}
	out.Write(s.Close())
	return out.String(), s.Found()
}

// material are texts with and without secrets, and pieces of secrets.
func material() []string {
	out := []string{prose, code, "\n", " ", "\"", "=", ": ", "a", "\\n", planted(1), planted(1)[:9], planted(2), "xoxb", "-----BEGIN ", "password = ", "token: ", "https://u:", "Authorization: Bearer "}
	for _, list := range secrets() {
		for _, s := range list {
			out = append(out, s, s[:len(s)/3])
		}
	}
	return append(out, block("PRIVATE KEY", "\n"), block("RSA PRIVATE KEY", `\n`), letters(mixed, 30, 77), "postgres://a:b2c3@h/x")
}

func TestStreamGivesWhatTextGives(t *testing.T) {
	r := redact.New(redact.Options{Values: []string{planted(1), planted(2), "two\nlines of it"}})
	pieces := material()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 8).Draw(t, "pieces"), "")
		cuts := rapid.SliceOfN(rapid.IntRange(1, 40), 1, 6).Draw(t, "cuts")
		want, found := r.Text(text)
		got, streamed := through(r, text, cuts)
		if got != want || streamed.Count != found.Count {
			t.Fatalf("text %q cuts %v\n got %q\nwant %q", text, cuts, got, want)
		}
	})
}

func TestStreamHoldsBackOnlyWhatItMust(t *testing.T) {
	r := redact.New(redact.Options{Values: []string{planted(1)}})
	s := r.Stream()
	for _, c := range []struct {
		piece, want string
		held        int
	}{
		{"Hello, ", "Hello, ", 0},
		{"world. I", "world. I", 0},
		{" said: " + planted(1)[:4], " said: ", 4},
		{planted(1)[4:], "", len(planted(1))}, // its last letter may begin another
		{" ", "[redacted:value] ", 0},
		{"and gh", "and ", 2},
		{"ost", "ghos", 1},
		{"!", "t!", 0},
	} {
		if got := s.Text(c.piece); got != c.want || s.Held() != c.held {
			t.Errorf("%q: gave %q and holds %d, want %q and %d", c.piece, got, s.Held(), c.want, c.held)
		}
	}
	if rest := s.Close(); len(rest) != 0 {
		t.Errorf("the end gave %q", rest)
	}
}

func TestStreamIsBounded(t *testing.T) {
	r := redact.New(redact.Options{})
	const bound = 20 << 10
	for name, text := range map[string]string{
		"a key that never ends": "x -----BEGIN PRIVATE KEY-----\n" + strings.Repeat(letters(mixed, 64, 3)+"\n", 2000) + "-----END PRIVATE KEY-----\nafter it",
		"an endless token":      "x ghp_" + strings.Repeat("a1B2", 20000) + " after it",
		"an endless value":      "x password=" + strings.Repeat("a1B2", 20000) + " after it",
		"an endless address":    "x https://" + strings.Repeat("a", 80000) + " after it",
	} {
		t.Run(name, func(t *testing.T) {
			s := r.Stream()
			var out strings.Builder
			for i := 0; i < len(text); i += 97 {
				out.WriteString(s.Text(text[i:min(len(text), i+97)]))
				if s.Held() > bound {
					t.Fatalf("holds %d bytes", s.Held())
				}
			}
			out.Write(s.Close())
			if got := out.String(); !strings.HasPrefix(got, "x ") || !strings.HasSuffix(got, "after it") {
				t.Errorf("lost what is around: %.40q … %q", got, got[max(0, len(got)-40):])
			}
			if strings.Contains(name, "key") && strings.Contains(out.String(), letters(mixed, 64, 3)) {
				t.Error("a line of the key went through")
			}
		})
	}
}

func TestStreamCanBeUsedAgain(t *testing.T) {
	r := redact.New(redact.Options{Values: []string{planted(1)}})
	s := r.Stream()
	for range 2 {
		if got := s.Text("a "+planted(1)[:6]) + string(s.Close()); got != "a "+planted(1)[:6] {
			t.Errorf("got %q", got)
		}
	}
	if s.Text(planted(1) + " "); s.Found().Count != 1 {
		t.Errorf("found %+v", s.Found())
	}
}

// FuzzPlanted holds that a planted value is in nothing that comes out, wherever
// it is planted and however the text is cut.
func FuzzPlanted(f *testing.F) {
	f.Add("some text ", " more", uint16(3), uint16(1), "hunter22")
	f.Add("password=", "\n", uint16(1), uint16(7), "aaaaaaaa")
	f.Add("-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----", uint16(5), uint16(2), "ghp_ab")
	f.Add("https://u:", "@h", uint16(2), uint16(2), "://a:b@")
	f.Add("aaaaaaa", "aaaaaaa", uint16(2), uint16(3), "aaaaaab")
	f.Fuzz(func(t *testing.T, before, after string, cut1, cut2 uint16, value string) {
		value = strings.TrimSpace(value)
		// Values that can be made of a replacement and what is beside it don't
		// come from the text.
		if len(value) < redact.MinValue || strings.ContainsAny(value, "[]") || strings.Contains("redacted: "+strings.Join(redact.Rules(), " "), value) {
			t.Skip()
		}
		r := redact.New(redact.Options{Values: []string{value, "another-" + value}})
		text := before + value + after + value[:len(value)-1] + before
		got, found := r.Text(text)
		if strings.Contains(got, value) || !found.Any() {
			t.Fatalf("Text(%q) = %q holds %q", text, got, value)
		}
		streamed, _ := through(r, text, []int{int(cut1%64) + 1, int(cut2%64) + 1})
		if strings.Contains(streamed, value) {
			t.Fatalf("the stream of %q gave %q, which holds %q", text, streamed, value)
		}
		if len(text) < 8<<10 && streamed != got {
			t.Fatalf("the stream of %q gave %q, not %q", text, streamed, got)
		}
		checkJSON(t, r, text, value)
	})
}

func checkJSON(t *testing.T, r *redact.Redactor, text, value string) {
	raw, err := json.Marshal(map[string]any{text: text, "list": []string{value, text}})
	if err != nil {
		t.Fatal(err)
	}
	clean, _ := r.JSON(raw)
	var out map[string]any
	if err := json.Unmarshal(clean, &out); err != nil {
		t.Fatalf("%s became %s: %v", raw, clean, err)
	}
	var has func(v any) bool
	has = func(v any) bool {
		switch v := v.(type) {
		case string:
			return strings.Contains(v, value)
		case []any:
			return has(v[0]) || has(v[1])
		}
		return false
	}
	for k, v := range out {
		if strings.Contains(k, value) || has(v) {
			t.Fatalf("%s became %s, which holds %q", raw, clean, value)
		}
	}
}
