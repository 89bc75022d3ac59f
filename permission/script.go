package permission

import (
	"slices"
	"strings"
)

// A program may be a script, and then it runs without being started: as the operand of a
// shell or an interpreter. What such an operand names is held against rules as if it had
// been started by its own name, with the arguments that follow.

// scripts are what an interpreter runs of its arguments.
type scripts struct {
	// words are the script and its arguments, once for each word that may be the script.
	words [][]string
	// certain says that there is no doubt about which word is the script.
	certain bool
	// stdin says that it runs what it reads.
	stdin bool
}

// scriptAt is the one word that is the script.
func scriptAt(words []word, i int) scripts {
	return scripts{words: [][]string{wordTexts(words[i:])}, certain: true}
}

// anyScript takes every word that is no option for the script: which of the options have
// a value isn't known.
func anyScript(words []word) scripts {
	var s scripts
	for i := 1; i < len(words); i++ {
		if t := words[i].text; t != "" && !strings.HasPrefix(t, "-") {
			s.words = append(s.words, wordTexts(words[i:]))
		}
	}
	return s
}

// moduleScript is the module that Python runs by its name, with the arguments behind it;
// else whatever word may be the script.
func moduleScript(name string, words []word) scripts {
	if !strings.HasPrefix(name, "python") && !strings.HasPrefix(name, "pypy") {
		return anyScript(words)
	}
	for i := 1; i < len(words); i++ {
		flags, module, ok := strings.Cut(words[i].text, "m")
		switch {
		case !ok || !strings.HasPrefix(flags, "-") || strings.HasPrefix(flags, "--") || strings.ContainsAny(flags, "cWX"):
		case module != "":
			return scripts{words: [][]string{append([]string{module}, wordTexts(words[i+1:])...)}, certain: true}
		case i+1 < len(words):
			return scriptAt(words, i+1)
		}
	}
	return anyScript(words)
}

// maxScriptOperands bounds how many words are looked up as scripts.
const maxScriptOperands = 32

// interpreted finds the commands that the scripts of a start are. It returns why that
// can't be told, if it can't.
func (a *analyser) interpreted(g *Guard, s Start, run scripts, deep int) (doubt string) {
	if deep >= maxLoaders {
		return ""
	}
	for _, argv := range run.words[:min(len(run.words), maxScriptOperands)] {
		if run.certain {
			a.addCommand(knownWords(argv...), 0)
		}
		if s.Resolve == nil {
			continue
		}
		file, id, ok := s.Resolve(argv[0])
		if !ok && run.certain && !strings.Contains(argv[0], "/") {
			id, ok = g.lookup(argv[0]) // a shell looks for scripts in the PATH, too
			file = argv[0]
		}
		if !ok {
			if _, _, here := s.Resolve("."); !here && run.certain {
				doubt = "which script its arguments name can't be told: the folder that it works in can't be looked up"
			}
			continue
		}
		script := Start{Path: file, ID: id, Argv: argv, Resolve: s.Resolve}
		for _, name := range g.ruleNames(script) {
			a.addCommand(knownWords(slices.Concat([]string{name}, argv[1:])...), 0)
		}
	}
	if run.stdin && s.Resolve != nil {
		if _, id, ok := s.Resolve("/proc/self/fd/0"); ok {
			for _, name := range g.ruleNames(Start{ID: id, Resolve: s.Resolve}) {
				a.addCommand(knownWords(name), 0)
			}
		}
	}
	return doubt
}
