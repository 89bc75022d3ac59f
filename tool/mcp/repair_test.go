//go:build unix

package mcp

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestRepair(t *testing.T) {
	result := func(content string) string { return `{"jsonrpc":"2.0","id":1,"result":{"content":` + content + `}}` }
	for _, same := range []string{
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"content":"x"}}`,
		result(`[{"type":"text","text":"a"}]`), result(`[{"type":"image","data":"AAAA","mimeType":"image/png"}]`),
		result(`[{"type":"resource","resource":{"uri":"a:b","text":"x"}}]`), result(`[{"type":"resource_link","uri":"a:b","name":"n"}]`),
		result(`null`), result(`"text"`), `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"content"}}`, `nonsense "content"`,
	} {
		if got := string(repair([]byte(same))); got != same {
			t.Errorf("%s was changed to %s", same, got)
		}
	}
	for _, bad := range []string{
		`[{"type":"video","data":"AAAA"}]`, `[{"type":"image","data":"!"}]`, `[null]`, `[7]`, `[{}]`, `[{"type":"text"}]`, `[{"type":"text","text":5}]`,
		`[{"type":"resource"}]`, `[{"type":"resource","resource":{"uri":"a","blob":"!"}}]`, `[{"type":7}]`, `[{"type":"tool_use"}]`,
	} {
		if got := decodeResult(t, repair([]byte(result(bad)))); len(got.Content) != 1 {
			t.Errorf("%s: %d blocks", bad, len(got.Content))
		} else if text, ok := got.Content[0].(*sdk.TextContent); !ok || "["+text.Text+"]" != bad {
			t.Errorf("%s became %+v", bad, got.Content[0])
		}
	}
	if got := repair([]byte("{\"a\":\"\xff\"}")); !utf8.Valid(got) {
		t.Errorf("%q is not UTF-8", got)
	}
}

func decodeResult(t *testing.T, msg []byte) *sdk.CallToolResult {
	t.Helper()
	m, err := jsonrpc.DecodeMessage(msg)
	if err != nil {
		t.Fatalf("%s: %v", msg, err)
	}
	var res sdk.CallToolResult
	if err := json.Unmarshal(m.(*jsonrpc.Response).Result, &res); err != nil {
		t.Fatalf("%s: %v", msg, err)
	}
	return &res
}

// Whatever blocks a server sends, the SDK can read the result afterwards.
func FuzzRepair(f *testing.F) {
	for _, s := range []string{`[{"type":"text","text":"a"}]`, `[{"type":"image","data":"="},{"type":null}]`, `[[],{"type":"resource","resource":{"blob":1}}]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, content string) {
		var blocks []json.RawMessage
		if json.Unmarshal([]byte(content), &blocks) != nil {
			t.Skip("no list")
		}
		msg := repair([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":` + content + `}}`))
		m, err := jsonrpc.DecodeMessage(msg)
		if err != nil {
			t.Skip("not a message for the SDK, which is another matter") // Such as nesting that is too deep.
		}
		var res sdk.CallToolResult
		if err := json.Unmarshal(m.(*jsonrpc.Response).Result, &res); err != nil {
			t.Fatalf("%s: %v", msg, err)
		}
	})
}

func TestMessages(t *testing.T) {
	const a, b = `{"jsonrpc":"2.0","method":"a"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`
	for _, c := range []struct{ in, want, junk string }{
		{a + "\n" + b + "\n", a + "\n" + b + "\n", ""},
		{a, a + "\n", ""},
		{"hello\r\n" + a + "\r\n\n", a + "\n", "hello\n\n"},
		{"[" + a + "," + b + "]\n", a + "\n" + b + "\n", ""},
		{`{"level":"info"}` + "\n{\n" + a + "\n", a + "\n", "{\"level\":\"info\"}\n{\n"},
		{`[1,2]` + "\n" + a + "x\n", "", "[1,2]\n" + a + "x\n"},
	} {
		junk, closed := &tail{}, 0
		m := newMessages(io.NopCloser(strings.NewReader(c.in)), junk, func(error) {}, func() { closed++ })
		got, err := io.ReadAll(m)
		if err != nil || string(got) != c.want || string(junk.buf) != c.junk || closed == 0 {
			t.Errorf("%q: got %q, junk %q, error %v; want %q, %q", c.in, got, junk.buf, err, c.want, c.junk)
		}
	}
	for want, in := range map[error]io.Reader{
		errGarbage:  strings.NewReader(strings.Repeat("garbage\n", maxGarbage/8+1)),
		errTooLarge: endlessReader{},
	} {
		var told error
		m := newMessages(io.NopCloser(in), io.Discard, func(err error) { told = err }, func() {})
		if _, err := io.ReadAll(m); !errors.Is(err, want) || !errors.Is(told, want) {
			t.Errorf("got %v, told %v, want %v", err, told, want)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n": "plain\ttext\n", "a\x1b[31mred": "a[31mred", "bad\xff": "bad\uFFFD", "hid\U000E0041den": "hidden", "a\u202eb": "ab",
	} {
		if got := cleanText(in, 100); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	if got := cleanText(strings.Repeat("é", 100), 10); len(got) > 10 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
		t.Errorf("got %q", got)
	}
}

func TestTail(t *testing.T) {
	var tl tail
	for range 10 * tailBytes {
		_, _ = tl.Write([]byte("ab\n"))
	}
	_, _ = tl.Write([]byte("end"))
	if s := tl.String(); len(s) > tailBytes || !strings.HasSuffix(s, "ab\nend") || cap(tl.buf) > 4*tailBytes {
		t.Errorf("%d bytes, capacity %d", len(s), cap(tl.buf))
	}
	if s := tl.last(6); s != "end" {
		t.Errorf("last gave %q", s)
	}
	_, _ = tl.Write(slices.Repeat([]byte("x"), 3*tailBytes))
	if s := tl.String(); s != strings.Repeat("x", tailBytes) {
		t.Errorf("%d bytes", len(s))
	}
}
