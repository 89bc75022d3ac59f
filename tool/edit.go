package tool

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"agentd/event"
	"agentd/tool/toolkind"
)

// maxEdit is the largest file that edit_file changes.
const maxEdit = 64 << 20

const editFileSchema = `{
	"type": "object",
	"properties": {
		"path": {"type": "string", "minLength": 1, "description": "The file, relative to the working folder or absolute within the workspace."},
		"old": {"type": "string", "description": "The text to replace, exactly as it stands in the file, with enough around it to be unique. Empty only to make a new file."},
		"new": {"type": "string", "description": "What to put in its place."},
		"all": {"type": "boolean", "description": "true: replace every occurrence. By default old must occur exactly once."}
	},
	"required": ["path", "old", "new"],
	"additionalProperties": false
}`

func newEditFile(f *files) *builtin {
	return define(toolkind.EditFile, event.ToolInfo{
		Description: "Replaces a piece of text in a file of the workspace. old must be copied exactly from the file, " +
			"blanks and indentation included, and must occur once, unless all is true. Line endings, byte order " +
			"mark and mode of the file are kept. If old isn't found, the answer shows what stands there instead.",
		Capabilities:      []string{CapFilesRead, CapFilesWrite},
		InterruptBehavior: interruptBlock,
	}, editFileSchema, f.edit)
}

type editInput struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
	All  bool   `json:"all"`
}

func (f *files) edit(ctx context.Context, call *Call) (*Result, error) {
	var in editInput
	if err := decodeInput(call, &in); err != nil {
		return nil, err
	}
	if in.Old == in.New {
		return nil, Errorf(InvalidInput, "old and new are identical, so there is nothing to change")
	}
	t, err := f.open(call)
	if err != nil {
		return nil, err
	}
	defer t.close()
	rel, err := t.locate(in.Path)
	if err != nil {
		return nil, err
	}
	defer f.lock(t.abs(rel))()
	to, err := t.inspectTarget(ctx, in.Path, rel)
	if err != nil {
		return nil, err
	}
	if to.info == nil {
		if in.Old != "" {
			return nil, t.notFound(in.Path, rel)
		}
		return t.saveTarget(ctx, call, to, []byte(in.New), &FileWritten{})
	}
	before, err := t.readTarget(ctx, to)
	if err != nil {
		return nil, err
	}
	after, about, err := applyEdit(before, &in)
	if err != nil {
		return nil, err
	}
	return t.saveTarget(ctx, call, to, after, about)
}

// readTarget reads the file that was looked at, and takes note of what it is by then.
func (t *tree) readTarget(ctx context.Context, to *target) ([]byte, error) {
	d, err := t.dir(path.Dir(to.rel))
	if err != nil {
		return nil, t.explainOpen(ctx, to.name, to.rel, err)
	}
	defer d.Close()
	f, fi, err := t.openRegular(d, path.Base(to.rel))
	if err != nil {
		return nil, t.explainOpen(ctx, to.name, to.rel, err)
	}
	defer f.Close()
	if fi.Size() > maxEdit {
		return nil, Errorf(InvalidInput, "%s has %s; files of more than %s can't be edited", quoteName(to.name), sizeText(fi.Size()), sizeText(maxEdit))
	}
	var b bytes.Buffer
	b.Grow(int(fi.Size()) + bytes.MinRead)
	if _, err := b.ReadFrom(io.LimitReader(&stopReader{ctx: ctx, r: f}, maxEdit+1)); err != nil {
		return nil, callError(ctx, err, "read "+quoteName(to.name))
	}
	to.info = fi
	if IsBinary(b.Bytes()) {
		return nil, Errorf(InvalidInput, "%s is a binary file (%s) and can't be edited as text", quoteName(to.name), mediaType(b.Bytes()))
	}
	return b.Bytes(), nil
}

// applyEdit returns the content after an edit. It changes nothing but what it was
// asked to: in a file whose lines all end with CRLF a line end in old and new
// means CRLF, since models write LF. An old that has CRLF itself is meant as it is.
func applyEdit(content []byte, in *editInput) ([]byte, *FileWritten, error) {
	if in.Old == "" {
		e := Errorf(InvalidInput, "old: is empty, but %s exists", quoteName(in.Path))
		e.Advice = "Copy the text to replace from the file, or use write_file to replace all of it."
		return nil, nil, e
	}
	old, repl := []byte(in.Old), []byte(in.New)
	if allCRLF(content) && !strings.Contains(in.Old, "\r") {
		old, repl = toCRLF(old), toCRLF(repl)
		if bytes.Equal(old, repl) {
			return nil, nil, Errorf(InvalidInput, "old and new differ only in line endings; every line of the file ends with CRLF, and that is kept")
		}
	}
	n := bytes.Count(content, old)
	switch {
	case n == 0:
		return nil, nil, mismatch(content, in)
	case n > 1 && !in.All:
		return nil, nil, ambiguous(content, old, n, in)
	}
	if after := int64(len(content)) + int64(n)*int64(len(repl)-len(old)); after > maxEdit {
		return nil, nil, Errorf(InvalidInput, "%s would have %s after %d replacements; files of more than %s can't be edited", quoteName(in.Path), sizeText(after), n, sizeText(maxEdit))
	}
	at := bytes.Index(content, old)
	about := &FileWritten{Replacements: n, Line: 1 + bytes.Count(content[:at], newline)}
	return bytes.ReplaceAll(content, old, repl), about, nil
}

var newline = []byte("\n")

// allCRLF reports whether there are line ends and each is CRLF.
func allCRLF(b []byte) bool {
	n := bytes.Count(b, newline)
	return n > 0 && n == bytes.Count(b, []byte("\r\n"))
}

// toCRLF turns line ends that are LF alone.
func toCRLF(b []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), newline), newline, []byte("\r\n"))
}

// ambiguous says where a text that must be unique occurs.
func ambiguous(content, old []byte, n int, in *editInput) *Error {
	const shown = 10
	var lines []string
	line, rest := 1, content
	for range min(n, shown) {
		i := bytes.Index(rest, old)
		line += bytes.Count(rest[:i], newline)
		lines = append(lines, strconv.Itoa(line))
		line += bytes.Count(old, newline)
		rest = rest[i+len(old):]
	}
	if n > shown {
		lines = append(lines, "…")
	}
	return &Error{
		Category: InvalidInput,
		Message:  fmt.Sprintf("old occurs %d times in %s, in lines %s", n, quoteName(in.Path), strings.Join(lines, ", ")),
		Advice:   "Add lines before or after it until it is unique, or set all to true to replace every one.",
	}
}
