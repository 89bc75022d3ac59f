package permission

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"agentd/event"
	"agentd/internal/clip"
	"agentd/tool/toolkind"
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
	// Resolve follows a path as the process does that starts the program: to a file
	// without links, and its identity. What it can't tell is refused; nil tells nothing.
	Resolve func(path string) (file string, id FileID, ok bool)
}

// Refusal says which rule forbids a start.
type Refusal struct {
	// RuleRef and Decision (deny or ask) are the rule's. Without a rule what would run
	// can't be told, so that any of them could be meant.
	RuleRef, Decision string
	// Command is what would have run, and Reason why it doesn't, for people.
	Command, Reason string
}

// Guard checks deny and ask rules against programs where they start. The analysis of a
// line decides what to ask beforehand; the guard is what still holds when a program
// was started in a way that no reading of the line could tell.
//
// A rule refuses only what it matches for certain. Where a program may start another
// one, nothing is refused: the other start is judged by itself. A dynamic loader starts
// nothing, it becomes the program: where that can't be told, it is refused. A shell or an
// interpreter runs a script without a start: the file that it is given is judged as if it
// had been started.
//
// A Guard may be used by many goroutines.
type Guard struct {
	rules []rule
	// names are the first words of the rules' patterns, by the program they mean.
	names map[FileID][]string
	// paths are those of these words that are paths.
	paths []string
	// multiCall are the programs of the PATH that do the work of the name that they are
	// called by: rules about one name have the same file as those about another.
	multiCall []FileID
	answered  *Answered
	lookup    func(name string) (FileID, bool)
}

// NewGuard returns nil if no deny or ask rule with a pattern is about shell commands.
// answered is what a person was asked and allowed for this call; nil if nothing. lookup
// finds a program by its name in the sandbox's PATH, and a path with a slash in it by
// following it; nil finds nothing.
func NewGuard(rules []event.PolicyRule, answered *Answered, lookup func(name string) (FileID, bool)) *Guard {
	g := &Guard{names: map[FileID][]string{}, answered: answered, lookup: lookup}
	if lookup == nil {
		g.lookup = func(string) (FileID, bool) { return FileID{}, false }
	}
	for _, r := range readRules(rules) {
		if r.Decision == Allow || r.Match == "" || r.text == nil || r.text.all || !r.applies(string(toolkind.Shell)) {
			continue
		}
		g.rules = append(g.rules, r)
		g.learnName(r.text)
	}
	if len(g.rules) == 0 {
		return nil
	}
	for _, name := range multiCallNames {
		if id, ok := g.lookup(name); ok {
			g.multiCall = append(g.multiCall, id)
		}
	}
	return g
}

// learnName finds the program that the first word of a pattern means.
func (g *Guard) learnName(pattern *glob) {
	word := pattern.program()
	if word == "" {
		return // it goes on in a wildcard: it is matched by names alone
	}
	if strings.Contains(word, "/") && !slices.Contains(g.paths, word) {
		g.paths = append(g.paths, word)
	}
	if id, ok := g.lookup(word); ok && !slices.Contains(g.names[id], word) {
		g.names[id] = append(g.names[id], word)
	}
}

// Judge reports whether a rule forbids the start, and which.
func (g *Guard) Judge(s Start) (Refusal, bool) {
	a := newAnalyser("", 0, &effort{left: maxEffort, guessed: map[string]*Line{}})
	a.certain = true
	doubt := a.analyseStart(g, s, 0)
	for i := range a.line.Commands {
		c := &a.line.Commands[i]
		for k := range g.rules {
			if r := &g.rules[k]; r.text.matchCommand(c) == matches && !g.answered.covers(r, c) {
				return r.refuse(c), true
			}
		}
	}
	if doubt != "" {
		return Refusal{Decision: Deny, Command: clip.Text(strings.Join(s.Argv, " "), 200), Reason: doubt}, true
	}
	return Refusal{}, false
}

