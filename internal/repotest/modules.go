package repotest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// requirement is one line of go.mod.
type requirement struct {
	Path     string `json:"Path"`
	Version  string `json:"Version"`
	Indirect bool   `json:"Indirect"`
}

// runGo runs the go command in dir and returns its standard output.
func runGo(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as agentd is built
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("repotest: go %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}

// readRequirements returns what go.mod requires.
func readRequirements(root string) ([]requirement, error) {
	out, err := runGo(root, "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var mod struct {
		Require []requirement `json:"Require"`
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, fmt.Errorf("repotest: read go.mod: %w", err)
	}
	return mod.Require, nil
}

// moduleOf returns the required module that a package belongs to, or "".
func moduleOf(importPath string, required []requirement) string {
	best := ""
	for _, r := range required {
		if (importPath == r.Path || strings.HasPrefix(importPath, r.Path+"/")) && len(r.Path) > len(best) {
			best = r.Path
		}
	}
	return best
}

// usage is who imports a module, by directory: product code, or tests alone.
type usage struct {
	product, tests []string
	// packages of the module that are imported.
	packages []string
}

// usageByModule finds out who imports what. Test support counts as tests.
func usageByModule(pkgs []*sourcePackage, table []row, required []requirement) map[string]*usage {
	isSupport := map[string]bool{}
	for _, r := range table {
		isSupport[r.dir] = r.role == support
	}
	uses := map[string]*usage{}
	for _, p := range pkgs {
		for _, test := range []bool{false, true} {
			for _, imp := range p.imports(test) {
				module := moduleOf(imp, required)
				if module == "" {
					continue
				}
				if uses[module] == nil {
					uses[module] = &usage{}
				}
				uses[module].add(p.dir, imp, test || isSupport[p.dir])
			}
		}
	}
	return uses
}

func (u *usage) add(dir, imp string, test bool) {
	if !slices.Contains(u.packages, imp) {
		u.packages = append(u.packages, imp)
	}
	switch {
	case slices.Contains(u.product, dir):
	case !test:
		u.product = append(u.product, dir)
	case !slices.Contains(u.tests, dir):
		u.tests = append(u.tests, dir)
	}
}

// linkedModules returns the modules that the given packages link, sorted.
func linkedModules(root string, packages ...string) ([]string, error) {
	args := append([]string{"list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}"}, packages...)
	out, err := runGo(root, args...)
	if err != nil {
		return nil, err
	}
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	modules = slices.Compact(modules)
	return slices.DeleteFunc(modules, func(m string) bool { return m == modulePath }), nil
}

// moduleLicences reads the licence of each module from its own files.
func moduleLicences(root string, modules []string) (map[string]string, error) {
	if len(modules) == 0 {
		return map[string]string{}, nil
	}
	out, err := runGo(root, append([]string{"mod", "download", "-json"}, modules...)...)
	if err != nil {
		return nil, err
	}
	licences := map[string]string{}
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var m struct {
			Path string `json:"Path"`
			Dir  string `json:"Dir"`
		}
		switch err := dec.Decode(&m); {
		case errors.Is(err, io.EOF):
			return licences, nil
		case err != nil:
			return nil, fmt.Errorf("repotest: read licences: %w", err)
		}
		text, err := licenceText(m.Dir)
		if err != nil {
			return nil, err
		}
		licences[m.Path] = classifyLicence(text)
	}
}

var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying)([.-].*)?$`)

// licenceText returns the text of the licence file of a module, or "".
func licenceText(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("repotest: read a licence: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() || !licenceName.MatchString(e.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", fmt.Errorf("repotest: read a licence: %w", err)
		}
		return string(data), nil
	}
	return "", nil
}

// licenceMarks are phrases that tell licences apart. All that occur count: some
// modules gather code under several.
var licenceMarks = []struct {
	spdx string
	mark *regexp.Regexp
}{
	{"Apache-2.0", regexp.MustCompile(`(?i)Apache License\s*(,\s*)?Version 2\.0`)},
	{"BSD-3-Clause", regexp.MustCompile(`(?i)neither the names? of`)},
	{"GPL", regexp.MustCompile(`GNU (LESSER |AFFERO )?GENERAL PUBLIC LICENSE`)},
	{"ISC", regexp.MustCompile(`Permission to use, copy, modify, and(/or)? distribute this software for any`)},
	{"MIT", regexp.MustCompile(`Permission is hereby granted, free of charge, to any person`)},
	{"MPL-2.0", regexp.MustCompile(`(?i)Mozilla Public License,?\s*(Version|v\.?)\s*2\.0`)},
}

var bsd = regexp.MustCompile(`Redistribution and use in source and binary forms`)

// classifyLicence names the licences in a text by their SPDX identifiers, joined
// by "AND"; "unknown" if none was recognised. The Mozilla licence speaks of the
// GNU ones as secondary licences, which doesn't count.
func classifyLicence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	var ids []string
	for _, l := range licenceMarks {
		if l.mark.MatchString(text) {
			ids = append(ids, l.spdx)
		}
	}
	if bsd.MatchString(text) && !slices.Contains(ids, "BSD-3-Clause") {
		ids = append(ids, "BSD-2-Clause")
	}
	slices.Sort(ids)
	if len(ids) == 0 {
		return "unknown"
	}
	return strings.Join(ids, " AND ")
}

// acceptedLicences may be linked into a program under Apache-2.0.
var acceptedLicences = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0"}

// checkLicences reports modules under a licence that isn't accepted.
func checkLicences(licences map[string]string) []string {
	var found []string
	for module, licence := range licences {
		for id := range strings.SplitSeq(licence, " AND ") {
			if !slices.Contains(acceptedLicences, id) {
				found = append(found, fmt.Sprintf("%s: licence %s is not among the accepted ones", module, id))
			}
		}
	}
	slices.Sort(found)
	return found
}
