package permission

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"agentd/internal/clip"
	"agentd/tool/toolkind"
)

// ruleMatcher matches rules against one call.
type ruleMatcher struct {
	q      *Question
	f      *facts
	allows []*rule
	// costly says why the call isn't matched; empty if it is.
	costly string
	// files is made for the first rule about files.
	files *fileMatcher
}

// matchRule says whether a deny or ask rule is about the call, and about which part.
func (h *ruleMatcher) matchRule(r *rule) (verdict, string) {
	here := r.applies(h.q.Tool.ToolName) || (h.f.shows && r.applies(string(toolkind.ReadFile)))
	switch {
	case here && r.tool == nil:
		return may, "this call: its pattern of tools is broken"
	case here && r.coversKind(h.f.kind):
		return matches, h.q.Tool.ToolName
	case h.costly != "" && r.concerns(h.q, h.f):
		return may, "this call: " + h.costly
	case h.f.kind == kindShell && h.f.line != nil:
		return h.matchShell(r, here)
	case !here:
		return misses, ""
	case h.f.unclear != "":
		return may, "this call: " + h.f.unclear
	case h.f.place != nil:
		v, _ := r.matchPath(*h.f.place, h.q.Root)
		return v, h.f.place.abs
	case r.text == nil:
		return may, "this call: its pattern is broken"
	default:
		return r.text.match(h.f.text), "this input"
	}
}

// matchShell matches a rule for commands, or one for files, against a line.
func (h *ruleMatcher) matchShell(r *rule, here bool) (verdict, string) {
	v, what := misses, ""
	if here {
		v, what = h.matchLine(r)
	}
	if v != matches && r.Match != "" {
		if fv, fw := h.matchFiles(r); fv > v {
			v, what = fv, fw
		}
	}
	return v, what
}

// matchLine matches a rule for commands against every simple command.
func (h *ruleMatcher) matchLine(r *rule) (verdict, string) {
	l := h.f.line
	if r.text == nil {
		return may, "this line: its pattern is broken"
	}
	v, what := misses, ""
	for i := range l.Commands {
		c := &l.Commands[i]
		switch got := h.matchProgram(r, c); {
		case got == matches:
			return matches, quoteCommand(c)
		case got == may && v == misses:
			v, what = may, quoteCommand(c)+", a part of which is known only when it runs"
		}
	}
	switch {
	case v == may:
		return v, what
	case h.f.unclear != "":
		return may, "this line: " + h.f.unclear
	case len(l.Doubts) > 0:
		return may, "this line: " + l.Doubts[0]
	}
	for i := range l.Commands {
		if why := h.hides(r, &l.Commands[i]); why != "" {
			return may, quoteCommand(&l.Commands[i]) + ": " + why
		}
	}
	return misses, ""
}

// matchProgram matches a rule against a command, and against the script that it runs.
func (h *ruleMatcher) matchProgram(r *rule, c *Command) verdict {
	v := r.text.matchCommand(c)
	if v != matches && strings.Contains(c.Words[0], "/") { // a bare name is no file of the folder
		v = h.matchPlace(r, c)
	}
	for _, words := range c.scripts.words[:min(len(c.scripts.words), maxScriptMatches)] { // beyond it is unknown what runs
		got := h.matchPlace(r, &Command{Words: words})
		if !c.scripts.certain {
			got = min(got, may)
		}
		v = max(v, got)
	}
	return v
}

// matchPlace matches a rule against a command by its words, and where the rule's first word
// is a path, also by where the command's leads: "sub/../x" is "./x".
func (h *ruleMatcher) matchPlace(r *rule, c *Command) verdict {
	v := r.text.matchCommand(c)
	program := r.text.program()
	if v == matches || !strings.Contains(program, "/") || strings.ContainsRune(c.Words[0], hole) {
		return v
	}
	named := &Command{Words: append([]string{program}, c.Words[1:]...)}
	at := h.q.from(h.f.cwd)
	switch {
	case h.f.line.moved && !path.IsAbs(c.Words[0]):
		if path.Base(program) == path.Base(c.Words[0]) {
			v = max(v, min(r.text.matchCommand(named), may))
		}
	case at.placeOf(program).real == at.placeOf(c.Words[0]).real:
		v = max(v, r.text.matchCommand(named))
	}
	return v
}

// hides says why a command may run what the rule is about, although it isn't it.
func (h *ruleMatcher) hides(r *rule, c *Command) string {
	if c.Unknown != "" {
		if !h.vouched(c) {
			return c.Unknown
		}
		if word, _, _ := strings.Cut(r.text.prefix, " "); strings.Contains(strings.Join(c.Words, " "), word) {
			return "its code names " + word
		}
	}
	if c.plain {
		return ""
	}
	if text, starts := c.arguments(); r.text.search("", text, starts) == matches {
		return "it may run its arguments"
	}
	if slices.ContainsFunc(c.inner, r.guessed) {
		return "it may run its arguments"
	}
	return ""
}