// refuse says that the rule forbids a command.
func (r *rule) refuse(c *Command) Refusal {
	out := Refusal{RuleRef: r.ref, Decision: r.Decision, Command: clip.Text(c.Text(), 200)}
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

// analyseStart finds the commands that a start is, under every name that its program goes by.
// It returns why that can't be told, if it can't.
func (a *analyser) analyseStart(g *Guard, s Start, deep int) (doubt string) {
	var args []string
	if len(s.Argv) > 0 {
		args = s.Argv[1:]
	}
	if isLoader(path.Base(s.Path)) {
		doubt = a.analyseLoader(g, s, args, deep)
	}
	for _, name := range g.namesOf(s) {
		if sub, ok := strings.CutPrefix(name, "git-"); ok {
			a.addCommand(knownWords(slices.Concat([]string{"git", sub}, args)...), 0)
		}
		at := len(a.line.Commands)
		a.addCommand(knownWords(slices.Concat([]string{name}, args)...), 0)
		if at < len(a.line.Commands) {
			if why := a.interpreted(g, s, a.line.Commands[at].scripts); why != "" {
				doubt = why
			}
		}
	}
	return doubt
}

// maxLoaders bounds loaders that load loaders.
const maxLoaders = 3

// analyseLoader finds the commands that a dynamic loader becomes.
func (a *analyser) analyseLoader(g *Guard, s Start, args []string, deep int) (doubt string) {
	argv, ok := loaded(args)
	if ok && len(argv) == 0 {
		return "" // it says what it is
	}
	if !ok || deep == maxLoaders || s.Resolve == nil {
		return "it is unknown which program the dynamic loader would run"
	}
	file, id, ok := s.Resolve(argv[0])
	if ok {
		doubt = a.analyseStart(g, Start{Path: file, ID: id, Argv: argv, Resolve: s.Resolve}, deep+1)
	}
	if !ok || !strings.Contains(argv[0], "/") { // a bare name is searched for like a library
		return fmt.Sprintf("it is unknown which file %q means to the dynamic loader", clip.Text(argv[0], 200))
	}
	return doubt
}

// namesOf returns the names that a program goes by: those of its file, the one it was
// called by, and those in rules that mean the same file. A program that is many is
// what it is called.
func (g *Guard) namesOf(s Start) []string {
	called := ""
	if len(s.Argv) > 0 {
		called = strings.TrimPrefix(path.Base(s.Argv[0]), "-") // a login shell has a dash before its name
	}
	names := []string{path.Base(s.Path)}
	if isMultiCall(names[0]) && called != "" && !strings.HasPrefix(called, "busybox") {
		names = nil
	}
	// A file's name proves nothing, so that what rules say of the file counts as well.
	for _, n := range append([]string{called}, g.ruleNames(s)...) {
		if n != "" && n != "." && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// ruleNames returns the names in rules that mean a file. A path in a rule means what is
// there now: the file may have been made, or replaced, since the command began.
func (g *Guard) ruleNames(s Start) []string {
	if slices.Contains(g.multiCall, s.ID) {
		return nil
	}
	names := g.names[s.ID]
	for _, p := range g.paths {
		if s.Resolve == nil || slices.Contains(names, p) {
			continue
		}
		if _, id, ok := s.Resolve(p); ok && id == s.ID {
			names = append(slices.Clip(names), p)
		}
	}
	return names
}

// multiCallNames are programs that do the work of the name that they are called by.
var multiCallNames = []string{"busybox", "toybox", "coreutils"}

func isMultiCall(name string) bool {
	return slices.Contains(multiCallNames, name) || strings.HasPrefix(name, "busybox.")
}

// Options of the dynamic loaders of glibc and musl: with a value behind them, and
// without.
var (
	loaderValues = []string{"--library-path", "--preload", "--audit", "--argv0", "--inhibit-rpath", "--glibc-hwcaps-prepend", "--glibc-hwcaps-mask"}
	loaderFlags  = []string{"--list", "--verify", "--inhibit-cache", "--list-tunables", "--list-diagnostics", "--help", "--version"}
)

// loaded returns the arguments of the program that a dynamic loader is told to run, from
// its path on. It isn't ok if an option is unknown. A single dash begins a path.
func loaded(args []string) (argv []string, ok bool) {
	for i := 0; i < len(args); i++ {
		name, _, hasValue := strings.Cut(args[i], "=")
		switch {
		case args[i] == "--":
			return args[i+1:], true
		case !strings.HasPrefix(args[i], "--"):
			return args[i:], true
		case slices.Contains(loaderValues, name):
			if !hasValue {
				i++
			}
		case !slices.Contains(loaderFlags, args[i]):
			return nil, false
		}
	}
	return nil, true
}
