package escapetest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"agentd"
	"agentd/event"
	"agentd/model/provider/script"
	"agentd/sandbox"
)

// TestReadsCantWrite: a mode that asks about everything but reads has only the words of a
// line to tell them by. What a repository, or a variable, makes of such a line runs where
// it can neither write nor reach anything. The same runs as the profile says once someone
// has allowed it.
func TestReadsCantWrite(t *testing.T) {
	if r := report(); !r.MountNamespace.Available && !r.Landlock.Available || !r.Seccomp.Available {
		t.Skip("skipped: the sandbox isn't enforced here, so that reads ask")
	}
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("skipped: what a repository makes of a read; there is no git")
	}
	w := newWorld(t, sandbox.WorkspaceWrite)
	w.profile.Network = sandbox.NetworkAllow
	w.prepare()
	// A repository can bring another one, whose settings name a program.
	bare := w.workspace + "/vendor/x"
	w.must(exec.CommandContext(t.Context(), git, "init", "-q", "--bare", bare).Run())
	w.must(os.WriteFile(bare+"/config", []byte("[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = "+bare+"\n\tfsmonitor = "+w.workspace+"/run\n"), 0o644))
	w.must(os.WriteFile(w.workspace+"/run", []byte("#!/bin/sh\necho x > "+w.workspace+"/mark\n"+w.fill("ATTACK:tcp:")+" "+w.tcp+"\n"), 0o755))
	const allowed = "git -C ./vendor/x status"
	lines := []string{allowed, "git -C vendor/x status", "cd vendor/x && git status"}
	if zgrep, err := exec.LookPath("zgrep"); err == nil && readsVariable(zgrep) {
		lines = append(lines, "GREP=./run zgrep -c x /etc/passwd")
	}
	var answers []script.Answer
	for i, line := range lines {
		answers = append(answers, wants(mark(i), script.Tool{Name: "shell", Arguments: map[string]any{"command": line}})...)
	}
	w.open("default", answers, func(o *agentd.Options) {
		o.Loop.Host.Rules = []event.PolicyRule{{Decision: "allow", Tool: "shell", Match: allowed}}
	})
	for i, line := range lines {
		w.reached.Store(0)
		id := fmt.Sprintf("sess_read_%d", i)
		w.ask(id, mark(i))
		c := w.facts(id)
		if c.permission == nil || c.permission.Decision != "allow" || c.applied == nil {
			t.Fatalf("%s: it isn't allowed: %s", line, c.finalText())
		}
		wrote, reached := os.Remove(w.workspace+"/mark") == nil, w.connected()
		if line == allowed {
			if !wrote || !reached || c.applied.Mode != string(sandbox.WorkspaceWrite) {
				t.Errorf("%s: nothing runs in %s, so that the others prove nothing: %s", line, c.applied.Mode, c.finalText())
			}
			continue
		}
		if c.applied.Mode != string(sandbox.ReadOnly) || c.applied.Network != string(sandbox.NetworkDeny) || len(c.applied.WriteRoots) > 0 {
			t.Errorf("%s: it ran in %s with the network %s, and could write to %v", line, c.applied.Mode, c.applied.Network, c.applied.WriteRoots)
		}
		if wrote || reached {
			t.Errorf("%s: it wrote: %v, it reached the network: %v: %s", line, wrote, reached, c.finalText())
		}
	}
}

// readsVariable says that a script takes the name of grep from a variable.
func readsVariable(file string) bool {
	text, err := os.ReadFile(file)
	return err == nil && strings.Contains(string(text), "${GREP")
}
