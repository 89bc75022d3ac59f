package permission

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bash runs text as code in more places than in commands: arithmetic evaluates
// the content of variables, and an array's index within it may be a command
// substitution. This file finds those places.

// taint remembers variables whose text comes from somewhere.
func (a *analyser) taint(n syntax.Node) {
	mark := func(name *syntax.Lit) {
		if name == nil {
			a.taintAll = true
			return
		}
		if a.tainted == nil {
			a.tainted = map[string]bool{}
		}
		a.tainted[name.Value] = true
	}
	switch n := n.(type) {
	case *syntax.Assign:
		a.arrays = a.arrays || n.Array != nil || n.Index != nil
		if n.Array != nil || !isNumeric(n.Value) {
			mark(n.Name)
		}
	case *syntax.WordIter:
		if slices.ContainsFunc(n.Items, func(w *syntax.Word) bool { return !isNumeric(w) }) || len(n.Items) == 0 {
			mark(n.Name)
		}
	case *syntax.CallExpr:
		if len(n.Args) == 0 {
			return
		}
		switch name := wordOf(n.Args[0]).text; name {
		case "read", "mapfile", "readarray", "getopts", "printf":
			a.arrays = a.arrays || name == "mapfile" || name == "readarray" || name == "read" && hasOption(a.words(n.Args[1:]), "a", nil)
			a.taintAll = a.taintAll || wordOf(n.Args[0]).text != "printf" || len(n.Args) > 1 && strings.HasPrefix(wordOf(n.Args[1]).text, "-v")
		}
	}
}

// isNumeric says that a word's text can't be code: a literal that names no variable, a
// count, or the result of arithmetic.
func isNumeric(w *syntax.Word) bool {
	if w == nil {
		return true
	}
	if len(w.Parts) == 1 {
		switch p := w.Parts[0].(type) {
		case *syntax.ArithmExp:
			return true
		case *syntax.ParamExp:
			return p.Length || p.Param != nil && slices.Contains([]string{"#", "?", "$", "!"}, p.Param.Value)
		}
	}
	t := wordOf(w)
	return t.known() && !strings.ContainsFunc(t.text, inName) && !strings.ContainsAny(t.text, "[$`")
}

// inName says that a character can begin the name of a variable.
func inName(c rune) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// evaluated looks at what is evaluated rather than run.
func (a *analyser) evaluated(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.ParamExp:
		a.parameter(n)
	case *syntax.WordIter:
		a.assigned(n.Name.Value)
	case *syntax.ArrayElem:
		a.arithmetic(n.Index)
	case *syntax.ArithmExp:
		a.arithmetic(n.X)
	case *syntax.ArithmCmd:
		a.arithmetic(n.X)
	case *syntax.LetClause:
		for _, e := range n.Exprs {
			a.arithmetic(e)
		}
	case *syntax.CStyleLoop:
		a.arithmetic(n.Init)
		a.arithmetic(n.Cond)
		a.arithmetic(n.Post)
	case *syntax.BinaryTest:
		if slices.Contains([]syntax.BinTestOperator{syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr}, n.Op) {
			a.operand(n.X)
			a.operand(n.Y)
		}
	case *syntax.UnaryTest:
		if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar {
			a.operand(n.X)
		}
	}
}

// parameter looks at an expansion that evaluates more than a name.
func (a *analyser) parameter(n *syntax.ParamExp) {
	switch {
	case n.Excl && n.Names == 0:
		a.hiddenf("${!…} expands what a variable names")
	case n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) && n.Param != nil:
		a.assigned(n.Param.Value)
	case n.Exp != nil && n.Exp.Op == syntax.OtherParamOps:
		if n.Exp.Word == nil || n.Exp.Word.Lit() == "P" || n.Exp.Word.Lit() == "" {
			a.hiddenf("${…@P} runs the text of a variable")
		}
	}
	if n.Index != nil {
		if w, ok := n.Index.(*syntax.Word); !ok || (w.Lit() != "@" && w.Lit() != "*") {
			a.arithmetic(n.Index)
		}
	}
	if n.Slice != nil {
		a.arithmetic(n.Slice.Offset)
		a.arithmetic(n.Slice.Length)
	}
}

// operand is a side of a comparison by number: bash evaluates it.
func (a *analyser) operand(n syntax.Node) {
	if w, ok := n.(*syntax.Word); ok {
		a.arithmeticWord(w)
	}
}

// arithmetic looks at every name and expansion that an expression evaluates.
func (a *analyser) arithmetic(e syntax.ArithmExpr) {
	switch e := e.(type) {
	case nil:
	case *syntax.BinaryArithm:
		a.arithmetic(e.X)
		a.arithmetic(e.Y)
	case *syntax.UnaryArithm:
		a.arithmetic(e.X)
	case *syntax.ParenArithm:
		a.arithmetic(e.X)
	case *syntax.Word:
		if e != nil {
			a.arithmeticWord(e)
		}
	default:
		a.doubtf("its arithmetic can't be followed")
	}
}

