package tool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"agentd/event"
	"agentd/internal/clip"
	"agentd/tool/toolkind"
)

const writeFileSchema = `{
	"type": "object",
	"properties": {
		"path": {"type": "string", "minLength": 1, "description": "The file, relative to the working folder or absolute within the workspace. Missing folders are made."},
		"content": {"type": "string", "description": "The whole new content, exactly as it is to be."}
	},
	"required": ["path", "content"],
	"additionalProperties": false
}`

// FileWritten is the structured result of write_file and edit_file.
type FileWritten struct {
	Path string `json:"path"`
	// Change is created, modified or unchanged.
	Change    string `json:"change"`
	SizeBytes int64  `json:"sizeBytes"`
	Hash      string `json:"hash"`
	// Replacements that edit_file made, and the line of the first.
	Replacements int `json:"replacements,omitempty"`
	Line         int `json:"line,omitempty"`
}

func newWriteFile(f *files) *builtin {
	return define(toolkind.WriteFile, event.ToolInfo{
		Description: "Writes a file of the workspace: makes it, or replaces its whole content. To change a part of " +
			"a file use edit_file. The file's mode is kept; the content is written exactly as given.",
		Capabilities:      []string{CapFilesWrite},
		IsDestructive:     true,
		InterruptBehavior: interruptBlock,
	}, writeFileSchema, f.write)
}

func (f *files) write(ctx context.Context, call *Call) (*Result, error) {
	var in struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	if err := decodeInput(call, &in); err != nil {
		return nil, err
	}
	if strings.HasSuffix(in.Path, "/") {
		return nil, Errorf(InvalidInput, "path: %s names a folder; name the file in it", quoteName(in.Path))
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
	before, err := t.inspectTarget(ctx, in.Path, rel)
	if err != nil {
		return nil, err
	}
	return t.saveTarget(ctx, call, before, []byte(in.Content), &FileWritten{})
}

// target is a place to write to, as it was when it was looked at.
type target struct {
	name, rel string
	// info of the file that is there; nil if there is none.
	info fs.FileInfo
}

// inspectTarget finds out what stands at rel now. Nothing on the way may be a link: the
// path that permissions were given for is the path that is written to.
func (t *tree) inspectTarget(ctx context.Context, name, rel string) (*target, error) {
	to := &target{name: name, rel: rel}
	d, err := t.dir(path.Dir(rel))
	switch {
	case errors.Is(err, errLink):
		return nil, t.linkInPath(ctx, name, rel)
	case errors.Is(err, fs.ErrNotExist):
		return to, nil
	case err != nil:
		return nil, t.explainOpen(ctx, name, rel, err)
	}
	defer d.Close()
	fi, err := d.Lstat(path.Base(rel))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return to, nil
	case err != nil:
		return nil, t.explainOpen(ctx, name, rel, err)
	case fi.Mode()&fs.ModeSymlink != 0:
		return nil, t.linkInPath(ctx, name, rel)
	case t.isHidden(fi):
		return nil, hiddenPath(name)
	case fi.IsDir():
		return nil, t.explainOpen(ctx, name, rel, errIsDir)
	case !fi.Mode().IsRegular():
		return nil, t.explainOpen(ctx, name, rel, errSpecial)
	}
	to.info = fi
	return to, to.writable()
}

// writable refuses a file that says it must not be written: replacing it would
// work, but not mean what its owner meant.
func (to *target) writable() error {
	if to.info.Mode().Perm()&0o222 != 0 {
		return nil
	}
	return &Error{
		Category: Denied, Message: fmt.Sprintf("%s is read-only (mode %#o)", quoteName(to.name), to.info.Mode().Perm()),
		Advice: "If it is meant to be changed, make it writable first.",
	}
}

// linkInPath says where a path with a link in it leads.
func (t *tree) linkInPath(ctx context.Context, name, rel string) *Error {
	at, err := t.realPath(rel)
	if err != nil {
		return t.explainOpen(ctx, name, rel, err)
	}
	for _, h := range t.hidden {
		if isBelow(h, at) {
			return hiddenPath(name)
		}
	}
	return &Error{
		Category: InvalidInput, Message: fmt.Sprintf("%s leads through a symbolic link, and files are not written through links", quoteName(name)),
		Advice: fmt.Sprintf("It leads to %s; use that path if you mean it.", quoteName(at)),
	}
}

