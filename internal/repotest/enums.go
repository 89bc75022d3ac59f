package repotest

import (
	"fmt"
	"go/ast"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// checkEnums wants an enumeration that two fields of the catalogues share to be
// declared once, in event/enum.go: a value that is added at one field would be missing
// at the other.
func checkEnums(pkgs []*sourcePackage) []string {
	places := map[string][]string{}
	for _, p := range pkgs {
		if p.dir != "event" && p.dir != "command" {
			continue
		}
		for _, f := range p.files {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if values := writtenEnum(n); values != "" {
					places[values] = append(places[values], f.name)
				}
				return true
			})
		}
	}
	var found []string
	for values, at := range places {
		if len(at) > 1 {
			found = append(found, fmt.Sprintf("%s: the enumeration %q is written out %d times; declare it in event/enum.go and name it: enum:\"@name\"", at[0], values, len(at)))
		}
	}
	slices.Sort(found)
	return found
}

// writtenEnum returns the values of a field's enumeration if they are written out.
// Single values are constants of one variant of a payload.
func writtenEnum(n ast.Node) string {
	field, ok := n.(*ast.Field)
	if !ok || field.Tag == nil {
		return ""
	}
	tag, err := strconv.Unquote(field.Tag.Value)
	if err != nil {
		return ""
	}
	values := reflect.StructTag(tag).Get("enum")
	if strings.HasPrefix(values, "@") || len(strings.Fields(values)) < 2 {
		return ""
	}
	return values
}
