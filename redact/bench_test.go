package redact_test

import (
	"strings"
	"testing"

	"agentd/redact"
)

// prose has no keyword of a rule, code has some without a secret.
const (
	prose = "The runtime keeps one writer a session, and a fold is a pure function of what was stored before it. "
	code  = "func (s *Server) authorize(r *http.Request) error {\n\ttoken := r.Header.Get(\"X-Token\")\n\tif token == \"\" {\n\t\treturn errMissing // see https://example.com/docs\n\t}\n\treturn s.check(token)\n}\n"
)

func BenchmarkText(b *testing.B) {
	r := redact.New(redact.Options{Values: []string{planted(1), planted(2), planted(3)}})
	for _, bm := range []struct{ name, text string }{
		{"prose", strings.Repeat(prose, 640)},
		{"code", strings.Repeat(code, 320)},
		{"secrets", strings.Repeat(prose+planted(2)+" ", 400)},
		{"short", "ok  \tagentd/redact\t0.31s"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.text)))
			b.ReportAllocs()
			for b.Loop() {
				r.Text(bm.text)
			}
		})
	}
}

func BenchmarkJSON(b *testing.B) {
	r := redact.New(redact.Options{Values: []string{planted(1), planted(2)}})
	for _, bm := range []struct{ name, raw string }{
		{"plain", `{"text":"` + strings.Repeat(prose, 6) + `","index":3,"path":"a/b.go"}`},
		{"keyword", `{"text":"` + strings.Repeat(prose, 6) + `","password":"","token":"if"}`},
		{"escapes", `{"text":"` + strings.Repeat(`a line\n\t\"quoted\" `, 30) + `"}`},
	} {
		b.Run(bm.name, func(b *testing.B) {
			raw := []byte(bm.raw)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				r.JSON(raw)
			}
		})
	}
}

func BenchmarkStream(b *testing.B) {
	r := redact.New(redact.Options{Values: []string{planted(1)}})
	pieces := strings.SplitAfter(strings.Repeat(prose, 64), " ")
	b.SetBytes(int64(64 * len(prose)))
	b.ReportAllocs()
	for b.Loop() {
		s := r.Stream()
		for _, p := range pieces {
			s.Text(p)
		}
		s.Close()
	}
}

// BenchmarkWorst is text that makes the rules work as much as they can.
func BenchmarkWorst(b *testing.B) {
	r := redact.New(redact.Options{Values: []string{strings.Repeat("a", 200), planted(1)}})
	const size = 1 << 20
	for _, bm := range []struct{ name, unit string }{
		{"names", "token="},
		{"prefixes", "sk-"},
		{"claims", "-eyJ"},
		{"blocks", "-----BEGIN PRIVATE KEY-----"},
		{"addresses", "://a:"},
		{"values", "a"},
		{"headers", "authorization:"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			text := strings.Repeat(bm.unit, size/len(bm.unit))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.Text(text)
			}
		})
	}
}
