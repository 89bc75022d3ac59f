package permission

import (
	"slices"
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
	line, stdin, i := false, false, 1
	for ; i < len(words); i++ {
		t := words[i].text
		if words[i].mayBeOption() {
			a.hiddenf("what %q runs is known only when it runs", wordsText(words))
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
			stdin = true
		default:
			line = line || (t[0] == '-' && strings.Contains(t, "c"))
			if strings.ContainsAny(t[1:], "oO") {
				i++
			}
		}
	}
	switch {
	case i >= len(words) || stdin && !line:
		a.hiddenf("%s runs what it reads", name)
		return wrapped{followed: true, scripts: scripts{stdin: true}}
	case line:
		a.joinedCommand(words[i:i+1], name, deep)
		return wrapped{wrapper: ownFolder(words[0].text), followed: true}
	default:
		a.scriptFile(name, words[i])
		return wrapped{followed: true, scripts: scriptAt(words, i)}
	}
}

// scriptFile is a script that a shell reads.
func (a *analyser) scriptFile(name string, w word) {
	if mayBeStdin(w) {
		a.hiddenf("%s runs what it reads", name)
	}
}

// source follows "." and source.
func (a *analyser) source(words []word) wrapped {
	words = append(words[:1:1], skipEnd(words[1:])...)
	if len(words) > 1 {
		a.scriptFile(words[0].text, words[1])
		return wrapped{followed: true, scripts: scriptAt(words, 1)}
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
		key, value, isSet := strings.Cut(w.text, "=")
		switch {
		case strings.ContainsRune(key, hole) || strings.Contains(key, "["):
			a.doubtf("%s gets a name that is known only when it runs", name)
		case strings.HasPrefix(key, "-"):
			if strings.ContainsAny(key, "in") && name != "export" {
				a.doubtf("%s %s evaluates the text of a variable", name, key)
			}
		case isSet:
			a.assigned(key)
			a.declared(name, key, value)
		}
	}
	return wrapped{followed: true}
}

// testBuiltin evaluates an index if it is asked whether a variable is set.
func (a *analyser) testBuiltin(name string, words []word) wrapped {
	for i := 1; i+1 < len(words); i++ {
		w, next := words[i], words[i+1]
		asks := w.text == "-v" || w.text == "-R"
		switch {
		case asks && (!next.known() || strings.Contains(next.text, "[")),
			w.mayBeOption() && (strings.Contains(next.text, "[") || w.expands && next.mayBeOption()):
			a.doubtf("%s may evaluate an index", name)
		}
	}
	return wrapped{followed: true}
}

// builtinOptions are the options of what a shell does itself and may run or set
// something by. They end at the first operand.
var builtinOptions = map[string]optionTable{
	"hash": {short: "dlrtp:", ordered: true}, "enable": {short: "adnpsf:", ordered: true}, "printf": {short: "v:", ordered: true},
	"mapfile": {short: "td:n:O:s:u:C:c:", ordered: true}, "readarray": {short: "td:n:O:s:u:C:c:", ordered: true},
	"read": {short: "ersa:d:i:n:N:p:t:u:", ordered: true}, "wait": {short: "fnp:", ordered: true}, "unset": {short: "fvn", ordered: true},
	"getopts": {ordered: true}, "bind": {ordered: true}, "complete": {ordered: true}, "compgen": {ordered: true},
}

// builtin knows what a shell does itself that may run something else.
func (a *analyser) builtin(name string, words []word) wrapped {
	if name == "let" {
		for _, w := range words[1:] {
			a.letText(w)
		}
	}
	t, ok := builtinOptions[name]
	if !ok {
		return wrapped{followed: true}
	}
	p := t.parse(words[1:])
	switch {
	case p.has("p") && name == "hash", p.has("f") && name == "enable", p.has("C"), name == "bind" && len(words) > 1,
		p.doubt != "" && name != "printf" && name != "read" && name != "wait" && name != "unset":
		a.hiddenf("%q may change what commands run", wordsText(words))
	case p.doubt != "":
		a.doubtf("%s may set a variable that is known only when it runs", name)
	}
	for _, o := range p.options {
		if o.name == "v" && name == "printf" || o.name == "a" && name == "read" || o.name == "p" && name == "wait" {
			a.variableName(name, o.value)
		}
	}
	switch name {
	case "read", "mapfile", "readarray", "unset", "getopts":
		for _, w := range p.operands {
			a.variableName(name, w)
		}
	}
	return wrapped{followed: true}
}

// variableName is a word that a builtin takes as the name of a variable.
func (a *analyser) variableName(name string, w word) {
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

// interpreterOptions are the options of interpreters that neither are nor name code.
var interpreterOptions = map[string]optionTable{
	"python": {short: "bBdEhIOPqRsSuvVxW:X:m:", ordered: true}, "pypy": {short: "bBdEhIOPqRsSuvVxW:X:m:", ordered: true},
	"node": {short: "hvi", long: "test watch no-warnings trace-warnings enable-source-maps experimental-vm-modules max-old-space-size= check version help", ordered: true},
	"perl": {short: "wWtTcv", ordered: true}, "ruby": {short: "wvc", ordered: true}, "php": {short: "nlv", ordered: true},
}

// moduleTools are modules of Python's that run no code from their arguments.
var moduleTools = strings.Fields(`pytest unittest venv pip http.server json.tool compileall py_compile build ensurepip black ruff mypy flake8 isort pylint tox`)

// interpreter says whether code stands in the arguments or comes from stdin. A file of
// code is a program like others.
func interpreter(name string, words []word) wrapped {
	if len(words) == 2 && (words[1].text == "--version" || words[1].text == "-V" || words[1].text == "-v") {
		return wrapped{followed: true}
	}
	t := interpreterOptions[strings.TrimRight(name, "0123456789.")]
	t.ordered = true
	p := t.parse(words[1:])
	if p.doubt != "" {
		return wrapped{unknown: "it may run code in its arguments: " + p.doubt, scripts: moduleScript(name, words)}
	}
	for _, o := range p.options {
		if o.name == "m" {
			w := wrapped{scripts: moduleScript(name, words)}
			if !slices.Contains(moduleTools, o.value.text) {
				w.unknown = "the module that it runs may take code from its arguments"
			}
			return w
		}
	}
	switch {
	case len(p.operands) == 0 && p.has("test"):
		return wrapped{}
	case len(p.operands) == 0:
		return wrapped{unknown: "it runs code that it reads", scripts: scripts{stdin: true}}
	case mayBeStdin(p.operands[0]) || slices.ContainsFunc(p.operands, func(w word) bool { return w.text == "-" }):
		s := anyScript(words)
		s.stdin = true
		return wrapped{unknown: "it runs code that it reads", scripts: s}
	case p.operands[0].text == "eval" || p.operands[0].text == "repl" || p.operands[0].text == "exec" || p.operands[0].text == "x":
		return wrapped{unknown: "it runs code in its arguments", scripts: anyScript(words)}
	case p.operands[0].text == "run":
		return wrapped{scripts: anyScript(words)} // deno and bun
	}
	return wrapped{scripts: scriptAt(words, len(words)-len(p.operands))}
}
