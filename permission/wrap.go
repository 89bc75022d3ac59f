package permission

import (
	"path"
	"slices"
	"strings"
)

// wrapped says what was found out about a command that may run others.
type wrapped struct {
	// wrapper says that it does nothing but run what was followed.
	wrapper bool
	// followed says that its arguments were looked into.
	followed bool
	// unknown says why it may run something that wasn't found.
	unknown string
	// scripts are what it runs of its arguments if it is an interpreter.
	scripts scripts
}

// wrapper says how a program finds the command that it runs.
type wrapper struct {
	// short are the letters of options that take a value, long their long names.
	short string
	long  []string
	// skip counts the operands before the command.
	skip int
	// vars says that assignments may stand before the command.
	vars bool
	// own says that it is more than a wrapper: it needs a permission of its own.
	own bool
	// plain are the options with which it is no more than a wrapper, letters and long
	// names, where it isn't its own; a long name may have "=" and a value behind it.
	plain     string
	plainLong string
	// bare says that without a command it only tells something.
	bare bool
	// shell says that without a command it starts a shell.
	shell bool
}

// wrappers run the command in their arguments as it stands there.
var wrappers = map[string]wrapper{
	"env":        {plain: "iu0Cv", plainLong: "ignore-environment unset null chdir debug help version", short: "uCS", long: []string{"unset", "chdir", "split-string", "argv0"}, vars: true, bare: true},
	"nohup":      {},
	"nice":       {plain: "n0123456789", plainLong: "adjustment", short: "n", long: []string{"adjustment"}, bare: true},
	"ionice":     {short: "cnpPu", long: []string{"class", "classdata", "pid", "pgid", "uid"}, own: true},
	"timeout":    {plain: "ksvpf", plainLong: "kill-after signal verbose preserve-status foreground", short: "ks", long: []string{"kill-after", "signal"}, skip: 1},
	"time":       {plain: "pvqf", plainLong: "portability verbose quiet format", short: "fo", long: []string{"format", "output"}, bare: true},
	"stdbuf":     {plain: "ioe", plainLong: "input output error", short: "ioe", long: []string{"input", "output", "error"}},
	"setsid":     {plain: "cfw", plainLong: "ctty fork wait"},
	"command":    {plain: "pvV"},
	"builtin":    {},
	"exec":       {plain: "acl", short: "a", bare: true},
	"sudo":       {short: "ugUhpCDRrtT", long: []string{"user", "group", "other-user", "host", "prompt", "close-from", "chdir", "chroot", "role", "type", "command-timeout", "preserve-env"}, vars: true, own: true, shell: true},
	"doas":       {short: "uC", own: true, shell: true},
	"chroot":     {long: []string{"groups", "userspec"}, skip: 1, own: true, shell: true},
	"flock":      {short: "wE", long: []string{"timeout", "wait", "conflict-exit-code"}, skip: 1, own: true},
	"taskset":    {skip: 1, own: true},
	"chrt":       {short: "TPD", skip: 1, own: true},
	"strace":     {short: "abeEIoOpPsSuUX", own: true},
	"ltrace":     {short: "aAbDeFlnopsuwx", own: true},
	"unshare":    {short: "RwSG", long: []string{"root", "wd", "setuid", "setgid", "propagation", "setgroups"}, own: true, shell: true},
	"nsenter":    {short: "tSG", long: []string{"target", "setuid", "setgid"}, own: true, shell: true},
	"setpriv":    {long: []string{"reuid", "regid", "groups", "inh-caps", "ambient-caps", "bounding-set", "securebits"}, own: true, shell: true},
	"prlimit":    {short: "p", own: true},
	"fakeroot":   {short: "lsibu", own: true, shell: true},
	"faketime":   {short: "fp", skip: 1, own: true},
	"unbuffer":   {plain: "p"},
	"setarch":    {skip: 1, own: true, shell: true},
	"linux32":    {own: true, shell: true},
	"linux64":    {own: true, shell: true},
	"busybox":    {own: true},
	"toybox":     {own: true},
	"caffeinate": {short: "tw", own: true},
	"eatmydata":  {own: true},
	"valgrind":   {own: true},
	"xvfb-run":   {short: "enpsfw", own: true},
}

