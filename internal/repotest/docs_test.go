package repotest

import (
	"strings"
	"testing"
)

func TestLinksRule(t *testing.T) {
	fsys := tree(map[string]string{
		"README.md":         "# Top\n[a](docs/a.md) [b](docs/a.md#a-heading-with-code) [c](docs) [web](https://example.org/x)\n",
		"docs/a.md":         "# A heading, with `code`!\n# Twice\n# Twice\n<a id=\"here\"></a>\n[up](../README.md#top) [t](#twice-1) [h](#here)\n",
		"docs/bad.md":       "[x](gone.md)\n[y](a.md#gone)\n[z](#gone)\n[ref]: nowhere.md\n",
		"docs/code.md":      "```\n[x](gone.md)\n```\n`[x](gone.md)`\n",
		"docs/title.md":     "[x](a.md \"a title\") ![picture](gone.png)\n",
		"docs/file with.go": "package x",
	})
	names, err := listFiles(fsys)
	if err != nil {
		t.Fatal(err)
	}
	found, err := checkLinks(fsys, names)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, found,
		"docs/bad.md:1: link to gone.md: no such file",
		"docs/bad.md:2: link to a.md#gone: no such heading",
		"docs/bad.md:3: link to #gone: no such heading",
		"docs/bad.md:4: link to nowhere.md: no such file",
		"docs/title.md:1: link to gone.png: no such file",
	)
}

