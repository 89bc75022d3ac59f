package workspace

import (
	"strings"

	"agentd/internal/pathglob"
)

// Bounds of one .gitignore; what is beyond them is not read.
const (
	maxIgnoreBytes = 64 << 10
	maxIgnoreRules = 1000
	// maxRulesTried bounds the rules that are checked against one entry, those of folders
	// above included.
	maxRulesTried = 2000
)

// ignoreRule is one line of a .gitignore.
type ignoreRule struct {
	pattern *pathglob.Glob
	negated bool
	// dirOnly holds for folders alone, anchored for the whole path from the file's
	// folder on instead of the last name.
	dirOnly, anchored bool
}

// ignoreRules are those of one folder. Rules of folders below it point to it.
type ignoreRules struct {
	above *ignoreRules
	// prefix is the folder's path and a slash; empty for the root.
	prefix string
	rules  []ignoreRule
}

// parseIgnore reads the lines of a .gitignore.
func parseIgnore(text string) []ignoreRule {
	var rules []ignoreRule
	for line := range strings.Lines(text) {
		if len(rules) == maxIgnoreRules {
			break
		}
		if r, ok := parseIgnoreLine(strings.TrimRight(line, "\r\n")); ok {
			rules = append(rules, r)
		}
	}
	return rules
}

func parseIgnoreLine(line string) (ignoreRule, bool) {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	var r ignoreRule
	if strings.HasPrefix(line, "#") {
		return r, false
	}
	line, r.negated = strings.CutPrefix(line, "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	r.anchored = strings.Contains(line, "/")
	// A leading "**/" says that the rest may begin anywhere.
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	// Braces mean nothing in a .gitignore, but do to the matcher.
	var err error
	r.pattern, err = pathglob.Compile(strings.NewReplacer("{", `\{`, "}", `\}`).Replace(line))
	return r, err == nil
}

// ignores says whether a path is ignored, given that no folder above it is. The
// last rule that matches decides, those of deeper folders first.
func (i *ignoreRules) ignores(path string, dir bool) bool {
	tried := 0
	for ; i != nil && tried < maxRulesTried; i = i.above {
		below := path[len(i.prefix):]
		for k := len(i.rules) - 1; k >= 0; k-- {
			tried++
			if i.rules[k].matches(below, dir) {
				return !i.rules[k].negated
			}
		}
	}
	return false
}

func (r *ignoreRule) matches(path string, dir bool) bool {
	if r.dirOnly && !dir {
		return false
	}
	if !r.anchored {
		path = path[strings.LastIndexByte(path, '/')+1:]
	}
	return r.pattern.Match(path)
}