// unwrap finds the commands that a command runs, and judges them too.
func (a *analyser) unwrap(words []word, deep int) wrapped {
	name := path.Base(words[0].text)
	if w, ok := wrappers[name]; ok {
		return a.prefix(name, w, words, deep)
	}
	switch name {
	case "xargs":
		return a.xargs(words, deep)
	case "find":
		return a.analyseFind(words, deep)
	case "eval":
		return a.joinedCommand(skipEnd(words[1:]), "eval", deep)
	case "watch":
		return a.watch(words, deep)
	case "trap":
		return a.trap(words, deep)
	case "su", "runuser":
		return a.commandOption(words, "-c", "--command", deep)
	case "script":
		return a.commandOption(words, "-c", "--command", deep)
	case "git":
		return a.git(words, deep)
	case "alias":
		return a.alias(words)
	case "export", "readonly", "local", "declare", "typeset":
		return a.exports(name, words)
	case "test", "[":
		return a.testBuiltin(name, words)
	case "read", "mapfile", "readarray", "unset", "wait", "getopts", "let", "printf", "hash", "enable", "set", "shopt", "bind", "complete", "compgen":
		return a.builtin(name, words)
	case ".", "source":
		return a.source(words)
	}
	return a.unwrapMore(name, words, deep)
}

// unwrapMore knows programs that run what isn't a plain list of words.
func (a *analyser) unwrapMore(name string, words []word, deep int) wrapped {
	switch {
	case isShell(name):
		return a.shell(name, words, deep)
	case isInterpreter(name):
		return interpreter(name, words)
	case slices.Contains([]string{"parallel", "at", "batch", "crontab", "ssh", "slogin", "mosh", "rsh", "entr", "tmux", "screen", "expect", "fish", "csh", "tcsh", "pwsh", "powershell", "nu", "m4", "gdb", "lldb"}, name):
		a.hiddenf("it is unknown what %q runs", wordsText(words))
		return wrapped{scripts: anyScript(words)}
	case name == "coreutils" && len(words) > 1 && strings.HasPrefix(words[1].text, "--coreutils-prog"):
		_, program, _ := strings.Cut(words[1].text, "=")
		a.addCommand(append([]word{{text: program}}, words[2:]...), deep+1)
		return wrapped{followed: true}
	case isLoader(name):
		return a.prefix(name, wrapper{own: true, long: []string{"library-path", "preload", "audit", "argv0"}}, words, deep)
	}
	return wrapped{}
}

// isLoader says that a program is the dynamic loader, which runs the program it is
// told to.
func isLoader(name string) bool {
	return slices.ContainsFunc([]string{"ld-linux", "ld-musl", "ld.so", "ld64.so", "ld-uClibc"}, func(p string) bool { return strings.HasPrefix(name, p) })
}

// prefix follows a wrapper whose command is the rest of its words.
func (a *analyser) prefix(name string, w wrapper, words []word, deep int) wrapped {
	i, lookup, ok := a.options(name, w, words)
	if !ok {
		return wrapped{followed: true}
	}
	for range w.skip {
		if i < len(words) && !words[i].known() {
			a.hiddenf("what %q runs is known only when it runs", wordsText(words))
			return wrapped{followed: true}
		}
		i++
	}
	if name == "flock" && i < len(words) && (words[i].text == "-c" || words[i].text == "--command") {
		a.joinedCommand(words[i+1:], name, deep)
		return wrapped{followed: true}
	}
	out := w.around(words[:min(i, len(words))])
	switch {
	case lookup:
		out.wrapper = false
	case i < len(words):
		a.addCommand(words[i:], deep+1)
	case w.shell:
		a.hiddenf("%q starts a shell", wordsText(words))
	case w.bare:
		out.wrapper = false
	}
	return out
}

// around says what a wrapper is by its own words: one with an option that isn't known may
// do more than run what follows.
func (w *wrapper) around(words []word) wrapped {
	out := wrapped{wrapper: !w.own && ownFolder(words[0].text), followed: true}
	if !w.own && !w.only(words) {
		out.wrapper, out.unknown = false, "an option of it isn't known to do nothing else"
	}
	return out
}

