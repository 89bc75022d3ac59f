package openaiapi

import (
	"encoding/json"
	"fmt"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// said is one message of a conversation, of either API.
type said struct {
	role  string
	parts []command.Part
	text  string
}

// add adds a part; texts are also kept as one.
func (s *said) add(p command.Part) {
	if p.Type == "text" {
		if p.Text == "" {
			return
		}
		s.text += p.Text
	}
	s.parts = append(s.parts, p)
}

// contentPart is a part of a message's content, of either API.
type contentPart struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Refusal  string          `json:"refusal"`
	ImageURL json.RawMessage `json:"image_url"`
	File     *filePart       `json:"file"`
	filePart
}

// filePart is a file: below "file" in one API, beside the type in the other.
type filePart struct {
	FileID   string `json:"file_id"`
	FileData string `json:"file_data"`
	FileURL  string `json:"file_url"`
	Filename string `json:"filename"`
}

// readContent reads a content that is a text or a list of parts.
func readContent(s *said, at string, content json.RawMessage) error {
	if len(content) == 0 || string(content) == "null" {
		return nil
	}
	var text string
	if json.Unmarshal(content, &text) == nil {
		s.add(command.Part{Type: "text", Text: text})
		return nil
	}
	var parts []contentPart
	if json.Unmarshal(content, &parts) != nil {
		return fault.Param(at, "is neither a string nor a list of parts")
	}
	for i := range parts {
		p, err := parts[i].part(fmt.Sprintf("%s[%d]", at, i))
		if err != nil {
			return err
		}
		s.add(*p)
	}
	return nil
}

// part turns a part into ours.
func (p *contentPart) part(at string) (*command.Part, error) {
	switch p.Type {
	case "text", "input_text", "output_text":
		return &command.Part{Type: "text", Text: p.Text}, nil
	case "refusal":
		return &command.Part{Type: "text", Text: p.Refusal}, nil
	case "image_url", "input_image":
		return imagePart(at, p.ImageURL)
	case "file", "input_file":
		f := p.filePart
		if p.File != nil {
			f = *p.File
		}
		return f.part(at)
	}
	return nil, fault.Param(at+".type", "%q is not supported; use text, image or file", wire.Clip(p.Type))
}

func imagePart(at string, value json.RawMessage) (*command.Part, error) {
	var address string
	var object struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(value, &address) != nil && json.Unmarshal(value, &object) == nil {
		address = object.URL
	}
	if address == "" {
		return nil, fault.Param(at+".image_url", "is missing")
	}
	if media, data, ok := dataURL(address); ok {
		return &command.Part{Type: "image", MediaType: media, Data: data}, nil
	}
	return &command.Part{Type: "image", URL: address}, nil
}

func (f *filePart) part(at string) (*command.Part, error) {
	switch {
	case f.FileURL != "":
		return &command.Part{Type: "file", URL: f.FileURL, Name: f.Filename}, nil
	case f.FileData != "":
		if media, data, ok := dataURL(f.FileData); ok {
			return &command.Part{Type: "file", MediaType: media, Data: data, Name: f.Filename}, nil
		}
		return &command.Part{Type: "file", Data: f.FileData, Name: f.Filename}, nil
	}
	return nil, fault.Param(at, "a file needs file_data or file_url; uploaded files are not supported")
}

// dataURL takes an address apart that holds its content in base64.
func dataURL(address string) (media, data string, ok bool) {
	rest, is := strings.CutPrefix(address, "data:")
	head, data, found := strings.Cut(rest, ",")
	media, is64 := strings.CutSuffix(head, ";base64")
	return media, data, is && found && is64
}

// isInstruction says that a message isn't part of the talk itself.
func isInstruction(role string) bool { return role == "system" || role == "developer" }

// inputOf makes the input of a turn out of a conversation. In a session that has
// the conversation already, only what comes after its last answer is new.
func inputOf(messages []said, instructions string, known bool) (event.Raw, error) {
	last := -1
	for i := range messages {
		if messages[i].role == "assistant" {
			last = i
		}
	}
	var parts []command.Part
	var rules, before []string
	if instructions != "" {
		rules = append(rules, instructions)
	}
	for i := range messages {
		m := &messages[i]
		switch {
		case isInstruction(m.role):
			if !known || i > last {
				rules = append(rules, m.text)
			}
		case i > last:
			parts = append(parts, m.parts...)
		case !known && m.text != "":
			before = append(before, m.role+": "+m.text)
		}
	}
	if len(parts) == 0 {
		return nil, fault.Param("messages", "the last message must have the role user")
	}
	var head []command.Part
	if len(rules) > 0 {
		head = append(head, command.Part{Type: "text", Text: "Instructions for this conversation:\n" + strings.Join(rules, "\n\n") + "\n"})
	}
	if len(before) > 0 {
		head = append(head, command.Part{Type: "text", Text: "The conversation so far:\n" + strings.Join(before, "\n\n") + "\n\nThe next message:"})
	}
	return encodeRaw(append(head, parts...)), nil
}
