package httpstream

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// cutOut stands where a secret was.
const cutOut = "[redacted]"

// shortest is the length below which a value is no secret worth the harm that
// replacing every occurrence of it would do.
const shortest = 6

// secrets are values that must not leave the package except to the server,
// longest first, so that a value that contains another is found whole.
type secrets [][]byte

func secretsOf(o Options) secrets {
	var out secrets
	add := func(s string) {
		s = strings.TrimSpace(s)
		if len(s) < shortest {
			return
		}
		out = append(out, []byte(s))
		// A server may repeat it inside JSON, where some characters look different.
		if quoted, err := json.Marshal(s); err == nil && string(quoted[1:len(quoted)-1]) != s {
			out = append(out, quoted[1:len(quoted)-1])
		}
	}
	add(o.APIKey)
	for name, value := range o.Headers {
		if isCredential(name) {
			scheme, rest, ok := strings.Cut(value, " ")
			if ok && len(scheme) <= len("Bearer") {
				value = rest
			}
			add(value)
		}
	}
	slices.SortFunc(out, func(a, b []byte) int { return len(b) - len(a) })
	return out
}

// isCredential tells headers that carry secrets by their name.
func isCredential(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"auth", "key", "token", "secret", "cookie", "password", "signature"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}

// longest is the length of the longest secret.
func (s secrets) longest() int {
	if len(s) == 0 {
		return 0
	}
	return len(s[0])
}

// cut returns b without secrets. It never changes b.
func (s secrets) cut(b []byte) []byte {
	for _, secret := range s {
		if bytes.Contains(b, secret) {
			b = bytes.ReplaceAll(b, secret, []byte(cutOut))
		}
	}
	return b
}

func (s secrets) cutString(t string) string { return string(s.cut([]byte(t))) }
