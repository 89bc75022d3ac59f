package workspace

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"agentd/event"
	"agentd/store/storetest"
)

// fataler is a test, or one check of a property.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// kit is a vault and a workspace.
type kit struct {
	fataler
	ctx   context.Context
	store *storetest.Mem
	v     *Vault
	root  string
}

func testKey(b byte) []byte { return bytes.Repeat([]byte{b}, KeySize) }

func newKit(t *testing.T, opt Options) *kit {
	t.Helper()
	k := &kit{fataler: t, ctx: t.Context(), store: storetest.NewMem(), root: realTemp(t)}
	k.open(opt)
	t.Cleanup(k.close)
	return k
}

// realTemp returns a new folder without symbolic links in its path.
func realTemp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func (k *kit) open(opt Options) {
	k.Helper()
	opt.Blobs = k.store
	if opt.Key == nil {
		opt.Key = testKey(1)
	}
	var err error
	k.v, err = New(opt)
	k.must(err)
}

func (k *kit) close() { k.must(k.v.Close()) }

func (k *kit) must(err error) {
	k.Helper()
	if err != nil {
		k.Fatalf("%v", err)
	}
}

func (k *kit) path(rel string) string { return filepath.Join(k.root, filepath.FromSlash(rel)) }

func (k *kit) write(rel, content string) {
	k.Helper()
	k.must(os.MkdirAll(filepath.Dir(k.path(rel)), 0o755))
	k.must(os.WriteFile(k.path(rel), []byte(content), 0o644))
}

func (k *kit) read(rel string) string {
	k.Helper()
	b, err := os.ReadFile(k.path(rel))
	k.must(err)
	return string(b)
}

// tool changes one path as a file tool does.
func (k *kit) tool(rel string, change func()) []event.FileChange {
	k.Helper()
	r, err := k.v.Record(k.root)
	k.must(err)
	k.must(r.Changing(k.ctx, k.path(rel)))
	change()
	return k.finish(r)
}

// shell changes something as a command does.
func (k *kit) shell(change func()) []event.FileChange {
	k.Helper()
	r, err := k.v.Record(k.root)
	k.must(err)
	k.must(r.Before(k.ctx))
	change()
	k.must(r.After(k.ctx))
	return k.finish(r)
}

func (k *kit) finish(r *Recorder) []event.FileChange {
	k.Helper()
	c, err := r.Finish(k.ctx)
	k.must(err)
	for _, b := range c.Blobs {
		_, err := k.store.PutBlob(k.ctx, bytes.NewReader(b))
		k.must(err)
	}
	return c.Files
}

func (k *kit) apply(force bool, turns ...[]event.FileChange) []event.RollbackFile {
	k.Helper()
	files, err := k.v.Apply(k.ctx, k.root, turned(turns...), ApplyOptions{Force: force})
	k.must(err)
	return files
}

func turned(turns ...[]event.FileChange) []Turned {
	var out []Turned
	for i, files := range turns {
		out = append(out, Turned{TurnID: fmt.Sprintf("turn_%d", i+1), Files: files})
	}
	return out
}

// tree returns everything in the workspace, a line an entry.
func (k *kit) tree() string {
	k.Helper()
	var lines []string
	k.must(filepath.WalkDir(k.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == k.root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := strings.TrimPrefix(path, k.root+"/") + " " + info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", b)
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line = strings.TrimPrefix(path, k.root+"/") + " -> " + target
		}
		lines = append(lines, line)
		return nil
	}))
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// outcomeLines returns outcomes, a line a path.
func outcomeLines(files []event.RollbackFile) string {
	var lines []string
	for _, f := range files {
		line := f.Change + " " + f.Path
		if f.Reason != "" {
			line += ": " + f.Reason
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// facts returns changes, a line a path, without hashes.
func facts(files []event.FileChange) string {
	var lines []string
	for _, f := range files {
		line := f.Change + " " + f.Path
		if f.BeforeRef != "" {
			line += " kept"
		}
		if f.Note != "" {
			line += ": " + f.Note
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func (k *kit) want(got, want string) {
	k.Helper()
	if got != want {
		k.Fatalf("got:\n%s\nwant:\n%s", got, want)
	}
}
