package tui

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"agentd/cmd/agentd/internal/conversation"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
)

// paste is something that the input shows as a short mark.
type paste struct {
	mark string
	text string
	part *command.Part
}

// Pastes that are longer than this stand in the input as a mark.
const (
	longPasteLines = 12
	longPasteBytes = 2000
)

// keepPaste returns what the input shows of a pasted text.
func (c *client) keepPaste(text string) string {
	lines := strings.Count(strings.TrimRight(text, "\n"), "\n") + 1
	if lines <= longPasteLines && len(text) <= longPasteBytes {
		return text
	}
	mark := fmt.Sprintf("[pasted text %d, %s]", len(c.pastes)+1, terminal.Plural(int64(lines), "line"))
	c.pastes = append(c.pastes, paste{mark: mark, text: text})
	return mark
}

// imageTypes are the images that models are given.
var imageTypes = map[string]string{".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}

// imagePath is the image that a pasted text names, as terminals paste a dropped file;
// empty if it names none.
func imagePath(folder, text string) string {
	text = strings.Trim(strings.TrimSpace(text), `'"`)
	if u, err := url.Parse(text); err == nil && u.Scheme == "file" {
		text = u.Path
	}
	text = strings.ReplaceAll(text, `\ `, " ")
	if text == "" || strings.Contains(text, "\n") || imageTypes[strings.ToLower(filepath.Ext(text))] == "" {
		return ""
	}
	path := absolute(folder, text)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return path
}

// maxImage bounds what is attached.
const maxImage = 20 << 20

// readImage reads an image to attach.
func readImage(path string) (*command.Part, error) {
	kind := imageTypes[strings.ToLower(filepath.Ext(path))]
	if kind == "" {
		return nil, errors.New("not an image that models take: use png, jpeg, gif or webp")
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("there is no such file")
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("not a file")
	case info.Size() > maxImage:
		return nil, fmt.Errorf("larger than %d MB", maxImage>>20)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return &command.Part{Type: "image", Data: base64.StdEncoding.EncodeToString(data), MediaType: kind, Name: filepath.Base(path)}, nil
}

// attachImage attaches an image to what is being typed.
func (c *client) attachImage(path string) {
	if path == "" {
		c.talk.View.Warn("/image PATH")
		return
	}
	part, err := readImage(absolute(c.options.Folder, path))
	if err != nil {
		c.talk.View.Warn("image " + path + ": " + err.Error())
		return
	}
	c.addImage(part)
}

func (c *client) addImage(part *command.Part) {
	mark := fmt.Sprintf("[image %d, %s]", len(c.pastes)+1, terminal.Plain(part.Name))
	c.pastes = append(c.pastes, paste{mark: mark, part: part})
	c.edit.insert(mark + " ")
}

// clipboards are programs that print the image in the clipboard.
var clipboards = [][]string{
	{"wl-paste", "--no-newline", "--type", "image/png"},
	{"xclip", "-selection", "clipboard", "-target", "image/png", "-out"},
	{"pngpaste", "-"},
}

// pasteImage attaches the image in the clipboard. Terminals paste text alone, so that
// the clipboard is asked.
func (c *client) pasteImage() {
	c.beside.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		var data []byte
		for _, p := range clipboards {
			if _, err := exec.LookPath(p[0]); err != nil {
				continue
			}
			if out, err := exec.CommandContext(ctx, p[0], p[1:]...).Output(); err == nil && len(out) > 0 {
				data = out
				break
			}
		}
		c.Post(func() {
			if len(data) == 0 || len(data) > maxImage {
				c.talk.View.Info("there is no image in the clipboard that can be read; paste the path of a file instead")
				c.talk.View.Refresh()
				return
			}
			c.addImage(&command.Part{Type: "image", Data: base64.StdEncoding.EncodeToString(data), MediaType: "image/png", Name: "clipboard.png"})
		})
	})
}

// message makes what was typed into a message: marks become what they stand for, and
// files that are mentioned are attached. What a long paste mentions isn't: nobody saw it.
func (c *client) message(text string) *conversation.Message {
	m, typed := &conversation.Message{}, text
	for _, p := range c.pastes {
		if !strings.Contains(text, p.mark) {
			continue // it was deleted
		}
		if p.part != nil {
			m.Parts = append(m.Parts, *p.part)
			continue
		}
		text = strings.Replace(text, p.mark, p.text, 1)
	}
	c.pastes = nil
	for word := range strings.FieldsSeq(typed) {
		if path, ok := strings.CutPrefix(word, "@"); ok && path != "" {
			if part := c.mention(strings.TrimRight(path, ".,;:!?)")); part != nil {
				m.Parts = append(m.Parts, *part)
			}
		}
	}
	if len(c.ran) > 0 {
		text = strings.Join(c.ran, "\n\n") + "\n\n" + text
		c.ran = nil
	}
	m.Text = text
	return m
}

// mention is the part that stands for a mentioned file; nil if there is no such file.
func (c *client) mention(path string) *command.Part {
	full := absolute(c.options.Folder, path)
	if _, err := os.Stat(full); err != nil {
		return nil
	}
	if part, err := readImage(full); err == nil {
		return part
	}
	return &command.Part{Type: "file", Path: filepath.ToSlash(path)}
}
