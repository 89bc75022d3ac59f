package permission

import (
	"path"
	"slices"
	"strings"

	"agentd/event"
	"agentd/internal/clip"
	"agentd/tool/toolkind"
)

// SourceProject is the source of rules that a person kept for a project by answering a
// question. They allow by prefix, so they cover less than rules that were written: see
// [event.PolicyRule] and coverLine.
const SourceProject = "project"

// maxKept is how many rules one answer keeps at most.
const maxKept = 4

// KeepRules returns the rules that would let calls like this one run, for an answer that
// is kept for the project: by the first words of each command, by the folder of a file,
// or by the tool. It returns none where no such rule would answer the question: a rule
// or a hook asks, the call destroys something or leaves the sandbox, it changes what
// bounds the agent, or it can't be told what it runs.
//
// It is a pure function, as [Decide] is, and what it returns allows the call.
func KeepRules(q Question) (rules []event.PolicyRule) {
	defer func() {
		if recover() != nil {
			rules = nil
		}
	}()
	d := Decide(q)
	if d.Decision != Ask || d.NeedsOutside {
		return nil
	}
	if q.Cwd == "" {
		q.Cwd = q.Root
	}
	q.Resolve = remembering(q.Resolve)
	f := gatherFacts(&q)
	if f.unclear != "" || f.bound != "" || f.destructive && f.kind != kindFileWrite {
		return nil
	}
	switch f.kind {
	case kindShell:
		rules = q.keepLine(f)
	case kindFileWrite:
		rules = q.keepFile(f.place)
	case kindOther, kindAgent:
		rules = []event.PolicyRule{{Tool: escapeText(q.Tool.ToolName)}}
	case kindFileRead, kindTalk, kindHandOver:
		return nil
	}
	if len(rules) == 0 || len(rules) > maxKept {
		return nil
	}
	for i := range rules {
		rules[i].Decision, rules[i].Source = Allow, SourceProject
		if checkRule(&rules[i]) != nil {
			return nil
		}
	}
	q.Rules = append(slices.Clone(q.Rules), rules...)
	if after := Decide(q); after.Decision != Allow || after.DecisionSource != sourceRule {
		return nil
	}
	return rules
}

