package repotest

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// vagueNames say nothing when they are seen alone in a list of functions or in a
// stack trace, not even after the name of a type.
var vagueNames = []string{
	"about", "asked", "fact", "give", "hold", "keep", "look", "note", "own", "rest", "said", "say",
	"take", "tell", "told", "try", "use", "whole", "word",
}

// terseNames are fine for the methods of a small type that says the rest, as in
// counter.add or window.has. Elsewhere they say too little.
var terseNames = []string{"add", "all", "at", "do", "each", "find", "get", "has", "is", "of", "one", "put", "show", "with"}

// smallType is the largest number of methods with which a type's name still explains
// a terse method.
const smallType = 10

// checkNames wants names of functions that can be searched for.
func checkNames(pkgs []*sourcePackage) []string {
	var found []string
	for _, p := range pkgs {
		methods := p.countMethods()
		for _, f := range p.files {
			for _, decl := range f.ast.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok {
					continue
				}
				name, of := fn.Name.Name, receiver(fn)
				terse := slices.Contains(terseNames, name) && (of == "" || methods[of] > smallType)
				if terse || slices.Contains(vagueNames, name) {
					found = append(found, fmt.Sprintf("%s: the name %s says nothing in a list; say what the function does, as in recordVerdict", f.name, strings.TrimPrefix(of+"."+name, ".")))
				}
			}
		}
	}
	return found
}

// countMethods counts the methods of each type, those in test files included.
func (p *sourcePackage) countMethods() map[string]int {
	counts := map[string]int{}
	for _, f := range p.files {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				counts[receiver(fn)]++
			}
		}
	}
	return counts
}

// receiver returns the name of the type that a function is a method of, or "".
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