// only says that all options are known to change nothing but how the command is run.
func (w *wrapper) only(options []word) bool {
	for i := 1; i < len(options); i++ {
		t := options[i].text
		if !strings.HasPrefix(t, "-") || t == "-" || t == "--" {
			continue // an operand, an assignment, or an end of options
		}
		if long, ok := strings.CutPrefix(t, "--"); ok {
			name, _, _ := strings.Cut(long, "=")
			if !slices.Contains(strings.Fields(w.plainLong), name) {
				return false
			}
		} else {
			for _, c := range t[1:] {
				if !strings.ContainsRune(w.plain, c) {
					return false
				}
				if strings.ContainsRune(w.short, c) {
					break // the rest is its value
				}
			}
		}
		if takesValue(t, *w) {
			i++
		}
	}
	return true
}

// ownFolder says that a wrapper is the system's, not a file of that name.
func ownFolder(name string) bool {
	c := Command{Words: []string{name}}
	return c.system()
}

// options skips a wrapper's options and assignments: words[i:] is what follows. lookup
// says that it only looks a command up; ok is false if what follows can't be told.
func (a *analyser) options(name string, w wrapper, words []word) (i int, lookup, ok bool) {
	for i = 1; i < len(words); i++ {
		t := words[i].text
		key, _, isVar := strings.Cut(t, "=")
		switch {
		case w.vars && isVar && !strings.HasPrefix(t, "-") && !strings.ContainsRune(key, hole):
			if words[i].splits {
				a.hiddenf("what %q runs is known only when it runs", wordsText(words))
				return 0, false, false
			}
			a.assigned(key)
			continue
		case !words[i].known():
			a.hiddenf("what %q runs is known only when it runs", wordsText(words))
			return 0, false, false
		case t == "--":
			return i + 1, lookup, true
		case !strings.HasPrefix(t, "-") || t == "-":
			if t == "-" && name == "env" {
				continue
			}
			return i, lookup, true
		case name == "env" && (strings.HasPrefix(t, "-S") || strings.HasPrefix(t, "--s") || strings.Contains(t, "S") && !strings.HasPrefix(t, "--")):
			a.hiddenf("env splits a text into a command")
			return 0, false, false
		case name == "command" && strings.ContainsAny(t, "vV"):
			lookup = true
		}
		if takesValue(t, w) {
			i++
		}
	}
	return len(words), lookup, true // the last option may lack its value
}

// takesValue says that the value of an option is the next word. Long names may
// be shortened.
func takesValue(option string, w wrapper) bool {
	if long, ok := strings.CutPrefix(option, "--"); ok {
		if strings.Contains(long, "=") {
			return false
		}
		return slices.ContainsFunc(w.long, func(n string) bool { return strings.HasPrefix(n, long) })
	}
	for i, c := range option[1:] {
		if strings.ContainsRune(w.short, c) {
			return i+2 == len(option)
		}
	}
	return false
}

// xargs appends what it reads to its command.
func (a *analyser) xargs(words []word, deep int) wrapped {
	w := wrapper{plain: "0rtxnLPsdEeIiap", plainLong: "null no-run-if-empty verbose exit max-args max-lines max-procs max-chars delimiter eof arg-file replace show-limits", short: "InLPsdEa", long: []string{"max-args", "max-lines", "max-procs", "max-chars", "delimiter", "arg-file", "process-slot-var"}}
	i, _, ok := a.options("xargs", w, words)
	if !ok {
		return wrapped{followed: true}
	}
	if i >= len(words) {
		return w.around(words) // it echoes
	}
	inner := slices.Clone(words[i:])
	if mark := replaced(words[1:i]); mark != "" {
		for k := range inner {
			if strings.Contains(inner[k].text, mark) {
				inner[k].text = strings.ReplaceAll(inner[k].text, mark, string(hole))
			}
		}
	}
	inner = append(inner, unknownWords())
	a.addCommand(inner, deep+1)
	return w.around(words[:i])
}

// replaced returns the mark that xargs replaces, or nothing.
func replaced(options []word) string {
	for i, o := range options {
		switch {
		case o.text == "-I" && i+1 < len(options):
			return options[i+1].text
		case strings.HasPrefix(o.text, "-I"):
			return o.text[2:]
		case o.text == "-i", o.text == "--replace":
			return "{}"
		case strings.HasPrefix(o.text, "-i"):
			return o.text[2:]
		case strings.HasPrefix(o.text, "--replace="):
			return o.text[len("--replace="):]
		case strings.HasPrefix(o.text, "--r"), !strings.HasPrefix(o.text, "--") && strings.ContainsAny(o.text, "iI") && strings.HasPrefix(o.text, "-"):
			return "{}"
		}
	}
	return ""
}

