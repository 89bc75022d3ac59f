package permission

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"agentd/internal/clip"
)

// Bounds of the analysis. What goes beyond is not parsed, so it asks.
const (
	maxLine = 256 << 10
	maxOpen = 2000 // brackets and backticks, which is what makes a parser recurse
	// maxOperators is how many operators there may be where there is arithmetic or a test,
	// which a parser recurses into as well, with less for each.
	maxOperators = 20000
	maxDeep      = 8 // lines within lines, such as sh -c "sh -c …"
	// maxEffort is how many bytes are parsed for one line; each line within it counts
	// for effortOfALine more than it has.
	maxEffort     = 1 << 20
	effortOfALine = 256
	// maxGuess is how often an argument that may be a line is looked into.
	maxGuess = 3
	// maxReasons is how many reasons and hosts are kept; one is enough to ask.
	maxReasons = 64
)

// Line is what is known about a command line before it runs.
type Line struct {
	// Commands are the simple commands that it would run, wrappers included: of
	// "sudo env A=1 rm x" they are the sudo, the env and the rm.
	Commands []Command
	// Hidden says why other commands may run that can't be known.
	Hidden []string
	// Doubts says what may run text as code although no command is computed.
	Doubts []string
	// Writes are the files that redirections write to, Inputs those that they read.
	Writes []Write
	Inputs []string
	// Hosts are the hosts that its words name.
	Hosts []string

	// text is the line, moved says that it changes its working directory, broken
	// that no shell reads it.
	text          string
	moved, broken bool
	// inputs are Inputs, with what else is known of them.
	inputs []word
}

// Command is one simple command in normal form: its words as the program gets
// them. The character NUL stands for what isn't known before it runs.
type Command struct {
	Words []string
	// Wrapper says that it does nothing but run another command of the line.
	Wrapper bool
	// ReadOnly says that it is known to change nothing.
	ReadOnly bool
	// Unknown says why it may run something else, such as code in its arguments.
	Unknown string
	// Harm says what it would destroy; nil if nothing is known of.
	Harm *Harm

	// host says that it reads more than files that its words name.
	host bool
	// plain says that it is known not to run its arguments.
	plain bool
	// selfContained says that what it runs is itself, whatever files there are: none in
	// the folder that it works in names a program, as a repository's settings do for git.
	selfContained bool
	// scripts are what it runs of its words if it is an interpreter.
	scripts scripts
	// args are its words with what else is known of them.
	args []word
	// files are those that its code names.
	files []string
	// inner are its arguments, read as command lines.
	inner []*Line
}

// Write is a file that a redirection writes to.
type Write struct {
	Path string
	// Known says that the path is known before it runs.
	Known bool
	// Append says that what the file has stays.
	Append bool
}

// harmless says that nothing is kept of what is written.
func (w *Write) harmless() bool {
	if !w.Known {
		return false
	}
	switch w.Path {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty":
		return true
	}
	return strings.HasPrefix(w.Path, "/dev/fd/") && !strings.Contains(w.Path, "..")
}

// Analyse finds out what a shell would run. It reads the line as bash and as a
// POSIX shell would, because the same text may mean two things: what either of
// them runs is there. It follows wrappers (sudo, env, timeout, xargs, find -exec,
// sh -c and so on); what it can't follow it calls hidden.
func Analyse(line string) (l *Line) {
	defer func() {
		if r := recover(); r != nil {
			l = &Line{Hidden: []string{fmt.Sprintf("the line can't be parsed: %v", r)}}
		}
	}()
	a := newAnalyser(line, 0, &effort{left: maxEffort, guessed: map[string]*Line{}})
	a.script(line, 0)
	a.finishLine()
	return a.line
}

// analyser gathers what a line runs.
type analyser struct {
	line *Line
	// tainted are variables whose text may be code once arithmetic reads them.
	tainted  map[string]bool
	taintAll bool
	// arrays says that the line makes arrays.
	arrays bool
	vars   *variables
	// guess counts how often what is read is the argument of a program that may or
	// may not run it.
	guess int
	// certain says that only commands that run for certain are asked for: nothing is
	// guessed.
	certain bool
	// seen are the texts that were read already, for this line.
	seen map[string]bool
	*effort
}

// effort bounds the work for one line, whatever is nested in it.
type effort struct {
	// left is how many bytes may still be parsed.
	left int
	// guessed are the arguments that were read as lines.
	guessed map[string]*Line
}

func newAnalyser(text string, guess int, e *effort) *analyser {
	vars := &variables{values: map[string][][]rune{}, unknown: map[string]bool{}}
	return &analyser{line: &Line{text: text}, vars: vars, guess: guess, seen: map[string]bool{}, effort: e}
}

func (a *analyser) hiddenf(format string, args ...any) {
	if s := visibleText(clip.Text(fmt.Sprintf(format, args...), 300)); len(a.line.Hidden) < maxReasons && !slices.Contains(a.line.Hidden, s) {
		a.line.Hidden = append(a.line.Hidden, s)
	}
}

