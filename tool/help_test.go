package tool

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// desk is a workspace with the built-in tools, for tests. It is the host of its
// calls too.
type desk struct {
	t     testing.TB
	root  string
	tools map[string]Tool
	files *files
	// maxOutput of the calls; 0 leaves it to the tool.
	maxOutput int64
	cwd       string

	mu       sync.Mutex
	changing []string
	refuse   error
	// in the meantime runs in Changing, between looking and writing.
	meanwhile func()
	commands  []*Command
	command   func(*Command) (*Exit, error)
}

func newDesk(t testing.TB, hidden ...string) *desk {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root = filepath.Join(root, "ws")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, root: root, cwd: root, tools: map[string]Tool{}}
	for i, h := range hidden {
		hidden[i] = filepath.Join(root, h)
	}
	d.files = newFiles(nil, hidden)
	for _, tl := range builtins(d.files) {
		d.tools[tl.Info().ToolName] = tl
	}
	return d
}

func (d *desk) Progress(string, float64, string) {}

func (d *desk) Changing(_ context.Context, path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changing = append(d.changing, path)
	if d.meanwhile != nil {
		d.meanwhile()
	}
	return d.refuse
}

func (d *desk) Command(_ context.Context, c *Command) (*Exit, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commands = append(d.commands, c)
	return d.command(c)
}

func (d *desk) call(input any) *Call {
	raw, ok := input.(string)
	if !ok {
		b, err := json.Marshal(input)
		if err != nil {
			d.t.Fatal(err)
		}
		raw = string(b)
	}
	return &Call{Input: json.RawMessage(raw), Root: d.root, Cwd: d.cwd, MaxOutput: d.maxOutput, Host: d}
}

type obj = map[string]any

// run runs a tool after its input was validated, as the runtime does.
func (d *desk) run(name string, input any) (*Result, error) {
	d.t.Helper()
	c := d.call(input)
	if s, err := CompileSchema(d.tools[name].Info().InputSchema); err != nil {
		d.t.Fatal(err)
	} else if err := s.Validate(c.Input); err != nil {
		return nil, err
	}
	return d.tools[name].Run(d.t.Context(), c)
}

// ok runs a tool that must succeed and returns its output.
func (d *desk) ok(name string, input any) *Result {
	d.t.Helper()
	res, err := d.run(name, input)
	if err != nil {
		d.t.Fatalf("%s %v: %v", name, input, err)
	}
	return res
}

func (d *desk) text(name string, input any) string {
	d.t.Helper()
	return string(d.ok(name, input).Output)
}

// fails is failure for those who don't look at the error themselves.
func (d *desk) fails(name string, input any, category string, words ...string) {
	d.t.Helper()
	_ = d.failure(name, input, category, words...)
}

// failure runs a tool that must fail with a category and words in its message or
// its advice.
func (d *desk) failure(name string, input any, category string, words ...string) *Error {
	d.t.Helper()
	res, err := d.run(name, input)
	var e *Error
	if !errors.As(err, &e) {
		d.t.Fatalf("%s %v: got %v, %v; want a failure", name, input, res, err)
	}
	if e.Category != category {
		d.t.Errorf("%s %v: category %s, want %s: %v", name, input, e.Category, category, e)
	}
	for _, w := range words {
		if !strings.Contains(e.Message+" "+e.Advice, w) {
			d.t.Errorf("%s %v: %q (%q) doesn't say %q", name, input, e.Message, e.Advice, w)
		}
	}
	return e
}

func (d *desk) putFile(rel, content string) {
	d.t.Helper()
	d.putMode(rel, content, 0o644)
}

func (d *desk) putMode(rel, content string, mode fs.FileMode) {
	d.t.Helper()
	p := filepath.Join(d.root, rel)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), mode); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Chmod(p, mode); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) link(target, rel string) {
	d.t.Helper()
	p := filepath.Join(d.root, rel)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Symlink(target, p); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) readFile(rel string) string {
	d.t.Helper()
	b, err := os.ReadFile(filepath.Join(d.root, rel))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(b)
}

// clean fails if a temporary file was left behind.
func (d *desk) clean() {
	d.t.Helper()
	err := filepath.WalkDir(filepath.Dir(d.root), func(p string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(p), ".agentd-") {
			d.t.Errorf("left behind: %s", p)
		}
		return err
	})
	if err != nil {
		d.t.Error(err)
	}
}

func requireWords(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q doesn't contain %q", text, w)
		}
	}
}