// guessed says that an argument, if it is run as a line, may run what the rule is
// about.
func (r *rule) guessed(l *Line) bool {
	word, _, _ := strings.Cut(r.text.prefix, " ")
	if word != "" && slices.Contains(strings.FieldsFunc(l.text, notInName), word) {
		return true
	}
	if l.broken {
		return false // prose, most likely
	}
	if len(l.Hidden) > 0 || len(l.Doubts) > 0 {
		return true
	}
	return slices.ContainsFunc(l.Commands, func(c Command) bool {
		return c.Unknown != "" || slices.ContainsFunc(c.inner, r.guessed) || r.text.matchCommand(&c) != misses
	})
}

// notInName separates what may be names of programs.
func notInName(c rune) bool {
	inName := c == '-' || c == '_' || c == '.' || c == '+' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c > 127
	return !inName
}

// vouched says that an allow rule names the very program whose inner working
// can't be seen. A glob that takes any program doesn't.
func (h *ruleMatcher) vouched(c *Command) bool {
	return slices.ContainsFunc(h.allows, func(r *rule) bool {
		if r.Source == SourceProject || !r.applies(h.q.Tool.ToolName) || r.text == nil || len(c.Words) == 0 {
			return false
		}
		program, _, _ := strings.Cut(r.text.prefix, " ")
		return program == c.Words[0] && allows(r, c)
	})
}

// allows says that the rule's pattern takes a command for certain. A program
// beside the system's folders is known by its whole path alone.
func allows(r *rule, c *Command) bool {
	if len(c.Words) == 0 || strings.ContainsAny(c.Words[0], " \t\n") || r.text == nil {
		return false
	}
	if r.text.match(strings.Join(c.Words, " ")) == matches {
		return true
	}
	if !c.system() {
		return false
	}
	words := append([]string{path.Base(c.Words[0])}, c.Words[1:]...)
	return r.text.match(strings.Join(words, " ")) == matches
}

func quoteCommand(c *Command) string { return fmt.Sprintf("%q", clip.Text(c.Text(), 200)) }

// cover returns the allow rules that together cover the whole call, or none.
func (h *ruleMatcher) cover() []finding {
	var used []finding
	for _, r := range h.allows {
		if r.coversKind(h.f.kind) && r.applies(h.q.Tool.ToolName) {
			used = append(used, finding{r, h.q.Tool.ToolName})
		}
	}
	if len(used) > 0 || h.f.unclear != "" || h.costly != "" {
		return used
	}
	if h.f.kind == kindShell {
		return h.coverLine()
	}
	for _, r := range h.allows {
		if h.f.place != nil {
			if _, both := r.matchPath(*h.f.place, h.q.Root); both {
				used = append(used, finding{r, h.f.place.abs})
			}
			continue
		}
		if r.text != nil && r.text.match(h.f.text) == matches {
			used = append(used, finding{r, "this input"})
		}
	}
	return used
}

// coverLine needs a rule for every command and every written file that the mode doesn't
// let run by itself. What a rule matches it covers, reads included.
func (h *ruleMatcher) coverLine() []finding {
	if len(h.f.line.Doubts) > 0 {
		return nil
	}
	var used []finding
	for i := range h.f.line.Commands {
		c := &h.f.line.Commands[i]
		n := len(used)
		for _, r := range h.allows {
			if r.applies(h.q.Tool.ToolName) && r.coversCommand(c) {
				used = append(used, finding{r, quoteCommand(c)})
			}
		}
		if len(used) == n && !c.Wrapper && !h.q.runsByMode(h.f, c) {
			return nil
		}
	}
	for _, p := range h.f.line.Inputs {
		if h.q.Mode == ModeUntrusted && !h.f.wordInside(h.q, p) {
			return nil
		}
	}
	for _, w := range h.f.line.Writes {
		if w.harmless() {
			continue
		}
		if found := h.coverWrite(w); found != nil {
			used = append(used, *found)
		} else if !h.q.writesByMode(h.f, w) {
			return nil
		}
	}
	return used
}

// coverWrite finds an allow rule for a file that a redirection writes.
func (h *ruleMatcher) coverWrite(w Write) *finding {
	if !w.Known {
		return nil
	}
	pl := h.q.from(h.f.cwd).placeOf(w.Path)
	for _, r := range h.allows {
		if !r.applies(string(toolkind.WriteFile)) {
			continue
		}
		_, both := r.matchPath(pl, h.q.Root)
		if both || (r.Match == "" && pl.inside) {
			return &finding{r, pl.abs}
		}
	}
	return nil
}