func TestIndexRule(t *testing.T) {
	fsys := tree(map[string]string{
		"docs/README.md":    "[a](a.md) [all](folder)\n",
		"docs/a.md":         "[b](b.md)\n",
		"docs/b.md":         "the end\n",
		"docs/folder/c.md":  "in a linked folder\n",
		"docs/lost.md":      "nobody links here\n",
		"elsewhere/page.md": "not below docs\n",
	})
	names, err := listFiles(fsys)
	if err != nil {
		t.Fatal(err)
	}
	found, err := checkIndex(fsys, names, "docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, found, "docs/lost.md: no way leads to it")
}

const smallPage = "# Modules\n\n" + dependencyColumns + `
| --- | --- | --- | --- | --- | --- |
| ` + "`example.org/a` | v1.0.0 | MIT | 2 | `top`; tests: `base`" + ` | it does a |
| ` + "`example.org/b` | v2.0.0 | MIT | 0 | nothing yet" + ` | it will do b |

| Tool | Version |
| --- | --- |
| ` + "`example.org/tool`" + ` | v3.0.0 |
`

func smallFacts() (map[string]dependency, []requirement) {
	want := map[string]dependency{
		"example.org/a": {module: "example.org/a", version: "v1.0.0", licence: "MIT", links: "2", importedBy: "`top`; tests: `base`"},
		"example.org/b": {module: "example.org/b", version: "v2.0.0", licence: "MIT", links: "0", importedBy: notImported},
	}
	required := []requirement{
		{Path: "example.org/a", Version: "v1.0.0"},
		{Path: "example.org/b", Version: "v2.0.0"},
		{Path: "example.org/below", Version: "v0.1.0", Indirect: true},
	}
	return want, required
}

func checkPage(t *testing.T, page string, want map[string]dependency, required []requirement) []string {
	t.Helper()
	listed, err := parseDependencies(page)
	if err != nil {
		t.Fatal(err)
	}
	return checkDependencies(listed, want, required)
}

func TestDependenciesRule(t *testing.T) {
	want, required := smallFacts()
	replace := func(old, text string) string {
		if !strings.Contains(smallPage, old) {
			t.Fatalf("the page has no %q", old)
		}
		return strings.Replace(smallPage, old, text, 1)
	}
	rowOf := func(module string) string {
		at := strings.Index(smallPage, "| `"+module)
		return smallPage[at : at+strings.Index(smallPage[at:], "\n")+1]
	}
	expect(t, checkPage(t, smallPage, want, required))
	expect(t, checkPage(t, replace("v1.0.0", "v1.0.1"), want, required), `version: the page says "v1.0.1"`)
	expect(t, checkPage(t, replace("MIT | 2", "ISC | 2"), want, required), `licence: the page says "ISC"`)
	expect(t, checkPage(t, replace("| 2 |", "| 3 |"), want, required), `links: the page says "3"`)
	expect(t, checkPage(t, replace("`top`; ", ""), want, required), "imported by: the page says")
	expect(t, checkPage(t, replace("it does a ", ""), want, required), "no reason given")
	expect(t, checkPage(t, replace(rowOf("example.org/a"), ""), want, required), "example.org/a: imported by `top`; tests: `base`, but not listed")
	expect(t, checkPage(t, replace(rowOf("example.org/b"), ""), want, required))
	expect(t, checkPage(t, replace(rowOf("example.org/b"), rowOf("example.org/a")), want, required), "listed twice")
	expect(t, checkPage(t, replace("example.org/b", "example.org/below"), want, required), "not a direct requirement")
	if _, err := parseDependencies(replace(" | it does a |", " |")); err == nil {
		t.Error("a row with a missing cell was accepted")
	}
}

func TestDependenciesUpdate(t *testing.T) {
	want, required := smallFacts()
	a := want["example.org/a"]
	a.version, a.licence = "v1.2.3", "Apache-2.0"
	want["example.org/a"] = a
	page := updateDependencies(smallPage, want)
	expect(t, checkPage(t, page, want, required))
	if !strings.Contains(page, "it does a") || !strings.Contains(page, "| `example.org/tool` | v3.0.0 |") {
		t.Errorf("the update changed more than it should:\n%s", page)
	}
}

func TestUsage(t *testing.T) {
	required := []requirement{{Path: "example.org/a"}, {Path: "example.org/a/v2"}, {Path: "example.org/t"}}
	uses := usageByModule(packagesOf(t, tree(map[string]string{
		"top/a.go":      "package top\nimport (\"example.org/a/v2/x\"; \"os\")\n",
		"top/a_test.go": "package top\nimport (\"example.org/a/v2/y\"; \"example.org/t\")\n",
		"help/a.go":     "package help\nimport \"example.org/t\"\n",
	})), smallTable, required)
	if uses["example.org/a"] != nil {
		t.Error("a package of example.org/a/v2 was taken for one of example.org/a")
	}
	if got, want := importers(uses["example.org/a/v2"]), "`top`"; got != want {
		t.Errorf("importers of v2: %s, want %s", got, want)
	}
	if got, want := importers(uses["example.org/t"]), "tests: `help`, `top`"; got != want {
		t.Errorf("importers of t: %s, want %s", got, want)
	}
	if got := importers(nil); got != notImported {
		t.Errorf("importers of nothing: %s", got)
	}
}

func TestLicences(t *testing.T) {
	for text, want := range map[string]string{
		"Apache License\n   Version 2.0, January 2004":                                                        "Apache-2.0",
		"Permission is hereby granted, free of charge, to any\nperson obtaining":                              "MIT",
		"Redistribution and use in source and binary\nforms ... Neither the name of":                          "BSD-3-Clause",
		"Redistribution and use in source and binary forms ...":                                               "BSD-2-Clause",
		"Mozilla Public License Version 2.0 ... the GNU General Public License, Version 2.0":                  "MPL-2.0",
		"Permission to use, copy, modify, and distribute this software for any purpose":                       "ISC",
		"GNU GENERAL PUBLIC LICENSE Version 3":                                                                "GPL",
		"Redistribution and use in source and binary forms. Neither the name of. Apache License, Version 2.0": "Apache-2.0 AND BSD-3-Clause",
		"All rights reserved.": "unknown",
	} {
		if got := classifyLicence(text); got != want {
			t.Errorf("%.40q: %s, want %s", text, got, want)
		}
	}
	expect(t, checkLicences(map[string]string{"a": "MIT", "b": "GPL AND MIT", "c": "unknown"}),
		"b: licence GPL", "c: licence unknown")
}
