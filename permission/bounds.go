package permission

import (
	"path"
	"slices"
	"strings"
)

// bounded returns the path of Question.Bounds that writing at a place would change: one
// at the place, above it or below it, by its name or by where it leads. What git reads
// in order to run programs counts in every folder, there or not.
func (q *Question) bounded(pl place) string {
	for _, p := range []string{pl.abs, pl.real} {
		if steersGit(p) {
			return p
		}
	}
	for _, b := range q.Bounds {
		b = path.Clean(b)
		ends := []string{b}
		if q.Resolve != nil {
			if r := q.Resolve(b); r != "" && r != b {
				ends = append(ends, path.Clean(r))
			}
		}
		for _, end := range ends {
			for _, p := range []string{pl.abs, pl.real} {
				if pathWithin(p, end) || pathWithin(end, p) {
					return b
				}
			}
		}
	}
	return ""
}

// steersGit says that a file is one by which a repository, in whatever folder, chooses
// the programs that git runs: the .git that says where it is, its configuration, its
// hooks. Some file systems take .GIT for .git.
func steersGit(p string) bool {
	elements := strings.Split(strings.ToLower(path.Clean(p)), "/")
	at := slices.Index(elements, ".git")
	if at < 0 {
		return false
	}
	inside := elements[at+1:]
	return len(inside) == 0 || slices.Contains(inside, "hooks") || slices.Contains(gitSettings, inside[len(inside)-1])
}

// gitSettings are the files of a repository that say what git runs, or where the rest is.
var gitSettings = []string{".git", "config", "config.worktree", "commondir", "gitdir"}

// askAboutBound is the voice for what bounds the agent. It is as strong as an ask rule:
// a policy that an agent may rewrite holds nothing.
func (f *facts) askAboutBound() outcome {
	return outcome{
		decision: Ask, source: sourceMode,
		reason: "it changes " + f.bound + ", which bounds what agents may do; that asks in every mode, whatever is allowed otherwise",
	}
}
