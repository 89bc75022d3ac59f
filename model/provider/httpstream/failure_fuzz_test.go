package httpstream

import (
	"encoding/json"
	"testing"
)

// Whatever a provider answers instead of a stream, it is an error with a category.
func FuzzParseFailure(f *testing.F) {
	for _, s := range []string{
		`{"error":{"message":"no","type":"rate_limit_error","code":"x"}}`, `[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED"}}]`,
		`{"type":"error","error":{"type":"overloaded_error"}}`, `{"error":"plain"}`, `{"message":1}`, `<html>`, ``, `[]`, `null`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		fail := ParseFailure(body)
		if fail == nil {
			return
		}
		if err := fail.Error(); err == nil || err.Category == "" {
			t.Errorf("%q: %+v", body, err)
		}
	})
}

// Whatever a model writes as arguments, they are an object, or said to be none.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{`{"path":"a"}`, ``, `[]`, `{"a":`, `null`, `"x"`, "{\"a\":\"\xff\"}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		arguments, malformed := parseArguments(s)
		var object map[string]json.RawMessage
		if malformed == "" && (json.Unmarshal(arguments, &object) != nil || object == nil) {
			t.Errorf("%q became %q", s, arguments)
		}
	})
}
