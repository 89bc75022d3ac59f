package store

import (
	"crypto/sha256"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestRefsInJSON(t *testing.T) {
	a, b := RefOf(sha256.Sum256([]byte("a"))), RefOf(sha256.Sum256([]byte("b")))
	for text, want := range map[string][]string{
		`{"outputRef":"A","more":["B","A"]}`: {a, b, a},
		`"A"`:                                {a},
		`"A`:                                 nil,
		`A"`:                                 nil,
		`256:`:                               nil,
		`{"text":"see A"}`:                   nil, // no whole string
		`{"text":"A, and more"}`:             nil,
		`{"x":"` + strings.ToUpper(a) + `"}`: nil,
		`{"x":"` + a[:len(a)-1] + `g"}`:      nil,
		`{"afterHash":"A","hash":"A","requestDigest": "A"}`:     nil,
		`{"digest":"A","grant":"A","keyId":"A","version": "A"}`: nil,
		`{"hash":"A","ref":"B"}`:                                {b},
		`{"beforeRef":"A","ref":"B"}`:                           {a, b},
	} {
		text = strings.NewReplacer("A", a, "B", b).Replace(text)
		if got := RefsIn([]byte(text), math.MaxInt); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	both := []byte(`{"beforeRef": "` + a + `","ref":"` + b + `","other":"` + a + `"}`)
	if got := RefsIn(both, math.MaxInt, `"beforeRef":`); !slices.Equal(got, []string{b, a}) {
		t.Errorf("without beforeRef: %q", got)
	}
	if got := RefsIn(both, 1); !slices.Equal(got, []string{a}) {
		t.Errorf("at most one: %q", got)
	}
}
