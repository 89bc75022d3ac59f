package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// docs maps "Struct" and "Struct.Field" to the comment in the source, on one line.
type docs map[string]string

func (d docs) of(name string) string { return d[name] }

// parseDocs reads the comments of all structs in the folder's Go files.
func parseDocs(dir string) (docs, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	d := docs{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_gen.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				d.addTypes(g)
			}
		}
	}
	return d, nil
}

func (d docs) addTypes(g *ast.GenDecl) {
	for _, spec := range g.Specs {
		ts := spec.(*ast.TypeSpec)
		st, ok := ts.Type.(*ast.StructType)
		if !ok {
			continue
		}
		comment := ts.Doc
		if comment == nil {
			comment = g.Doc
		}
		d[ts.Name.Name] = oneLine(comment)
		for _, f := range st.Fields.List {
			for _, id := range f.Names {
				d[ts.Name.Name+"."+id.Name] = oneLine(f.Doc)
			}
		}
	}
}

func oneLine(c *ast.CommentGroup) string {
	return strings.Join(strings.Fields(c.Text()), " ")
}
