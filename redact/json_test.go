package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agentd/redact"
)

func TestJSON(t *testing.T) {
	v, drawn := planted(1), letters(mixed, 24, 31)
	r := redact.New(redact.Options{Values: []string{v, "90125537"}})
	for _, c := range []struct{ raw, want string }{
		{`{"a":"` + v + `"}`, `{"a":"[redacted:value]"}`},
		{`{"a":["x",{"b":" ` + v + ` "}],"n":1.50e3}`, `{"a":["x",{"b":" [redacted:value] "}],"n":1.50e3}`},
		{`{"` + v + `":1}`, `{"[redacted:value]":1}`},
		{`"` + v + `"`, `"[redacted:value]"`},
		{`{"password":"hunter2"}`, `{"password":"[redacted:secret_key]"}`},
		{` { "api_key" : "short" , "x" : [ ] } `, ` { "api_key" : "[redacted:secret_key]" , "x" : [ ] } `},
		{`{"apiKey":"a","clientSecret":"b","x-api-key":"c"}`, `{"apiKey":"[redacted:secret_key]","clientSecret":"[redacted:secret_key]","x-api-key":"[redacted:secret_key]"}`},
		{`{"passwords":["` + drawn + `","plain"]}`, `{"passwords":["[redacted:secret_key]","plain"]}`},
		{`{"secret":["one","two"]}`, `{"secret":["[redacted:secret_key]","[redacted:secret_key]"]}`},
		{`{"token":"` + drawn + `"}`, `{"token":"[redacted:secret_key]"}`},
		{`{"Authorization":"Bearer x"}`, `{"Authorization":"[redacted:secret_key]"}`},
		{`{"pin":90125537}`, `{"pin":"[redacted:value]"}`},
		{`{"a":"\u0070v1` + v[3:] + `"}`, `{"a":"[redacted:value]"}`},
		{`{"pass\u0077ord":"hunter2"}`, `{"pass\u0077ord":"[redacted:secret_key]"}`},
		{`{"u":"https:\/\/u:hunter2@h\/"}`, `{"u":"https://u:[redacted:url_password]@h/"}`},
		{`{"a":"say \"` + v + `\"\n<b>"}`, `{"a":"say \"[redacted:value]\"\n<b>"}`},
	} {
		got, found := r.JSON([]byte(c.raw))
		if string(got) != c.want || !found.Any() {
			t.Errorf("%s\n got %s\nwant %s", c.raw, got, c.want)
		}
		if !json.Valid(got) {
			t.Errorf("%s: invalid: %s", c.raw, got)
		}
	}
}

func TestJSONStays(t *testing.T) {
	r := redact.New(redact.Options{Values: []string{planted(1)}})
	for _, raw := range []string{
		``, `null`, `1`, `""`, `{}`, `[]`, ` {"a" : [1, 2 ,{} ] }`, `{"password":"","secret":null,"api_key":7,"token":"if"}`,
		`{"password":"[redacted:secret_key]","apiKey":"${API_KEY}"}`, `{"maxTokens":12,"tokens":["func","ident"]}`, `{"a":"\u00e9\/"}`,
		`{"passwordPolicy":"at least 12 characters","secretary":"Ms Jones","keyword":"x"}`,
	} {
		if got, found := r.JSON([]byte(raw)); string(got) != raw || found.Any() {
			t.Errorf("%s became %s (%v)", raw, got, found.Rules)
		}
	}
}

func TestJSONOfWhatIsNone(t *testing.T) {
	r := redact.New(redact.Options{Values: []string{planted(1)}})
	for _, raw := range []string{`{"a":` + planted(1), planted(1), `{"a":"` + planted(1) + `"} trailing`, "\"\xff" + planted(1) + "\x00"} {
		got, found := r.JSON([]byte(raw))
		if !json.Valid(got) || !found.Any() || strings.Contains(string(got), planted(1)) {
			t.Errorf("%q became %s", raw, got)
		}
	}
}
