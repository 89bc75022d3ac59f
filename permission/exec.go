package permission

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"agentd/event"
)

// FileID is a program's identity on this machine: device and inode.
type FileID struct{ Dev, Ino uint64 }

// Start is a program that a sandboxed command is about to start.
type Start struct {
	// Path is absolute, with symbolic links resolved, as seen inside the sandbox.
	Path string
	// ID is the identity of the file at Path.
	ID FileID
	// Argv are the real arguments; Argv[0] as the caller gave it.
	Argv []string
	// Dir is its working directory.
	Dir string
}

// Refusal says which rule forbids a start.
type Refusal struct {
	// RuleRef and Decision (deny or ask) are the rule's.
	RuleRef, Decision string
	// Command is what would have run, and Reason why it doesn't, for people.
	Command, Reason string
}

// Guard holds deny and ask rules against programs where they start. The analysis of a
// line decides what to ask beforehand; the guard is what still holds when a program
// was started in a way that no reading of the line could tell.
//
// A rule refuses only what it matches for certain. Where a program may start another
// one, nothing is refused: the other start is judged by itself.
//
// A Guard may be used by many goroutines.
type Guard struct {
	rules []rule
	// names are the first words of the rules' patterns, by the program they mean.
	names  map[FileID][]string
	lookup func(name string) (FileID, bool)
}

// NewGuard returns nil if no deny or ask rule with a pattern is about shell commands.
// answered are the references ([RuleRef]) of ask rules that a person answered for this
// call already: they refuse nothing. lookup finds a program by its name in the
// sandbox's PATH, and a path with a slash in it by following it; nil finds nothing.
func NewGuard(rules []event.PolicyRule, answered []string, lookup func(name string) (FileID, bool)) *Guard {
	g := &Guard{names: map[FileID][]string{}, lookup: lookup}
	if lookup == nil {
		g.lookup = func(string) (FileID, bool) { return FileID{}, false }
	}
	for _, r := range readRules(rules) {
		if r.Decision == Allow || r.Match == "" || r.text == nil || r.text.all || !r.applies("shell") {
			continue
		}
		if r.Decision == Ask && slices.Contains(answered, r.ref) {
			continue
		}
		g.rules = append(g.rules, r)
		g.learnName(r.text)
	}
	if len(g.rules) == 0 {
		return nil
	}
	return g
}

// learnName finds the program that the first word of a pattern means.
func (g *Guard) learnName(pattern *glob) {
	word, _, whole := strings.Cut(pattern.prefix, " ")
	if !whole && !pattern.literal() || word == "" {
		return // the word goes on in a wildcard: it is matched by names alone
	}
	if id, ok := g.lookup(word); ok && !slices.Contains(g.names[id], word) {
		g.names[id] = append(g.names[id], word)
	}
}

// Judge reports whether a rule forbids the start, and which.
func (g *Guard) Judge(s Start) (Refusal, bool) {
	a := newAnalyser("", 0, &effort{left: maxEffort, guessed: map[string]*Line{}})
	a.certain = true
	a.start(g, s, 0)
	for i := range a.line.Commands {
		c := &a.line.Commands[i]
		for k := range g.rules {
			if r := &g.rules[k]; r.text.matchCommand(c) == matches {
				return r.refuse(c), true
			}
		}
	}
	return Refusal{}, false
}

// refuse says that the rule forbids a command.
func (r *rule) refuse(c *Command) Refusal {
	out := Refusal{RuleRef: r.ref, Decision: r.Decision, Command: clip(c.Text(), 200)}
	verb := "denies"
	if r.Decision == Ask {
		verb = "asks about"
	}
	out.Reason = fmt.Sprintf("a rule %s %q (%s)", verb, out.Command, r.ref)
	if r.Reason != "" {
		out.Reason += ": " + r.Reason
	}
	return out
}

// start finds the commands that a start is, under every name that its program goes by.
func (a *analyser) start(g *Guard, s Start, deep int) {
	var args []string
	if len(s.Argv) > 0 {
		args = s.Argv[1:]
	}
	if isLoader(path.Base(s.Path)) && deep == 0 {
		if program, rest := loaded(args); program != "" {
			id, _ := g.lookup(absolute(program, s.Dir))
			a.start(g, Start{Path: absolute(program, s.Dir), ID: id, Argv: rest, Dir: s.Dir}, deep+1)
		}
	}
	for _, name := range g.namesOf(s) {
		if sub, ok := strings.CutPrefix(name, "git-"); ok {
			a.run(known(slices.Concat([]string{"git", sub}, args)...), 0)
		}
		a.run(known(slices.Concat([]string{name}, args)...), 0)
	}
}

// namesOf returns the names that a program goes by: those of its file, the one it was
// called by, and those in rules that mean the same file. A program that is many is
// what it is called.
func (g *Guard) namesOf(s Start) []string {
	called := ""
	if len(s.Argv) > 0 {
		called = strings.TrimPrefix(path.Base(s.Argv[0]), "-") // a login shell has a dash before its name
	}
	file := path.Base(s.Path)
	if isMultiCall(file) {
		if called == "" || strings.HasPrefix(called, "busybox") {
			called = file
		}
		return []string{called}
	}
	names := []string{file}
	for _, n := range append([]string{called}, g.names[s.ID]...) {
		if n != "" && n != "." && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// isMultiCall says that a program does the work of the name that it is called by.
func isMultiCall(name string) bool {
	return name == "busybox" || name == "toybox" || name == "coreutils" || strings.HasPrefix(name, "busybox.")
}

// loaded returns the program that a dynamic loader is told to run, with the arguments
// from the program's name on.
func loaded(args []string) (program string, argv []string) {
	for i := 0; i < len(args); i++ {
		switch {
		case !strings.HasPrefix(args[i], "-"):
			return args[i], args[i:]
		case slices.Contains([]string{"--library-path", "--preload", "--audit", "--argv0", "--inhibit-rpath", "--glibc-hwcaps-prepend", "--glibc-hwcaps-mask"}, args[i]):
			i++
		}
	}
	return "", nil
}

// absolute makes a path absolute, from a folder.
func absolute(p, dir string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	return path.Join("/", dir, p)
}
