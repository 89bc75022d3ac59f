package permission

import (
	"path"
	"slices"
	"strings"
)

// reader describes a program that only reads as long as it is given no options but
// those that are listed here. What isn't listed may write or run something.
type reader struct {
	optionTable
	// host says that it tells about the machine, not about files it is given.
	host bool
	// most is how many operands it may have, plus one; 0 is any number.
	most int
}

// harmlessReaders only read, whatever they are given: none of their options writes or
// runs anything.
var harmlessReaders = strings.Fields(`cat tac head tail wc nl od hexdump strings rev ls dir vdir stat readlink realpath
	basename dirname cut paste tr fold fmt expand unexpand column comm join cmp diff seq factor numfmt expr
	md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum grep egrep fgrep zcat jq du which type
	echo true false : pwd test [ [[ sleep yes cal nproc
	cd pushd popd dirs export readonly local declare typeset unset set shopt shift return exit break continue wait read
	mapfile readarray getopts let trap umask ulimit times hash command alias unalias nice time exec printf`)

// hostReaders are such programs that tell about the machine.
var hostReaders = strings.Fields(`whereis uptime uname arch id whoami groups logname who w df ps pgrep free lscpu locale getconf tty printenv env`)

// readers are the programs that only read with some of their options.
var readers = map[string]reader{
	"file": {optionTable: optionTable{short: "bcdEhiklLnNprsSvz0e:F:f:m:P:", long: "brief checking-printout mime mime-type mime-encoding extension dereference no-dereference files-from= separator= keep-going list raw special-files exclude= magic-file= print0 no-buffer no-pad parameter= version help"}},
	"sort": {optionTable: optionTable{short: "bcCdfghiMmnrRsuVzk:t:", long: "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort ignore-nonprinting month-sort numeric-sort random-sort random-source= reverse sort= version-sort batch-size= check? debug files0-from= key= merge parallel= stable field-separator= unique zero-terminated help version"}},
	"uniq": {optionTable: optionTable{short: "cdDiuzf:s:w:#", long: "count repeated all-repeated? skip-fields= group? ignore-case skip-chars= unique zero-terminated check-chars= help version"}, most: 2},
	"tree": {optionTable: optionTable{short: "adflxifpsughDFqNrtUcvnACSXJL:P:I:H:T:", long: "noreport charset= filelimit= timefmt= du si inodes device dirsfirst filesfirst gitignore matchdirs prune sort= help version"}},
	"rg": {optionTable: optionTable{short: "abcFhHiIlLnNopPqsSuUvVwx.0A:B:C:e:f:g:j:m:M:d:E:r:t:T:", long: `after-context= before-context= context= regexp= file= glob= iglob= max-count= max-columns=
		max-depth= max-filesize= type= type-not= type-add= type-clear= type-list encoding= replace= threads= files files-with-matches files-without-match count count-matches
		ignore-case smart-case case-sensitive fixed-strings word-regexp line-regexp line-number no-line-number with-filename no-filename hidden no-hidden no-ignore
		no-ignore-vcs no-ignore-parent follow no-follow invert-match json multiline multiline-dotall only-matching passthru pcre2 pretty quiet sort= sortr= stats text
		trim unrestricted vimgrep color= colors= heading no-heading null null-data column no-column byte-offset messages no-messages no-config path-separator= engine=
		crlf glob-case-insensitive one-file-system ignore-file= include-zero binary debug version help`}},
	"fd": fdReader, "fdfind": fdReader,
	"yq":       {optionTable: optionTable{short: "ePnrNCMjvVyYcSo:p:I:", long: "prettyPrint null-input unwrapScalar? no-doc colors no-colors output-format= input-format= indent= exit-status tojson raw-output yaml-output version help"}},
	"date":     {optionTable: optionTable{short: "uRd:f:r:I::", long: "date= file= iso-8601? rfc-3339= rfc-email utc universal reference= debug help version"}},
	"hostname": {optionTable: optionTable{short: "aAdfiIsy", long: "alias all-fqdns all-ip-addresses domain fqdn long ip-address short yp nis help version"}, host: true, most: 1},
	"diff3":    {optionTable: optionTable{short: "aAeE3imTxXL:", long: "show-all ed show-overlap easy-only merge text strip-trailing-cr initial-tab label= help version"}},
	"jobs":     {optionTable: optionTable{short: "lnprs", ordered: true}},
	"zgrep":    {optionTable: optionTable{short: "cEFGhHilLnoPqsvwxA:B:C:e:m:#"}},
	"bzcat":    {optionTable: optionTable{short: "qsv"}}, "xzcat": {optionTable: optionTable{short: "qv"}},
}

var fdReader = reader{optionTable: optionTable{short: "HIugsiaFlLp0q1d:E:e:t:S:j:c:", long: `hidden no-ignore no-ignore-vcs no-ignore-parent unrestricted case-sensitive ignore-case glob regex fixed-strings
	absolute-path list-details follow full-path max-depth= min-depth= exact-depth= exclude= type= extension= size= changed-within= changed-before= owner= color= threads=
	max-results= print0 quiet show-errors base-directory= path-separator= search-path= one-file-system prune and= format= version help`}}

