package permission

import (
	"path"
	"slices"
	"strings"
)

// fileless are commands whose words name no file that they would read or write.
var fileless = strings.Fields(`echo printf true false : exit return break continue shift export local declare typeset readonly unset set shopt read mapfile
	readarray getopts let trap umask ulimit times hash alias unalias test [ [[ sleep seq expr factor kill pkill killall basename dirname cd pushd popd dirs type which
	whereis pwd wait jobs fg bg disown uname id whoami groups hostname uptime ps pgrep nproc`)

// fileMatcher matches rules about files against a line. What the words of the line may name
// is found once, for all rules.
type fileMatcher struct {
	at    *Question
	line  *Line
	words []namedWord
}

// namedWord is a word of a command, with the files that it may name.
type namedWord struct {
	text    string
	command *Command
	// places are what it names for certain, names what it may.
	places []place
	names  [][]rune
}

func newFileMatcher(q *Question, f *facts) *fileMatcher {
	h := &fileMatcher{at: q.from(f.cwd), line: f.line}
	for i := range f.line.Commands {
		c := &f.line.Commands[i]
		if slices.Contains(fileless, path.Base(c.Words[0])) || strings.HasPrefix(c.Words[0], "-") {
			continue
		}
		for k, w := range c.args {
			if k > 0 && !c.carriesText(k) {
				h.words = append(h.words, h.named(c, w))
			}
		}
		for _, file := range c.files {
			h.words = append(h.words, h.named(c, word{text: file}))
		}
	}
	return h
}

// carriesText says that an argument is a message: no file of that name is opened.
func (c *Command) carriesText(i int) bool {
	before := c.Words[i-1]
	return path.Base(c.Words[0]) == "git" && (before == "-m" || before == "--message" || before == "-am") || strings.HasPrefix(c.Words[i], "--message=")
}

// named finds the files that a word may name: the word itself, and what follows the marks
// after which programs take the name of a file (--file=x, -fx, @x, HEAD:x).
func (h *fileMatcher) named(c *Command, w word) namedWord {
	n := namedWord{text: w.text, command: c}
	names := w.names
	if names == nil {
		names = [][]rune{shellPattern(strings.ReplaceAll(w.text, `\`, `\\`))}
	}
	for _, name := range names {
		for _, part := range partsOf(name) {
			if slices.ContainsFunc(part, func(c rune) bool { return c < 0 }) {
				n.names = append(n.names, absoluteName(part, h.at.Cwd, h.line.moved))
			} else if len(part) > 0 {
				n.places = append(n.places, h.at.placeOf(string(part)))
				if h.line.moved && part[0] != '/' {
					n.names = append(n.names, absoluteName(part, h.at.Cwd, true))
				}
			}
		}
	}
	return n
}

// maxParts is how many names are looked for in one word.
const maxParts = 8

// partsOf returns a name and the names that may stand within it.
func partsOf(name []rune) [][]rune {
	if len(name) == 0 {
		return nil
	}
	out := [][]rune{name}
	if len(name) > 2 && name[0] == '-' && name[1] != '-' {
		out = append(out, name[2:])
	}
	for i, c := range name {
		if len(out) >= maxParts {
			break
		}
		if c == '=' || c == ':' || c == '@' || c == ',' {
			out = append(out, name[i+1:])
		}
		if c == ':' && i > 0 {
			out = append(out, name[:i])
		}
	}
	if name[0] == '-' {
		out = out[1:]
	}
	return out
}

// matchFiles matches a rule about files against what a line names: what it writes to, what
// it reads, and what its words may mean.
func (h *ruleMatcher) matchFiles(r *rule) (verdict, string) {
	reading, writing := r.forbids()
	if r.tool == nil || (!writing && !reading) {
		return misses, ""
	}
	if h.files == nil {
		h.files = newFileMatcher(h.q, h.f)
	}
	v, what := misses, ""
	raise := func(got verdict, name string) {
		if got > v {
			v, what = got, visibleText(name)
		}
	}
	if writing {
		for _, w := range h.f.line.Writes {
			raise(h.matchWrite(r, w))
		}
	}
	if reading {
		for _, w := range h.f.line.inputs {
			raise(h.files.matchInput(r, w))
		}
	}
	for i := range h.files.words {
		w := &h.files.words[i]
		if (reading || writing && !w.command.ReadOnly) && v == misses && h.files.mayName(r, w) {
			raise(may, w.text+" in "+quoteCommand(w.command))
		}
	}
	return v, what
}

// matchWrite matches a rule against a file that a redirection writes.
func (h *ruleMatcher) matchWrite(r *rule, w Write) (verdict, string) {
	switch {
	case w.harmless():
		return misses, ""
	case !w.Known:
		return may, "a file that is known only when it runs"
	}
	v, _ := r.matchPath(h.files.at.placeOf(w.Path), h.q.Root)
	return v, w.Path
}

// matchInput matches a rule against a file that a redirection reads.
func (h *fileMatcher) matchInput(r *rule, w word) (verdict, string) {
	if w.known() && !w.splits {
		if v, _ := r.matchPath(h.at.placeOf(w.text), h.at.Root); v == matches && !h.line.moved {
			return matches, w.text
		}
	}
	n := h.named(&Command{Words: []string{"<"}}, w)
	if h.mayName(r, &n) {
		return may, w.text
	}
	return misses, ""
}

// mayName says that a word may name a file that the rule is about.
func (h *fileMatcher) mayName(r *rule, w *namedWord) bool {
	for i := range w.places {
		if v, _ := r.matchPath(w.places[i], h.at.Root); v == matches {
			return true
		}
	}
	return slices.ContainsFunc(w.names, func(n []rune) bool { return r.mayTake(n, h.at.Root) })
}