// saveTarget replaces what was looked at by data, after the host kept the earlier
// content, and says what it did.
func (t *tree) saveTarget(ctx context.Context, call *Call, to *target, data []byte, about *FileWritten) (*Result, error) {
	sum := sha256.Sum256(data)
	about.Path, about.SizeBytes, about.Hash = to.rel, int64(len(data)), "sha256:"+hex.EncodeToString(sum[:])
	if err := call.Host.Changing(ctx, t.abs(to.rel)); err != nil {
		return nil, callError(ctx, err, "prepare to change "+quoteName(to.name))
	}
	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	if t.hasContent(to, data) {
		about.Change = "unchanged"
		return &Result{Output: []byte(about.text()), Structured: encodeStructured(about)}, nil
	}
	mode, err := t.replaceFile(to, data)
	if err != nil {
		return nil, t.notWritten(ctx, to, err)
	}
	about.Change = "modified"
	if to.info == nil {
		about.Change = "created"
	}
	change := event.FileChange{Path: to.rel, Change: about.Change, AfterHash: about.Hash, Mode: int64(mode)}
	return &Result{
		Output: []byte(about.text()), Structured: encodeStructured(about), Changed: []event.FileChange{change},
	}, nil
}

// hasContent reports whether a file has exactly that content already. Where that can't
// be told it is written, and the write says what is wrong.
func (t *tree) hasContent(to *target, data []byte) bool {
	if to.info == nil || to.info.Size() != int64(len(data)) {
		return false
	}
	d, err := t.dir(path.Dir(to.rel))
	if err != nil {
		return false
	}
	defer d.Close()
	f, now, err := t.openRegular(d, path.Base(to.rel))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only read
	if !os.SameFile(to.info, now) {
		return false
	}
	content, err := io.ReadAll(io.LimitReader(f, int64(len(data))+1))
	return err == nil && bytes.Equal(content, data)
}

func (w *FileWritten) text() string {
	switch {
	case w.Change == "unchanged":
		return fmt.Sprintf("%s has exactly that content already; nothing was written.\n", w.Path)
	case w.Replacements > 1:
		return fmt.Sprintf("Edited %s: %d replacements, the first in line %d. It has %s now.\n", w.Path, w.Replacements, w.Line, sizeText(w.SizeBytes))
	case w.Replacements == 1:
		return fmt.Sprintf("Edited %s in line %d. It has %s now.\n", w.Path, w.Line, sizeText(w.SizeBytes))
	case w.Change == "created":
		return fmt.Sprintf("Created %s with %s.\n", w.Path, sizeText(w.SizeBytes))
	default:
		return fmt.Sprintf("Replaced %s; it has %s now.\n", w.Path, sizeText(w.SizeBytes))
	}
}

// notWritten explains a write that failed; the file is as it was.
func (t *tree) notWritten(ctx context.Context, to *target, err error) *Error {
	switch {
	case errors.Is(err, errChanged):
		return &Error{
			Category: Execution, Message: fmt.Sprintf("%s was changed by someone else in the meantime; nothing was written", quoteName(to.name)),
			Advice: "Read it again before you change it.", Retryable: true,
		}
	case errors.Is(err, errLink), errors.Is(err, errSwapped):
		return &Error{Category: SandboxViolation, Message: fmt.Sprintf("a folder of %s was replaced while it was written to; nothing was written", quoteName(to.name)), Boundary: "filesystem", Path: clip.Text(to.name, 300)}
	case errors.Is(err, fs.ErrPermission):
		return Errorf(Execution, "permission denied: %s", quoteName(to.name))
	case errors.Is(err, os.ErrExist):
		return t.explainOpen(ctx, to.name, to.rel, errIsDir)
	default:
		e := t.explainOpen(ctx, to.name, to.rel, err)
		if e.Category == Execution {
			e.Message = fmt.Sprintf("write %s: %v", quoteName(to.name), err)
		}
		return e
	}
}
