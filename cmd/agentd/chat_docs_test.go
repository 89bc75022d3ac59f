package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTerminalTable: each row of the table in docs/terminals.md says what we have, and
// names tests that exist; each feature that is driven has a row.
func TestTerminalTable(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "terminals.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	if !found {
		t.Fatal("there is no table")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	tests := testsOfPackage(t)
	named := map[string]bool{}
	rows := strings.Split(table, "\n")
	if len(rows) < 30 {
		t.Errorf("the table has only %d rows", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "|"), "|")
		if len(cells) != 8 || strings.TrimSpace(cells[1]) == "" || strings.TrimSpace(cells[1]) == "no" {
			t.Errorf("the row isn't whole, or we lack what it is about: %s", row)
			continue
		}
		names := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[7], -1)
		if len(names) == 0 {
			t.Errorf("no test is named: %s", row)
		}
		for _, m := range names {
			test, name, isFeature := strings.Cut(m[1], "/")
			if !tests[test] {
				t.Errorf("there is no test %s: %s", test, row)
			}
			if _, driven := features[name]; isFeature && (test != "TestChatFeatures" || !driven) {
				t.Errorf("there is no feature %q: %s", name, row)
			}
			named[name] = true
		}
	}
	for name := range features {
		if !named[name] {
			t.Errorf("no row names the feature %q", name)
		}
	}
}

// testsOfPackage are the names of the tests of this package.
func testsOfPackage(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Test") {
				tests[fn.Name.Name] = true
			}
		}
	}
	return tests
}