// arithmeticWord is a word that is evaluated as arithmetic.
func (a *analyser) arithmeticWord(w *syntax.Word) {
	if lit := w.Lit(); lit != "" {
		a.evaluatedName(lit)
		return
	}
	for n := range syntax.Preorder(w) {
		switch n := n.(type) {
		case *syntax.ParamExp:
			if n.Length || n.Param == nil {
				continue
			}
			name := n.Param.Value
			if strings.Trim(name, "0123456789@*") == "" {
				a.doubtf("its arithmetic evaluates $%s", name)
			}
			a.evaluatedName(name)
		case *syntax.CmdSubst:
			a.doubtf("its arithmetic evaluates what a command prints")
			return
		case *syntax.Lit:
			a.evaluatedName(n.Value)
		case *syntax.SglQuoted:
			a.evaluatedName(n.Value)
		}
	}
}

// evaluatedName takes a name or a text that arithmetic evaluates.
func (a *analyser) evaluatedName(s string) {
	if strings.ContainsAny(s, "[$`") {
		a.doubtf("its arithmetic evaluates the text %s", s)
	}
	for name := range strings.FieldsFuncSeq(s, func(c rune) bool { return !inName(c) && (c < '0' || c > '9') }) {
		if a.tainted[name] || a.taintAll && syntax.ValidName(name) {
			a.doubtf("its arithmetic evaluates the text of %s", name)
		}
	}
}

// declare looks at declare, export, local, readonly and typeset.
func (a *analyser) declare(n *syntax.DeclClause) {
	words := []word{{text: n.Variant.Value}}
	for _, arg := range n.Args {
		if arg.Naked && arg.Value != nil {
			w := wordOf(arg.Value)
			words = append(words, w)
			switch {
			case !w.known():
				a.doubtf("%s gets a name that is known only when it runs", n.Variant.Value)
			case strings.HasPrefix(w.text, "-") && strings.ContainsAny(w.text, "in"):
				a.doubtf("%s %s evaluates the text of a variable", n.Variant.Value, w.text)
			case strings.Contains(w.text, "["):
				a.doubtf("%s evaluates an index", n.Variant.Value)
			default:
				name, value, _ := strings.Cut(w.text, "=")
				a.assigned(name)
				a.declared(n.Variant.Value, name, value)
			}
		} else if arg.Name != nil && arg.Value != nil {
			a.declared(n.Variant.Value, arg.Name.Value, wordOf(arg.Value).text)
		}
	}
	a.line.Commands = append(a.line.Commands, Command{Words: wordTexts(words), ReadOnly: true, plain: true, selfContained: true})
}

// declared looks at a value that declare and its like are given: what stands in
// parentheses they read again as a list, with the substitutions in it, if the variable is
// an array.
func (a *analyser) declared(variant, name, value string) {
	switch {
	case strings.HasPrefix(value, "("),
		strings.HasPrefix(value, string(hole)) && (a.arrays || slices.Contains(arrayVariables, name)):
		a.doubtf("%s evaluates the value of %s", variant, name)
	}
}

// assign looks at an assignment, before a command or by itself.
func (a *analyser) assign(n *syntax.Assign) {
	if n.Index != nil {
		a.arithmetic(n.Index)
	}
	if n.Name == nil || n.Naked {
		return
	}
	if commandeers(n.Name.Value) || n.Array != nil || !isNumeric(n.Value) {
		a.assigned(n.Name.Value)
	}
}

// assigned hides the line if the variable changes which programs run, or if bash evaluates
// what it gets.
func (a *analyser) assigned(name string) {
	if commandeers(name) {
		a.hiddenf("setting %s changes what commands run", name)
	}
	if slices.Contains(integerVariables, name) {
		a.doubtf("what %s is set to is evaluated", name)
	}
}

// Variables that bash itself has made integers, so that what they get is arithmetic, and
// arrays.
var (
	integerVariables = strings.Fields("BASHPID EUID HISTCMD OPTIND PPID RANDOM SECONDS SRANDOM UID")
	arrayVariables   = strings.Fields("COMP_WORDS COMPREPLY COPROC DIRSTACK FUNCNAME GROUPS MAPFILE PIPESTATUS")
)

// commandeers says that a variable decides which program runs, or is itself run.
func commandeers(name string) bool {
	switch name {
	case "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "GIT_TERMINAL_PROMPT", "CARGO_TERM_COLOR", "CARGO_INCREMENTAL":
		return false
	case "PATH", "ENV", "IFS", "SHELL", "SHELLOPTS", "BASHOPTS", "CDPATH", "FPATH", "PS0", "PS1", "PS2", "PS4",
		"PROMPT_COMMAND", "PAGER", "MANPAGER", "SYSTEMD_PAGER", "EDITOR", "VISUAL", "FCEDIT", "BROWSER", "LESSOPEN", "LESSCLOSE", "LESS",
		"NODE_OPTIONS", "RUBYOPT", "RUBYLIB", "PERL5OPT", "PERL5LIB", "PERL5DB", "JAVA_TOOL_OPTIONS", "CLASSPATH",
		"TAR_OPTIONS", "RSYNC_RSH", "CVS_RSH", "SUDO_ASKPASS", "SSH_ASKPASS", "MAKEFLAGS", "GREP_OPTIONS", "RIPGREP_CONFIG_PATH",
		"CC", "CXX", "LD", "AR", "RUSTC_WRAPPER", "RUSTC", "GOFLAGS", "GOTOOLCHAIN", "HOME", "XDG_CONFIG_HOME", "POSIXLY_CORRECT":
		return true
	}
	for _, p := range []string{"LD_", "DYLD_", "BASH_", "GIT_", "PYTHON", "npm_config_", "NPM_CONFIG_", "GCONV_", "CARGO_"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return !syntax.ValidName(name)
}
