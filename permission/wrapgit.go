package permission

import (
	"slices"
	"strings"
)

// gitValues are git's own options whose value is the next word.
var gitValues = []string{"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--exec-path", "--attr-source"}

// gitSafeConfig are settings that choose no program.
var gitSafeConfig = []string{"color.", "user.", "advice.", "core.quotepath", "core.autocrlf", "core.abbrev", "init.defaultbranch", "log.", "diff.renames", "diff.context", "status.", "pull.", "commit.gpgsign", "tag.gpgsign", "column.", "merge.conflictstyle", "http.postbuffer", "protocol.version", "safe.directory"}

// gitSplit returns where git's subcommand stands; len(words) if there is none.
func gitSplit(words []string) int {
	for i := 1; i < len(words); i++ {
		switch {
		case !strings.HasPrefix(words[i], "-"):
			return i
		case slices.Contains(gitValues, words[i]):
			i++
		}
	}
	return len(words)
}

// subcommandStarts returns where the subcommand of a program may begin in the text of
// its arguments if options stand before it, so that "git -C x push" is "git push" too.
// Which options of a program other than git take a value isn't known here: then the
// word after an option is taken once as its value and once as the subcommand.
func subcommandStarts(name string, words []string) []int {
	if name == "git" {
		i := gitSplit(words)
		if i <= 1 || i >= len(words) {
			return nil
		}
		return []int{len(strings.Join(words[1:i], " ")) + 1}
	}
	var starts []int
	at := 0
	for i := 1; i < len(words); i++ {
		from := at
		at += len(words[i]) + 1
		if strings.HasPrefix(words[i], "-") {
			continue
		}
		if i > 1 {
			starts = append(starts, from)
		}
		if before := words[i-1]; i == 1 || !strings.HasPrefix(before, "-") || strings.Contains(before, "=") {
			break
		}
	}
	return starts
}

// git finds the programs that git runs: by settings, by aliases, by options.
func (a *analyser) git(words []word, deep int) wrapped {
	at := gitSplit(wordTexts(words))
	for i := 1; i < at; i++ {
		t := words[i].text
		switch {
		case words[i].mayBeOption():
			a.hiddenf("git gets options that are known only when it runs")
			return wrapped{followed: true}
		case t == "-c" && i+1 < len(words):
			i++
			a.gitSetting(words[i], deep)
		case strings.HasPrefix(t, "--exec-path="), strings.HasPrefix(t, "--config-env"), t == "--exec-path" && i+1 < at:
			a.hiddenf("%s changes what git runs", t)
		}
	}
	if at >= len(words) {
		return wrapped{followed: true}
	}
	if !words[at].known() || words[at].splits {
		a.doubtf("git's subcommand is known only when it runs")
		return wrapped{followed: true}
	}
	return a.gitCommand(words[at].text, words[at+1:], deep)
}

// gitSetting looks at a setting for one run.
func (a *analyser) gitSetting(w word, deep int) {
	key, value, _ := strings.Cut(w.text, "=")
	key = strings.ToLower(key)
	if w.known() && gitSafe(key) {
		return
	}
	a.hiddenf("git -c %s may change what git runs", key)
	if line, ok := strings.CutPrefix(value, "!"); ok && w.known() {
		a.script(line, deep+1)
	}
}

// gitCode are the options of git's commands whose value is a command, names a program or
// is a setting. A letter counts wherever it stands in a bundle.
var gitCode = map[string]language{
	"clone": {short: "uc", long: []string{"upload-pack", "config", "template"}}, "fetch": {long: []string{"upload-pack"}}, "pull": {long: []string{"upload-pack", "exec"}, short: "x"},
	"ls-remote": {long: []string{"upload-pack", "exec"}}, "push": {long: []string{"receive-pack", "exec"}}, "archive": {long: []string{"exec", "remote"}},
	"fetch-pack": {long: []string{"upload-pack", "exec"}}, "send-pack": {long: []string{"receive-pack", "exec"}},
	"rebase": {short: "x", long: []string{"exec"}}, "difftool": {short: "xt", long: []string{"extcmd", "tool", "gui"}}, "mergetool": {short: "t", long: []string{"tool", "gui"}},
	"grep": {short: "O", long: []string{"open-files-in-pager", "textconv"}}, "init": {long: []string{"template"}}, "filter-branch": {any: true}, "filter-repo": {any: true},
	"stash": gitTextconv, "log": gitTextconv, "diff": gitTextconv, "show": gitTextconv, "cat-file": {long: []string{"textconv", "filters"}}, "blame": {long: []string{"textconv"}},
	"submodule": {long: []string{"upload-pack"}}, "interpret-trailers": {any: true}, "help": {short: "w", long: []string{"web"}},
}

