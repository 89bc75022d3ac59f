package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write the reference pages anew")

// tree returns all commands.
func tree() *cobra.Command {
	root := (&app{version: "devel", in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}).root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

func TestReference(t *testing.T) {
	dir := filepath.Join("..", "..", "docs", "reference")
	for name, want := range map[string]string{"cli.md": cliReference(tree()), "config.md": configReference()} {
		path := filepath.Join(dir, name)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("%s is not up to date (%v): run go test ./cmd/agentd -run TestReference -update", path, err)
		}
	}
}

func TestEveryCommandHelps(t *testing.T) {
	for _, c := range commandTree(tree()) {
		path := c.CommandPath()
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s has no short text or no example", path)
		}
		for line := range strings.SplitSeq(c.Example, "\n") {
			if !strings.Contains(line, "agentd") {
				t.Errorf("%s: the example %q is none", path, line)
			}
		}
		if !strings.Contains(c.Long, "Exit codes:") {
			t.Errorf("%s doesn't say its exit codes", path)
		}
		for line := range strings.SplitSeq(c.Long, "\n") {
			if len(line) > 82 {
				t.Errorf("%s: a line is wider than a terminal: %q", path, line)
			}
		}
		var out bytes.Buffer
		args := strings.Fields(path + " --help")[1:]
		if code := (&Main{}).Run(context.Background(), args, nil, &out, &out, nil); code != 0 || !strings.Contains(out.String(), "Usage:") {
			t.Errorf("%s --help: %d\n%s", path, code, out.String())
		}
	}
}
