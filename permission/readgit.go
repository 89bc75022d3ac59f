package permission

import (
	"slices"
	"strings"
)

// gitReaders are git's commands that only read, with the options that change it.
var gitReaders = map[string]reader{
	"status": {}, "log": {long: gitOutput}, "diff": {long: gitOutput}, "show": {long: gitOutput}, "shortlog": {long: gitOutput}, "whatchanged": {long: gitOutput},
	"diff-tree": {long: gitOutput}, "diff-index": {long: gitOutput}, "diff-files": {long: gitOutput}, "range-diff": {long: gitOutput},
	"rev-parse": {}, "rev-list": {}, "ls-files": {}, "ls-tree": {}, "cat-file": {long: []string{"textconv", "filters"}}, "blame": {long: gitOutput}, "describe": {},
	"name-rev": {}, "merge-base": {}, "for-each-ref": {}, "show-ref": {}, "show-branch": {}, "count-objects": {}, "check-ignore": {}, "check-attr": {},
	"cherry": {}, "var": {}, "version": {}, "grep": {short: "O", long: []string{"open-files-in-pager", "textconv"}}, "verify-commit": {}, "verify-tag": {},
	"symbolic-ref": {short: "dm", long: []string{"delete"}, most: 2},
}

// gitOutput are options of git's log and diff that write or run something.
var gitOutput = []string{"output", "ext-diff", "textconv"}

// gitReads says that a git command only reads.
func gitReads(words []word) bool {
	at := gitSplit(texts(words))
	for i := 1; i < at; i++ {
		switch t := words[i].text; {
		case t == "--no-pager" || t == "--version" || t == "--no-optional-locks" || t == "--literal-pathspecs" || t == "-P":
		case (t == "-C" || t == "-c") && i+1 < at && words[i+1].known():
			i++ // what a setting may run is hidden already
		default:
			return false
		}
	}
	if at == len(words) {
		return len(words) > 1
	}
	sub, args := words[at].text, words[at+1:]
	if r, ok := gitReaders[sub]; ok {
		return r.reads(args)
	}
	return gitLists(sub, args)
}

// gitLists says that a command that can do both only lists.
func gitLists(sub string, args []word) bool {
	first := ""
	if len(args) > 0 {
		first = args[0].text
	}
	if slices.ContainsFunc(args, func(w word) bool { return strings.HasPrefix(w.text, string(hole)) }) {
		return false
	}
	switch sub {
	case "branch", "tag":
		return listsRefs(args)
	case "remote":
		return len(args) == 0 || (len(args) == 1 && (first == "-v" || first == "--verbose")) || first == "get-url"
	case "stash":
		return first == "list" || (first == "show" && !hasOption(args, "", gitOutput))
	case "worktree", "notes":
		return first == "list"
	case "reflog":
		return len(args) == 0 || first == "show" || (strings.HasPrefix(first, "-") && !hasOption(args, "", gitOutput))
	case "config":
		return first == "--get" || first == "--get-all" || first == "--get-regexp" || first == "--list" || first == "-l" || first == "get" || first == "list"
	case "submodule":
		return first == "status"
	case "bisect":
		return first == "log"
	}
	return false
}

// listsRefs says that git branch or git tag is given nothing but ways to list.
func listsRefs(args []word) bool {
	lists := false
	for i := 0; i < len(args); i++ {
		t := args[i].text
		name, _, hasValue := strings.Cut(t, "=")
		switch name {
		case "-l", "--list":
			lists = true
		case "-a", "-r", "-v", "-vv", "-n", "--all", "--remotes", "--verbose", "--show-current", "--no-color", "--color", "--column", "--no-column", "--ignore-case", "-i":
		case "--contains", "--no-contains", "--merged", "--no-merged", "--points-at", "--sort", "--format":
			if !hasValue {
				i++
			}
		default:
			if !lists || strings.HasPrefix(t, "-") {
				return false
			}
		}
	}
	return true
}
