package tool

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestGatherer(t *testing.T) {
	g := NewGatherer(100)
	if b, dropped := g.Bytes(); len(b) != 0 || dropped != 0 {
		t.Errorf("empty: %q, %d", b, dropped)
	}
	for i := range 100 {
		fmt.Fprintf(g, "%02d\n", i)
	}
	text, dropped := g.Bytes()
	want := "00\n01\n02\n03\n04\n05\n06\n07\n08\n09\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n20\n21\n22\n23\n24\n" +
		"[… 200 bytes left out …]\n\n92\n93\n94\n95\n96\n97\n98\n99\n"
	if string(text) != want || dropped != 200 || g.Total() != 300 {
		t.Errorf("%q, %d, %d", text, dropped, g.Total())
	}
	if g.Binary() {
		t.Error("text is called binary")
	}
	all := NewGatherer(100)
	_, _ = io.WriteString(all, strings.Repeat("ä", 50))
	if b, dropped := all.Bytes(); string(b) != strings.Repeat("ä", 50) || dropped != 0 {
		t.Errorf("what fits is kept as it is: %q, %d", b, dropped)
	}
}

func TestGathererBinary(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want bool
	}{
		"empty":          {"", false},
		"text":           {"hello\n\tworld\r\n", false},
		"colours":        {"\x1b[31mred\x1b[0m\n", false},
		"umlauts":        {strings.Repeat("äöü", 1000), false},
		"half character": {"abc\xc3", false},
		"latin 1":        {"caf\xe9 au lait, toujours", false},
		"zero":           {"abc\x00", true},
		"late zero":      {strings.Repeat("a", 500) + "\x00", true},
		"noise":          {strings.Repeat("\x80\x01\xff\x02", 100), true},
	} {
		g := NewGatherer(100)
		for i := 0; i < len(c.data); i += 7 {
			_, _ = io.WriteString(g, c.data[i:min(i+7, len(c.data))])
		}
		if g.Binary() != c.want {
			t.Errorf("%s: %v", name, g.Binary())
		}
	}
}

// Whatever is written, in whatever pieces: bounded, valid, the beginning and the
// end are there, and what is missing is counted.
func TestGathererHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.Int64Range(0, 300).Draw(rt, "limit")
		data := rapid.SliceOfN(rapid.SampledFrom([]byte("ab\n\x00\xff\xc3\xa4\xe2\x82\xac")), 0, 1000).Draw(rt, "data")
		g := NewGatherer(limit)
		for rest := data; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "n")
			if k, err := g.Write(rest[:n]); k != n || err != nil {
				rt.Fatal(k, err)
			}
			rest = rest[n:]
		}
		limit = max(limit, 64)
		head, tail, dropped := g.Parts()
		if int64(len(head)+len(tail)) > limit || !utf8.Valid(head) || !utf8.Valid(tail) {
			rt.Fatalf("%d + %d bytes of %d", len(head), len(tail), limit)
		}
		if utf8.Valid(data) && int64(len(head)+len(tail))+dropped != int64(len(data)) {
			rt.Fatalf("%d + %d + %d dropped of %d", len(head), len(tail), dropped, len(data))
		}
		if utf8.Valid(data) && (!bytes.HasPrefix(data, head) || !bytes.HasSuffix(data, tail)) {
			rt.Fatalf("%q ... %q is not %q", head, tail, data)
		}
		if dropped < 0 || dropped == 0 && len(tail) > 0 {
			rt.Fatalf("dropped %d with a tail of %d", dropped, len(tail))
		}
		if int64(len(data)) > limit && dropped == 0 {
			rt.Fatal("nothing was dropped of too much")
		}
	})
}

func TestGathererTogether(t *testing.T) {
	g := NewGatherer(1 << 10)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				_, _ = io.WriteString(g, "line\n")
				_, _ = g.Bytes()
			}
		})
	}
	wg.Wait()
	if g.Total() != 20_000 {
		t.Errorf("%d bytes", g.Total())
	}
}

func TestPreview(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	got := Preview(b.String(), 200)
	if !strings.HasPrefix(got, "line 0\nline 1\n") || !strings.HasSuffix(got, "\nline 998\nline 999\n") || len(got) > 200 {
		t.Errorf("%q", got)
	}
	has(t, got, "lines, ", "bytes left out …]\n")
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab\nä€")), 0, 400, -1).Draw(rt, "text")
		n := rapid.IntRange(0, 300).Draw(rt, "n")
		got := Preview(text, n)
		if len(got) > n || !utf8.ValidString(got) {
			rt.Fatalf("%q in %d: %q", text, n, got)
		}
		if len(text) <= n && got != text {
			rt.Fatalf("%q fits in %d: %q", text, n, got)
		}
	})
}

func BenchmarkGatherer(b *testing.B) {
	p := bytes.Repeat([]byte("some output of a command\n"), 40)
	g := NewGatherer(256 << 10)
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		_, _ = g.Write(p)
	}
}
