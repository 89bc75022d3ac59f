package find

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"

	"agentd/event"
	"agentd/internal/clip"
	"agentd/store"
)

// searchedTypes are the types of facts whose words are searched. Segments refer to them
// by their place, so new ones are added at the end.
var searchedTypes = []event.Type{
	event.TypeTurnSubmitted, event.TypeTurnSteered, event.TypeModelCompleted,
	event.TypeToolStarted, event.TypeToolArgs, event.TypeToolResult, event.TypeToolFailed,
}

// maxText is how much of a text is searched, also where it is behind a reference.
const maxText = 64 << 10

// maxMessage is the largest message behind a reference that is read: it must be read
// whole to be decoded.
const maxMessage = 4 << 20

// textOf returns what is searched of a fact: what was said, and the names of files.
func textOf(ctx context.Context, c store.Contents, payload event.Payload) string {
	switch p := payload.(type) {
	case *event.TurnSubmitted:
		return inputText(ctx, c, p.Input, p.InputRef, p.Preview)
	case *event.TurnSteered:
		return inputText(ctx, c, p.Input, p.InputRef, p.Preview)
	case *event.ModelCompleted:
		return answerText(ctx, c, p)
	case *event.ToolStarted:
		return p.ToolName + "\n" + argumentText(ctx, c, p.SafeArgs, p.InputRef)
	case *event.ToolArgs:
		return p.ToolName + "\n" + argumentText(ctx, c, p.SafeArgs, p.InputRef)
	case *event.ToolResult:
		text := p.Preview
		if p.Truncated && p.OutputRef != "" {
			if whole, ok := readBeginning(ctx, c, p.OutputRef); ok {
				text = whole
			}
		}
		return clip.Prefix(text, maxText) + changedPaths(p.ChangedFiles)
	case *event.ToolFailed:
		return clip.Prefix(p.Message, maxText) + changedPaths(p.ChangedFiles)
	}
	return ""
}

func changedPaths(files []event.FileChange) string {
	var b strings.Builder
	for i := range files {
		b.WriteByte('\n')
		b.WriteString(files[i].Path)
	}
	return b.String()
}

func answerText(ctx context.Context, c store.Contents, p *event.ModelCompleted) string {
	m, err := p.Whole(func(ref string) ([]byte, error) { return store.ReadContent(ctx, c, ref, maxMessage) })
	switch {
	case err != nil:
		return p.Preview
	case m == nil:
		return ""
	}
	return clip.Prefix(m.Text, maxText)
}

// inputPart is what is searched of a part of an input.
type inputPart struct {
	Text string `json:"text"`
	Path string `json:"path"`
	Name string `json:"name"`
}

func inputText(ctx context.Context, c store.Contents, input event.Raw, ref, preview string) string {
	if len(input) == 0 && ref != "" {
		whole, err := store.ReadContent(ctx, c, ref, maxMessage)
		if err != nil {
			return preview
		}
		input = whole
	}
	var parts []inputPart
	if json.Unmarshal(input, &parts) != nil {
		var text string
		if json.Unmarshal(input, &text) != nil {
			return preview
		}
		return clip.Prefix(text, maxText)
	}
	if len(parts) == 1 && parts[0].Path == "" && parts[0].Name == "" {
		return clip.Prefix(parts[0].Text, maxText)
	}
	var b strings.Builder
	for _, p := range parts {
		for _, s := range []string{p.Text, p.Path, p.Name} {
			if s != "" {
				b.WriteString(s)
				b.WriteByte('\n')
			}
		}
	}
	return clip.Prefix(b.String(), maxText)
}

func argumentText(ctx context.Context, c store.Contents, args event.Raw, ref string) string {
	if len(args) == 0 && ref != "" {
		if whole, ok := readBeginning(ctx, c, ref); ok {
			args = []byte(whole)
		}
	}
	var b strings.Builder
	appendValues(&b, args)
	return clip.Prefix(b.String(), maxText)
}

// appendValues appends the texts in a JSON value, one a line, without the names of
// members. The value may be cut.
func appendValues(b *strings.Builder, raw []byte) {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		end, escaped := i+1, false
		for end < len(raw) && raw[end] != '"' {
			if raw[end] == '\\' {
				escaped = true
				end++
			}
			end++
		}
		end = min(end, len(raw))
		text := string(raw[i+1 : end])
		next := end + 1
		for next < len(raw) && (raw[next] == ' ' || raw[next] == '\n' || raw[next] == '\t' || raw[next] == '\r') {
			next++
		}
		i = end
		if next < len(raw) && raw[next] == ':' {
			continue
		}
		if escaped {
			var plain string
			if json.Unmarshal([]byte(`"`+text+`"`), &plain) == nil {
				text = plain
			}
		}
		b.WriteString(text)
		b.WriteByte('\n')
	}
}

// readBeginning returns the beginning of a text behind a reference; false if there is
// none.
func readBeginning(ctx context.Context, c store.Contents, ref string) (string, bool) {
	b, err := c.OpenBlob(ctx, ref)
	if err != nil {
		return "", false
	}
	defer func() { _ = b.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(b, maxText))
	if err != nil || bytes.IndexByte(content[:min(len(content), 1024)], 0) >= 0 {
		return "", false
	}
	return strings.ToValidUTF8(string(content), "\uFFFD"), true
}
