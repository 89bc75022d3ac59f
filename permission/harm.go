package permission

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Harm is what a command would destroy.
type Harm struct {
	// Impact says what is lost.
	Impact string
	// Advice says what brings it back, or that nothing does.
	Advice string
	// overwrites says that it is the content of files, and nothing else, that is lost.
	overwrites bool
}

// Advice for what can and can't be brought back.
const (
	adviceFiles  = "undo brings back files under the workspace that were kept before the call; what lies outside of it stays changed"
	adviceReflog = "git reflog still names the commits until git removes them"
	adviceRemote = "it can't be restored from here: the operator of the other side may have a copy"
	adviceNone   = "nothing brings it back but a backup"
)

// harmOf knows the commands that destroy; nil if none is known.
func harmOf(words []word) *Harm {
	name := path.Base(words[0].text)
	args := words[1:]
	if h := harmFiles(name, args); h != nil {
		return h
	}
	switch {
	case name == "git":
		return harmGit(wordTexts(words))
	case strings.HasPrefix(name, "mkfs") || slices.Contains([]string{"wipefs", "fdisk", "sfdisk", "parted", "blkdiscard", "cryptsetup"}, name):
		return &Harm{Impact: "changes a disk with everything on it", Advice: adviceNone}
	case slices.Contains([]string{"kill", "pkill", "killall"}, name) && !hasText(args, "-l", "-0"):
		return &Harm{Impact: "ends running processes", Advice: "start them again"}
	case slices.Contains([]string{"shutdown", "reboot", "halt", "poweroff"}, name):
		return &Harm{Impact: "stops the machine", Advice: "start it again"}
	case slices.Contains([]string{"userdel", "groupdel", "deluser", "delgroup"}, name):
		return &Harm{Impact: "removes an account", Advice: adviceNone}
	case slices.Contains([]string{"psql", "mysql", "mariadb", "sqlite3", "sqlcmd", "duckdb", "clickhouse-client", "redis-cli", "mongosh", "mongo"}, name):
		return harmData(args)
	}
	return harmService(name, wordTexts(args))
}

// harmFiles knows what destroys files.
func harmFiles(name string, args []word) *Harm {
	files := strings.Join(operandTexts(args), " ")
	switch name {
	case "rm", "unlink", "rmdir":
		if hasOption(args, "rR", []string{"recursive"}) && name == "rm" {
			return &Harm{Impact: "deletes " + visibleText(files) + " and everything below", Advice: adviceFiles}
		}
		return &Harm{Impact: "deletes " + visibleText(files), Advice: adviceFiles}
	case "shred":
		return &Harm{Impact: "overwrites " + visibleText(files) + " so that nothing can be read back", Advice: adviceFiles}
	case "truncate":
		return &Harm{Impact: "cuts off the content of " + visibleText(files), Advice: adviceFiles, overwrites: true}
	case "dd":
		if slices.ContainsFunc(args, func(w word) bool { return strings.HasPrefix(w.text, "of=") || !w.known() }) {
			return &Harm{Impact: "overwrites what dd writes to", Advice: adviceNone}
		}
	case "chmod", "chown", "chgrp":
		if hasOption(args, "R", []string{"recursive"}) {
			return &Harm{Impact: "changes the rights of " + visibleText(files) + " and everything below", Advice: "the earlier rights are not kept"}
		}
	case "find":
		if hasText(args, "-delete") {
			return &Harm{Impact: "deletes the files that find finds", Advice: adviceFiles}
		}
	case "tee":
		if !hasOption(args, "a", []string{"append"}) && files != "" {
			return &Harm{Impact: "replaces the content of " + visibleText(files), Advice: adviceFiles, overwrites: true}
		}
	case "sed", "perl":
		if slices.ContainsFunc(args, func(w word) bool {
			return name == "sed" && editsInPlace(w.text) || (name == "perl" && strings.HasPrefix(w.text, "-") && strings.Contains(w.text, "i"))
		}) {
			return &Harm{Impact: "changes files in place", Advice: adviceFiles, overwrites: true}
		}
	case "rsync":
		if slices.ContainsFunc(args, func(w word) bool {
			return strings.HasPrefix(w.text, "--del") || strings.HasPrefix(w.text, "--remove-source")
		}) {
			return &Harm{Impact: "deletes files that the other side doesn't have", Advice: adviceFiles}
		}
	}
	return nil
}

// editsInPlace says that an option of sed's is -i, in whatever spelling.
func editsInPlace(option string) bool {
	if long, ok := strings.CutPrefix(option, "--"); ok {
		name, _, _ := strings.Cut(long, "=")
		return name != "" && name == "in-place"[:min(len(name), len("in-place"))]
	}
	return strings.HasPrefix(option, "-") && strings.Contains(option, "i")
}

func operandTexts(args []word) []string {
	var out []string
	for _, w := range args {
		if !strings.HasPrefix(w.text, "-") {
			out = append(out, w.text)
		}
	}
	return out
}

