package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"agentd/permission"
)

// Whatever a file of items is, its items are JSON, or it is refused.
func FuzzItems(f *testing.F) {
	f.Add([]byte("{\"itemId\":\"a\",\"input\":\"x\"}\n\"y\"\n\n3\n"))
	f.Add([]byte("{\"input\":1}{\n"))
	f.Add([]byte("\xff\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		items, err := readItems(bytes.NewReader(data))
		if err == nil && len(items) == 0 {
			t.Error("no items and no error")
		}
		for _, item := range items {
			if !json.Valid(item.Input) {
				t.Errorf("%q has the item %q", data, item.Input)
			}
		}
	})
}

// Whatever a file of rules is, what is taken from it is a policy.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte("mode: plan\nrules:\n  - {decision: deny, tool: shell, match: \"git *\"}\n"))
	f.Add([]byte("permissions: {mode: auto, rules: []}\n"))
	f.Add([]byte("rules: [{}]\n"))
	f.Add([]byte("mode: &a [*a]\n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "p.yaml")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := readPolicy(path); err == nil {
			if _, err := permission.ParseRules("host", p.Rules); err != nil {
				t.Errorf("%q became %+v: %v", data, p, err)
			}
		}
		_, _ = parseWorkspaceRules(data)
	})
}

// Whatever a message is, it is counted without a panic.
func FuzzStdioMessage(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"x"}`))
	f.Add([]byte(`[{"jsonrpc":"2.0","method":"x"},[[]]]`))
	f.Add([]byte(`[`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if data = bytes.TrimSpace(data); len(data) > 0 {
			asksForAnswer(data)
			isAnswer(data)
		}
	})
}

// Whatever a collector answers, it is read without a panic.
func FuzzRejected(f *testing.F) {
	f.Add([]byte{0x0a, 0x02, 0x08, 0x05})
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(_ *testing.T, data []byte) { rejectedProto(data) })
}

// Whatever is typed, in whatever pieces, it becomes the same keys' text.
func FuzzKeys(f *testing.F) {
	f.Add([]byte("hello\r\x1b[A\x1b[200~pasted\x1b[201~"), 3)
	f.Add([]byte("\x1b[1;5C\x1bx\xc3\xa4\xff"), 1)
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		whole, parts := &keyReader{}, &keyReader{}
		if at < 0 || at > len(data) || bytes.ContainsRune(data, 0x1b) {
			whole.feed(data) // a piece that ends in an escape is a key of its own
			return
		}
		if !utf8.RuneStart(append(data, 0)[at]) {
			return
		}
		want := spelled(whole.feed(data))
		got := spelled(append(parts.feed(data[:at]), parts.feed(data[at:])...))
		if got != want {
			t.Errorf("%q in two pieces is %q, whole %q", data, got, want)
		}
	})
}

// spelled writes keys down: text may come in pieces.
func spelled(keys []key) string {
	var b strings.Builder
	for _, k := range keys {
		if k.name != keyText {
			b.WriteString("<" + k.name + ">")
		}
		b.WriteString(k.text)
	}
	return b.String()
}

// Whatever a model writes, in whatever pieces, it is shown.
func FuzzMarkdown(f *testing.F) {
	f.Add("# a\n\n- b\n  c\n\n```go\nx\n```\n", 5)
	f.Add("| a |\n|---|\n| b |", 2)
	f.Add("\x1b[31m", 1)
	f.Fuzz(func(t *testing.T, text string, at int) {
		if at < 0 || at > len(text) {
			return
		}
		var pieces, whole markdown
		got := strings.Join(append(append(pieces.add(text[:at]), pieces.add(text[at:])...), pieces.end()...), "\n")
		want := strings.Join(append(whole.add(text), whole.end()...), "\n")
		if strings.TrimSpace(got) == "" && strings.TrimSpace(want) != "" {
			t.Errorf("%q cut at %d is lost", text, at)
		}
	})
}
