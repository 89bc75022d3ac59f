package conversation

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/transcript"
	"agentd/command"
)

// exportTranscript writes the conversation to a file.
func (c *Conversation) exportTranscript(name string) {
	session := c.session
	c.writeFile("/export", "a conversation", name, []string{".md", ".json"}, func(w io.Writer, form string) error {
		_, err := transcript.Write(c.ctx, c.source, session, transcript.Form(form), w)
		return err
	})
}

// exportReview writes a review of the session to a file.
func (c *Conversation) exportReview(name string) {
	session := c.session
	c.writeFile("/review", "a review", name, []string{".md", ".html", ".json"}, func(w io.Writer, form string) error {
		res := &command.ExportResult{}
		if err := c.source.Do(c.ctx, &command.ExportReview{ExportScope: command.ExportScope{SessionID: session}}, res); err != nil {
			return err
		}
		return c.review(c.ctx, res.Ref, form, w)
	})
}

// writeFile writes a file in the form that its name asks for. A file that is there is only
// replaced if the user wants that.
func (c *Conversation) writeFile(slash, what, name string, forms []string, write func(w io.Writer, form string) error) {
	path, form := c.fileName(slash, name)
	if !slices.Contains(forms, form) {
		last := len(forms) - 1
		c.View.Warn(slash + " " + terminal.Plain(name) + ": " + what + " is a file that ends with " + strings.Join(forms[:last], ", ") + " or " + forms[last])
		return
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.writeBeside(path, false, form, write)
	case err != nil:
		c.View.Warn(slash + ": " + err.Error())
	case info.IsDir():
		c.View.Warn(slash + ": " + terminal.Plain(path) + " is a folder")
	default:
		c.View.Info(terminal.Plain(path) + " is there already")
		c.front.Confirm("replace "+terminal.Plain(filepath.Base(path))+"?", func(yes bool) {
			if !yes {
				c.View.Info("nothing was written")
				c.View.Refresh()
				return
			}
			c.writeBeside(path, true, form, write)
		})
	}
}

// fileName is the file that a name means, and its form. A name without an ending is
// Markdown; a folder gets a file with the name of the session.
func (c *Conversation) fileName(slash, name string) (path, form string) {
	usual := "agentd-" + strings.TrimPrefix(slash, "/") + "-" + c.session + ".md"
	if slash == "/export" {
		usual = "agentd-" + c.session + ".md"
	}
	if rest, ok := strings.CutPrefix(name, "~/"); ok || name == "~" {
		if home, err := os.UserHomeDir(); err == nil {
			name = filepath.Join(home, rest)
		}
	}
	if path = name; !filepath.IsAbs(path) {
		path = filepath.Join(c.folder, path)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, usual)
	}
	if filepath.Ext(path) == "" {
		path += ".md"
	}
	return path, strings.ToLower(filepath.Ext(path))
}

func (c *Conversation) writeBeside(path string, replace bool, form string, write func(w io.Writer, form string) error) {
	c.beside(func() func() {
		put := putNew
		if replace {
			put = putInPlace
		}
		err := put(path, func(w io.Writer) error { return write(w, form) })
		return func() {
			switch {
			case errors.Is(err, fs.ErrExist):
				c.View.Warn(terminal.Plain(path) + " is there already, by now; nothing was written")
			case err != nil:
				c.View.Warn(c.describe(err))
			default:
				c.View.Info("written: " + terminal.Plain(path))
			}
			c.View.Refresh()
		}
	})
}

// putNew writes a file for its owner alone that isn't there yet, all of it or nothing.
func putNew(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// putInPlace writes a file in the place of another, which stays until the new one is whole.
func putInPlace(path string, write func(io.Writer) error) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".agentd-*")
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
