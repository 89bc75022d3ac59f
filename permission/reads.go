package permission

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// reader describes a program that only reads unless an option says otherwise.
type reader struct {
	// short are the letters of options, and long the long options, that make it
	// write or run something.
	short string
	long  []string
	// host says that it tells about the machine, not about files it is given.
	host bool
	// most is how many operands it may have, plus one; 0 is any number.
	most int
}

// readers are the programs that are known to only read.
var readers = map[string]reader{
	"cat": {}, "tac": {}, "head": {}, "tail": {}, "wc": {}, "nl": {}, "od": {}, "hexdump": {}, "strings": {}, "rev": {},
	"ls": {}, "dir": {}, "vdir": {}, "stat": {}, "readlink": {}, "realpath": {}, "basename": {}, "dirname": {},
	"file": {short: "C", long: []string{"compile"}},
	"cut":  {}, "paste": {}, "tr": {}, "fold": {}, "fmt": {}, "expand": {}, "unexpand": {}, "column": {}, "comm": {}, "join": {},
	"cmp": {}, "diff": {}, "diff3": {long: []string{"diff-program"}}, "sdiff": {short: "o", long: []string{"output", "diff-program"}}, "seq": {}, "factor": {}, "numfmt": {}, "expr": {},
	"md5sum": {}, "sha1sum": {}, "sha224sum": {}, "sha256sum": {}, "sha384sum": {}, "sha512sum": {}, "b2sum": {}, "cksum": {}, "sum": {},
	"grep": {}, "egrep": {}, "fgrep": {}, "zgrep": {}, "zcat": {}, "bzcat": {}, "xzcat": {}, "zstdcat": {},
	"rg":   {short: "z", long: []string{"pre", "hostname-bin", "search-zip"}},
	"sort": {short: "oST", long: []string{"output", "compress-program", "temporary-directory"}},
	"uniq": {most: 2},
	"tree": {short: "oR", long: []string{"output"}},
	"jq":   {}, "fd": {short: "xX", long: []string{"exec", "exec-batch"}}, "fdfind": {short: "xX", long: []string{"exec", "exec-batch"}},
	"yq": {short: "is", long: []string{"inplace", "in-place", "split-exp"}},
	"du": {}, "which": {}, "whereis": {host: true}, "type": {},
	"echo": {}, "printf": {}, "true": {}, "false": {}, ":": {}, "pwd": {}, "test": {}, "[": {}, "[[": {}, "sleep": {}, "yes": {},
	"date": {short: "s", long: []string{"set"}}, "cal": {}, "uptime": {host: true}, "uname": {host: true}, "arch": {host: true},
	"id": {host: true}, "whoami": {host: true}, "groups": {host: true}, "logname": {host: true}, "who": {host: true}, "w": {host: true},
	"hostname": {short: "FbB", long: []string{"file", "boot"}, host: true, most: 1}, "nproc": {}, "df": {host: true},
	"ps": {host: true}, "pgrep": {host: true}, "free": {host: true}, "lscpu": {host: true}, "locale": {host: true}, "getconf": {host: true}, "tty": {host: true}, "printenv": {host: true},
	// What a shell does itself, within its own process.
	"cd": {}, "pushd": {}, "popd": {}, "dirs": {}, "export": {}, "readonly": {}, "local": {}, "declare": {}, "typeset": {}, "unset": {}, "set": {}, "shopt": {},
	"shift": {}, "return": {}, "exit": {}, "break": {}, "continue": {}, "wait": {}, "read": {}, "mapfile": {}, "readarray": {}, "getopts": {}, "let": {},
	"trap": {}, "umask": {}, "ulimit": {}, "times": {}, "hash": {}, "jobs": {short: "x"}, "command": {}, "env": {host: true}, "alias": {}, "unalias": {},
	"nice": {}, "time": {}, "exec": {},
}

// writers change something, and are known not to run their arguments.
var writers = strings.Fields(`rm rmdir cp mv mkdir mkfifo mknod touch chmod chown chgrp ln link unlink tee truncate
	shred dd gzip gunzip bzip2 bunzip2 xz unxz zstd unzip kill pkill killall sync
	curl ping dig host nslookup traceroute disown fg bg history`)

// versioned are programs of which --version tells no more than that.
var versioned = strings.Fields(`go node npm npx yarn pnpm deno bun cargo rustc rustup java javac gcc g++ clang clang++ cmake make git docker kubectl php ruby perl
	python python3 pip pip3 tar gzip sed awk bash sh zsh dash terraform helm gh aws gcloud`)

// classify says what is known of the command itself.
func classify(c *Command, words []word) {
	c.Harm = harmOf(words)
	name := path.Base(words[0].text)
	if !c.system() {
		return
	}
	if c.Wrapper || strings.HasPrefix(name, "-") {
		// A name that begins with "-" is no program: it is the middle of a test that
		// a POSIX shell doesn't know, "[[ -f a && -f b ]]".
		c.plain, c.ReadOnly = c.Wrapper, !c.Wrapper
		return
	}
	if len(words) == 2 && words[1].text == "--version" && slices.Contains(versioned, name) {
		c.ReadOnly, c.plain, c.host, c.Unknown = true, true, true, ""
		return
	}
	switch name {
	case "find":
		c.ReadOnly, c.plain = findReads(words), true
	case "sed":
		c.ReadOnly, c.plain, c.Unknown = sedReads(words)
	case "awk", "gawk", "mawk", "nawk":
		c.ReadOnly, c.plain, c.Unknown = awkReads(words)
	case "git":
		c.ReadOnly, c.plain = gitReads(words), c.Unknown == ""
	case "go":
		c.ReadOnly = len(words) > 1 && (words[1].text == "version" || words[1].text == "doc" || (words[1].text == "env" && !hasOption(words[2:], "wu", nil)))
		c.host = c.ReadOnly
	default:
		r, ok := readers[name]
		if ok {
			c.ReadOnly, c.host = r.reads(words[1:]), r.host
			c.plain = c.ReadOnly
			if name == "cd" || name == "pushd" || name == "popd" {
				c.host = len(words) != 2 || strings.HasPrefix(words[1].text, "-")
			}
		}
		c.plain = c.plain || slices.Contains(writers, name)
	}
	if c.Unknown != "" {
		c.ReadOnly = false
	}
}

