package permission

import (
	"slices"
	"strings"
)

// gitDiff are the options of git's commands that compare and of those that show commits
// which only choose what is shown. Those that write a file or run a program (--output,
// --ext-diff, --textconv) aren't among them.
var gitDiff = optionTable{
	short: "abcdghimpqrstuvwzEFPRWn:L:S:G:O:l:U::M::C::B::D::X::0#",
	long: `patch no-patch unified= raw patch-with-raw indent-heuristic no-indent-heuristic minimal patience histogram anchored= diff-algorithm= stat? numstat
		shortstat dirstat? summary name-only name-status submodule? color? no-color color-moved? color-words? word-diff? word-diff-regex= no-renames find-renames? find-copies?
		find-copies-harder break-rewrites? irreversible-delete diff-filter= full-index binary abbrev? no-abbrev pickaxe-all pickaxe-regex relative? text ignore-cr-at-eol
		ignore-space-at-eol ignore-space-change ignore-all-space ignore-blank-lines inter-hunk-context= function-context exit-code quiet no-ext-diff no-textconv
		ignore-submodules? src-prefix= dst-prefix= no-prefix default-prefix line-prefix= cached staged merge-base no-index cc combined-all-paths diff-merges= remerge-diff
		oneline pretty? format= graph no-graph decorate? no-decorate decorate-refs= decorate-refs-exclude= source clear-decorations max-count= skip= since= after= until=
		before= since-as-filter= author= committer= grep= grep-reflog= all-match invert-grep regexp-ignore-case basic-regexp extended-regexp fixed-strings perl-regexp merges
		no-merges min-parents= max-parents= first-parent not all branches? tags? remotes? glob= exclude= reflog bisect cherry-mark cherry-pick left-only right-only cherry
		walk-reflogs merge boundary simplify-by-decoration full-history dense sparse simplify-merges ancestry-path? date-order author-date-order topo-order reverse
		no-walk? follow log-size date= relative-date parents children left-right show-signature show-notes? notes? no-notes show-linear-break? encoding= abbrev-commit
		no-abbrev-commit full-diff mailmap no-mailmap use-mailmap count objects quiet timestamp numbered email root no-commit-id dd always`,
}