func hasText(args []word, texts ...string) bool {
	return slices.ContainsFunc(args, func(w word) bool { return slices.Contains(texts, w.text) })
}

// harmGit knows what loses commits or changes in git.
func harmGit(words []string) *Harm {
	at := gitSplit(words)
	if at >= len(words) {
		return nil
	}
	sub, args := words[at], words[at+1:]
	has := func(texts ...string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return slices.Contains(texts, a) })
	}
	letter := func(set string) bool {
		return slices.ContainsFunc(args, func(a string) bool {
			return len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.ContainsAny(a[1:], set)
		})
	}
	begins := func(prefix string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, prefix) })
	}
	switch sub {
	case "push":
		if begins("--force") || letter("fd") || has("--delete", "--mirror", "--prune") || begins("+") || begins(":") {
			return &Harm{Impact: "replaces or removes what the other side has", Advice: adviceRemote}
		}
	case "reset":
		if has("--hard", "--merge", "--keep") {
			return &Harm{Impact: "throws away changes that are not committed", Advice: adviceReflog + "; uncommitted changes: " + adviceFiles}
		}
	case "clean":
		if letter("f") || begins("--force") {
			return &Harm{Impact: "deletes files that git doesn't know", Advice: adviceFiles}
		}
	case "checkout", "switch", "restore":
		if sub == "restore" && !has("--staged", "-S") || letter("f") || has("--force", "--discard-changes", "--", ".") {
			return &Harm{Impact: "throws away changes that are not committed", Advice: adviceFiles}
		}
	case "branch", "tag":
		if letter("dDM") || has("--delete", "--force") {
			return &Harm{Impact: "removes or replaces a name of commits", Advice: adviceReflog}
		}
	case "stash":
		if has("drop", "clear") {
			return &Harm{Impact: "throws away changes that were put aside", Advice: "git fsck may still find them"}
		}
	case "reflog", "update-ref":
		if has("expire", "delete", "-d") {
			return &Harm{Impact: "removes the last names of commits", Advice: adviceNone}
		}
	case "filter-branch", "filter-repo", "rebase":
		return &Harm{Impact: "writes the history anew", Advice: adviceReflog}
	case "commit":
		if has("--amend") {
			return &Harm{Impact: "replaces the last commit", Advice: adviceReflog}
		}
	case "rm":
		return &Harm{Impact: "deletes files", Advice: "git restore brings back what was committed"}
	case "gc", "prune":
		if sub == "prune" || begins("--prune") {
			return &Harm{Impact: "removes commits that nothing names", Advice: adviceNone}
		}
	}
	return nil
}

// sqlHarm is what destroys data in the languages of databases.
var sqlHarm = regexp.MustCompile(`(?i)\b(drop\s+(table|database|schema|view|index|user|role|collection)|truncate\s+\w|delete\s+from|alter\s+table\s+\S+\s+drop|flushall|flushdb|dropdatabase|\.drop\(|deletemany|\.shell|\.system|\\!)`)

func harmData(args []word) *Harm {
	if sqlHarm.MatchString(strings.Join(wordTexts(args), " ")) {
		return &Harm{Impact: "deletes data from a database", Advice: "nothing brings it back but the database's own backup"}
	}
	return nil
}

// services are the words by which programs remove what runs elsewhere.
var services = map[string][]string{
	"docker": {"rm", "rmi", "prune", "kill", "stop", "down"}, "podman": {"rm", "rmi", "prune", "kill", "stop", "down"}, "docker-compose": {"rm", "down", "kill"},
	"kubectl": {"delete", "drain", "replace"}, "helm": {"uninstall", "delete", "rollback"}, "terraform": {"destroy", "apply"}, "tofu": {"destroy", "apply"},
	"aws": {"rm", "rb", "delete", "terminate-instances"}, "gcloud": {"delete"}, "az": {"delete"}, "gh": {"delete"},
	"npm": {"publish", "unpublish", "deprecate"}, "pnpm": {"publish"}, "yarn": {"publish"}, "cargo": {"publish", "yank"}, "twine": {"upload"},
	"systemctl": {"stop", "disable", "mask", "kill", "restart"}, "crontab": {"-r"}, "iptables": {"-F", "--flush", "-X"}, "apt": {"remove", "purge", "autoremove"},
	"apt-get": {"remove", "purge", "autoremove"}, "dnf": {"remove"}, "yum": {"remove"}, "brew": {"uninstall"}, "pip": {"uninstall"}, "pip3": {"uninstall"},
	"lvremove": {""}, "vgremove": {""}, "zfs": {"destroy"}, "zpool": {"destroy"}, "vault": {"delete"},
}

func harmService(name string, args []string) *Harm {
	for _, bad := range services[name] {
		for _, a := range args {
			if a == bad || bad == "" || (bad == "delete" && strings.HasPrefix(a, "delete-")) {
				return &Harm{Impact: name + " " + a + " removes or changes something outside of the workspace", Advice: adviceRemote}
			}
		}
	}
	return nil
}
