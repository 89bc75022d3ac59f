package acp

import (
	"testing"

	"agentd/event"
)

func TestForms(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{``, `{"type":"object","properties":{"value":{"type":"string"}},"required":["value"]}`},
		{`{"type":"boolean"}`, `{"type":"object","properties":{"value":{"type":"boolean"}},"required":["value"]}`},
		{`{"enum":["a","b"]}`, `{"type":"object","properties":{"value":{"type":"string","enum":["a","b"]}},"required":["value"]}`},
		{
			`{"type":"object","properties":{"n":{"type":"integer","minimum":1,"x-own":true},"s":{"type":"string","format":"ipv4"}},"required":["n"]}`,
			`{"type":"object","properties":{"n":{"type":"integer","minimum":1},"s":{"type":"string"}},"required":["n"]}`,
		},
		{`{"type":"object","properties":{"deep":{"type":"object"}}}`, ""},
		{`{"type":"object"}`, ""},
		{`{"type":"array","items":{"type":"string"}}`, ""},
		{`{"type":["string","null"]}`, ""},
		{`{"enum":[1,2]}`, ""},
	} {
		f, ok := formOf(event.Raw(c.schema))
		if ok != (c.want != "") {
			t.Errorf("%s: %v", c.schema, ok)
		} else if ok && string(f.schema) != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.schema, f.schema, c.want)
		}
	}
}

func TestAnswersInWords(t *testing.T) {
	for _, c := range []struct{ schema, text, want string }{
		{``, `5`, `"5"`},
		{`{"type":"string"}`, `5`, `"5"`},
		{`{"type":"integer"}`, ` 5 `, `5`},
		{`{"type":"integer"}`, `five`, `"five"`},
		{`{"type":"object"}`, `{"a":1}`, `{"a":1}`},
	} {
		if got, err := valueOf(event.Raw(c.schema), c.text); err != nil || string(got) != c.want {
			t.Errorf("%s %q: %s, %v", c.schema, c.text, got, err)
		}
	}
}

func TestFilesOfThePromptStayInTheWorkspace(t *testing.T) {
	for uri, want := range map[string]string{
		"file:///work/a/b.txt":        "a/b.txt",
		"file:///work":                ".",
		"file:///work/../etc/passwd":  "",
		"file:///workshop/a":          "",
		"https://example.org/work/a":  "",
		"file:///work/%2e%2e/secrets": "",
		"::":                          "",
	} {
		got, ok := pathWithin("/work", uri)
		if got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", uri, got, ok)
		}
	}
}
