package permission

import (
	"slices"
	"strings"
)

// A program may be a script, and then it runs without being started: as the operand of a
// shell or an interpreter. What such an operand names is checked against rules as if it had
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
	all := wordTexts(words)
	for i := 1; i < len(all); i++ {
		if all[i] != "" && !strings.HasPrefix(all[i], "-") {
			s.words = append(s.words, all[i:])
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

// Bounds of the work for one interpreter: how many words are looked up as the script, and
// how many of them are judged because a rule is about that file.
const (
	maxScriptOperands = 1024
	maxScriptMatches  = 32
)

// interpreted finds the commands that the scripts of a start are. It returns why that
// can't be told, if it can't.
func (a *analyser) interpreted(g *Guard, s Start, run scripts) (doubt string) {
	if run.certain {
		a.addCommand(knownWords(run.words[0]...), 0)
	}
	if s.Resolve == nil {
		return ""
	}
	left := maxScriptMatches
	for i, argv := range run.words {
		if i == maxScriptOperands || left < 0 {
			return "which script its arguments name can't be told: there are too many"
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
		for _, name := range g.ruleNames(Start{Path: file, ID: id, Resolve: s.Resolve}) {
			a.addCommand(knownWords(slices.Concat([]string{name}, argv[1:])...), 0)
			left--
		}
	}
	if run.stdin {
		if _, id, ok := s.Resolve("/proc/self/fd/0"); ok {
			for _, name := range g.ruleNames(Start{ID: id, Resolve: s.Resolve}) {
				a.addCommand(knownWords(name), 0)
			}
		}
	}
	return doubt
}
