package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentd/cmd/agentd/internal/config"
	"agentd/sandbox"
)

// TestSecretPlacesAreDocumented holds the list against the security model.
func TestSecretPlacesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(text), "\n## Usual places of secrets\n")
	if !found {
		t.Fatal("the list is gone")
	}
	for _, path := range sandbox.SecretPlaces() {
		if !strings.Contains(list, "`"+path+"`") {
			t.Errorf("%s is not listed", path)
		}
	}
}

func TestVisiblePlacesAreNotHidden(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	a := &app{env: map[string]string{"HOME": home, "XDG_STATE_HOME": home + "/state"}}
	c := &config.Config{Data: home + "/data", StateDir: home + "/data"}
	c.Sandbox.Visible = []string{"~/.aws", "~/.config"}
	c.Sandbox.Hidden = []string{"~/.config/gh", "~/mine"}
	hidden, err := a.hiddenPaths(c)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"/.ssh": true, "/.kube": true, "/.aws": false, "/.config/gcloud": false, "/.config/gh": true, "/mine": true, "/data": true,
	} {
		if got := slices.Contains(hidden, home+path); got != want {
			t.Errorf("%s is hidden: %v, want %v", path, got, want)
		}
	}
}

// TestBoundPaths finds each kind of file that bounds agents.
func TestBoundPaths(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"agentd.yaml", "hook.sh", "guard.py", "server.js", "answers.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("hook.sh", dir+"/link.sh"); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	c := &config.Config{
		File:      dir + "/agentd.yaml",
		Providers: []config.Provider{{ID: "x", Kind: "script", Script: "answers.yaml"}},
		Hooks:     []config.Hook{{Command: []string{"./link.sh", "--fast"}}, {Command: []string{"sh", "guard.py"}}},
		MCP:       []config.MCP{{ID: "m", Command: []string{"node", "server.js", "missing.js"}}},
	}
	c.Sandbox.Protected = []string{"ci/deploy.yaml", dir + "/mine"}
	got := boundPaths(c).Paths
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		dir + "/agentd.yaml", dir + "/answers.yaml", dir + "/link.sh", dir + "/hook.sh", dir + "/guard.py", dir + "/server.js", "ci/deploy.yaml", dir + "/mine", self, config.ProjectFileName,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing in %v", want, got)
		}
	}
	if slices.Contains(got, dir+"/missing.js") || slices.Contains(got, dir+"/--fast") {
		t.Errorf("%v has what isn't there", got)
	}
}

// TestCommandWords: whatever way a command names a script of the workspace, the script
// is among its words.
func TestCommandWords(t *testing.T) {
	for _, tc := range []struct{ command, want []string }{
		{[]string{"sh", "scripts/a.sh"}, []string{"scripts/a.sh"}},
		{[]string{"./scripts/b.sh"}, []string{"./scripts/b.sh"}},
		{[]string{"sh", "-c", "exec ./scripts/c.sh"}, []string{"./scripts/c.sh"}},
		{[]string{"sh", "-c", "cd hooks && ./e.sh; test -x 'my hooks/f.sh'"}, []string{"hooks", "./e.sh", "my hooks/f.sh"}},
		{[]string{"sh", "-c", `./scripts/"c".sh`}, []string{"./scripts/c.sh"}},
		{[]string{"bash", "-c", `"$PWD"/scripts/c.sh; $ROOT/d.sh`}, []string{"d.sh"}},
		{[]string{"env", "A=1", "scripts/b.sh"}, []string{"scripts/b.sh"}},
		{[]string{"env", "-C", "hooks", "./c.sh"}, []string{"hooks", "./c.sh"}},
		{[]string{"node", "--require=./guard.js", "-rother.js", "x.js"}, []string{"./guard.js", "other.js", "x.js"}},
		{[]string{"env", "BASH_ENV=scripts/rc", "bash"}, []string{"scripts/rc"}},
	} {
		got := commandWords(tc.command)
		for _, want := range tc.want {
			if !slices.Contains(got, want) {
				t.Errorf("%q: %q is missing in %q", tc.command, want, got)
			}
		}
		if slices.Contains(got, tc.command[0]) && !strings.Contains(tc.command[0], "/") {
			t.Errorf("%q: the program counts as a file of the workspace", tc.command)
		}
	}
}
