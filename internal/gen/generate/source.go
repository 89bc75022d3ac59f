package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentd/event"
)

// sources are the types of several packages as their files declare them. Read
// models are taken from there and not by reflection: the packages that make them
// don't compile before the generated files of package event are there.
type sources struct {
	// types by the package's path and the name, such as "agentd/state.Task".
	types map[string]*sourceType
	// stored says that fields are listed which are stored and not shown.
	stored bool
}

// sourceType is one declared type.
type sourceType struct {
	key  string
	name string
	doc  string
	expr ast.Expr
	// imports of the file by the names that it uses.
	imports map[string]string
	pkg     string
}

// sourceField is one field of a struct, embedded ones in their place.
type sourceField struct {
	goName string
	// owner is the key of the struct that declares the field.
	owner string
	doc   string
	tag   reflect.StructTag
	typ   reflect.Type
	// of is the key of the struct that the field, or each of its elements, holds.
	of string
	// absent fields may be missing whatever their tags say: they are embedded
	// through a pointer that may be nil.
	absent bool
}

// sourcePackages are the folders of the packages that declare read models and what
// they hold.
func sourcePackages() []string {
	return []string{"event", "command", "state", "session", "work", "loop"}
}

// parseSources reads the types of packages, given as folders below root.
func parseSources(root string, packages ...string) (*sources, error) {
	s := &sources{types: map[string]*sourceType{}}
	for _, pkg := range packages {
		names, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
		if err != nil {
			return nil, err
		}
		slices.Sort(names)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_gen.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			s.addFile("agentd/"+pkg, file)
		}
	}
	return s, nil
}

func (s *sources) addFile(pkg string, file *ast.File) {
	imports := map[string]string{}
	for _, i := range file.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			continue // the parser took it
		}
		name := path[strings.LastIndexByte(path, '/')+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		imports[name] = path
	}
	for _, decl := range file.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, spec := range g.Specs {
			ts := spec.(*ast.TypeSpec)
			comment := ts.Doc
			if comment == nil {
				comment = g.Doc
			}
			key := pkg + "." + ts.Name.Name
			s.types[key] = &sourceType{key: key, name: ts.Name.Name, doc: oneLine(comment), expr: ts.Type, imports: imports, pkg: pkg}
		}
	}
}

// fields lists the fields of a struct that are written as JSON.
func (s *sources) fields(key string) ([]sourceField, error) {
	t, ok := s.types[key]
	if !ok {
		return nil, fmt.Errorf("there is no type %s", key)
	}
	st, ok := t.expr.(*ast.StructType)
	if !ok {
		return nil, fmt.Errorf("%s is no struct", key)
	}
	var list []sourceField
	for _, f := range st.Fields.List {
		made, err := s.declared(t, f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		list = append(list, made...)
	}
	return withoutShadowed(list), nil
}

// declared returns the fields that one line of a struct declares.
func (s *sources) declared(t *sourceType, f *ast.Field) ([]sourceField, error) {
	var tag reflect.StructTag
	if f.Tag != nil {
		text, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			return nil, err
		}
		tag = reflect.StructTag(text)
	}
	name, _, _ := strings.Cut(tag.Get("json"), ",")
	if name == "-" || tag.Get("view") == "-" && !s.stored {
		return nil, nil
	}
	typ, of, err := s.resolve(t, f.Type)
	if err != nil {
		return nil, err
	}
	if len(f.Names) == 0 {
		inner, err := s.fields(of)
		for i := range inner {
			inner[i].absent = inner[i].absent || typ.Kind() == reflect.Pointer && tag.Get("check") != "nonnil"
		}
		return inner, err
	}
	var list []sourceField
	for _, id := range f.Names {
		if id.IsExported() {
			list = append(list, sourceField{goName: id.Name, owner: t.key, doc: oneLine(f.Doc), tag: tag, typ: typ, of: of})
		}
	}
	return list, nil
}

// withoutShadowed drops what an outer field of the same name hides. The outer one
// comes after what is embedded.
func withoutShadowed(list []sourceField) []sourceField {
	last := map[string]int{}
	for i, f := range list {
		last[f.tag.Get("json")] = i
	}
	var kept []sourceField
	for i, f := range list {
		if last[f.tag.Get("json")] == i {
			kept = append(kept, f)
		}
	}
	return kept
}

// basicTypes are what declared types come down to.
var basicTypes = map[string]reflect.Type{
	"string": reflect.TypeFor[string](), "bool": reflect.TypeFor[bool](),
	"int": reflect.TypeFor[int](), "int64": reflect.TypeFor[int64](), "uint64": reflect.TypeFor[uint64](), "float64": reflect.TypeFor[float64](),
}

// foreignTypes are those that are not looked into.
var foreignTypes = map[string]reflect.Type{
	"time.Time": reflect.TypeFor[time.Time](), "encoding/json.RawMessage": reflect.TypeFor[json.RawMessage](),
	"encoding/json.Number": reflect.TypeFor[json.Number](), "agentd/event.OptionalInt": reflect.TypeFor[event.OptionalInt](),
}

// someStruct stands for every struct: which one it is, its key says.
var someStruct = reflect.TypeFor[struct{}]()

// resolve returns what a type comes down to, and the key of the struct in it.
func (s *sources) resolve(t *sourceType, expr ast.Expr) (reflect.Type, string, error) {
	switch e := expr.(type) {
	case *ast.StarExpr:
		typ, of, err := s.resolve(t, e.X)
		if err != nil {
			return nil, "", err
		}
		return reflect.PointerTo(typ), of, nil
	case *ast.ArrayType:
		typ, of, err := s.resolve(t, e.Elt)
		if err != nil {
			return nil, "", err
		}
		return reflect.SliceOf(typ), of, nil
	case *ast.MapType:
		typ, of, err := s.resolve(t, e.Value)
		if err != nil {
			return nil, "", err
		}
		return reflect.MapOf(reflect.TypeFor[string](), typ), of, nil
	case *ast.Ident:
		if typ, ok := basicTypes[e.Name]; ok {
			return typ, "", nil
		}
		return s.named(t.pkg + "." + e.Name)
	case *ast.SelectorExpr:
		pkg, ok := e.X.(*ast.Ident)
		if !ok {
			break
		}
		return s.named(t.imports[pkg.Name] + "." + e.Sel.Name)
	}
	return nil, "", fmt.Errorf("a type of the form %T is not supported", expr)
}

func (s *sources) named(key string) (reflect.Type, string, error) {
	if typ, ok := foreignTypes[key]; ok {
		return typ, "", nil
	}
	t, ok := s.types[key]
	if !ok {
		return nil, "", fmt.Errorf("there is no type %s in the sources", key)
	}
	if _, ok := t.expr.(*ast.StructType); ok {
		return someStruct, key, nil
	}
	return s.resolve(t, t.expr)
}
