package repotest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// modulePath is the name of the module, as in go.mod.
const modulePath = "agentd"

// sourceFile is one parsed Go file, whatever its build constraints say.
type sourceFile struct {
	// name is the path relative to the module's root, with slashes.
	name string
	test bool
	fset *token.FileSet
	ast  *ast.File
}

// sourcePackage is one directory with Go files.
type sourcePackage struct {
	// dir is the path relative to the module's root; "." is the root itself.
	dir   string
	files []*sourceFile
}

// moduleRoot returns the nearest directory with a go.mod, upwards from the
// working directory of the test.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("repotest: find the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("repotest: find the module: no go.mod above the working directory")
		}
		dir = parent
	}
}

// skipDir says which directories are not the repository's own text: what is
// built, what version control keeps, what a server wrote when it ran here.
func skipDir(name string) bool {
	switch name {
	case "bin", "node_modules":
		return true
	}
	return strings.HasPrefix(name, ".") && name != "." && name != ".ci"
}

// listFiles returns all files of the repository, relative, with slashes.
func listFiles(fsys fs.FS) ([]string, error) {
	var names []string
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipDir(d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		// In a linked worktree .git is a file that says where the repository is.
		if d.Type().IsRegular() && name != ".git" {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("repotest: list files: %w", err)
	}
	return names, nil
}

// loadPackages parses every Go file of the module. Other modules below the root
// (tools) and testdata are left out.
func loadPackages(fsys fs.FS) ([]*sourcePackage, error) {
	names, err := listFiles(fsys)
	if err != nil {
		return nil, err
	}
	nested := nestedModules(names)
	byDir := map[string]*sourcePackage{}
	for _, name := range names {
		if !strings.HasSuffix(name, ".go") || inTestdata(name) || inAnyDir(name, nested) {
			continue
		}
		f, err := parseFile(fsys, name)
		if err != nil {
			return nil, err
		}
		dir := path.Dir(name)
		if byDir[dir] == nil {
			byDir[dir] = &sourcePackage{dir: dir}
		}
		byDir[dir].files = append(byDir[dir].files, f)
	}
	pkgs := make([]*sourcePackage, 0, len(byDir))
	for _, p := range byDir {
		pkgs = append(pkgs, p)
	}
	slices.SortFunc(pkgs, func(a, b *sourcePackage) int { return strings.Compare(a.dir, b.dir) })
	return pkgs, nil
}

func parseFile(fsys fs.FS, name string) (*sourceFile, error) {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("repotest: parse: %w", err)
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("repotest: parse: %w", err)
	}
	return &sourceFile{name: name, test: strings.HasSuffix(name, "_test.go"), fset: fset, ast: f}, nil
}

// nestedModules returns the directories that have a go.mod of their own.
func nestedModules(names []string) []string {
	var dirs []string
	for _, name := range names {
		if path.Base(name) == "go.mod" && name != "go.mod" {
			dirs = append(dirs, path.Dir(name))
		}
	}
	return dirs
}

func inAnyDir(name string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(name, dir+"/") })
}

func inTestdata(name string) bool {
	return slices.Contains(strings.Split(path.Dir(name), "/"), "testdata")
}

// imports returns what the file imports.
func (f *sourceFile) imports() []string {
	var paths []string
	for _, spec := range f.ast.Imports {
		if s, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, s)
		}
	}
	return paths
}

// imports returns what the package's files import, sorted: those of its tests,
// or those of its product code.
func (p *sourcePackage) imports(test bool) []string {
	var paths []string
	for _, f := range p.files {
		if f.test == test {
			paths = append(paths, f.imports()...)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// isStandard tells a package of the standard library from a module's: only the
// latter has a host, with a dot, in front.
func isStandard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".") && first != modulePath
}

// internalDir returns the directory of a package of this module.
func internalDir(importPath string) (string, bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}