func (a *analyser) doubtf(format string, args ...any) {
	if s := visibleText(clip.Text(fmt.Sprintf(format, args...), 300)); len(a.line.Doubts) < maxReasons && !slices.Contains(a.line.Doubts, s) {
		a.line.Doubts = append(a.line.Doubts, s)
	}
}

// script reads a text as both kinds of shell.
func (a *analyser) script(text string, deep int) {
	if a.seen[text] {
		return // both kinds of shell lead here, and so may many wrappers
	}
	a.seen[text] = true
	a.left -= len(text) + effortOfALine
	switch {
	case a.left < 0:
		a.hiddenf("the line has too many lines in it")
		return
	case deep > maxDeep:
		a.hiddenf("lines are nested too deeply")
		return
	case len(text) > maxLine:
		a.hiddenf("the line is longer than %d bytes", maxLine)
		return
	case strings.ContainsRune(text, hole):
		a.hiddenf("the line has a part that is known only when it runs")
		return
	case strings.ContainsRune(text, '\r'):
		// The parser takes it for a blank, and a shell for a letter.
		a.hiddenf("the line has a carriage return")
	}
	if why := nestsTooMuch(text); why != "" {
		a.hiddenf("%s", why)
		return
	}
	bash, err := parseShell(text, syntax.LangBash)
	if err != nil {
		a.hiddenf("the line can't be parsed: %v", err)
	} else {
		a.agreed(bash, text)
		a.walkFile(bash, deep)
	}
	if a.certain && err == nil {
		return
	}
	posix, perr := parseShell(text, syntax.LangPOSIX)
	switch {
	case perr == nil:
		a.agreed(posix, text)
		a.walkFile(posix, deep)
	case err != nil:
		a.line.broken = true
	case differs(bash):
		a.hiddenf("a POSIX shell reads the line otherwise than bash does")
	}
}

// nestsTooMuch says why a parser could recurse too deeply into a text; empty if it can't.
// It counts everything that opens something, wherever it stands: what really nests is
// known only after parsing.
func nestsTooMuch(text string) string {
	count := func(parts ...string) (n int) {
		for _, p := range parts {
			n += strings.Count(text, p)
		}
		return n
	}
	if count("(", "{", "`", "[") > maxOpen {
		return fmt.Sprintf("the line has more than %d brackets", maxOpen)
	}
	if len(text) <= maxOpen {
		return "" // no room for more words
	}
	if count("((", "[[", "$[", "let ") > 0 && count("!", "~", "?", "=", "*", "&&", "||", "-", "+") > maxOperators {
		return fmt.Sprintf("the line has more than %d operators", maxOperators)
	}
	words := 0
	for w := range strings.FieldsFuncSeq(strings.ReplaceAll(text, "\\\n", ""), notInName) {
		switch w {
		case "if", "elif", "else", "while", "until", "for", "select", "case", "coproc":
			words++
		}
	}
	if words > maxOpen {
		return fmt.Sprintf("the line has more than %d words that begin a compound command", maxOpen)
	}
	return ""
}

func parseShell(text string, lang syntax.LangVariant) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(text), "")
}

// differs says that a line that only bash takes as a whole has something in it
// that another shell would run otherwise before it stops.
func differs(f *syntax.File) bool {
	for n := range syntax.Preorder(f) {
		switch n := n.(type) {
		case *syntax.ArithmCmd, *syntax.ParenTest:
			return true
		case *syntax.SglQuoted:
			if n.Dollar {
				return true
			}
		case *syntax.BinaryTest:
			if n.Op == syntax.AndTest || n.Op == syntax.OrTest || n.Op == syntax.TsReMatch {
				return true
			}
		}
	}
	return false
}

// walkFile looks at every node: commands are found wherever they stand, also in
// substitutions within words, here-documents and arithmetic.
func (a *analyser) walkFile(f *syntax.File, deep int) {
	for n := range syntax.Preorder(f) {
		a.taint(n)
		a.vars.learn(n)
	}
	for n := range syntax.Preorder(f) {
		a.visitNode(n, deep)
	}
}

func (a *analyser) visitNode(n syntax.Node, deep int) {
	switch n := n.(type) {
	case *syntax.CallExpr:
		a.addSimpleCommand(n, deep)
	case *syntax.Stmt:
		a.background(n, deep)
	case *syntax.Assign:
		a.assign(n)
	case *syntax.DeclClause:
		a.declare(n)
	case *syntax.Redirect:
		a.redirect(n)
	default:
		a.evaluated(n)
	}
}

// wordOf is a word of the line, with the files that it may name.
func (a *analyser) wordOf(w *syntax.Word) word {
	out := wordOf(w)
	if w != nil && (!out.known() || out.splits || strings.HasPrefix(out.text, "~")) {
		out.names = a.vars.fileNames(w)
	}
	return out
}

// addSimpleCommand takes a simple command as it stands in the line.
func (a *analyser) addSimpleCommand(n *syntax.CallExpr, deep int) {
	if len(n.Args) == 0 {
		return
	}
	a.addCommand(a.words(n.Args), deep)
}

