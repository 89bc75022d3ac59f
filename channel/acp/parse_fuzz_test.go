package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"testing"

	"agentd/event"
)

// Whatever a line is, it is a message or gets an error with an id that an answer
// may carry.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a","result":{"outcome":{"outcome":"selected","optionId":"allow"}}}`))
	f.Add([]byte(` [{}]`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":{}}`))
	f.Add([]byte("\n\n{\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bufio.NewReaderSize(bytes.NewReader(data), 16)
		for {
			line, err := readLine(in)
			if err != nil {
				return
			}
			m, bad := parseMessage(line)
			if len(m.ID) > 0 && !json.Valid(m.ID) {
				t.Errorf("%q: the id is %q", line, m.ID)
			}
			if bad == nil && m.Method == nil && m.Result == nil && m.Error == nil {
				t.Errorf("%q is taken for a message", line)
			}
		}
	})
}

// Whatever a question's schema is, its form takes an answer that is JSON.
func FuzzForm(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`), "1")
	f.Add([]byte(`{"enum":["a","b"]}`), "a")
	f.Add([]byte(`{"type":["string","null"]}`), "x")
	f.Add([]byte(`{`), "")
	f.Fuzz(func(t *testing.T, schema []byte, text string) {
		choicesOf(schema)
		if v, err := valueOf(schema, text); err == nil && !json.Valid(v) {
			t.Errorf("%q for %q became %q", text, schema, v)
		}
		if fm, ok := formOf(schema); ok {
			if p := fm.payload(map[string]event.Raw{"a": event.Raw(`1`)}); len(p) > 0 && !json.Valid(p) {
				t.Errorf("%q: the payload is %q", schema, p)
			}
		}
	})
}
