package permission

import (
	"path"
	"slices"
	"strings"
)

// namedFiles returns the paths of the existing files that a line names, each followed
// by the hash of its content: what an approval to run outside is for, besides the line.
func (l *Line) namedFiles(q *Question) []string {
	if q.Contents == nil {
		return nil
	}
	hashes := map[string]string{}
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
	}
	for _, p := range l.Inputs {
		hash(p)
	}
	paths := make([]string, 0, len(hashes))
	for p := range hashes {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	var out []string
	for _, p := range paths {
		out = append(out, p, hashes[p])
	}
	return out
}

// repeatable says that an approval to run the line outside may hold for more than once:
// all that runs is known, and what it runs from files is pinned by their content.
func (l *Line) repeatable(q *Question) bool {
	if q.Contents == nil || len(l.Hidden) > 0 || len(l.Doubts) > 0 || l.moved || len(l.Commands) == 0 {
		return false
	}
	for i := range l.Commands {
		c := &l.Commands[i]
		if c.Unknown != "" || slices.ContainsFunc(c.Words, func(w string) bool { return strings.ContainsRune(w, hole) }) {
			return false
		}
		if !c.Wrapper && !c.ReadOnly && !c.plain && !c.pinned(q) {
			return false
		}
	}
	return !slices.ContainsFunc(l.Writes, func(w Write) bool { return !w.Known })
}

// pinned says that what the command runs is one file, whose content is known.
func (c *Command) pinned(q *Question) bool {
	file := c.Words[0]
	if c.system() {
		name := path.Base(c.Words[0])
		if !isShell(name) && !isInterpreter(name) && name != "." && name != "source" {
			return false
		}
		// Only the plain form, in which the first word is the script.
		if len(c.Words) < 2 || strings.HasPrefix(c.Words[1], "-") {
			return false
		}
		file = c.Words[1]
	}
	_, ok := q.Contents(q.placeOf(file).abs)
	return ok
}