// keepLine proposes a rule for each command and each written file of a line that doesn't
// run by itself.
func (q *Question) keepLine(f *facts) []event.PolicyRule {
	h := ruleMatcher{q: q, f: f}
	for _, r := range readRules(q.Rules) {
		if r.Decision == Allow {
			h.allows = append(h.allows, &r)
		}
	}
	var out []event.PolicyRule
	add := func(tool, match string) {
		r := event.PolicyRule{Tool: tool, Match: match}
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	for i := range f.line.Commands {
		c := &f.line.Commands[i]
		covered := slices.ContainsFunc(h.allows, func(r *rule) bool { return r.applies(q.Tool.ToolName) && r.coversCommand(c) })
		if c.Wrapper || covered || q.runsByMode(f, c) {
			continue
		}
		match := commandPrefix(c)
		if match == "" {
			return nil
		}
		add(q.Tool.ToolName, match)
	}
	for _, w := range f.line.Writes {
		if w.harmless() || w.Known && h.coverWrite(w) != nil || q.writesByMode(f, w) {
			continue
		}
		pl := q.from(f.cwd).placeOf(w.Path)
		rel, ok := pathRelative(q.Root, pl.abs)
		if !w.Known || !ok {
			return nil
		}
		add(string(toolkind.WriteFile), escapePath(rel))
	}
	return out
}

// keepFile proposes a rule for the folder that a file is in; for the file alone where
// that is the workspace itself, or a folder that is hidden.
func (q *Question) keepFile(pl *place) []event.PolicyRule {
	rel, ok := pathRelative(q.Root, pl.abs)
	if !ok {
		return nil
	}
	match := escapePath(rel)
	if dir := path.Dir(rel); dir != "." && !hiddenPath(dir) {
		match = escapePath(dir) + "/**"
	}
	return []event.PolicyRule{{Tool: q.Tool.ToolName, Match: match}}
}

func hiddenPath(rel string) bool {
	return slices.ContainsFunc(strings.Split(rel, "/"), func(e string) bool { return strings.HasPrefix(e, ".") })
}

// pathRelative is a path below a folder, without the folder.
func pathRelative(root, p string) (string, bool) {
	rest, ok := strings.CutPrefix(p, strings.TrimSuffix(root, "/")+"/")
	return rest, ok && rest != ""
}

// prefixDepth says how many words of a command tell what it does, the program included.
// A program that isn't listed is told by its name.
var prefixDepth = map[string]int{
	"git": 2, "go": 2, "npm": 2, "pnpm": 2, "yarn": 2, "bun": 2, "deno": 2, "cargo": 2, "make": 2, "gmake": 2, "just": 2, "rake": 2, "task": 2,
	"docker-compose": 2, "helm": 2, "terraform": 2, "tofu": 2, "gh": 3, "glab": 3, "aws": 3, "gcloud": 3, "az": 3,
	"pip": 2, "pip3": 2, "uv": 2, "poetry": 2, "pipenv": 2, "bundle": 2, "gem": 2, "composer": 2, "mix": 2, "dotnet": 2, "mvn": 2, "gradle": 2, "sbt": 2,
	"rustup": 2, "brew": 2, "apt": 2, "apt-get": 2, "dnf": 2, "yum": 2, "apk": 2, "systemctl": 2, "npx": 2, "pnpx": 2, "bunx": 2, "corepack": 2, "bazel": 2,
	"nx": 2, "turbo": 2, "lerna": 2, "flutter": 2, "dart": 2, "swift": 2, "zig": 2, "nix": 2, "conda": 2, "mamba": 2, "rails": 2,
	"./gradlew": 2, "./mvnw": 2,
}

// deeper are words after which one more tells what is done: "npm run build".
var deeper = map[string][]string{
	"npm": {"run", "run-script", "exec", "x"}, "pnpm": {"run", "exec", "dlx"}, "yarn": {"run", "workspace", "dlx"}, "bun": {"run", "x"}, "deno": {"run", "task"},
	"go": {"run", "tool", "generate", "install", "mod"}, "cargo": {"run", "xtask"}, "uv": {"run", "pip", "tool"},
	"poetry": {"run"}, "pipenv": {"run"}, "bundle": {"exec"}, "dotnet": {"tool"}, "mix": {"do"}, "git": {"stash", "worktree", "submodule", "remote"},
}

// exact are programs that run what they are told, or change what others run: only the
// very same command is kept.
var exact = strings.Fields(`sh bash zsh dash ksh fish csh tcsh busybox eval source . exec command builtin sudo su doas env xargs parallel nohup setsid timeout nice time watch
	python python2 python3 pypy pypy3 node ruby perl php lua tclsh awk gawk mawk osascript powershell pwsh java jshell scala groovy ghci R Rscript julia elixir iex
	ssh scp sftp rsync nc ncat socat telnet ftp curl wget crontab at batch systemd-run docker podman kubectl chroot unshare nsenter find fd vim vi nvim ex ed emacs nano
	sqlite3 psql mysql mariadb duckdb redis-cli mongosh gdb lldb strace ltrace expect script screen tmux
	dd mkfs mount umount chmod chown chgrp kill pkill killall`)

// exactGit are git's subcommands of which only the very same command is kept.
var exactGit = strings.Fields(`config remote submodule bisect filter-branch filter-repo rebase clean reset gc prune reflog update-ref hook daemon instaweb difftool mergetool send-email apply am`)

// commandPrefix is the pattern by which commands like this one are kept; empty if none
// is. It ends in " *" unless only this very command is meant.
func commandPrefix(c *Command) string {
	if c.Harm != nil || c.Unknown != "" || len(c.Words) == 0 {
		return ""
	}
	name := path.Base(c.Words[0])
	if !c.system() {
		name = c.Words[0] // a program of the workspace is known by its whole path
	}
	n := max(prefixDepth[name], 1)
	if len(c.Words) > 1 && slices.Contains(deeper[name], c.Words[1]) {
		n = 3
	}
	if slices.Contains(exact, name) || name == "git" && len(c.Words) > 1 && slices.Contains(exactGit, c.Words[1]) || len(c.Words) < n {
		return wholeCommand(c)
	}
	for _, w := range c.Words[:n] {
		if w == "" || w[0] == '-' || len(w) > 200 || strings.ContainsAny(w, " \t\n\r*?["+string(hole)) {
			return wholeCommand(c)
		}
	}
	return escapeText(strings.Join(c.Words[:n], " ")) + " *"
}

// wholeCommand is the pattern that takes this very command; empty if a part of it is
// known only when it runs.
func wholeCommand(c *Command) string {
	text := strings.Join(c.Words, " ")
	if len(text) > 512 || strings.ContainsAny(text, "\n\r"+string(hole)) {
		return ""
	}
	return escapeText(text)
}

// escapeText is the pattern over commands, inputs and names that takes one text alone,
// escapePath the one over paths.
func escapeText(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(text)
}

func escapePath(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`, `}`, `\}`, `,`, `\,`).Replace(text)
}

// coversCommand says that an allow rule covers a command. One that was kept for a project
// by prefix doesn't cover what destroys, nor what may run code that can't be told: the
// person who kept it saw neither.
func (r *rule) coversCommand(c *Command) bool {
	if !allows(r, c) {
		return false
	}
	return r.Source != SourceProject || c.Harm == nil && (c.Unknown == "" || r.text.literal())
}

// SayRule is a rule in the words of a policy file, for people: "allow shell: go test *".
func SayRule(r event.PolicyRule) string {
	out := r.Decision + " " + r.Tool
	if r.Match != "" {
		out += ": " + clip.Text(r.Match, 200)
	}
	return out
}
