package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// written parses sources of a package, given as one file.
func written(t *testing.T, source string) *sources {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "state", "a.go"), []byte("package state\n"+source), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := parseSources(root, "state")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSourcesComeDownToTypes(t *testing.T) {
	s := written(t, `
import "time"

// Word is a word.
type Word string

// Inner is inside.
type Inner struct {
	// Low is low.
	Low int64 `+"`json:\"low\"`"+`
	// High is hidden by the outer one.
	High string `+"`json:\"high\"`"+`
}

// Outer is outside.
type Outer struct {
	*Inner
	// High is high.
	High string `+"`json:\"high\"`"+`
	Words map[string][]Word `+"`json:\"words,omitempty\"`"+`
	At time.Time `+"`json:\"at\"`"+`
	List []*Inner `+"`json:\"list\"`"+`
	hidden int
	Stored string `+"`json:\"stored\" view:\"-\"`"+`
	Never string `+"`json:\"-\"`"+`
}
`)
	fields, err := s.fields("agentd/state.Outer")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range fields {
		absent := ""
		if f.absent {
			absent = "?"
		}
		got = append(got, wireName(f.tag)+absent+" "+f.typ.String()+" "+f.of)
	}
	want := []string{"low? int64 ", "high string ", "words map[string][]string ", "at time.Time ", "list []*struct {} agentd/state.Inner"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if fields[1].doc != "High is high." {
		t.Errorf("the comment is %q", fields[1].doc)
	}
}

func TestSourcesThatAreNotUnderstood(t *testing.T) {
	for want, source := range map[string]string{
		"is not supported":           "type A struct { F func() `json:\"f\"` }",
		"is no struct":               "type A string",
		"there is no type":           "type B struct{}",
		"no type agentd/state.Other": "type A struct { F Other `json:\"f\"` }",
	} {
		if _, err := written(t, source).fields("agentd/state.A"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
}
