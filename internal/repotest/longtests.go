package repotest

import (
	"fmt"
	"go/ast"
	"strings"
)

// longVariable is the environment variable that long tests wait for.
const longVariable = "AGENTD_TEST_LONG"

// checkLongTests wants tests named TestLong... to look at the variable that
// scripts/test-plain.sh sets. One that doesn't would run in every pass; one that
// looks but has another name would never run.
func checkLongTests(pkgs []*sourcePackage) []string {
	var found []string
	for _, p := range pkgs {
		for _, f := range p.files {
			if f.test {
				found = append(found, checkLongTestsOf(f)...)
			}
		}
	}
	return found
}

func checkLongTestsOf(f *sourceFile) []string {
	var found []string
	for _, decl := range f.ast.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(fn.Name.Name, "Test") {
			continue
		}
		named, looks := strings.HasPrefix(fn.Name.Name, "TestLong"), mentions(fn, longVariable)
		switch {
		case named && !looks:
			found = append(found, fmt.Sprintf("%s: %s doesn't look at %s", f.name, fn.Name.Name, longVariable))
		case looks && !named:
			found = append(found, fmt.Sprintf("%s: %s looks at %s, so its name must begin with TestLong", f.name, fn.Name.Name, longVariable))
		}
	}
	return found
}

// mentions says whether a string literal of the function is the given one.
func mentions(fn *ast.FuncDecl, literal string) bool {
	hit := false
	ast.Inspect(fn, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Value == `"`+literal+`"` {
			hit = true
		}
		return !hit
	})
	return hit
}
