package repotest

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
)

// factReaders are the packages that read stored facts to decide, fold or prove something.
var factReaders = []string{"session", "loop", "work", "proof", "trial", "evidence", "replay", "transfer"}

// shortPayloads are the files of such packages that read payloads as they are stored, and
// why nothing that they look at can be cut.
var shortPayloads = map[string]string{
	"evidence/case.go": "evidence.changed has ids and references alone",
	"evidence/pack.go": "evidence.changed has ids and references alone",
	"loop/capture.go":  "process.output has a bounded text, or a reference",
}

// checkWholeFacts wants facts to be read whole. An event shows only the beginning of a
// large payload: code that decides by what is shown can be deceived by filling it up.
func checkWholeFacts(pkgs []*sourcePackage, readers []string, exempt map[string]string) []string {
	var found []string
	unused := maps.Clone(exempt)
	for _, p := range pkgs {
		if !slices.Contains(readers, p.dir) {
			continue
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if !decodesShown(n) {
					return true
				}
				if _, ok := exempt[f.name]; ok {
					delete(unused, f.name)
					return true
				}
				found = append(found, fmt.Sprintf("%s: decodes what the event shows of its payload; use store.DecodeFact or store.DecodeFactPayload, which read it whole", f.fset.Position(n.Pos())))
				return true
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		found = append(found, name+": is exempt from reading facts whole and needn't be")
	}
	return found
}

// decodesShown reports whether a node calls event.Decode, or DecodePayload of an event.
func decodesShown(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, _ := f.X.(*ast.Ident)
	return f.Sel.Name == "DecodePayload" || f.Sel.Name == "Decode" && x != nil && x.Name == "event"
}
