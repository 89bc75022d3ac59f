//go:build unix

package mcp

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"agentd/event"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"
)

func TestConvert(t *testing.T) {
	size := int64(12)
	res := convert(&remote{}, &sdk.CallToolResult{Content: []sdk.Content{
		&sdk.TextContent{Text: "first\xff"},
		&sdk.ImageContent{MIMEType: "image/png", Data: []byte("png")},
		&sdk.ImageContent{MIMEType: "text/html", Data: []byte("<b>")},
		&sdk.AudioContent{MIMEType: "audio/wav", Data: []byte("wav!")},
		&sdk.ResourceLink{URI: "file:///a", Name: "a\nb", MIMEType: "text/plain", Size: &size, Description: "the a"},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "x:1", Text: "inside"}},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "x:2", MIMEType: "image/gif", Blob: []byte("gif")}},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "x:3", MIMEType: "application/zip", Blob: []byte("zip")}},
		&sdk.EmbeddedResource{},
		&sdk.ToolUseContent{ID: "u", Name: "n"}, //nolint:staticcheck // A kind that no result should hold.
	}}, 0)
	want := strings.Join([]string{
		"first\uFFFD", "[image, image/png, 3 bytes]", "[image, text/html, 3 bytes: not shown, its type is not a picture's]",
		"[audio, audio/wav, 4 bytes: not shown]", "[link to resource file:///a, a b, text/plain, 12 bytes: the a]",
		"[resource x:1]\ninside", "[resource x:2, image/gif, 3 bytes]", "[resource x:3, application/zip, 3 bytes: not shown]",
		`{"type":"tool_use","id":"u","name":"n","input":{}}`,
	}, "\n")
	if string(res.Output) != want {
		t.Errorf("got\n%s\nwant\n%s", res.Output, want)
	}
	if len(res.Media) != 2 || res.Media[0].MediaType != "image/png" || string(res.Media[1].Data) != "gif" {
		t.Errorf("media %+v", res.Media)
	}
}

func TestConvertStructured(t *testing.T) {
	_, schema, err := compileSchema(map[string]any{"type": "object", "required": []any{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	r := &remote{output: schema}
	only := convert(r, &sdk.CallToolResult{StructuredContent: map[string]any{"a": 1}}, 0)
	if string(only.Output) != `{"a":1}` || string(only.Structured) != `{"a":1}` {
		t.Errorf("structured alone: %s, %s", only.Output, only.Structured)
	}
	wantText(t, string(convert(r, text("x"), 0).Output), "x\n[note: the tool promises a structured result and gave none]")
	failed := text("failed")
	failed.IsError = true
	if got := convert(r, failed, 0); string(got.Output) != "failed" || !got.IsError {
		t.Errorf("an error owes no structure: %s", got.Output)
	}
	large := convert(r, &sdk.CallToolResult{Content: []sdk.Content{}, StructuredContent: map[string]any{"a": strings.Repeat("x", 5000)}}, 100)
	if large.Structured != nil || large.Dropped == 0 {
		t.Errorf("a large one was kept: %d bytes", len(large.Structured))
	}
	wantText(t, string(large.Output), "was left out, it is too large")
}

// A server's schema that doubles itself must not hold up the call that it is about.
func TestOutputSchemaThatDoubles(t *testing.T) {
	defs := map[string]any{"d0": map[string]any{"type": "object"}}
	for i := range 40 {
		below := map[string]any{"$ref": fmt.Sprintf("#/$defs/d%d", i)}
		defs[fmt.Sprintf("d%d", i+1)] = map[string]any{"allOf": []any{below, below}}
	}
	if _, _, err := compileSchema(map[string]any{"$ref": "#/$defs/d40", "$defs": defs}); err == nil {
		t.Error("it was accepted")
	}
}

func TestPicturesAreBounded(t *testing.T) {
	many := &sdk.CallToolResult{}
	for range 2 * maxPictures {
		many.Content = append(many.Content, &sdk.ImageContent{MIMEType: "image/png", Data: make([]byte, maxMedia/4)})
	}
	res := convert(&remote{}, many, 0)
	if len(res.Media) != 4 {
		t.Errorf("%d pictures", len(res.Media))
	}
	wantText(t, string(res.Output), "left out, the result has too many pictures")
}

func TestBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.StringOfN(rapid.RuneFrom([]rune("aé日🙂")), 0, 200, -1).Draw(t, "text")
		limit := rapid.Int64Range(1, 300).Draw(t, "limit")
		out, dropped := boundText(in, nil, limit)
		if !utf8.Valid(out) {
			t.Fatalf("%q is not UTF-8", out)
		}
		if dropped == 0 {
			if string(out) != in {
				t.Fatalf("%q became %q", in, out)
			}
			return
		}
		head, rest, ok := strings.Cut(string(out), "\n[")
		_, tail, ok2 := strings.Cut(rest, " bytes left out]\n")
		if !ok || !ok2 || !strings.HasPrefix(in, head) || !strings.HasSuffix(in, tail) {
			t.Fatalf("%q became %q", in, out)
		}
		if kept := int64(len(head) + len(tail)); kept > limit || kept+dropped != int64(len(in)) {
			t.Fatalf("kept %d of %d, dropped %d, limit %d", kept, len(in), dropped, limit)
		}
	})
	if out, _ := boundText("", []string{"[note]"}, 10); string(out) != "[note]" {
		t.Errorf("got %q", out)
	}
}

func TestHints(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name                  string
		trust                 bool
		hints                 *sdk.ToolAnnotations
		readOnly, destructive bool
	}{
		{"no word", true, nil, false, false},
		{"reads, trusted", true, &sdk.ToolAnnotations{ReadOnlyHint: true}, true, false},
		{"reads, not trusted", false, &sdk.ToolAnnotations{ReadOnlyHint: true}, false, false},
		{"reads and destroys, trusted", true, &sdk.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: &yes}, true, false},
		{"reads and destroys, not trusted", false, &sdk.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: &yes}, false, true},
		{"destroys", false, &sdk.ToolAnnotations{DestructiveHint: &yes}, false, true},
		{"destroys nothing, trusted", true, &sdk.ToolAnnotations{DestructiveHint: &no}, false, false},
		{"the protocol's default, trusted", true, &sdk.ToolAnnotations{}, false, true},
	} {
		got := toolInfo(Server{ID: "s", TrustHints: c.trust}, &sdk.Tool{Annotations: c.hints}, event.Raw(`{}`))
		if got.IsReadOnly != c.readOnly || got.IsDestructive != c.destructive || got.IsConcurrencySafe != c.readOnly {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestSchemaTooLarge(t *testing.T) {
	_, err := inputSchema(map[string]any{"type": "object", "description": strings.Repeat("x", maxSchema)})
	if err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v", err)
	}
}

func TestPause(t *testing.T) {
	if retryDelay(0) != 0 || retryDelay(1) != 0 {
		t.Error("the first two attempts are not at once")
	}
	for attempt := 2; attempt < 100; attempt++ {
		full := min(time.Minute, 500*time.Millisecond<<min(attempt-2, 20))
		if d := retryDelay(attempt); d < full/2 || d > full {
			t.Errorf("attempt %d waits %v, not %v to %v", attempt, d, full/2, full)
		}
	}
}
