package permission

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// maxScriptDepth is how far scripts that run scripts are followed.
const maxScriptDepth = 4

// namedFiles returns the paths of the existing files that a line names, and that the
// shell scripts name which it runs, each followed by the hash of its content: what an
// approval to run outside is for, besides the line.
func (l *Line) namedFiles(q *Question) []string {
	if q.Contents == nil {
		return nil
	}
	hashes := map[string]string{}
	l.hashFiles(q, hashes, maxScriptDepth)
	var out []string
	for _, p := range slices.Sorted(maps.Keys(hashes)) {
		out = append(out, p, hashes[p])
	}
	return out
}

// hashFiles adds the hashes of the files that a line names.
func (l *Line) hashFiles(q *Question, hashes map[string]string, depth int) {
	hash := func(name string) {
		p := q.placeOf(name).abs
		if _, done := hashes[p]; done {
			return
		}
		if h, ok := q.Contents(p); ok {
			hashes[p] = h
		}
	}
	for i := range l.Commands {
		c := &l.Commands[i]
		if strings.Contains(c.Words[0], "/") {
			hash(c.Words[0])
		}
		for _, w := range c.Words[1:] {
			for _, part := range partsOf([]rune(w)) {
				hash(string(part))
			}
		}
		if script, ok := c.script(q); ok && depth > 0 {
			script.hashFiles(q, hashes, depth-1)
		}
	}
	for _, p := range l.Inputs {
		hash(p)
	}
}

// repeatable says that an approval to run the line outside may hold for more than once:
// all that runs is known, and what it runs from files is pinned by their content. Only
// programs that are known to be self-contained are, and shell scripts of such programs:
// git, build tools and launchers run what files in their folder name, which an agent can
// write between two calls.
func (l *Line) repeatable(q *Question) bool { return q.Contents != nil && l.known(q, maxScriptDepth) }

// known says that all that a line runs is known, scripts of the shell included.
func (l *Line) known(q *Question, depth int) bool {
	if depth < 0 || len(l.Hidden) > 0 || len(l.Doubts) > 0 || l.moved || len(l.Commands) == 0 {
		return false
	}
	for i := range l.Commands {
		c := &l.Commands[i]
		if c.Unknown != "" || slices.ContainsFunc(c.Words, func(w string) bool { return strings.ContainsRune(w, hole) }) {
			return false
		}
		if c.selfContained {
			continue
		}
		if script, ok := c.script(q); !ok || !script.known(q, depth-1) {
			return false
		}
	}
	return !slices.ContainsFunc(l.Writes, func(w Write) bool { return !w.Known })
}

// script reads the shell script that a command runs, in the plain form: by a shell, or
// by its own name with a shell in its first line. What programs of other languages run
// isn't known from their files.
func (c *Command) script(q *Question) (*Line, bool) {
	file, byName := c.Words[0], true
	if c.system() {
		name := path.Base(c.Words[0])
		if !isShell(name) && name != "." && name != "source" || len(c.Words) < 2 || strings.HasPrefix(c.Words[1], "-") {
			return nil, false
		}
		file, byName = c.Words[1], false
	}
	if q.Text == nil {
		return nil, false
	}
	text, ok := q.Text(q.placeOf(file).abs)
	if !ok || byName && !startsShell(text) {
		return nil, false
	}
	return Analyse(text), true
}

// startsShell says that the first line of a script has a shell run it.
func startsShell(text string) bool {
	first, _, _ := strings.Cut(text, "\n")
	interpreter, ok := strings.CutPrefix(first, "#!")
	if !ok {
		return false
	}
	words := strings.Fields(interpreter)
	if len(words) == 2 && path.Base(words[0]) == "env" {
		words = words[1:]
	}
	return len(words) == 1 && isShell(path.Base(words[0]))
}
