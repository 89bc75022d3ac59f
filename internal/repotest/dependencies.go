package repotest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// dependency is what docs/dependencies.md says, or ought to say, of a module.
type dependency struct {
	module, version, licence, links, importedBy, why string
}

// dependencyColumns is the head of each table of modules in the page; the cells
// but the last follow from the code and are written by the test with -update.
const dependencyColumns = "| Module | Version | Licence | Links | Imported by | Why |"

// parseDependencies reads the tables of modules of the page.
func parseDependencies(page string) ([]dependency, error) {
	var deps []dependency
	in := false
	for i, line := range strings.Split(page, "\n") {
		switch {
		case line == dependencyColumns:
			in = true
		case !strings.HasPrefix(line, "|"):
			in = false
		case in && !strings.HasPrefix(line, "| ---"):
			d, err := parseDependency(line)
			if err != nil {
				return nil, fmt.Errorf("docs/dependencies.md:%d: %w", i+1, err)
			}
			deps = append(deps, d)
		}
	}
	return deps, nil
}

func parseDependency(line string) (dependency, error) {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	if len(cells) != 6 {
		return dependency{}, fmt.Errorf("%d cells, want 6", len(cells))
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return dependency{
		module: strings.Trim(cells[0], "`"), version: cells[1], licence: cells[2],
		links: cells[3], importedBy: cells[4], why: cells[5],
	}, nil
}

func (d dependency) row() string {
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |", d.module, d.version, d.licence, d.links, d.importedBy, d.why)
}

// updateDependencies writes what follows from the code into the rows that are
// there. It adds and removes none: that is for a person, who knows why.
func updateDependencies(page string, want map[string]dependency) string {
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		d, err := parseDependency(line)
		if err != nil {
			continue
		}
		if w, ok := want[d.module]; ok {
			w.why = d.why
			lines[i] = w.row()
		}
	}
	return strings.Join(lines, "\n")
}

// checkDependencies compares the page with the facts. Every module that go.mod
// requires directly and that is imported must be listed, truly; nothing else
// may be, except a direct requirement that nothing imports yet.
func checkDependencies(listed []dependency, want map[string]dependency, required []requirement) []string {
	var found []string
	seen := map[string]bool{}
	for _, d := range listed {
		w, known := want[d.module]
		switch {
		case seen[d.module]:
			found = append(found, d.module+": listed twice")
		case !known:
			found = append(found, d.module+": listed, but not a direct requirement of go.mod")
		default:
			found = append(found, differences(d, w)...)
		}
		seen[d.module] = true
	}
	for _, r := range required {
		if w, ok := want[r.Path]; ok && !seen[r.Path] && w.importedBy != notImported {
			found = append(found, fmt.Sprintf("%s: imported by %s, but not listed", r.Path, w.importedBy))
		}
	}
	return found
}

func differences(got, want dependency) []string {
	var found []string
	for _, c := range []struct{ name, got, want string }{
		{"version", got.version, want.version},
		{"licence", got.licence, want.licence},
		{"links", got.links, want.links},
		{"imported by", got.importedBy, want.importedBy},
	} {
		if c.got != c.want {
			found = append(found, fmt.Sprintf("%s: %s: the page says %q, the code says %q", got.module, c.name, c.got, c.want))
		}
	}
	if got.why == "" {
		found = append(found, got.module+": no reason given")
	}
	return found
}

const notImported = "nothing yet"

// importers renders who imports a module.
func importers(u *usage) string {
	if u == nil {
		return notImported
	}
	var parts []string
	if len(u.product) > 0 {
		parts = append(parts, codeList(u.product))
	}
	tests := slices.DeleteFunc(slices.Clone(u.tests), func(dir string) bool { return slices.Contains(u.product, dir) })
	if len(tests) > 0 {
		parts = append(parts, "tests: "+codeList(tests))
	}
	return strings.Join(parts, "; ")
}

func codeList(dirs []string) string {
	dirs = slices.Sorted(slices.Values(dirs))
	return "`" + strings.Join(dirs, "`, `") + "`"
}

// wantedDependencies gathers the facts about every direct requirement.
func wantedDependencies(root string, required []requirement, uses map[string]*usage) (map[string]dependency, error) {
	var direct []string
	for _, r := range required {
		if !r.Indirect {
			direct = append(direct, r.Path)
		}
	}
	licences, err := moduleLicences(root, direct)
	if err != nil {
		return nil, err
	}
	want := map[string]dependency{}
	for _, r := range required {
		if r.Indirect {
			continue
		}
		d := dependency{module: r.Path, version: r.Version, licence: licences[r.Path], importedBy: importers(uses[r.Path]), links: "0"}
		if u := uses[r.Path]; u != nil {
			modules, err := linkedModules(root, u.packages...)
			if err != nil {
				return nil, err
			}
			d.links = strconv.Itoa(len(modules) - 1)
		}
		want[r.Path] = d
	}
	return want, nil
}
