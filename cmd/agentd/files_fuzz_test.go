package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

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

// Whatever a message of either side is, it is passed on without a panic.
func FuzzStdioMessage(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"x"}`))
	f.Add([]byte(`[{"jsonrpc":"2.0","method":"x"},[[]]]`))
	f.Add([]byte(`[`))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"event","params":{"sequence":1},"subscriptionId":"subscription_1"}`))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"subscription.ended","params":{"subscriptionId":"subscription_1"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if data = bytes.TrimSpace(data); len(data) == 0 {
			return
		}
		w := newRelay(io.Discard, nil)
		w.keyed = true
		m := w.read(data)
		if sent := w.encode(m); len(sent) == 0 {
			t.Errorf("%q is sent as nothing", data)
		}
		w.pending = append(w.pending, m)
		_, _ = w.handle(t.Context(), data)
	})
}
