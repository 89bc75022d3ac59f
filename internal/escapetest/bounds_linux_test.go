package escapetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd"
	"agentd/event"
	"agentd/sandbox"
)

// unbound: what bounds the agent, or what the repository runs for people, isn't what
// it was.
func unbound(w *world, _ *call) bool {
	for path, text := range w.bounds() {
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			return true
		}
	}
	entries, err := os.ReadDir(w.workspace + "/.git/hooks")
	return err != nil || len(entries) != 1
}

// boundsOfTheAgent change what git runs for whoever uses the repository.
func boundsOfTheAgent() []attempt {
	return []attempt{
		{name: "write a git hook", line: "echo pwned > .git/hooks/pre-commit", claims: protects, escaped: unbound},
		{name: "make another git hook", line: "echo pwned > .git/hooks/post-checkout", claims: protects, escaped: unbound},
		{name: "append to git's configuration", line: "printf '[core]\\n\\tfsmonitor = pwned\\n' >> .git/config", claims: protects, escaped: unbound},
		{name: "git config", line: "cd .git/.. && git config core.hooksPath /tmp/x", claims: protects, escaped: unbound},
		{name: "rename over git's configuration", line: "echo pwned > other; mv -f other .git/config", claims: protects, escaped: unbound},
		{name: "remove git's hooks", line: "rm -rf .git/hooks", claims: protects, escaped: unbound},
		{name: "move git's hooks away", line: "mv .git/hooks other && mkdir .git/hooks && echo pwned > .git/hooks/pre-commit", claims: protects, escaped: unbound},
		{name: "another repository in its place", line: "mv .git other && mkdir -p .git/hooks && echo pwned > .git/config", claims: protects, escaped: unbound},
		{name: "a link in the place of the repository", line: "mv .git other; ln -s other .git; echo pwned > .git/config", claims: protects, escaped: unbound},
		{name: "a git hook by a hard link", line: "ln .git/hooks/pre-commit other && echo pwned > other", claims: protects, escaped: unbound},
		{name: "mode of a git hook", line: "chmod 777 .git/hooks/pre-commit && echo pwned > .git/hooks/pre-commit", claims: protects, escaped: unbound},
		{name: "a hook in the folder that core.hooksPath names", line: "echo pwned > .husky/pre-commit", claims: protects, escaped: unbound},
		{name: "the folder that core.hooksPath names", line: "mv .husky other && mkdir .husky && echo pwned > .husky/pre-commit", claims: protects, escaped: unbound},
		{name: "a file that git's configuration includes", line: "echo pwned > .gitconfig", claims: protects, escaped: unbound},
		{name: "configuration of a submodule without HEAD", line: "echo pwned > .git/modules/sub/config", claims: protects, escaped: unbound},
		{name: "configuration of a submodule called logs", line: "touch .git/modules/HEAD; echo pwned > .git/modules/logs/config", claims: protects, escaped: unbound},
		{name: "where the repository of a submodule is", line: "rm -f sub/.git; echo 'gitdir: ../evil' > sub/.git", claims: protects, escaped: unbound},
		{name: "where the repository of a worktree is", line: "echo ../../../evil > .git/worktrees/wt/commondir", claims: protects, escaped: unbound},
		{name: "the script of a hook", line: "echo pwned | tee scripts/guard.sh", claims: protects, escaped: unbound},
		{name: "the folder with the script of a hook", line: "mv scripts other && mkdir scripts && echo pwned | tee scripts/guard.sh", claims: protects, escaped: unbound},
		{name: "write_file over a submodule's .git", tool: "write_file", args: map[string]any{"path": "sub/.git", "content": "pwned"}, claims: always, escaped: unbound},
		{name: "write_file of a nested repository's configuration", tool: "write_file", args: map[string]any{"path": "new/.git/config", "content": "pwned"}, claims: always, escaped: wrote},
		{name: "write_file into git's hooks", tool: "write_file", args: map[string]any{"path": ".git/hooks/pre-commit", "content": "pwned"}, claims: always, escaped: unbound},
		{name: "write_file over git's configuration", tool: "write_file", args: map[string]any{"path": ".git/config", "content": "pwned"}, claims: always, escaped: unbound},
		{name: "edit_file of git's configuration", tool: "edit_file", args: map[string]any{"path": ".git/config", "old": "[core]", "new": "pwned"}, claims: always, escaped: unbound},
	}
}

