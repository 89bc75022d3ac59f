package acp

import (
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// inputOf turns a prompt into the input of a turn.
func inputOf(root string, prompt []content) (event.Raw, error) {
	var parts []command.Part
	for i := range prompt {
		p, err := partOf(root, &prompt[i])
		if err != nil {
			return nil, err
		}
		if p != nil {
			parts = append(parts, *p)
		}
	}
	if len(parts) == 0 {
		return nil, errorf(fault.RPCInvalidParams, "the prompt is empty")
	}
	return marshalPlain(parts)
}

// partOf turns a block into a part; nil for one without content.
func partOf(root string, c *content) (*command.Part, error) {
	switch c.Type {
	case "text":
		if c.Text == "" {
			return nil, nil
		}
		return &command.Part{Type: "text", Text: c.Text}, nil
	case "image":
		if c.Data == "" {
			return &command.Part{Type: "image", URL: c.URI, MediaType: c.MimeType}, nil
		}
		return &command.Part{Type: "image", Data: c.Data, MediaType: c.MimeType}, nil
	case "resource_link":
		return linkPart(root, c.Name, c.URI), nil
	case "resource":
		if c.Resource != nil {
			return resourcePart(root, c.Resource), nil
		}
	}
	return nil, errorf(fault.RPCInvalidParams, "block type %.40q is not supported; use text, image, resource_link or resource", c.Type)
}

// linkPart names a file of the workspace, or tells the model of another address.
func linkPart(root, name, uri string) *command.Part {
	if p, ok := pathWithin(root, uri); ok {
		return &command.Part{Type: "file", Path: p, Name: name}
	}
	return &command.Part{Type: "text", Text: strings.TrimSpace("The user refers to " + name + " " + uri)}
}

// resourcePart gives the model a file's content as it is in the editor.
func resourcePart(root string, r *resource) *command.Part {
	name := r.URI
	if p, ok := pathWithin(root, r.URI); ok {
		name = p
	}
	if r.Blob != "" {
		return &command.Part{Type: "file", Data: r.Blob, MediaType: r.MimeType, Name: name}
	}
	return &command.Part{Type: "text", Text: "The content of " + name + ":\n" + r.Text}
}

// pathWithin returns the path of a file address relative to the workspace, if it is in
// there.
func pathWithin(root, uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || (u.Scheme != "file" && u.Scheme != "") || u.Path == "" || root == "" {
		return "", false
	}
	rel, err := filepath.Rel(root, path.Clean(u.Path))
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	return rel, true
}

// blockOf shows a part of an input.
func blockOf(p *command.Part) *content {
	switch {
	case p.Type == "text":
		return textContent(p.Text)
	case p.Type == "image" && p.Data != "" && p.MediaType != "":
		return &content{Type: "image", Data: p.Data, MimeType: p.MediaType}
	}
	for _, name := range []string{p.Path, p.Name, p.URL, p.Ref} {
		if name != "" {
			return textContent("[" + name + "]")
		}
	}
	return nil
}
