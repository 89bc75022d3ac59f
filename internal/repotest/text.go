package repotest

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// maxLines is the length that no file written by hand reaches. Most are far
// shorter; a file that comes near it wants to be two.
const maxLines = 900

// textRule is something that no file of the repository says.
type textRule struct {
	what    string
	pattern *regexp.Regexp
}

// The patterns are put together from pieces so that this file passes its own
// check.
var textRules = []textRule{
	{
		what:    "a path of one machine",
		pattern: regexp.MustCompile(`(^|[^\w./-])/(wor` + `k|roo` + `t|hom` + `e/\w+|User` + `s/\w+)/`),
	},
	{
		what:    "the host of a package registry",
		pattern: regexp.MustCompile(`(prox` + `y|su` + `m)\.golang\.org|registr` + `y\.npmjs\.org|de` + `b\.debian\.org`),
	},
	{
		what:    "a reminder without an owner",
		pattern: regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b($|[^(]|\([^a-z])`),
	},
	{
		what:    "an unresolved merge",
		pattern: regexp.MustCompile(`^(<{7}|>{7})( |$)`),
	},
}

// checkText reports lines that break a rule, in all text files.
func checkText(fsys fs.FS, names []string, rules []textRule) ([]string, error) {
	var found []string
	for _, name := range names {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("repotest: check text: %w", err)
		}
		if isBinary(data) || path.Base(name) == "go.sum" {
			continue
		}
		for i, line := range strings.Split(string(data), "\n") {
			for _, r := range rules {
				if hit := r.pattern.FindString(line); hit != "" {
					found = append(found, fmt.Sprintf("%s:%d: %s: %q", name, i+1, r.what, strings.TrimSpace(hit)))
				}
			}
		}
	}
	return found, nil
}

// isBinary guesses as version control does: text has no zero byte near its
// beginning.
func isBinary(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0
}

var generatedLine = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// checkLength reports Go files that are too long to take in. Generated ones are
// not for reading.
func checkLength(fsys fs.FS, names []string, limit int) ([]string, error) {
	var found []string
	for _, name := range names {
		if path.Ext(name) != ".go" {
			continue
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("repotest: check length: %w", err)
		}
		lines := bytes.Count(data, []byte("\n"))
		if lines >= limit && !generatedLine.Match(data) {
			found = append(found, fmt.Sprintf("%s: %d lines, the limit is %d: split it", name, lines, limit))
		}
	}
	return found, nil
}
