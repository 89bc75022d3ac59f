package permission

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// isShell says that a program reads the language that this package parses.
func isShell(name string) bool {
	switch name {
	case "sh", "bash", "dash", "ash", "ksh", "ksh93", "mksh", "zsh", "rbash", "posh", "yash":
		return true
	}
	return false
}

// shell follows sh -c; a shell that reads from elsewhere is hidden.
func (a *analyser) shell(name string, words []word, deep int) wrapped {
	line, i := false, 1
	for ; i < len(words); i++ {
		t := words[i].text
		if !words[i].known() && (words[i].splits || strings.HasPrefix(t, string(hole))) {
			a.hiddenf("what %q runs is known only when it runs", show(words))
			return wrapped{followed: true}
		}
		if t == "--" || t == "-" {
			i++
			break
		}
		if !strings.HasPrefix(t, "-") && !strings.HasPrefix(t, "+") {
			break
		}
		switch {
		case t == "--version" || t == "--help":
			return wrapped{followed: true}
		case t == "--rcfile" || t == "--init-file":
			a.hiddenf("%s reads a file of commands first", name)
			i++
		case strings.HasPrefix(t, "--"):
		case strings.Contains(t, "s") && t[0] == '-' && !strings.Contains(t, "c"):
			a.hiddenf("%s runs what it reads", name)
		default:
			line = line || (t[0] == '-' && strings.Contains(t, "c"))
			if strings.ContainsAny(t[1:], "oO") {
				i++
			}
		}
	}
	switch {
	case i >= len(words):
		a.hiddenf("%s runs what it reads", name)
	case line:
		a.joined(words[i:i+1], name, deep)
		return wrapped{wrapper: ownFolder(words[0].text), followed: true}
	default:
		a.file(name, words[i])
	}
	return wrapped{followed: true}
}

// file is a script that a shell reads.
func (a *analyser) file(name string, w word) {
	if !w.known() || w.text == "-" || strings.HasPrefix(w.text, "/dev/") || strings.HasPrefix(w.text, "/proc/") {
		a.hiddenf("%s runs what it reads", name)
	}
}

// source follows "." and source.
func (a *analyser) source(words []word) wrapped {
	if len(words) > 1 {
		a.file(words[0].text, words[1])
	}
	return wrapped{followed: true}
}

// isScript says that what the command runs is a file of the workspace.
func (c *Command) isScript() bool {
	name := c.Words[0]
	if !c.system() {
		return true
	}
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	return !c.Wrapper && !c.ReadOnly && (isShell(name) || isInterpreter(name) || name == "." || name == "source")
}

// alias gives a command another name.
func (a *analyser) alias(words []word) wrapped {
	for _, w := range words[1:] {
		if strings.Contains(w.text, "=") || !w.known() {
			a.hiddenf("an alias changes what commands run")
		}
	}
	return wrapped{followed: true}
}

// exports is export and its like where they are commands like others.
func (a *analyser) exports(name string, words []word) wrapped {
	for _, w := range words[1:] {
		key, _, isSet := strings.Cut(w.text, "=")
		switch {
		case strings.ContainsRune(key, hole) || strings.Contains(key, "["):
			a.doubtf("%s gets a name that is known only when it runs", name)
		case strings.HasPrefix(key, "-"):
			if strings.ContainsAny(key, "in") && name != "export" {
				a.doubtf("%s %s evaluates the text of a variable", name, key)
			}
		case isSet:
			a.assigned(key)
		}
	}
	return wrapped{followed: true}
}

// test evaluates an index if it is asked whether a variable is set.
func (a *analyser) test(name string, words []word) wrapped {
	for i, w := range words {
		dynamic := w.splits && i > 0
		if (w.text == "-v" || w.text == "-R" || dynamic) && i+1 < len(words) {
			if next := words[i+1]; !next.known() || strings.Contains(next.text, "[") {
				if w.text == "-v" || w.text == "-R" {
					a.doubtf("%s -v evaluates an index", name)
				}
			}
		}
	}
	return wrapped{followed: true}
}

// builtin knows what a shell does itself that may run something else.
func (a *analyser) builtin(name string, words []word) wrapped {
	for i, w := range words[1:] {
		option := strings.HasPrefix(w.text, "-")
		switch {
		case name == "hash" && option && strings.Contains(w.text, "p"),
			name == "enable" && option && strings.Contains(w.text, "f"),
			name == "bind", name == "complete" && option, name == "compgen" && option,
			(name == "mapfile" || name == "readarray") && option && strings.Contains(w.text, "C"):
			a.hiddenf("%q changes what commands run", show(words))
		case name == "set" || name == "shopt" || name == "hash" || name == "enable" || name == "complete" || name == "compgen":
		case name == "let":
			a.letText(w)
		case name == "printf":
			if i == 0 && strings.HasPrefix(w.text, "-v") {
				a.named(name, w)
				if len(words) > 2 {
					a.named(name, words[2])
				}
			}
			return wrapped{followed: true}
		default:
			a.named(name, w)
		}
	}
	return wrapped{followed: true}
}

// named is a word that a builtin takes as the name of a variable.
func (a *analyser) named(name string, w word) {
	if !w.known() || strings.Contains(w.text, "[") {
		a.doubtf("%s evaluates an index", name)
	}
	if syntax.ValidName(w.text) {
		a.assigned(w.text)
	}
}

// letText is arithmetic in a word.
func (a *analyser) letText(w word) {
	if !w.known() || strings.ContainsAny(w.text, "[$`") {
		a.doubtf("let evaluates a text")
	}
}

// isInterpreter says that a program runs code in another language.
func isInterpreter(name string) bool {
	trimmed := strings.TrimRight(name, "0123456789.")
	switch trimmed {
	case "python", "pypy", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "luajit", "Rscript", "osascript",
		"tclsh", "wish", "guile", "sbcl", "ghci", "runghc", "jshell", "groovy", "scala", "elixir", "erl", "julia", "irb", "ipython", "ts-node", "tsx":
		return true
	}
	return false
}

// interpreter says whether code stands in the arguments or comes from stdin.
func interpreter(words []word) wrapped {
	if len(words) == 2 && (words[1].text == "--version" || words[1].text == "-V" || words[1].text == "-v") {
		return wrapped{followed: true}
	}
	for _, w := range words[1:] {
		t := w.text
		switch {
		case !w.known():
			return wrapped{unknown: "its code is known only when it runs"}
		case t == "-" || strings.HasPrefix(t, "/dev/") || strings.HasPrefix(t, "/proc/"):
			return wrapped{unknown: "it runs code that it reads"}
		case t == "eval" || strings.HasPrefix(t, "--eval") || strings.HasPrefix(t, "--exec") || strings.HasPrefix(t, "--print") || strings.HasPrefix(t, "--run"):
			return wrapped{unknown: "it runs code in its arguments"}
		case strings.HasPrefix(t, "-") && !strings.HasPrefix(t, "--") && strings.ContainsAny(t[1:], "ceErRpxB"):
			return wrapped{unknown: "it runs code in its arguments"}
		case t == "-m":
			return wrapped{}
		case !strings.HasPrefix(t, "-"):
			return wrapped{} // a file of code
		}
	}
	return wrapped{unknown: "it runs code that it reads"}
}
