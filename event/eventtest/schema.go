package eventtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentd/event"
	"agentd/internal/clip"
	"agentd/internal/gen"
)

// Validator checks JSON against a schema. Goroutines may share one.
type Validator struct {
	name string
	// schema is nil when the schemas are not there.
	schema *jsonschema.Schema
	// standardOnly leaves out events of extension types.
	standardOnly bool
}

// The bases under which the standard's schemas know each other: the profile
// refers to the base schemas relative to its own address, which is another.
var standardBases = []string{
	"https://agentruntime.example/schemas/",
	"https://limecloud.github.io/agentruntime/schemas/",
}

// Strict returns a validator for events with the standard's strict profile.
// Events of extension types, which the profile can't know, pass. Where the
// standard's schemas are absent everything passes and tb's log says so.
func Strict(tb testing.TB) *Validator {
	tb.Helper()
	v := standard(tb, "agentruntime-lime-profile-event.schema.json")
	v.standardOnly = true
	return v
}

// StrictSnapshot returns a validator for session snapshots with the standard's
// strict profile. Where the standard's schemas are absent everything passes and
// tb's log says so.
func StrictSnapshot(tb testing.TB) *Validator {
	tb.Helper()
	return standard(tb, "agentruntime-lime-profile-snapshot.schema.json")
}

// Own returns a validator for events of all types with agentd's own schemas.
func Own(tb testing.TB) *Validator {
	tb.Helper()
	schema, err := compileSchema(gen.Schemas(), []string{"https://agentd.example/schemas/"}, "event.schema.json")
	if err != nil {
		tb.Fatalf("agentd's schemas: %v", err)
	}
	return &Validator{name: "event.schema.json", schema: schema}
}

func standard(tb testing.TB, name string) *Validator {
	tb.Helper()
	dir, ok := SharedDir(tb, "spec", "schemas")
	if !ok {
		tb.Logf("not checked against %s: the standard's schemas are not at ../shared/spec/schemas", name)
		return &Validator{name: name}
	}
	schema, err := compileSchema(os.DirFS(dir), standardBases, name)
	if err != nil {
		tb.Fatalf("the standard's schemas: %v", err)
	}
	return &Validator{name: name, schema: schema}
}

// SharedDir returns the folder with the given path under ../shared, beside the
// root of the module that the test runs in, and whether it exists.
func SharedDir(tb testing.TB, elem ...string) (string, bool) {
	tb.Helper()
	root, err := moduleRoot()
	if err != nil {
		tb.Fatalf("find the module's root: %v", err)
	}
	dir := filepath.Join(append([]string{root, "..", "shared"}, elem...)...)
	info, err := os.Stat(dir)
	return dir, err == nil && info.IsDir()
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}

// compiled keeps schemas for all tests of a process: compiling one takes longer
// than most tests.
var compiled sync.Map

// compileSchema returns a schema of files, which are known under each of the bases.
func compileSchema(files fs.FS, bases []string, name string) (*jsonschema.Schema, error) {
	id := bases[len(bases)-1] + name
	if schema, ok := compiled.Load(id); ok {
		return schema.(*jsonschema.Schema), nil
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(&loader{files, bases})
	schema, err := c.Compile(id)
	if err != nil {
		return nil, err
	}
	compiled.Store(id, schema)
	return schema, nil
}

// loader finds a schema's file by its address.
type loader struct {
	files fs.FS
	bases []string
}

// Load implements [jsonschema.URLLoader].
func (l *loader) Load(url string) (any, error) {
	for _, base := range l.bases {
		if name, ok := strings.CutPrefix(url, base); ok {
			data, err := fs.ReadFile(l.files, name)
			if err != nil {
				return nil, err
			}
			return jsonschema.UnmarshalJSON(bytes.NewReader(data))
		}
	}
	return nil, fmt.Errorf("%s is no schema of ours or of the standard", url)
}

// Available reports whether the validator really checks something.
func (v *Validator) Available() bool { return v.schema != nil }

// Validate reports why data doesn't satisfy the schema, or nil.
func (v *Validator) Validate(data []byte) error {
	if v.schema == nil || v.standardOnly && isExtension(data) {
		return nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s: %w", v.name, err)
	}
	if err := v.schema.Validate(doc); err != nil {
		return fmt.Errorf("%s: %w", v.name, err)
	}
	return nil
}

// Accept fails the test when data doesn't satisfy the schema.
func (v *Validator) Accept(tb testing.TB, data []byte) {
	tb.Helper()
	if err := v.Validate(data); err != nil {
		tb.Errorf("%v\nin: %s", err, shorten(data))
	}
}

func isExtension(data []byte) bool {
	var head struct {
		Type event.Type `json:"type"`
	}
	if json.Unmarshal(data, &head) != nil {
		return false
	}
	d, ok := event.Lookup(head.Type)
	return ok && d.Extension
}

// shorten keeps a test's log readable.
func shorten(data []byte) string {
	return clip.Valid(string(data), 4000)
}
