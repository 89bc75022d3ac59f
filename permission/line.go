package permission

import (
	"path"
	"slices"
	"strings"
)

// finishLine settles what depends on the line as a whole.
func (a *analyser) finishLine() {
	l := a.line
	l.Commands = unique(l.Commands)
	slices.SortStableFunc(l.Writes, func(x, y Write) int { return strings.Compare(x.Path, y.Path) })
	l.Writes = slices.Compact(l.Writes)
	for i := range l.Commands {
		switch path.Base(l.Commands[i].Words[0]) {
		case "cd", "pushd", "popd":
			l.moved = true
		}
	}
	if l.moved {
		for i := range l.Writes {
			l.Writes[i].Known = l.Writes[i].Known && path.IsAbs(l.Writes[i].Path)
		}
	}
	l.scripts()
}

// unique drops what both kinds of shell run.
func unique(in []Command) []Command {
	seen := map[string]bool{}
	var out []Command
	for _, c := range in {
		k := strings.Join(c.Words, "\x01")
		if !seen[k] {
			seen[k] = true
			out = append(out, c)
		}
	}
	return out
}

// scripts marks programs that the line itself may have written before, or whose settings
// it has: what they run is then as unknown as the text that was written.
func (l *Line) scripts() {
	wrote, settings := false, false
	for _, w := range l.Writes {
		wrote = wrote || !w.harmless()
		settings = settings || programFile(w.Path)
	}
	for i := range l.Commands {
		c := &l.Commands[i]
		runs := path.Base(c.Words[0]) == "git" || !c.ReadOnly && !c.plain
		if c.Unknown == "" && !c.Wrapper && (wrote && c.isScript() || settings && runs) {
			c.Unknown = "the line may have written what it runs"
			c.plain, c.ReadOnly = false, false
		}
		wrote = wrote || (!c.Wrapper && !c.ReadOnly)
		settings = settings || c.copies() && (slices.ContainsFunc(c.Words[1:], programFile) || slices.ContainsFunc(c.operands(), programFile))
	}
}

// copies says that a command writes the files that its words name.
func (c *Command) copies() bool {
	return !c.ReadOnly && slices.Contains(strings.Fields("cp mv ln link install tee dd gunzip bunzip2 unxz zstd unzip curl wget sed rsync patch"), path.Base(c.Words[0]))
}

// programFiles are names of files that programs take as code, or as settings that choose
// what they run; programFolders are folders of such files.
var (
	programFiles = strings.Fields(`Makefile makefile GNUmakefile *.mk *.make CMakeLists.txt *.cmake build.ninja meson.build SConstruct Justfile justfile Rakefile Gemfile
		package.json .npmrc .yarnrc* .pnpmfile* *.js *.mjs *.cjs *.ts *.py *.rb *.pl *.sh *.go go.mod go.work *.rs Cargo.toml *.toml *.gradle *.kts pom.xml build.xml Dockerfile
		.gitconfig .gitattributes .gitmodules gitconfig .vimrc .exrc .gdbinit .bashrc .bash_profile .profile .zshrc .envrc .env.mk conftest.py setup.cfg tox.ini pytest.ini
		.pre-commit-config.yaml *.so *.c *.h *.cc *.cpp *.java Vagrantfile Jenkinsfile config`)
	programFolders = []string{".git", ".cargo", ".husky", ".ssh", "hooks"}
)

// programFile says that a path may be such a file. One that isn't known may be.
func programFile(p string) bool {
	if strings.ContainsRune(p, hole) {
		return true
	}
	elements := strings.Split(path.Clean(p), "/")
	base := elements[len(elements)-1]
	return slices.ContainsFunc(elements, func(e string) bool { return slices.Contains(programFolders, e) }) ||
		slices.ContainsFunc(programFiles, func(pattern string) bool {
			ok, err := path.Match(pattern, base)
			return ok && err == nil
		})
}

// Text is the command for people.
func (c *Command) Text() string { return visibleText(strings.Join(c.Words, " ")) }

// system says that the program is found by its name or in a folder of the system.
func (c *Command) system() bool {
	switch path.Dir(c.Words[0]) {
	case ".":
		return !strings.Contains(c.Words[0], "/")
	case "/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin":
		return true
	}
	return false
}

