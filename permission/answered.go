package permission

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// Answered is what a person was asked because of rules, and allowed, for one call. It
// lifts the rules for the commands that the line shows, and for no others: what a script
// of the line starts besides was not shown to anyone.
type Answered struct {
	// RuleRefs are the references ([RuleRef]) of the rules that asked.
	RuleRefs []string
	// Line is the command line that was shown.
	Line string

	once sync.Once
	// shown are the commands of the line in the form that shownAs has.
	shown []string
}

// covers says that the person who answered saw a command that a rule asks about.
func (a *Answered) covers(r *rule, c *Command) bool {
	if a == nil || r.Decision != Ask || !slices.Contains(a.RuleRefs, r.ref) {
		return false
	}
	a.once.Do(func() { a.shown = Analyse(a.Line).shownCommands() })
	text := shownAs(c.Words)
	return slices.ContainsFunc(a.shown, func(shown string) bool { return fillsHoles(shown, text) })
}

// shownCommands are the commands of a line, the scripts that they run, and what their
// arguments would be if they were run. The character NUL stands for what the line leaves
// open.
func (l *Line) shownCommands() []string {
	var out []string
	for i := range l.Commands {
		c := &l.Commands[i]
		out = append(out, shownAs(c.Words))
		for _, words := range c.scripts.words[:min(len(c.scripts.words), maxScriptMatches)] {
			out = append(out, shownAs(words))
		}
		if !c.plain && !c.Wrapper {
			for k := 1; k < len(c.Words) && k <= maxScriptMatches; k++ {
				out = append(out, shownAs(c.Words[k:]))
			}
		}
		for _, inner := range c.inner {
			out = append(out, inner.shownCommands()...)
		}
	}
	return out
}

// shownAs is a command with the bare name of its program.
func shownAs(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return path.Base(words[0]) + strings.Join(append([]string{""}, words[1:]...), " ")
}

// fillsHoles says that a text is what a shown one becomes when its holes are filled. A
// program's name is never filled in: what can't be read can't be approved.
func fillsHoles(shown, text string) bool {
	parts := strings.Split(shown, string(hole))
	if len(parts) == 1 {
		return shown == text
	}
	if !strings.Contains(parts[0], " ") || !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return strings.HasSuffix(text, parts[last])
}