// reads says that the options leave it a reader.
func (r *reader) reads(args []word) bool {
	if r.short == "" && r.long == nil && r.most == 0 {
		return true
	}
	if hasOption(args, r.short, r.long) {
		return false
	}
	operands := 0
	for _, w := range args {
		if w.splits {
			operands += 2
		} else if !strings.HasPrefix(w.text, "-") || w.text == "-" {
			operands++
		}
	}
	return r.most == 0 || operands < r.most
}

// hasOption says that one of the options is there, or may be. Long names may be
// shortened.
func hasOption(args []word, short string, long []string) bool {
	for _, w := range args {
		t := w.text
		switch {
		case t == "" || (t[0] != '-' && t[0] != 0):
			if w.expands {
				return true // "x$y" may become "x" and any option after it
			}
			continue
		case t[0] == 0:
			return true
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

// findReads says that find neither runs nor writes by itself; what -exec runs is
// a command of its own.
func findReads(words []word) bool {
	for _, w := range words[1:] {
		switch w.text {
		case "-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-ok", "-okdir":
			return false
		}
		if strings.HasPrefix(w.text, string(hole)) || (w.splits && strings.HasPrefix(w.text, "-")) {
			return false
		}
	}
	return true
}

// sedSimple is a sed script that does nothing but print, delete, quit and
// substitute: no file is written and nothing is run.
var sedSimple = regexp.MustCompile(sedScript())

// sedScript is the pattern of such scripts. A set of characters in an expression
// has no delimiter in it, because there sed and a simpler reader differ.
func sedScript() string {
	expression := func(delimiter string) string {
		return `([^` + delimiter + `\\\[\n]|\\.|\[[^\]\[\\/|#\n]+\])*`
	}
	substitute := func(delimiter string) string {
		return `s` + delimiter + expression(delimiter) + delimiter + `([^` + delimiter + `\\\n]|\\.)*` + delimiter + `[gpiI0-9]*`
	}
	address := `([0-9]+|\$|/` + expression("/") + `/)`
	command := `(p|d|q|Q|=|D|P|N|n|g|G|h|H|x|` + substitute("/") + `|` + substitute(`\|`) + `|` + substitute("#") + `)`
	return `^(\s*(` + address + `(,(` + address + `|\+[0-9]+))?)?\s*!?\s*` + command + `\s*(;|\n|$))*$`
}

// sedReads says that a sed command only reads.
func sedReads(words []word) (reads, plain bool, unknown string) {
	given := false
	for i := 1; i < len(words); i++ {
		t := words[i].text
		script := ""
		switch {
		case !words[i].known():
			return false, false, "its script is known only when it runs"
		case t == "--expression" || t == "-e" || t == "-ne" || t == "-Ee" || t == "-nEe" || t == "-re":
			if i++; i < len(words) {
				script, given = words[i].text, true
			}
		case strings.HasPrefix(t, "--expression="):
			script, given = t[len("--expression="):], true
		case t == "-n" || t == "-E" || t == "-r" || t == "-s" || t == "-u" || t == "-z" || t == "-nE" || t == "-En" || t == "-nr" || t == "-rn" ||
			t == "--quiet" || t == "--silent" || t == "--regexp-extended" || t == "--null-data" || t == "--posix" || t == "--sandbox" || t == "--":
			continue
		case strings.HasPrefix(t, "-") && t != "-":
			return false, inPlace(t), unless(inPlace(t), "its options are not known")
		case !given:
			script, given = t, true
		default:
			continue // a file
		}
		if strings.ContainsRune(script, hole) || !sedSimple.MatchString(script) {
			return false, false, "its script may run a command"
		}
	}
	return true, true, ""
}

func inPlace(option string) bool {
	return option == "-i" || strings.HasPrefix(option, "-i.") || strings.HasPrefix(option, "--in-place")
}

func unless(b bool, s string) string {
	if b {
		return ""
	}
	return s
}

// awkReads says that an awk command only reads: its program has nothing in it
// that could run or write.
func awkReads(words []word) (reads, plain bool, unknown string) {
	for i := 1; i < len(words); i++ {
		t := words[i].text
		switch {
		case t == "-F" || t == "-v":
			i++
			if i < len(words) && !words[i].known() && words[i].splits {
				return false, false, "its program is known only when it runs"
			}
			continue
		case strings.HasPrefix(t, "-F") || strings.HasPrefix(t, "-v"):
			continue
		case strings.HasPrefix(t, "-") && t != "--":
			return false, false, "its options may name a program"
		case t == "--":
			continue
		case !words[i].known():
			return false, false, "its program is known only when it runs"
		}
		if strings.ContainsAny(t, "|>@") || strings.Contains(t, "system") || strings.Contains(t, "getline") {
			return false, false, "its program may run a command or write a file"
		}
		return true, true, ""
	}
	return true, true, ""
}