// matchCommand checks the pattern of a deny or ask rule against a command: as it stands,
// by the program's bare name, and without options that stand before a subcommand.
func (g *glob) matchCommand(c *Command) verdict {
	text := strings.Join(c.Words, " ")
	v := g.match(text)
	base, rest := path.Base(c.Words[0]), text[len(c.Words[0]):]
	if base != c.Words[0] && v != matches {
		v = max(v, g.search(base, rest, []int{0}))
	}
	rest = strings.TrimPrefix(rest, " ")
	if starts := subcommandStarts(base, c.Words); v != matches && len(starts) > 0 {
		v = max(v, g.search(base+" ", rest, starts))
	}
	return v
}

// arguments returns the command's arguments as one text, with the places at which a
// command could begin in it: every word, every value of an option, and every name of a
// program after its folder.
func (c *Command) arguments() (text string, starts []int) {
	at := 0
	for _, w := range c.Words[1:] {
		starts = append(starts, at)
		if i := strings.IndexByte(w, '='); i >= 0 && i+1 < len(w) {
			starts = append(starts, at+i+1)
		}
		if i := strings.LastIndexByte(w, '/'); i > strings.IndexByte(w, '=') && i+1 < len(w) {
			starts = append(starts, at+i+1)
		}
		at += len(w) + 1
	}
	return strings.Join(c.Words[1:], " "), starts
}

// operands are the words that may name files.
func (c *Command) operands() []string {
	var out []string
	for _, w := range c.Words[1:] {
		if _, value, ok := strings.Cut(w, "="); ok {
			w = value // --file=x, if=x
		}
		if w == "" || strings.HasPrefix(w, "-") || strings.ContainsRune(w, hole) {
			continue
		}
		out = append(out, w)
	}
	return out
}

// readOnly says that the line is known to change nothing.
func (l *Line) readOnly() bool {
	if len(l.Hidden) > 0 || len(l.Doubts) > 0 {
		return false
	}
	for i := range l.Writes {
		if !l.Writes[i].harmless() {
			return false
		}
	}
	return !slices.ContainsFunc(l.Commands, func(c Command) bool { return !c.Wrapper && !c.ReadOnly })
}

// readsWithin says that a line that only reads does so inside the workspace: by
// its words alone, none of which may be unknown or lead out.
func (l *Line) readsWithin(q *Question) bool {
	for i := range l.Commands {
		if !l.Commands[i].readsWithin(q, l.moved) {
			return false
		}
	}
	return !slices.ContainsFunc(l.Inputs, func(p string) bool { return !wordInside(q, p, l.moved) })
}

// readsWithin says that a command that only reads does so inside the workspace.
func (c *Command) readsWithin(q *Question, moved bool) bool {
	return !c.host && !slices.ContainsFunc(c.Words[1:], func(w string) bool { return !wordInside(q, w, moved) })
}

// wordInside says that a word, if it is a path, is one inside the workspace.
func wordInside(q *Question, w string, moved bool) bool {
	if strings.HasPrefix(w, "-") {
		// An option's value may be a path: --file=/x, -f/x.
		at := strings.IndexAny(w, "=/~"+string(hole))
		if at < 0 {
			return true
		}
		w = strings.TrimPrefix(w[at:], "=")
	}
	switch {
	case strings.HasPrefix(w, "~"), strings.HasPrefix(w, string(hole)):
		return false
	case moved && slices.Contains(strings.Split(w, "/"), ".."):
		return false
	case strings.ContainsRune(w, hole) && strings.Contains(w, ".."):
		return false
	}
	return q.placeOf(visibleText(w)).inside
}

// why says, for people, what makes the line more than a read.
func (l *Line) why() string {
	for i := range l.Commands {
		if c := &l.Commands[i]; !c.Wrapper && !c.ReadOnly {
			if c.Unknown != "" {
				return quoteCommand(c) + ": " + c.Unknown
			}
			return quoteCommand(c) + " is not known to only read"
		}
	}
	for i := range l.Writes {
		if !l.Writes[i].harmless() {
			return "it writes to " + visibleText(l.Writes[i].Path)
		}
	}
	return strings.Join(append(slices.Clone(l.Hidden), l.Doubts...), "; ")
}
