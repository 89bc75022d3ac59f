package command

import (
	"encoding/json"
	"fmt"
	"strings"

	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// Part is one piece of a turn's input.
type Part struct {
	// Type says what the part is: text, image, file or ref.
	Type string `json:"type" enum:"text image file ref"`
	// Text of a text part.
	Text string `json:"text,omitempty"`
	// Ref is a reference that agentd made.
	Ref string `json:"ref,omitempty"`
	// URL of an image or a file.
	URL string `json:"url,omitempty"`
	// Data of an image or a file, in base64.
	Data string `json:"data,omitempty"`
	// Path of a file in the workspace.
	Path string `json:"path,omitempty"`
	// Name of a file, for people and for the model.
	Name string `json:"name,omitempty"`
	// MediaType of an image or a file.
	MediaType string `json:"mediaType,omitempty"`
}

// Text returns an input that is a text.
func Text(s string) event.Raw {
	b, err := json.Marshal(s)
	if err != nil {
		// A string always encodes; what isn't UTF-8 in it is replaced.
		panic(err)
	}
	return b
}

// maxParts bounds the parts of one input.
const maxParts = 1000

// normalInput turns the parameter input, a string or a list of parts, into a list
// of parts.
func normalInput(in event.Raw) (event.Raw, error) {
	if len(in) == 0 || string(in) == "null" {
		return nil, fault.Param("input", "is missing")
	}
	switch in[0] {
	case '"':
		return normalText(in)
	case '[':
		return normalParts(in)
	default:
		return nil, fault.Param("input", "is neither a string nor a list of parts")
	}
}

// A text that needs no escapes is put between these as it is: most inputs are such.
const (
	textBegins = `[{"type":"text","text":`
	textEnds   = `}]`
)

// PlainText returns the text of an input that is one text without escapes.
func PlainText(parts event.Raw) (string, bool) {
	rest, ok := strings.CutPrefix(string(parts), textBegins)
	if rest, ends := strings.CutSuffix(rest, textEnds); ok && ends && isPlain(rest) {
		return rest[1 : len(rest)-1], true
	}
	return "", false
}

// isPlain reports whether JSON is a text whose characters stand for themselves, also
// for the encoder, which escapes what HTML would take for markup.
func isPlain(in string) bool {
	return len(in) >= len(`"a"`) && in[0] == '"' && in[len(in)-1] == '"' && NeedsNoEscape(in[1:len(in)-1])
}

// NeedsNoEscape reports whether the encoder writes a text as it is.
func NeedsNoEscape(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

func normalText(in event.Raw) (event.Raw, error) {
	if isPlain(string(in)) {
		return event.Raw(textBegins + string(in) + textEnds), nil
	}
	var s string
	if err := wire.DecodeValue("input", in, &s); err != nil {
		return nil, err
	}
	if s == "" {
		return nil, fault.Param("input", "is empty")
	}
	return encodeParts([]Part{{Type: "text", Text: s}})
}

func normalParts(in event.Raw) (event.Raw, error) {
	var parts []Part
	if err := wire.DecodeValue("input", in, &parts); err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, fault.Param("input", "has no parts")
	}
	if len(parts) > maxParts {
		return nil, fault.Param("input", "has %d parts; the maximum is %d", len(parts), maxParts)
	}
	for i := range parts {
		if err := parts[i].validate(fmt.Sprintf("input[%d]", i)); err != nil {
			return nil, err
		}
	}
	return encodeParts(parts)
}

func encodeParts(parts []Part) (event.Raw, error) {
	b, err := json.Marshal(parts)
	if err != nil {
		return nil, fault.Param("input", "can't be encoded")
	}
	return b, nil
}

func (p *Part) validate(name string) error {
	switch p.Type {
	case "text":
		if p.Text == "" {
			return fault.Param(name+".text", "is missing")
		}
	case "image", "file":
		if p.Ref == "" && p.URL == "" && p.Data == "" && p.Path == "" {
			return fault.Param(name, "needs one of ref, url, data or path")
		}
	case "ref":
		if p.Ref == "" {
			return fault.Param(name+".ref", "is missing")
		}
	case "":
		return fault.Param(name+".type", "is missing")
	default:
		return fault.Param(name+".type", "%q is not one of text, image, file, ref", clipQuoted(p.Type))
	}
	return nil
}