// git's commands that only read, with the options that keep them that way. What an
// option isn't known of isn't a read.
var gitReaders = map[string]optionTable{
	"log": gitDiff, "diff": gitDiff, "show": gitDiff, "shortlog": gitDiff, "whatchanged": gitDiff, "diff-tree": gitDiff, "diff-index": gitDiff,
	"diff-files": gitDiff, "range-diff": gitDiff, "rev-list": gitDiff, "reflog": gitDiff,
	"status": {short: "sbvzu::", long: "short branch show-stash porcelain? long verbose untracked-files? ignore-submodules? ignored? no-ahead-behind ahead-behind column? no-column no-renames renames find-renames? null"},
	"rev-parse": {short: "q", long: `verify quiet sq short? not abbrev-ref? symbolic symbolic-full-name all branches? tags? remotes? glob= exclude= show-toplevel show-prefix show-cdup git-dir
		absolute-git-dir git-common-dir git-path= is-inside-git-dir is-inside-work-tree is-bare-repository is-shallow-repository show-superproject-working-tree shared-index-path
		default= prefix= revs-only no-revs flags no-flags since= until= local-env-vars resolve-git-dir= show-object-format? path-format=`},
	"ls-files":      {short: "cdomiskutvfzx:X:", long: "cached deleted modified others ignored stage killed unmerged directory no-empty-directory eol exclude= exclude-from= exclude-standard error-unmatch full-name recurse-submodules abbrev? debug deduplicate format="},
	"ls-tree":       {short: "drtlz", long: "long name-only name-status object-only full-name full-tree abbrev? format="},
	"cat-file":      {short: "teps", long: "batch? batch-check? batch-all-objects buffer unordered follow-symlinks allow-unknown-type"},
	"blame":         {short: "blstefnpwcM::C::L:S:", long: "root show-stats abbrev= line-porcelain porcelain incremental date= color-lines color-by-age score-debug show-name show-number show-email progress no-progress ignore-rev= ignore-revs-file= reverse first-parent encoding="},
	"describe":      {long: "all tags contains abbrev? candidates= exact-match debug long match= exclude= always first-parent dirty? broken?"},
	"name-rev":      {long: "tags refs= exclude= all name-only no-undefined always"},
	"merge-base":    {short: "a", long: "all octopus independent is-ancestor fork-point"},
	"for-each-ref":  {long: "count= sort= format= color? points-at= merged? no-merged? contains? no-contains? ignore-case exclude= omit-empty include-root-refs"},
	"show-ref":      {short: "dqs", long: "head heads tags branches dereference hash? verify abbrev? quiet exists"},
	"show-branch":   {short: "ar", long: "all remotes current topo-order date-order sparse more= list merge-base independent no-name sha1-name topics color? no-color"},
	"count-objects": {short: "vH", long: "verbose human-readable"}, "check-ignore": {short: "qvnz", long: "quiet verbose stdin non-matching no-index"},
	"check-attr": {short: "az", long: "all cached stdin source="}, "cherry": {short: "v", long: "abbrev?"}, "var": {short: "l"}, "version": {long: "build-options"},
	"grep": {short: "acEFGhHiIlLnopPqrvwWzA:B:C:e:f:m:#", long: `cached untracked no-index text textless ignore-case invert-match word-regexp extended-regexp basic-regexp perl-regexp fixed-strings
		line-number column files-with-matches name-only files-without-match null only-matching count color? no-color break heading show-function function-context context=
		after-context= before-context= max-depth= recursive no-recursive max-count= threads= and or not all-match quiet recurse-submodules exclude-standard no-exclude-standard full-name`},
	"verify-commit": {short: "v", long: "verbose raw"}, "verify-tag": {short: "v", long: "verbose raw format="},
}

// gitReads says that a git command only reads.
func gitReads(words []word) bool {
	at := gitSplit(wordTexts(words))
	for i := 1; i < at; i++ {
		switch t := words[i].text; {
		case t == "--no-pager" || t == "--version" || t == "--no-optional-locks" || t == "--literal-pathspecs" || t == "-P":
		case (t == "-C" || t == "-c") && i+1 < at && words[i+1].known() && !words[i+1].splits:
			i++ // what a setting may run is hidden already
		default:
			return false
		}
	}
	if at == len(words) {
		return len(words) > 1
	}
	sub, args := words[at].text, words[at+1:]
	if sub == "stash" && len(args) > 0 && (args[0].text == "list" || args[0].text == "show") {
		return gitDiff.reads(args[1:])
	}
	if t, ok := gitReaders[sub]; ok && (sub != "reflog" || !gitChangesReflog(args)) {
		return t.reads(args)
	}
	return gitLists(sub, args)
}

// reads says that all options are among those of the table.
func (t *optionTable) reads(args []word) bool {
	p := t.parse(args)
	return p.doubt == "" && !p.shortened
}

// gitChangesReflog says that git reflog does more than show.
func gitChangesReflog(args []word) bool {
	return len(args) > 0 && slices.Contains([]string{"expire", "delete", "drop", "write"}, args[0].text)
}

// gitLists says that a command that can do both only lists.
func gitLists(sub string, args []word) bool {
	first := ""
	if len(args) > 0 {
		first = args[0].text
	}
	if slices.ContainsFunc(args, word.mayBeOption) {
		return false
	}
	switch sub {
	case "branch", "tag":
		return listsRefs(args)
	case "remote":
		return len(args) == 0 || (len(args) == 1 && (first == "-v" || first == "--verbose")) || first == "get-url"
	case "worktree", "notes":
		return first == "list"
	case "symbolic-ref":
		return len(args) == 1 && !strings.HasPrefix(first, "-")
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
