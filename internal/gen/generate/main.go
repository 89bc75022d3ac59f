// Command generate writes everything that follows from agentd's catalogues: Go
// constants and encoders, JSON Schemas, TypeScript types and reference pages.
//
// Run it from the root of the repository, with the build tag that keeps stale
// generated files out of its own build:
//
//	go run -tags bootstrap ./internal/gen/generate
//
// With -check it writes nothing and fails, naming each file that differs from
// what it would write or that nothing generates any more. The output depends on
// the catalogues and the doc comments alone.
//
// Each output is one function of the model, in a file of its own; see outputs.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	check := flag.Bool("check", false, "write nothing; fail if a generated file differs")
	root := flag.String("root", ".", "root of the repository")
	flag.Parse()
	if err := generateAll(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// files maps a path, relative to the repository's root with slashes, to content.
type files map[string][]byte

// outputs lists what is generated, each from the same model.
func outputs() []func(*model) (files, error) {
	return []func(*model) (files, error){
		goTypes,
		goEncoders,
		goDecoders,
		stateEncoders,
		eventSchemas,
		typeScript,
		eventReference,
		commandOutputs,
		conformanceReference,
	}
}

// ownedDirs are folders in which every file is generated: what isn't generated
// any more has to go.
var ownedDirs = []string{"internal/gen/schemas", "internal/gen/types"}

func generateAll(root string, check bool) error {
	m, err := loadModel(filepath.Join(root, "event"))
	if err != nil {
		return fmt.Errorf("read catalogue: %w", err)
	}
	m.root = root
	want := files{}
	for _, output := range outputs() {
		made, err := output(m)
		if err != nil {
			return err
		}
		for name, content := range made {
			if _, twice := want[name]; twice {
				return fmt.Errorf("%s is generated twice", name)
			}
			want[name] = content
		}
	}
	stale, err := leftovers(root, want)
	if err != nil {
		return err
	}
	if check {
		return compareFiles(root, want, stale)
	}
	return writeFiles(root, want, stale)
}

// leftovers returns the files in owned folders that nothing generates.
func leftovers(root string, want files) ([]string, error) {
	var stale []string
	for _, dir := range ownedDirs {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			name := dir + "/" + e.Name()
			if _, ok := want[name]; !ok && !e.IsDir() {
				stale = append(stale, name)
			}
		}
	}
	return stale, nil
}

func compareFiles(root string, want files, stale []string) error {
	differ := slices.Clone(stale)
	for name, content := range want {
		have, err := os.ReadFile(filepath.Join(root, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err != nil || !bytes.Equal(have, content) {
			differ = append(differ, name)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	slices.Sort(differ)
	return fmt.Errorf("not up to date, run \"make generate\":\n  %s", strings.Join(differ, "\n  "))
}

func writeFiles(root string, want files, stale []string) error {
	for _, name := range stale {
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			return err
		}
	}
	for name, content := range want {
		path := filepath.Join(root, name)
		// An unchanged file keeps its time, so that nothing is rebuilt for it.
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, content) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