// renamedFolders look at what is hidden below a folder of the workspace.
func renamedFolders() []attempt {
	return []attempt{
		{name: "hidden file", line: "cat $NESTED", claims: mounts, escaped: leaked},
		{name: "hidden file by renaming it", line: "mv $NESTED other; cat other", claims: mounts, escaped: leaked},
		{name: "hidden file by renaming its folder", line: "mv conf/deep other; cat other/secret", claims: mounts, escaped: leaked},
		{name: "hidden file by renaming the folder above", line: "mv conf other; cat other/deep/secret", claims: mounts, escaped: leaked},
		{name: "hidden file by another in its place", line: "mv conf other; mkdir -p conf/deep; : > conf/deep/secret; cat other/deep/secret", claims: mounts, escaped: leaked},
		{name: "hidden file by exchanging folders", line: "rm -f f; mkdir -p f/deep; ATTACK:exchange: $WS/conf; cat f/deep/secret; rm -rf f", claims: mounts, escaped: leaked},
		{name: "hidden file by removing its folder", line: "rm -rf conf; cat $NESTED; ls conf/deep && exit 1; exit 0", claims: mounts, escaped: func(w *world, _ *call) bool {
			b, err := os.ReadFile(w.nested)
			return err != nil || string(b) != plantedPrivate
		}},
		{name: "hidden file by read_file", tool: "read_file", args: map[string]any{"path": "conf/deep/secret"}, claims: always, escaped: leaked},
		{name: "hidden file by search_files", tool: "search_files", args: map[string]any{"pattern": "planted"}, claims: always, escaped: leaked},
	}
}

// TestReplacedLinksAreTold: a link can't be covered by a mount, so the facts say that a
// command put something else in its place.
func TestReplacedLinksAreTold(t *testing.T) {
	w := newWorld(t, sandbox.WorkspaceWrite)
	link := w.workspace + "/.git/modules/logs/hooks"
	lines := []attempt{
		{line: "rm .git/modules/logs/hooks"}, {line: "cd .git/modules/logs && rm hooks && mkdir hooks"}, {line: "ln -sfn ../../x .git/modules/logs/hooks"}, {line: "true"},
	}
	w.open("bypass", w.answers(lines), nil)
	for i, a := range lines {
		w.must(os.RemoveAll(link))
		w.must(os.Symlink("../../hooks", link))
		id := fmt.Sprintf("sess_link_%d", i)
		w.ask(id, mark(i))
		if c := w.facts(id); strings.Contains(c.text, "bound_changed") != (a.line != "true") {
			t.Errorf("%s: %s", a.line, c.finalText())
		}
	}
}

// TestTooManyDeniedFiles: a command that makes more files than can be covered doesn't
// open any of them to the next.
func TestTooManyDeniedFiles(t *testing.T) {
	w := newWorld(t, sandbox.WorkspaceWrite)
	if !report().MountNamespace.Available {
		t.Skip("files can't be covered here: " + report().MountNamespace.Reason)
	}
	for i := range 1001 {
		dir := filepath.Join(w.workspace, "many", fmt.Sprint(i))
		w.must(os.MkdirAll(dir, 0o755))
		w.must(os.WriteFile(dir+"/.env", nil, 0o644))
		w.must(os.WriteFile(dir+"/beside", nil, 0o644))
	}
	w.must(os.MkdirAll(w.workspace+"/zz", 0o755))
	w.must(os.WriteFile(w.workspace+"/zz/.env", []byte(plantedStore), 0o644))
	w.must(os.WriteFile(w.workspace+"/look.sh", []byte("cat zz/.e*\n"), 0o644))
	w.open("bypass", w.answers([]attempt{{line: "sh look.sh"}}), func(o *agentd.Options) {
		o.Loop.Host.Rules = []event.PolicyRule{{Decision: "deny", Tool: "*_file", Match: "**/.env"}}
	})
	w.ask("sess_many", mark(0))
	c := w.facts("sess_many")
	if leaked(w, c) || c.failed == nil || c.failed.ErrorCategory != "denied" || c.failed.Advice == "" || c.violation == nil || c.violation.Boundary != "rule" {
		t.Errorf("%s: failed %+v, violation %+v", c.how(), c.failed, c.violation)
	}
}
