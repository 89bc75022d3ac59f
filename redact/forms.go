package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
)

// disguises returns a value and its common disguises.
func disguises(value string) []string {
	v := strings.TrimSpace(value)
	if len(v) < MinValue {
		return nil
	}
	out := []string{v}
	add := func(s string) {
		if len(s) >= MinValue && s != v {
			out = append(out, s)
		}
	}
	if value != v {
		add(value)
	}
	for _, s := range jsonForms(v) {
		add(s)
	}
	for _, s := range []string{url.QueryEscape(v), url.PathEscape(v), escapeAll(v)} {
		add(s)
		add(lowerEscapes(s))
	}
	for _, s := range base64Forms(v) {
		add(s)
	}
	for _, s := range base64Lines(v) {
		add(s)
	}
	h := hex.EncodeToString([]byte(v))
	add(h)
	add(strings.ToUpper(h))
	return out
}

// jsonForms returns the value as it stands within a JSON string, with and without
// the escapes that encoding/json adds for HTML, and escaped twice: JSON in JSON is
// what tool calls consist of.
func jsonForms(v string) []string {
	once := []string{jsonEscape(v, true), jsonEscape(v, false), strings.ReplaceAll(jsonEscape(v, false), "/", `\/`)}
	out := once
	for _, s := range once {
		out = append(out, jsonEscape(s, false))
	}
	return out
}

func jsonEscape(s string, html bool) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	if err := enc.Encode(s); err != nil {
		return s // a string can always be encoded
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(b.String(), "\n"), `"`), `"`)
}

// escapeAll is the value percent-encoded as JavaScript's encodeURIComponent does:
// a blank is %20, and more signs stay than in a query of net/url.
func escapeAll(v string) string {
	s := strings.ReplaceAll(url.QueryEscape(v), "+", "%20")
	for _, keep := range []string{"!", "'", "(", ")", "*"} {
		s = strings.ReplaceAll(s, url.QueryEscape(keep), keep)
	}
	return s
}

// lowerEscapes writes percent-escapes with small letters.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			b[i+1], b[i+2] = lower(b[i+1]), lower(b[i+2])
		}
	}
	return string(b)
}

// base64Forms returns what of the value's base64 doesn't depend on what stands
// before and after it, for each of the three ways in which it can lie.
func base64Forms(v string) []string {
	var out []string
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			s := enc.EncodeToString(append(make([]byte, before), v...))
			first := (8*before + 5) / 6
			last := 8 * (before + len(v)) / 6
			out = append(out, s[first:last])
		}
	}
	return out
}

// base64Lines returns the value's base64 in lines, as commands print it when they
// encode the value alone.
func base64Lines(v string) []string {
	s := base64.RawStdEncoding.EncodeToString([]byte(v))
	var out []string
	for _, width := range []int{64, 76} {
		if len(s) <= width {
			continue
		}
		for _, nl := range []string{"\n", "\r\n", `\n`} {
			var b strings.Builder
			for i := 0; i < len(s); i += width {
				if i > 0 {
					b.WriteString(nl)
				}
				b.WriteString(s[i:min(len(s), i+width)])
			}
			out = append(out, b.String())
		}
	}
	return out
}
