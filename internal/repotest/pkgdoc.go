package repotest

import (
	"fmt"
	"strings"
)

// checkPackageComments wants one package comment in one file of each package,
// and none in test files, so that there is one place to read and to change.
// Packages of tests alone, and packages that are only a folder of external
// tests, have nothing to document.
func checkPackageComments(pkgs []*sourcePackage) []string {
	var found []string
	for _, p := range pkgs {
		found = append(found, checkPackageComment(p)...)
	}
	return found
}

func checkPackageComment(p *sourcePackage) []string {
	var found, with []string
	hasCode := false
	for _, f := range p.files {
		doc := strings.TrimSpace(f.ast.Doc.Text())
		hasCode = hasCode || !f.test
		switch {
		case doc == "":
		case f.test:
			found = append(found, f.name+": a package comment in a test file: move it to the package's own, or put an empty line before the package clause")
		default:
			with = append(with, f.name)
			if name := f.ast.Name.Name; name != "main" && !strings.HasPrefix(doc, "Package "+name+" ") {
				found = append(found, fmt.Sprintf("%s: the package comment doesn't begin with %q", f.name, "Package "+name))
			}
		}
	}
	switch {
	case hasCode && len(with) == 0:
		found = append(found, p.dir+": no package comment")
	case len(with) > 1:
		found = append(found, fmt.Sprintf("%s: %d package comments, in %s", p.dir, len(with), strings.Join(with, " and ")))
	}
	return found
}