var gitTextconv = language{long: []string{"ext-diff", "textconv"}}

// gitCommand looks at a subcommand that runs a command of its arguments.
func (a *analyser) gitCommand(sub string, args []word, deep int) wrapped {
	if l, ok := gitCode[sub]; ok && (l.any || hasOption(beforeEnd(args), l.short, l.long)) {
		a.hiddenf("git %s may run a program that an option names", sub)
		a.gitLines(sub, args, deep)
	}
	for _, w := range args {
		if strings.Contains(w.text, "ext::") {
			a.hiddenf("git runs %q as a transport", w.text)
		}
	}
	if sub == "config" && !gitLists(sub, args) {
		a.gitConfig(args)
		a.gitLines(sub, args, deep)
	}
	switch {
	case sub == "submodule" && len(args) > 1 && slices.ContainsFunc(args, func(w word) bool { return w.text == "foreach" }):
		at := slices.IndexFunc(args, func(w word) bool { return w.text == "foreach" })
		rest := args[at+1:]
		for len(rest) > 0 && strings.HasPrefix(rest[0].text, "-") {
			rest = rest[1:]
		}
		a.joinedCommand(rest, "git submodule foreach", deep)
		return wrapped{followed: true}
	case sub == "submodule" && slices.ContainsFunc(args, word.mayBeOption):
		a.hiddenf("git submodule may run a text that is known only when it runs")
	case sub == "bisect" && len(args) > 1 && args[0].text == "run":
		a.addCommand(args[1:], deep+1)
		return wrapped{followed: true}
	case sub == "bisect" && len(args) > 0 && args[0].mayBeOption():
		a.hiddenf("git bisect may run what its words name")
	case !slices.Contains(gitKnown, sub):
		return wrapped{followed: true, unknown: "git " + sub + " is not a git command: it may be an alias"}
	}
	return wrapped{followed: true}
}

// beforeEnd returns the arguments up to "--", where options can stand.
func beforeEnd(args []word) []word {
	if i := slices.IndexFunc(args, func(w word) bool { return w.text == "--" }); i >= 0 {
		return args[:i]
	}
	return args
}

// gitLines reads every argument that may be a line, so that what it would run for certain
// is denied and not only asked about.
func (a *analyser) gitLines(sub string, args []word, deep int) {
	for i, w := range args {
		if _, value, ok := strings.Cut(w.text, "="); ok && strings.HasPrefix(w.text, "--") && w.known() {
			a.script(value, deep+1)
			continue
		}
		takes := strings.HasPrefix(w.text, "-") || sub == "config" && strings.HasPrefix(strings.ToLower(w.text), "alias.")
		if takes && i+1 < len(args) && args[i+1].known() && !strings.HasPrefix(args[i+1].text, "-") {
			a.script(strings.TrimPrefix(args[i+1].text, "!"), deep+1)
		}
	}
}

// gitConfig hides the line if it sets what git runs: the next command of the line
// may be git again.
func (a *analyser) gitConfig(args []word) {
	for _, w := range args {
		if strings.HasPrefix(w.text, "-") || !strings.Contains(w.text, ".") && w.known() {
			continue
		}
		if key := strings.ToLower(w.text); !w.known() || !gitSafe(key) {
			a.hiddenf("git config %s may change what git runs", key)
		}
		return // what follows is the value
	}
}

func gitSafe(key string) bool {
	return slices.ContainsFunc(gitSafeConfig, func(p string) bool { return strings.HasPrefix(key, p) })
}

// gitKnown are git's own commands: another name may be an alias for anything.
var gitKnown = strings.Fields(`add am apply archive bisect blame branch bundle cat-file check-attr check-ignore
	check-ref-format checkout checkout-index cherry cherry-pick clean clone column commit commit-graph commit-tree config
	count-objects describe diff diff-files diff-index diff-tree difftool fast-export fast-import fetch filter-branch
	filter-repo for-each-ref format-patch fsck gc grep hash-object help index-pack init interpret-trailers log ls-files
	ls-remote ls-tree maintenance merge merge-base merge-file merge-tree mergetool mv name-rev notes pack-objects
	pack-refs patch-id prune pull push range-diff read-tree rebase reflog remote repack replace request-pull rerere
	reset restore rev-list rev-parse revert rm shortlog show show-branch show-ref sparse-checkout stage stash status
	stripspace submodule switch symbolic-ref tag unpack-objects update-index update-ref var verify-commit verify-tag
	version whatchanged worktree write-tree lfs`)
