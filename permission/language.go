package permission

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// language describes a program whose arguments or input can make it run code or other programs. What
// isn't told that way makes it a program like others.
type language struct {
	// short are the letters of options, long the long options, whose value is code, names
	// a program, or changes what runs. A letter counts wherever it stands in a bundle, and
	// long names may be shortened.
	short string
	long  []string
	// prefixes are beginnings of words that do the same.
	prefixes []string
	// any says that no argument is known to be harmless.
	any bool
}

// languages are the programs that are known to be such. A program that runs what files
// of the workspace say, such as a build tool, is not looked into: what matters here is
// what the line says.
var languages = map[string]language{
	"tar": tarLanguage, "gtar": tarLanguage, "bsdtar": tarLanguage,
	"zip":   {short: "T", long: []string{"unzip-command"}},
	"rsync": {short: "e", long: []string{"rsh", "rsync-path"}},
	"scp":   {short: "SoFD", prefixes: []string{"-"}}, "sftp": {any: true},
	"wget":  {short: "ei", long: []string{"execute", "use-askpass", "config", "input-file"}},
	"split": {long: []string{"filter"}}, "install": {long: []string{"strip-program"}}, "cpio": {long: []string{"rsh-command"}},
	"sort":  {long: []string{"compress-program"}},
	"rg":    {long: []string{"pre", "hostname-bin"}},
	"fd":    {short: "xX", long: []string{"exec", "exec-batch"}},
	"sdiff": {short: "o", long: []string{"diff-program", "output"}}, "diff3": {long: []string{"diff-program"}},
	"man":  {short: "PHCM", long: []string{"pager", "html", "config-file"}},
	"less": {short: "kPtTo", prefixes: []string{"+", "--"}}, "more": {prefixes: []string{"+"}}, "most": {any: true},
	"make": makeLanguage, "gmake": makeLanguage, "bmake": makeLanguage,
	"cc": compiler, "gcc": compiler, "g++": compiler, "c++": compiler, "clang": compiler, "clang++": compiler, "ld": compiler,
	"jobs": {short: "x"},
	"go":   {prefixes: []string{"-exec", "--exec", "-toolexec", "--toolexec", "-vettool", "--vettool", "-overlay", "--overlay"}},
	"npx":  runner, "bunx": runner, "pnpx": runner, "npm": runner, "pnpm": runner, "yarn": runner, "bun": runner, "cargo": runner,
	"docker": runner, "podman": runner, "nerdctl": runner, "kubectl": runner, "uv": runner, "poetry": runner, "bundle": runner,
	"gradle": runner, "mvn": runner, "cmake": runner, "ninja": runner, "just": runner, "rake": runner, "tox": runner, "pytest": runner,
}

var (
	tarLanguage  = language{short: "IFT", long: []string{"use-compress-program", "to-command", "checkpoint-action", "info-script", "new-volume-script", "rsh-command", "rmt-command", "files-from"}}
	makeLanguage = language{long: []string{"eval"}}
	compiler     = language{prefixes: []string{"-wrapper", "-fplugin", "-fpass-plugin", "-specs", "--specs", "-B", "@", "-Xclang", "-load", "--plugin", "-plugin", "-fuse-ld"}}
	// runner is a program that runs what its words name, so that none may be unknown.
	// Words that are known are checked against the rules where they stand.
	runner = language{}
)

// editors and debuggers run commands, in too many ways to tell them apart.
var interactive = strings.Fields(`vim vi nvim ex view rvim rview gvim vimdiff vimtutor emacs emacsclient ed red nano pico joe micro
	gdb lldb m4 dc sftp ftp lftp telnet nc ncat socat mutt mail mailx pry bpython gnuplot octave R maxima tclsh
	sqlite3 psql mysql mariadb duckdb redis-cli mongosh mongo sqlcmd`)

// databases are programs of which a statement can be shown to be harmless.
var databases = strings.Fields(`sqlite3 psql mysql mariadb duckdb`)

