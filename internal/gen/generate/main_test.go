package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"agentd/event"
)

// repository is the root of the repository, seen from this package.
const repository = "../../.."

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	if err := generateAll(repository, true); err != nil {
		t.Error(err)
	}
}

// scratch returns a root with the sources that the generator reads.
func scratch(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, pkg := range append(sourcePackages(), "internal/wire") {
		if err := os.CopyFS(filepath.Join(root, pkg), os.DirFS(filepath.Join(repository, pkg))); err != nil {
			t.Fatal(err)
		}
	}
	if err := generateAll(root, false); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestWriteAndCheck(t *testing.T) {
	root := scratch(t)
	if err := generateAll(root, true); err != nil {
		t.Fatalf("just written: %v", err)
	}
	for name, change := range map[string]func(path string) error{
		"internal/gen/types/agentd.ts":               func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"docs/reference/events.md":                   os.Remove,
		"internal/gen/schemas/event.old.schema.json": func(path string) error { return os.WriteFile(path, []byte("{}"), 0o600) },
	} {
		path := filepath.Join(root, name)
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		err := generateAll(root, true)
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "encode_gen.go") {
			t.Errorf("with %s changed: %v", name, err)
		}
		if err := generateAll(root, false); err != nil {
			t.Fatal(err)
		}
		if err := generateAll(root, true); err != nil {
			t.Errorf("written again: %v", err)
		}
	}
}

// TestComments shows that comments of the sources get into the outputs.
func TestComments(t *testing.T) {
	m, err := loadModel(filepath.Join(repository, "event"))
	if err != nil {
		t.Fatal(err)
	}
	bare := &structInfo{name: "Bare", doc: "Bare has a field.", fields: []field{{goName: "A", wire: "a"}}}
	m.structs = append(m.structs, bare)
	if err := m.undocumented(); err == nil || !strings.HasSuffix(err.Error(), "\n  Bare.A") {
		t.Errorf("a field without a comment: %v", err)
	}
	if got := m.docs.of("Failure.Advice"); got != "Advice says what to do next." {
		t.Errorf("comment of a field: %q", got)
	}
}

// Every member of every type for TypeScript says what it means.
func TestTypeScriptIsDocumented(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(repository, "internal", "gen", "types", "*.ts"))
	if err != nil || len(names) < 2 {
		t.Fatal(names, err)
	}
	member := regexp.MustCompile(`^  ["\w]\S*: `)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		inside, before, members := false, "", 0
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case strings.HasPrefix(line, "export interface "):
				inside = true
			case strings.HasPrefix(line, "}"):
				inside = false
			case inside && member.MatchString(line):
				members++
				if !strings.HasSuffix(before, " */") {
					t.Errorf("%s: no comment above %s", filepath.Base(name), line)
				}
			}
			before = line
		}
		if members < 1000 {
			t.Errorf("%s: only %d members were found", filepath.Base(name), members)
		}
	}
}

// TestTagMistakes shows that tags that don't fit a field's type are refused.
func TestTagMistakes(t *testing.T) {
	tests := map[string]any{
		"needs a json name": struct{ A string }{},
		"is not supported": struct {
			A int32 `json:"a"`
		}{},
		"json option \"string\"": struct {
			A int64 `json:"a,string"`
		}{},
		"check \"positive\"": struct {
			A int64 `json:"a" check:"positive"`
		}{},
		"omitzero is for times": struct {
			A time.Time `json:"a,omitempty"`
		}{},
		"optional integer can't be": struct {
			A event.OptionalInt `json:"a"`
		}{},
		"must be a pointer": struct {
			A event.Usage `json:"a,omitempty"`
		}{},
		"enum is for strings": struct {
			A int64 `json:"a" enum:"1 2"`
		}{},
		"nonempty is for strings": struct {
			A string `json:"a,omitempty" check:"nonempty"`
		}{},
		"nonnil is for pointers": struct {
			A string `json:"a" check:"nonnil"`
		}{},
		"nonnegative is for": struct {
			A uint64 `json:"a" check:"nonnegative"`
		}{},
		"pointer to json.RawMessage is": struct {
			A *event.Raw `json:"a,omitempty"`
		}{},
	}
	for want, v := range tests {
		m := &model{byType: map[reflect.Type]*structInfo{}, docs: docs{}}
		if _, err := m.addStruct(reflect.TypeOf(v)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v, want %q", v, err, want)
		}
	}
}

func TestConstName(t *testing.T) {
	for wire, want := range map[string]string{
		"turn.submitted":           "TypeTurnSubmitted",
		"task.cancel_requested":    "TypeTaskCancelRequested",
		"channel.peer_task.linked": "TypeChannelPeerTaskLinked",
	} {
		if got := constName(wire); got != want {
			t.Errorf("constName(%q) = %q", wire, got)
		}
	}
}
