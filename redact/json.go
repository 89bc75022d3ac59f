package redact

import (
	"bytes"
	"encoding/json"
	"strings"

	"agentd/event"
)

// JSON returns raw without secrets, as valid JSON. Strings are looked at as what
// they stand for, not as they are written, object keys too; a string under a
// telling key (password, api_key, accessToken …) goes whole. If nothing is found,
// it is raw itself. What isn't JSON comes back as a JSON string of its text.
func (r *Redactor) JSON(raw event.Raw) (event.Raw, Found) {
	if len(raw) == 0 || r.quiet(bytesAsString(raw)) {
		return raw, Found{}
	}
	if !json.Valid(raw) {
		text, found := r.Text(string(raw))
		return quoteJSON(text), found
	}
	w := walker{r: r, raw: raw}
	w.value(plainKey)
	if !w.found.Any() {
		return raw, Found{}
	}
	w.out = append(w.out, raw[w.copied:]...)
	return w.out, w.found
}

// quiet reports whether nothing in the JSON text s can be a secret: no entry
// begins anywhere, and no escape hides one. Values are in the index also as JSON
// writes them, and keywords hold nothing that must be escaped; what is left are
// escapes that needn't be.
func (r *Redactor) quiet(s string) bool {
	return r.index.quiet(s) && !strings.Contains(s, `\u`) && !strings.Contains(s, `\/`)
}

// walker goes through valid JSON and copies what it leaves as it is.
type walker struct {
	r      *Redactor
	raw    []byte
	i      int
	copied int
	out    []byte
	found  Found
}

// value reads one value; k is what its key tells.
func (w *walker) value(k keyKind) {
	w.blanks()
	switch w.raw[w.i] {
	case '{':
		w.object()
	case '[':
		w.array(k)
	case '"':
		w.str(k)
	default:
		w.literal()
	}
	w.blanks()
}

func (w *walker) blanks() {
	for w.i < len(w.raw) && strings.IndexByte(" \t\r\n", w.raw[w.i]) >= 0 {
		w.i++
	}
}

func (w *walker) object() {
	w.i++
	w.blanks()
	for w.raw[w.i] != '}' {
		k := kindOf(w.str(plainKey))
		w.blanks()
		w.i++ // the colon
		w.value(k)
		if w.raw[w.i] == ',' {
			w.i++
			w.blanks()
		}
	}
	w.i++
}

func (w *walker) array(k keyKind) {
	w.i++
	w.blanks()
	for w.raw[w.i] != ']' {
		w.value(k)
		if w.raw[w.i] == ',' {
			w.i++
		}
	}
	w.i++
}

// str reads a string, replaces what is secret in it and returns what it stood for.
func (w *walker) str(k keyKind) string {
	begin := w.i
	escaped := false
	for w.i++; w.raw[w.i] != '"'; w.i++ {
		if w.raw[w.i] == '\\' {
			escaped = true
			w.i++
		}
	}
	w.i++
	text := bytesAsString(w.raw[begin+1 : w.i-1])
	if escaped {
		if err := json.Unmarshal(w.raw[begin:w.i], &text); err != nil {
			return "" // it was valid before
		}
	}
	if k == secretKey && !placeholder(text) || k >= weakKey && wholeSecret(text, k == weakKey) {
		w.replace(begin, ruleKey)
		return text
	}
	clean, found := w.r.Text(text)
	if found.Any() {
		w.copyTo(begin)
		w.out = append(w.out, quoteJSON(clean)...)
		w.found = w.found.Add(found)
	}
	return text
}

// literal reads a number, true, false or null. A number can hold a value that
// was given: a string takes its place.
func (w *walker) literal() {
	begin := w.i
	for w.i < len(w.raw) && strings.IndexByte(",]} \t\r\n", w.raw[w.i]) < 0 {
		w.i++
	}
	if _, found := w.r.Bytes(w.raw[begin:w.i]); found.Any() {
		w.replace(begin, found.Rules[0])
	}
}

// replace puts a marker in the place of what was read since begin.
func (w *walker) replace(begin int, rule string) {
	w.copyTo(begin)
	w.out = append(w.out, quoteJSON(marker(rule))...)
	w.found = w.found.Add(Found{Count: 1, Rules: []string{rule}})
}

// copyTo copies what was left as it is, up to begin, and goes on after what was
// read.
func (w *walker) copyTo(begin int) {
	w.out = append(w.out, w.raw[w.copied:begin]...)
	w.copied = w.i
}

func quoteJSON(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return []byte(`"[redacted]"`) // a string can always be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// keyKind is what the key of an object tells about its value.
type keyKind uint8

const (
	plainKey keyKind = iota
	// weakKey and nameKey hold a word that tells a secret, among other things: the
	// value counts if it looks like one.
	weakKey
	nameKey
	// secretKey names a secret: the value counts whatever it looks like.
	secretKey
)

// kindOf says what a key tells. A key that tells anything holds a keyword of the
// index as well, so that [Redactor.quiet] doesn't pass over it.
func kindOf(key string) keyKind {
	if len(key) > maxName {
		return plainKey
	}
	var buf [maxName]byte
	plain := buf[:0]
	for i := range len(key) {
		if c := lower(key[i]); lowerAlnum[c] {
			plain = append(plain, c)
		}
	}
	if secretKeys[string(plain)] {
		return secretKey
	}
	for _, n := range names {
		if i := indexFold(key, n.keyword); i >= 0 {
			if n.weak {
				return weakKey
			}
			return nameKey
		}
	}
	return plainKey
}

func indexFold(s, word string) int {
	for i := 0; i+len(word) <= len(s); i++ {
		if begins(s[i:], word, true) {
			return i
		}
	}
	return -1
}

// wholeSecret reports whether all of a string looks like a secret.
func wholeSecret(text string, weak bool) bool {
	return runEnd(text, 0, valueChars, len(text)) == len(text) && secretValue(text, weak)
}

// secretKeys are keys whose value is a secret whatever it looks like, without
// signs and in small letters. Words that tell other things as well, such as the
// plain "token" of a parser, are not here.
var secretKeys = func() map[string]bool {
	m := make(map[string]bool)
	for k := range strings.FieldsSeq(`password passwd pwd passphrase secret secretkey clientsecret
		apikey xapikey apisecret accesskey secretaccesskey awssecretaccesskey
		accesstoken refreshtoken idtoken authtoken bearertoken sessiontoken apitoken personalaccesstoken
		privatekey authorization proxyauthorization credential credentials`) {
		m[k] = true
	}
	return m
}()