// writers change something, and are known not to run their arguments.
var writers = strings.Fields(`rm rmdir cp mv mkdir mkfifo mknod touch chmod chown chgrp ln link unlink tee truncate
	shred dd gzip gunzip bzip2 bunzip2 xz unxz zstd unzip kill pkill killall sync install
	curl ping dig host nslookup traceroute disown fg bg history`)

// versioned are programs of which --version tells no more than that.
var versioned = strings.Fields(`node deno bun java javac gcc g++ clang clang++ cmake make git docker kubectl php ruby perl
	python python3 pip pip3 tar gzip sed awk bash sh zsh dash helm gh aws gcloud`)

// launchers choose the program that does the work by a file in the folder that they are
// called in (rust-toolchain.toml, yarnPath, packageManager, toolchain in go.mod), before
// they look at their arguments. So they never count as readers.
var launchers = strings.Fields(`cargo rustc rustdoc rustfmt rustup npm npx yarn yarnpkg pnpm pnpx corepack go gofmt terraform gradle gradlew mvn mvnw bazel bazelisk
	nix asdf mise rtx pyenv rbenv nodenv jenv goenv tfenv volta direnv uv poetry pipenv bundle sbt dotnet dart flutter`)

// classifyCommand says what is known of the command itself.
func classifyCommand(c *Command, words []word) {
	c.Harm = harmOf(words)
	name := path.Base(words[0].text)
	if c.Unknown == "" && !c.Wrapper {
		c.Unknown = languageDoubt(name, words)
	}
	if !c.system() {
		return
	}
	if c.Wrapper || strings.HasPrefix(name, "-") {
		// A name that begins with "-" is not a program: it is the middle of a test that
		// a POSIX shell doesn't know, "[[ -f a && -f b ]]".
		c.plain, c.ReadOnly, c.selfContained = c.Wrapper, !c.Wrapper, true
		return
	}
	if len(words) == 2 && words[1].text == "--version" && slices.Contains(versioned, name) {
		c.ReadOnly, c.plain, c.host, c.Unknown = true, true, true, ""
		return
	}
	if slices.Contains(launchers, name) {
		return
	}
	switch name {
	case "find":
		c.ReadOnly, c.plain, c.selfContained = findReads(words), true, true
	case "sed", "gsed":
		c.classifySed(words)
		c.selfContained = true
	case "awk", "gawk", "mawk", "nawk":
		c.ReadOnly, c.plain, c.Unknown = awkReads(words)
		c.selfContained = true
	case "git":
		c.ReadOnly, c.plain = gitReads(words), c.Unknown == ""
	default:
		c.classifyReader(name, words)
	}
	if c.Unknown != "" {
		c.ReadOnly, c.plain, c.selfContained = false, false, false
	}
}

// classifyReader looks a program up among those that read and those that write.
func (c *Command) classifyReader(name string, words []word) {
	r, listed := readers[name]
	switch {
	case slices.Contains(harmlessReaders, name):
		c.ReadOnly = true
	case slices.Contains(hostReaders, name):
		c.ReadOnly, c.host = true, true
	case listed:
		c.ReadOnly, c.host = r.reads(name, words[1:]), r.host
	}
	c.selfContained = c.ReadOnly || slices.Contains(writers, name)
	c.plain = c.selfContained || slices.Contains(databases, name)
	if name == "cd" || name == "pushd" || name == "popd" {
		c.host = len(words) != 2 || strings.HasPrefix(words[1].text, "-")
	}
}

// reads says that a reader is given nothing but options that only read.
func (r *reader) reads(name string, args []word) bool {
	p := r.parse(args)
	if p.doubt != "" || p.shortened || r.most > 0 && len(p.operands) >= r.most {
		return false
	}
	if slices.ContainsFunc(p.operands, func(w word) bool { return r.most > 0 && w.splits }) {
		return false // it may be more operands than one
	}
	return name != "date" || !slices.ContainsFunc(p.operands, func(w word) bool { return !strings.HasPrefix(w.text, "+") })
}

// findReads says that find neither runs nor writes by itself; what -exec runs is
// a command of its own.
func findReads(words []word) bool {
	for i, w := range words[1:] {
		switch w.text {
		case "-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-ok", "-okdir":
			return false
		}
		if findMayRun(words[1:], i) {
			return false
		}
	}
	return true
}

// findMayRun says that a word of find's may turn out to be an action. The quoted name of
// a folder that options follow can't: what it would run isn't there.
func findMayRun(args []word, i int) bool {
	w := args[i]
	if !w.mayBeOption() && (!w.splits || !strings.HasPrefix(w.text, "-")) {
		return false
	}
	folder := i == 0 && !w.splits && (len(args) == 1 || strings.HasPrefix(args[1].text, "-"))
	return !folder
}

// awkReads says that an awk command only reads: its program has nothing in it
// that could run or write.
func awkReads(words []word) (reads, plain bool, unknown string) {
	for i := 1; i < len(words); i++ {
		t := words[i].text
		switch {
		case words[i].expands:
			return false, false, "its program is known only when it runs"
		case t == "-F" || t == "-v":
			i++
			if i < len(words) && words[i].splits {
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
		// ">=" compares and is one token, whatever stands around it: no redirection begins so.
		if t = strings.ReplaceAll(t, ">=", " "); strings.ContainsAny(t, "|>@") || strings.Contains(t, "system") || strings.Contains(t, "getline") {
			return false, false, "its program may run a command or write a file"
		}
		return true, true, ""
	}
	return true, true, ""
}