// languageDoubt says why a program may run code that the line gives it; empty if it is
// known not to, or not known to be a program of that kind.
func languageDoubt(name string, words []word) string {
	args := words[1:]
	if slices.Contains(interactive, name) {
		if slices.Contains(databases, name) && harmlessStatement(args) {
			return ""
		}
		if len(args) == 1 && args[0].text == "--version" {
			return ""
		}
		return "it runs commands that its arguments, its input or its files hold"
	}
	l, ok := languages[name]
	switch {
	case !ok:
		return ""
	case l.any, hasOption(args, l.short, l.long), slices.ContainsFunc(args, func(w word) bool { return w.mayBeOption() || hasPrefix(w.text, l.prefixes) }):
		return "its options may run a command"
	case strings.HasSuffix(name, "tar") && len(args) > 0 && strings.ContainsAny(args[0].text, l.short):
		return "its options may run a command" // tar takes its letters without a dash, too
	case name == "make" || name == "gmake" || name == "bmake":
		return makeDoubt(args)
	}
	return ""
}

func hasPrefix(text string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(text, p) })
}

// makeOptions are make's options, without --eval, whose value is code.
var makeOptions = optionTable{
	short: "bBdehikLnpqrRsStvwC:f:I:o:W:j::l::O::",
	long: `always-make directory= debug? environment-overrides file= makefile= help ignore-errors include-dir= jobs? keep-going load-average? check-symlink-times
		just-print dry-run recon old-file= assume-old= print-data-base question no-builtin-rules no-builtin-variables silent quiet no-silent stop touch trace version
		print-directory no-print-directory what-if= new-file= assume-new= warn-undefined-variables output-sync? shuffle?`,
}

// makeDoubt looks at the arguments of make besides targets: variables are expanded, and may
// choose programs.
func makeDoubt(args []word) string {
	p := makeOptions.parse(args)
	for _, o := range p.options {
		if (o.name == "f" || o.name == "file" || o.name == "makefile") && mayBeStdin(o.value) {
			return "it reads its makefile from its input"
		}
	}
	for _, w := range p.operands {
		key, value, assigns := strings.Cut(w.text, "=")
		if assigns && (strings.ContainsAny(value, "$`;|&()") || commandeers(strings.TrimRight(key, ":+?!"))) {
			return "a variable of make may run a command"
		}
	}
	return p.doubt
}

// hasOption says that one of the options is there, or may be. Long names may be
// shortened.
func hasOption(args []word, short string, long []string) bool {
	for _, w := range args {
		t := w.text
		switch {
		case w.mayBeOption():
			return true
		case t == "" || t[0] != '-':
			continue
		case strings.HasPrefix(t, "--"):
			name, _, _ := strings.Cut(t[2:], "=")
			if name != "" && slices.ContainsFunc(long, func(l string) bool { return strings.HasPrefix(l, name) || strings.ContainsRune(name, hole) }) {
				return true
			}
		case strings.ContainsAny(t[1:], short) || strings.ContainsRune(t, hole):
			return true
		}
	}
	return false
}

// statementHarm is what makes a statement more than one to the database: commands of the
// client, programs, extensions and files.
var statementHarm = regexp.MustCompile("(?i)[\\\\!`]|(^|\n)\\s*\\.|system|source|program|load_extension|edit\\s*\\(|writefile|pipe|install|load\\b|attach|copy")

// harmlessStatement says that a database's client gets a statement, and nothing that it
// would run itself. Without a statement it reads commands from its input.
func harmlessStatement(args []word) bool {
	given := false
	for i, w := range args {
		switch t := w.text; {
		case !w.known() || w.splits || statementHarm.MatchString(t):
			return false
		case slices.Contains([]string{"-c", "-e", "--command", "--execute"}, t):
			given = i+1 < len(args)
		case strings.HasPrefix(t, "-") && !slices.Contains([]string{"-header", "-column", "-csv", "-json", "-line", "-list", "-readonly", "-batch", "-box", "-table", "-t", "-A", "-q", "-X"}, t):
			return false
		case i > 0 && strings.Contains(t, " ") && !strings.HasPrefix(t, "-"):
			given = true
		}
	}
	return given
}

// mayBeStdin says that a path may be the program's own input, under whatever name: the
// folders in which it has one are /dev and /proc, and there it is called stdin or is a
// number. A relative path may lead there once the line has changed its folder.
func mayBeStdin(w word) bool {
	if !w.known() || w.splits || w.text == "-" || w.text == "" {
		return true
	}
	p := path.Clean(w.text)
	base := path.Base(p)
	return pathWithin(p, "/dev") || pathWithin(p, "/proc") || base == "stdin" || strings.Trim(base, "0123456789") == "" ||
		slices.Contains(strings.Split(p, "/"), "fd")
}
