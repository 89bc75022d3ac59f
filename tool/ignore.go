package tool

import (
	"bufio"
	"io"
	"os"
	"path"
	"strings"

	"agentd/internal/pathglob"
)

const (
	// maxIgnoreFile bounds how much of a .gitignore is read.
	maxIgnoreFile = 1 << 20
	// maxIgnoreRules bounds the rules that hold in one folder, with those of the
	// folders above it: each is checked against each entry.
	maxIgnoreRules = 2000
)

// ignoreList is the .gitignore of one folder, and through up those above it.
type ignoreList struct {
	up    *ignoreList
	base  string // the folder, relative to the workspace
	rules []ignoreRule
	total int // rules of this and those above
}

type ignoreRule struct {
	// literal matches a name or path as it is, suffix its end; else glob does.
	literal, suffix string
	glob            *pathglob.Glob
	// anchored rules are about the path below base, others about the name alone.
	anchored bool
	dirOnly  bool
	keep     bool // begins with "!"
}

// ignored reports whether version control leaves out what is called rel. The
// rule that stands last in the deepest file that has one decides.
func (l *ignoreList) ignored(rel string, isDir bool) bool {
	for ; l != nil; l = l.up {
		for i := len(l.rules) - 1; i >= 0; i-- {
			if r := &l.rules[i]; r.matches(l.base, rel, isDir) {
				return !r.keep
			}
		}
	}
	return false
}

func (r *ignoreRule) matches(base, rel string, isDir bool) bool {
	if r.dirOnly && !isDir {
		return false
	}
	name := path.Base(rel)
	if r.anchored {
		name = rel
		if base != "." {
			name = strings.TrimPrefix(rel, base+"/")
		}
	}
	switch {
	case r.literal != "":
		return r.literal == name
	case r.suffix != "":
		return strings.HasSuffix(name, r.suffix)
	default:
		return r.glob.Match(name)
	}
}

// withFolder returns l extended by the .gitignore in the folder d at rel, if there is
// one that can be read. It is a hint, so one that can't be is as none.
func (l *ignoreList) withFolder(t *tree, d *os.Root, rel string) *ignoreList {
	f, _, err := t.openRegular(d, ".gitignore")
	if err != nil {
		return l
	}
	defer f.Close()
	total := 0
	if l != nil {
		total = l.total
	}
	rules := parseIgnore(io.LimitReader(f, maxIgnoreFile), maxIgnoreRules-total)
	if len(rules) == 0 {
		return l
	}
	return &ignoreList{up: l, base: rel, rules: rules, total: total + len(rules)}
}

// parseIgnore reads the first rules, at most that many.
func parseIgnore(r io.Reader, most int) []ignoreRule {
	var rules []ignoreRule
	s := bufio.NewScanner(r)
	for len(rules) < most && s.Scan() {
		if rule, ok := parseIgnoreLine(s.Text()); ok {
			rules = append(rules, rule)
		}
	}
	return rules
}

func parseIgnoreLine(line string) (ignoreRule, bool) {
	line = strings.TrimSuffix(line, "\r")
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if line == "" || line[0] == '#' {
		return ignoreRule{}, false
	}
	var r ignoreRule
	if line, r.keep = strings.CutPrefix(line, "!"); line == "" {
		return r, false
	}
	if line, r.dirOnly = strings.CutSuffix(line, "/"); line == "" {
		return r, false
	}
	r.anchored = strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	switch {
	case !strings.ContainsAny(line, `*?[\`):
		r.literal = line
	case !r.anchored && strings.HasPrefix(line, "*") && !strings.ContainsAny(line[1:], `*?[\`) && len(line) > 1:
		r.suffix = line[1:]
	default:
		var err error
		if r.glob, err = pathglob.Compile(ignoreGlob(line)); err != nil {
			return r, false
		}
	}
	return r, true
}

// ignoreGlob translates a pattern: braces mean themselves there, and a "/**" at
// the end is what is in a folder, not the folder.
func ignoreGlob(p string) string {
	p = strings.NewReplacer("{", `\{`, "}", `\}`).Replace(p)
	if strings.HasSuffix(p, "/**") {
		p += "/*"
	}
	return p
}
