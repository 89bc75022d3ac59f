package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"agentd/event"
	"agentd/internal/clip"
	"agentd/tool"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// convert turns a server's result into one for the model.
func convert(r *remote, res *sdk.CallToolResult, limit int64) *tool.Result {
	if limit <= 0 {
		limit = defaultOutput
	}
	c := &conversion{result: &tool.Result{IsError: res.IsError}}
	for _, block := range res.Content {
		c.block(block)
	}
	c.structured(r, res, limit)
	text := strings.ToValidUTF8(strings.Join(c.parts, "\n"), "\uFFFD")
	c.result.Output, c.result.Dropped = boundText(text, c.notes, limit)
	return c.result
}

// conversion gathers what a result holds.
type conversion struct {
	result *tool.Result
	parts  []string
	// notes are the runtime's own words about the result. They are never cut.
	notes []string
	media int
}

func (c *conversion) block(block sdk.Content) {
	switch b := block.(type) {
	case *sdk.TextContent:
		c.parts = append(c.parts, b.Text)
	case *sdk.ImageContent:
		c.picture("image", b.MIMEType, b.Data)
	case *sdk.AudioContent:
		c.parts = append(c.parts, fmt.Sprintf("[audio, %s, %d bytes: not shown]", clipServerText(b.MIMEType), len(b.Data)))
	case *sdk.ResourceLink:
		c.parts = append(c.parts, link2text(b))
	case *sdk.EmbeddedResource:
		c.resource(b.Resource)
	default:
		raw, err := json.Marshal(block)
		if err != nil {
			raw = []byte(fmt.Sprintf("[content of type %T that can't be shown]", block))
		}
		c.parts = append(c.parts, string(raw))
	}
}

// resource adds a resource that came with the result.
func (c *conversion) resource(r *sdk.ResourceContents) {
	switch {
	case r == nil:
	case r.Blob == nil:
		c.parts = append(c.parts, fmt.Sprintf("[resource %s]\n%s", clipServerText(r.URI), r.Text))
	case strings.HasPrefix(r.MIMEType, "image/"):
		c.picture("resource "+clipServerText(r.URI), r.MIMEType, r.Blob)
	default:
		c.parts = append(c.parts, fmt.Sprintf("[resource %s, %s, %d bytes: not shown]", clipServerText(r.URI), clipServerText(r.MIMEType), len(r.Blob)))
	}
}

// picture adds a picture and a line that stands for it in the text.
func (c *conversion) picture(what, mediaType string, data []byte) {
	line := fmt.Sprintf("[%s, %s, %d bytes", what, clipServerText(mediaType), len(data))
	switch {
	case !strings.HasPrefix(mediaType, "image/"):
		line += ": not shown, its type is not a picture's"
	case len(c.result.Media) == maxPictures || c.media+len(data) > maxMedia:
		line += ": left out, the result has too many pictures"
	default:
		c.media += len(data)
		c.result.Media = append(c.result.Media, tool.Media{MediaType: mediaType, Data: data})
	}
	c.parts = append(c.parts, line+"]")
}

// structured adds the structured content, and says if it isn't what was promised.
func (c *conversion) structured(r *remote, res *sdk.CallToolResult, limit int64) {
	if res.StructuredContent == nil {
		if r.output != nil && !res.IsError {
			c.notef("the tool promises a structured result and gave none")
		}
		return
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err != nil {
		c.notef("the structured result can't be read: %v", err)
		return
	}
	if len(res.Content) == 0 {
		c.parts = append(c.parts, string(raw))
	}
	if r.output != nil && !res.IsError {
		if why := check(r.output, raw); why != "" {
			c.notef("the structured result contradicts the tool's own output schema: %s", why)
		}
	}
	if int64(len(raw)) > limit {
		c.notef("the structured result of %d bytes was left out, it is too large", len(raw))
		return
	}
	c.result.Structured = event.Raw(raw)
}

func (c *conversion) notef(format string, args ...any) {
	c.notes = append(c.notes, "[note: "+clipText(fmt.Sprintf(format, args...), maxNote)+"]")
}

// link2text describes a link to a resource.
func link2text(l *sdk.ResourceLink) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[link to resource %s", clipServerText(l.URI))
	for _, s := range []string{l.Name, l.MIMEType} {
		if s != "" {
			b.WriteString(", " + clipServerText(s))
		}
	}
	if l.Size != nil {
		fmt.Fprintf(&b, ", %d bytes", *l.Size)
	}
	if l.Description != "" {
		b.WriteString(": " + clipServerText(l.Description))
	}
	b.WriteByte(']')
	return b.String()
}

// clipServerText shortens a server's word that stands within one of ours.
func clipServerText(s string) string { return strings.ReplaceAll(cleanText(s, maxNote), "\n", " ") }

// boundText keeps the beginning and the end of a text that is too long, cut between
// characters, and counts what it dropped. Notes come after it, whatever its length.
func boundText(text string, notes []string, limit int64) (out []byte, dropped int64) {
	after := strings.Join(notes, "\n")
	if text != "" && after != "" {
		after = "\n" + after
	}
	if int64(len(text)) <= limit {
		return []byte(text + after), 0
	}
	head := clip.RuneStart(text, int(limit)*2/3)
	tail := len(text) - (int(limit) - head)
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	cut := tail - head
	mark := fmt.Sprintf("\n[%d bytes left out]\n", cut)
	return []byte(text[:head] + mark + text[tail:] + after), int64(cut)
}
