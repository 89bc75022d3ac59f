package repotest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// checkImports holds the product code of all packages to the table.
func checkImports(pkgs []*sourcePackage, table []row) []string {
	rows := map[string]row{}
	for _, r := range table {
		rows[r.dir] = r
	}
	var found []string
	for _, p := range pkgs {
		r, ok := rows[p.dir]
		if !ok {
			found = append(found, fmt.Sprintf("%s: the package is not in the import table: give it a row in internal/repotest/table.go", p.dir))
			continue
		}
		for _, imp := range p.imports(false) {
			if problem := checkImport(r, imp, rows); problem != "" {
				found = append(found, fmt.Sprintf("%s imports %s: %s", p.dir, imp, problem))
			}
		}
		found = append(found, checkPure(p, r)...)
	}
	return found
}

// checkImport says what is wrong with one import, or "".
func checkImport(r row, imp string, rows map[string]row) string {
	dir, ours := internalDir(imp)
	if !ours {
		if r.standardOnly && !isStandard(imp) {
			return "the package uses the standard library only"
		}
		return ""
	}
	if r.role == support {
		return ""
	}
	target := rows[dir]
	switch {
	case target.role == support:
		return "that package is for tests"
	case r.role == program:
		return ""
	case target.role == adapter:
		return "an adapter is imported by programs and tests only"
	case target.role == program:
		return "a program is not imported"
	case !slices.Contains(r.may, dir):
		return "the table doesn't allow it"
	}
	return ""
}

// checkTable reports rows that contradict themselves, so that a mistake in the
// table can't hide a mistake in the code.
func checkTable(table []row) []string {
	rows := map[string]row{}
	var found []string
	for _, r := range table {
		if _, twice := rows[r.dir]; twice {
			found = append(found, r.dir+": two rows in the import table")
		}
		rows[r.dir] = r
	}
	for _, r := range table {
		for _, dir := range r.may {
			target, ok := rows[dir]
			switch {
			case !ok:
				found = append(found, fmt.Sprintf("%s may import %s, which has no row", r.dir, dir))
			case target.role != product:
				found = append(found, fmt.Sprintf("%s may import %s, which is not product code", r.dir, dir))
			case reaches(dir, r.dir, rows, map[string]bool{}):
				found = append(found, fmt.Sprintf("%s may import %s and the other way round: neither stands below", r.dir, dir))
			}
		}
	}
	return found
}

func reaches(from, to string, rows map[string]row, seen map[string]bool) bool {
	if from == to {
		return true
	}
	if seen[from] {
		return false
	}
	seen[from] = true
	return slices.ContainsFunc(rows[from].may, func(dir string) bool { return reaches(dir, to, rows, seen) })
}

// checkPure reports what makes a package, or those of its files that the table
// names, impure: imports, reads of the clock, goroutines.
func checkPure(p *sourcePackage, r row) []string {
	var found []string
	for _, f := range p.files {
		if f.test || !r.pure && !slices.Contains(r.pureFiles, path.Base(f.name)) {
			continue
		}
		for _, imp := range f.imports() {
			if brings, bad := impure(imp); bad {
				found = append(found, fmt.Sprintf("%s imports %s: pure code does without %s", f.name, imp, brings))
			}
		}
		found = append(found, impureCode(f)...)
	}
	return found
}

// impure looks an import up, with its parents: net/http counts as net.
func impure(imp string) (brings string, bad bool) {
	for at := imp; at != "."; at = path.Dir(at) {
		if brings, bad := impureImports[at]; bad {
			return brings, true
		}
	}
	return "", false
}

func impureCode(f *sourceFile) []string {
	clock := importName(f.ast, "time")
	var found []string
	report := func(n ast.Node, what string) {
		pos := f.fset.Position(n.Pos())
		found = append(found, fmt.Sprintf("%s:%d: %s in pure code", f.name, pos.Line, what))
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			report(n, "a goroutine")
		case *ast.SelectorExpr:
			if id, ok := n.X.(*ast.Ident); ok && clock != "" && id.Name == clock && impureCalls[n.Sel.Name] {
				report(n, "time."+n.Sel.Name)
			}
		}
		return true
	})
	return found
}

// importName returns the name under which a file knows a package, or "".
func importName(f *ast.File, importPath string) string {
	for _, spec := range f.Imports {
		if strings.Trim(spec.Path.Value, `"`) != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}
