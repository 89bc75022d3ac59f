package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentd/command"
)

// TestCommandsHaveLines: every command of the catalogue has a line, and every line is a command
// of the program.
func TestCommandsHaveLines(t *testing.T) {
	for _, d := range command.Catalog() {
		if _, ok := commandLines[string(d.Name)]; !ok && strings.Contains(string(d.Name), "_") {
			t.Errorf("%s is missing in commandLines: how is it given at a shell?", d.Name)
		}
	}
	for name := range commandLines {
		if _, ok := command.Lookup(command.Name(name)); !ok {
			t.Errorf("%s is not in the catalogue", name)
		}
		isCommandLine(t, lineOf(name))
	}
}

// isCommandLine fails unless the program has the command that a line gives.
func isCommandLine(t *testing.T, line string) {
	t.Helper()
	words := slices.DeleteFunc(strings.Fields(line)[1:], func(word string) bool { return strings.HasPrefix(word, "-") })
	cmd, rest, err := (&app{}).root().Find(words)
	if err != nil || len(rest) > 0 && cmd.Name() != "call" {
		t.Errorf("%q is no command of the program: %v", line, err)
	}
}

// namingTexts returns the texts of the sources that name a command of the catalogue beside
// something else: errors, advice and reasons.
func namingTexts(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	skipped := []string{"bench", "command", "console", "docs", "internal", "testdata"}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); slices.Contains(skipped, name) || strings.HasPrefix(name, ".") && name != ".." {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if text, err := strconv.Unquote(l.Value); err == nil && strings.Contains(text, " ") && namedCommand().MatchString(text) {
					found[text] = path
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestErrorsNameCommandLines goes through all texts of the program that name a command of the
// catalogue: at a shell each names a command line that exists, and nothing else.
func TestErrorsNameCommandLines(t *testing.T) {
	texts := namingTexts(t)
	if len(texts) < 30 {
		t.Fatalf("only %d texts were found: nothing is tested", len(texts))
	}
	for text, path := range texts {
		said := nameCommandLines(text)
		for _, at := range namedCommand().FindAllStringSubmatchIndex(said, -1) {
			if before := said[:at[0]]; at[2] < 0 && !strings.HasSuffix(before, "/") && !strings.HasSuffix(before, `"`) {
				t.Errorf("%s: %q still names %s", path, said, said[at[4]:at[5]])
			}
		}
		for i, part := range strings.Split(said, `"`) {
			if i%2 == 1 && strings.HasPrefix(part, "agentd ") && !strings.Contains(text, part) {
				isCommandLine(t, part)
			}
		}
	}
}

func TestNameCommandLines(t *testing.T) {
	for text, want := range map[string]string{
		"there is no node a; list_nodes has those that there are":                           `there is no node a; "agentd nodes" has those that there are`,
		"drain it first (drain_node), and bring the files along":                            `drain it first ("agentd nodes drain"), and bring the files along`,
		"let it take work again (drain_node with end)":                                      `let it take work again ("agentd nodes undrain")`,
		"if the files are lost, move_session (agentd nodes move) gives it another place":    `if the files are lost, "agentd nodes move" gives it another place`,
		"channel c is not connected: use reconnect_channel with session s":                  `channel c is not connected: use "agentd call reconnect_channel" with session s`,
		"thread t is running; use interrupt_turn with queue: clear first":                   `thread t is running; use "agentd interrupt --clear" first`,
		"Let it go on with: agentd call resume_thread '{}'":                                 "Let it go on with: agentd call resume_thread '{}'",
		"if a person meant it: agentd policy accept, or set_policy with acceptWorkspace":    `if a person meant it: "agentd policy accept"`,
		`POST /v1/commands/list_nodes: there is no command "list_nodez", only "list_nodes"`: `POST /v1/commands/list_nodes: there is no command "list_nodez", only "list_nodes"`,
		"usage of respond_actions and respond_action":                                       `usage of "agentd approve" and "agentd approve"`,
	} {
		if got := nameCommandLines(text); got != want {
			t.Errorf("%q\n got %q\nwant %q", text, got, want)
		}
	}
	if got := nameCommandLines("there is no session list_nodes; list_sessions", "list_nodes"); got != `there is no session list_nodes; "agentd sessions"` {
		t.Errorf("what was typed is changed: %q", got)
	}
}
