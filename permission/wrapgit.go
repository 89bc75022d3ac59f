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
	at := gitSplit(texts(words))
	for i := 1; i < at; i++ {
		t := words[i].text
		switch {
		case !words[i].known() && (words[i].splits || t[0] == 0):
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

// gitCommand looks at a subcommand that runs a command of its arguments.
func (a *analyser) gitCommand(sub string, args []word, deep int) wrapped {
	for i, w := range args {
		if w.splits && strings.HasPrefix(w.text, string(hole)) {
			continue
		}
		if line, ok := gitRuns(sub, texts(args), i); ok {
			a.hiddenf("git %s runs %q", sub, line)
			if !strings.ContainsRune(line, hole) {
				a.script(line, deep+1)
			}
		}
		if strings.HasPrefix(w.text, "ext::") {
			a.hiddenf("git runs %q as a transport", w.text)
		}
	}
	if sub == "config" && !gitLists(sub, args) {
		a.gitConfig(args)
	}
	switch {
	case sub == "submodule" && len(args) > 1 && slices.ContainsFunc(args, func(w word) bool { return w.text == "foreach" }):
		at := slices.IndexFunc(args, func(w word) bool { return w.text == "foreach" })
		rest := args[at+1:]
		for len(rest) > 0 && strings.HasPrefix(rest[0].text, "-") {
			rest = rest[1:]
		}
		a.joined(rest, "git submodule foreach", deep)
		return wrapped{followed: true}
	case sub == "bisect" && len(args) > 1 && args[0].text == "run":
		a.run(args[1:], deep+1)
		return wrapped{followed: true}
	case !slices.Contains(gitKnown, sub):
		return wrapped{followed: true, unknown: "git " + sub + " is no command of git's own: it may be an alias"}
	}
	return wrapped{followed: true}
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

// gitRuns returns the command in an option of git's, if word i is one.
func gitRuns(sub string, args []string, i int) (string, bool) {
	t := args[i]
	next := func() (string, bool) {
		if i+1 < len(args) {
			return args[i+1], true
		}
		return "", false
	}
	if name, value, ok := strings.Cut(t, "="); ok {
		switch {
		case strings.HasPrefix(name, "--upload-p"), strings.HasPrefix(name, "--receive-p"), name == "--exec", strings.HasPrefix(name, "--extcmd"),
			strings.HasPrefix(name, "--open-files"), sub == "filter-branch" && strings.HasSuffix(name, "-filter"):
			return value, true
		}
	}
	switch {
	case strings.HasPrefix(t, "--upload-p"), strings.HasPrefix(t, "--receive-p"), t == "--exec",
		sub == "rebase" && t == "-x", sub == "difftool" && (t == "-x" || t == "--extcmd"), sub == "clone" && t == "-u",
		sub == "filter-branch" && strings.HasSuffix(t, "-filter"):
		return next()
	case sub == "grep" && (strings.HasPrefix(t, "-O") || strings.HasPrefix(t, "--open-files")):
		return strings.TrimPrefix(t, "-O"), true
	case sub == "rebase" && strings.HasPrefix(t, "-x"):
		return t[2:], true
	case sub == "config" && strings.HasPrefix(strings.ToLower(t), "alias.") && i+1 < len(args):
		return strings.TrimPrefix(args[i+1], "!"), true
	}
	return "", false
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
