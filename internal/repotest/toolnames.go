package repotest

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"agentd/tool/toolkind"
)

// toolCatalogue is the package that declares the built-in tools.
const toolCatalogue = "tool/toolkind"

// checkToolNames wants the names of built-in tools to be written in their catalogue
// alone. Code that compares names elsewhere isn't found when a tool is added; a switch
// over kinds is.
func checkToolNames(pkgs []*sourcePackage, table []row) []string {
	var found []string
	for _, p := range pkgs {
		isSupport := slices.ContainsFunc(table, func(r row) bool { return r.dir == p.dir && r.role == support })
		if p.dir == toolCatalogue || isSupport {
			continue
		}
		for _, f := range p.files {
			if f.test || strings.HasSuffix(f.name, "_gen.go") { // the literals of a codec are names of fields
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if name := builtinToolName(n); name != "" {
					found = append(found, fmt.Sprintf("%s: the name of the tool %s; compare toolkind.Of(name) with the kind from %s", f.fset.Position(n.Pos()), name, toolCatalogue))
				}
				return true
			})
		}
	}
	return found
}

// builtinToolName returns the name of a built-in tool that a literal is; empty if it
// is none.
func builtinToolName(n ast.Node) string {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return string(toolkind.Of(text))
}