// background reads "ls &>f rm" as a shell does that doesn't know "&>": it puts ls
// into the background and runs what follows the file.
func (a *analyser) background(n *syntax.Stmt, deep int) {
	c, ok := n.Cmd.(*syntax.CallExpr)
	if !ok {
		return
	}
	for _, r := range n.Redirs {
		if r.Op != syntax.RdrAll && r.Op != syntax.AppAll {
			continue
		}
		var words []word
		for _, w := range c.Args {
			if w.Pos().After(r.Pos()) {
				words = append(words, a.wordOf(w))
			}
		}
		a.addCommand(words, deep)
	}
}

// addCommand takes a command whose words are known, by the line or by a wrapper.
func (a *analyser) addCommand(words []word, deep int) {
	switch {
	case deep > maxDeep:
		a.hiddenf("commands are nested too deeply")
		return
	case len(words) == 0:
		return
	case words[0].text == "--":
		a.addCommand(words[1:], deep) // the end of the options of time or eval
		return
	case a.guess > 0 && !words[0].known():
		// Most likely it is no command; a rule that may match it sees it.
		a.line.Commands = append(a.line.Commands, Command{Words: wordTexts(words)})
		return
	case !words[0].known() || words[0].splits:
		a.hiddenf("the name of the command %q is known only when it runs", wordsText(words))
		return
	}
	c := Command{Words: wordTexts(words), args: words}
	a.hosts(c.Words)
	i := len(a.line.Commands)
	a.line.Commands = append(a.line.Commands, c)
	w := a.unwrap(words, deep)
	c.Wrapper = w.wrapper
	c.Unknown, c.scripts = w.unknown, w.scripts
	classifyCommand(&c, words)
	if !c.plain && !w.followed && !a.certain {
		c.inner = a.guesses(words[1:])
	}
	a.line.Commands[i] = c
}

// guesses reads arguments as command lines, for programs that may run them.
func (a *analyser) guesses(args []word) []*Line {
	var out []*Line
	for _, w := range args {
		text := w.text
		if !w.known() || !strings.ContainsAny(text, " \t\n;|&$`'\"\\(){}*?[<>") {
			continue
		}
		if _, value, ok := strings.Cut(text, "="); ok && strings.HasPrefix(text, "-") {
			text = value
		}
		out = append(out, a.guessAt(text))
	}
	return out
}

// guessAt reads one argument as a line.
func (a *analyser) guessAt(text string) *Line {
	if l := a.guessed[text]; l != nil {
		return l
	}
	inner := newAnalyser(text, a.guess+1, a.effort)
	if inner.guess > maxGuess {
		inner.hiddenf("lines are nested too deeply")
	} else {
		inner.script(text, 0)
		inner.finishLine()
	}
	a.guessed[text] = inner.line
	return inner.line
}

// redirect takes what goes into a file or comes from one.
func (a *analyser) redirect(n *syntax.Redirect) {
	if n.Hdoc != nil || n.Op == syntax.WordHdoc || n.Op == syntax.Hdoc || n.Op == syntax.DashHdoc {
		return
	}
	w := a.wordOf(n.Word)
	if (n.Op == syntax.DplOut || n.Op == syntax.DplIn) && w.known() && strings.Trim(w.text, "0123456789-") == "" {
		return // a copy of a descriptor
	}
	if strings.HasPrefix(w.text, "/dev/tcp/") || strings.HasPrefix(w.text, "/dev/udp/") {
		a.line.Hosts = append(a.line.Hosts, strings.Split(visibleText(w.text), "/")[3])
		a.doubtf("it opens a connection")
	}
	if n.Op == syntax.RdrIn || n.Op == syntax.DplIn {
		a.line.Inputs = append(a.line.Inputs, w.text)
		a.line.inputs = append(a.line.inputs, w)
		return
	}
	a.line.Writes = append(a.line.Writes, Write{
		Path: w.text, Known: w.known() && !strings.HasPrefix(w.text, "~"),
		Append: n.Op == syntax.AppOut || n.Op == syntax.AppAll || n.Op == syntax.RdrInOut,
	})
}

// hosts gathers the hosts that words name.
func (a *analyser) hosts(words []string) {
	for _, w := range words[1:] {
		host := ""
		if i := strings.Index(w, "://"); i > 0 {
			if u, err := url.Parse(visibleText(w)); err == nil {
				host = u.Hostname()
			}
		} else if user, rest, ok := strings.Cut(w, "@"); ok && user != "" && !strings.ContainsAny(user, "/ \t=") {
			host, _, _ = strings.Cut(rest, ":")
			if !strings.Contains(rest, ":") && path.Base(words[0]) != "ssh" {
				host = ""
			}
		}
		if host != "" && len(a.line.Hosts) < maxReasons && !slices.Contains(a.line.Hosts, host) {
			a.line.Hosts = append(a.line.Hosts, host)
		}
	}
}