// analyseFind runs what follows -exec and its like.
func (a *analyser) analyseFind(words []word, deep int) wrapped {
	for i := 1; i < len(words); i++ {
		switch words[i].text {
		case "-exec", "-execdir", "-ok", "-okdir":
		default:
			if findMayRun(words[1:], i-1) {
				a.doubtf("find may get -exec from a word that is known only when it runs")
			}
			continue
		}
		var inner []word
		for i++; i < len(words) && words[i].text != ";" && (words[i].text != "+" || words[i-1].text != "{}"); i++ {
			w := words[i]
			// What it finds begins with the folder that it starts from, and find takes none
			// that begins with a dash.
			w.path = strings.HasPrefix(w.text, "{}") && !slices.ContainsFunc(words, func(o word) bool { return strings.HasPrefix(o.text, "-files0") })
			w.text = strings.ReplaceAll(w.text, "{}", string(hole))
			inner = append(inner, w)
		}
		a.addCommand(inner, deep+1)
	}
	return wrapped{followed: true}
}

// skipEnd drops the mark that ends options.
func skipEnd(words []word) []word {
	if len(words) > 0 && words[0].text == "--" {
		return words[1:]
	}
	return words
}

// joinedCommand follows a program that joins its words into a line.
func (a *analyser) joinedCommand(words []word, name string, deep int) wrapped {
	for _, w := range words {
		if !w.known() {
			a.hiddenf("%s runs a text that is known only when it runs", name)
			return wrapped{wrapper: true, followed: true}
		}
	}
	a.script(strings.Join(wordTexts(words), " "), deep+1)
	return wrapped{wrapper: true, followed: true}
}

// watch gives its words to a shell.
func (a *analyser) watch(words []word, deep int) wrapped {
	w := wrapper{plain: "bcCdegnpqtrwx", plainLong: "beep color no-color differences errexit chgexit interval precise equexit no-title no-rerun no-wrap exec", short: "nqs", long: []string{"interval", "equexit", "shotsdir"}}
	i, _, ok := a.options("watch", w, words)
	if !ok {
		return wrapped{followed: true}
	}
	a.joinedCommand(words[i:], "watch", deep)
	return w.around(words[:i])
}

// trap runs its first word later.
func (a *analyser) trap(words []word, deep int) wrapped {
	args := words[1:]
	for len(args) > 0 && (args[0].text == "--" || args[0].text == "-p" || args[0].text == "-l" || args[0].text == "-P") {
		args = args[1:]
	}
	if len(args) > 1 && args[0].text != "-" {
		a.joinedCommand(args[:1], "trap", deep)
	}
	return wrapped{followed: true}
}

// commandOption follows a program that takes its line as the value of an option.
func (a *analyser) commandOption(words []word, short, long string, deep int) wrapped {
	found := false
	for i := 1; i < len(words); i++ {
		t := words[i].text
		switch {
		case !words[i].known():
			a.hiddenf("what %q runs is known only when it runs", wordsText(words))
			return wrapped{followed: true}
		case t == "--" && i+1 < len(words):
			a.addCommand(words[i+1:], deep+1)
			return wrapped{followed: true}
		case strings.HasPrefix(t, long+"="):
			a.joinedCommand(knownWords(t[len(long)+1:]), words[0].text, deep)
			found = true
		case strings.HasPrefix(t, "--") && strings.HasPrefix(long, t), strings.HasPrefix(t, "-") && !strings.HasPrefix(t, "--") && strings.HasSuffix(t, short[1:]):
			if i++; i < len(words) {
				a.joinedCommand(words[i:i+1], words[0].text, deep)
				found = true
			}
		case strings.HasPrefix(t, short):
			a.joinedCommand(knownWords(t[len(short):]), words[0].text, deep)
			found = true
		}
	}
	if !found {
		a.hiddenf("%q starts a shell", wordsText(words))
	}
	return wrapped{followed: true}
}
