package console_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agentd/event"
)

var boundElement = regexp.MustCompile(`bind:this=\{(\w+)\}`)

// TestElementsMayBeGone: the browser tells of some events later, when the element that a
// name is bound to may be gone. The compiler asks for a check only if its type says so.
func TestElementsMayBeGone(t *testing.T) {
	bound := 0
	err := filepath.WalkDir("src", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".svelte") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range boundElement.FindAllSubmatch(source, -1) {
			bound++
			name := string(match[1])
			if !regexp.MustCompile(`let ` + name + `: [\w<>]+ \| undefined = \$state\(`).Match(source) {
				t.Errorf("%s: %s is bound to an element; declare it as \"| undefined = $state()\"", path, name)
			}
			if regexp.MustCompile(`\b` + name + `!`).Match(source) {
				t.Errorf("%s: %s! says that an element is there which may be gone", path, name)
			}
		}
		return nil
	})
	if err != nil || bound == 0 {
		t.Fatalf("%d elements are bound: %v", bound, err)
	}
}

var (
	listens  = regexp.MustCompile(`\bon(?:: |=\{)\[("[^\]]+)\]`)
	inQuotes = regexp.MustCompile(`"([a-z_]+\.[a-z_.*]+)"`)
	feed     = regexp.MustCompile(`(?s)const feedTypes = \[(.*?)\];`)
)

// TestFeedCarriesWhatPagesReactTo holds the globs by which pages read again against the
// types that the feed tells of: a page that waits for another one never reads again.
func TestFeedCarriesWhatPagesReactTo(t *testing.T) {
	t.Parallel()
	hub, err := os.ReadFile("src/lib/hub.ts")
	if err != nil {
		t.Fatal(err)
	}
	carried := map[event.Type]bool{}
	for _, glob := range inQuotes.FindAllSubmatch(feed.Find(hub), -1) {
		types := typesOf(string(glob[1]))
		if len(types) == 0 {
			t.Errorf("the feed asks for %s, which is no type", glob[1])
		}
		for _, typ := range types {
			carried[typ] = true
		}
	}
	globs := 0
	err = filepath.WalkDir("src", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		source, err := os.ReadFile(path)
		for _, on := range listens.FindAll(source, -1) {
			for _, glob := range inQuotes.FindAllSubmatch(on, -1) {
				globs++
				types := typesOf(string(glob[1]))
				if len(types) == 0 {
					t.Errorf("%s reacts to %s, which is no type", path, glob[1])
				}
				for _, typ := range types {
					if !carried[typ] {
						t.Errorf("%s reacts to %s, which the feed doesn't carry: name it in feedTypes of src/lib/hub.ts, or a narrower type here", path, typ)
					}
				}
			}
		}
		return err
	})
	if err != nil || globs < 20 || len(carried) < 50 {
		t.Errorf("pages name %d globs, the feed carries %d types: %v", globs, len(carried), err)
	}
}

// typesOf returns the types of the catalogue that a glob takes.
func typesOf(glob string) (types []event.Type) {
	family, whole := strings.CutSuffix(glob, "*")
	for _, d := range event.Catalog() {
		if string(d.Type) == glob || whole && strings.HasPrefix(string(d.Type), family) {
			types = append(types, d.Type)
		}
	}
	return types
}
