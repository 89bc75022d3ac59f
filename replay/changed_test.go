package replay_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentd/command"
)

// replayer is a program that runs a case again and says the first difference.
const replayer = `package main

import (
	"encoding/json"
	"fmt"
	"os"

	"agentd/evidence"
	"agentd/replay"
)

func main() {
	c := &evidence.Case{}
	data, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = json.Unmarshal(data, c)
	}
	var rec *replay.Recording
	if err == nil {
		rec, err = replay.OfCase(c)
	}
	var report *replay.Report
	if err == nil {
		report, err = replay.Walk(rec, replay.Options{})
	}
	switch {
	case err != nil:
		fmt.Println("error:", err)
	case len(report.Differences) > 0:
		fmt.Println(report.Differences[0].Says)
	default:
		fmt.Println("the same")
	}
}
`

// change is a change of the program's source.
type change struct{ file, from, to, says string }

// changes are mistakes that somebody could make. The sources are changed only for the
// compiler, which is given other files in their place.
var changes = map[string]change{
	"nothing is changed": {says: "the same"},
	"the loop drops tool calls": {
		"loop/next.go", "if e := p.nextTool(t, turn); e != nil {", "if e := p.nextTool(t, turn); e != nil && turn == nil {",
		"turn 1, call 1: fact",
	},
	"the loop doesn't try again": {
		"loop/next_failure.go", "case c.Retryable && c.Tries < tries && p.patient(c, another):", "case c.Retryable && c.Tries < tries-3 && p.patient(c, another):",
		"turn 1: fact",
	},
	"the loop counts steps otherwise": {
		"loop/next.go", "return p.callModel(t, turn, c.Step+1, 1)", "return p.callModel(t, turn, c.Step+2, 1)",
		"Step:3",
	},
	"a turn ends before its tools were answered": {
		"loop/next.go", `if c.StopReason == "tool_use" || len(turn.Tools) > 0 ||`, `if`,
		"CompleteTurn",
	},
	"decisions are stricter": {
		"permission/permission.go", "	o := q.settle(f, r)\n", "	o := q.settle(f, r)\n	if o.decision == Allow {\n		o.decision = Deny\n	}\n",
		"turn 1, call 1: write_file would be deny instead of allow",
	},
	"decisions are looser": {
		"permission/permission.go", "	o := q.settle(f, r)\n", "	o := q.settle(f, r)\n	o.decision = Allow\n",
		"turn 2, call 1: write_file would be allow instead of deny",
	},
	"money is no object": {
		"model/budget.go", "	if b.SessionCostUSD <= 0 {\n", "	if b.SessionCostUSD <= 1000 {\n",
		"turn 1: fact",
	},
	"tools take any input": {
		"tool/inventory.go", "func (e *Entry) Validate(input event.Raw) error {\n", "func (e *Entry) Validate(input event.Raw) error {\n	if len(input) > 0 {\n		return nil\n	}\n",
		"turn 1, call 2: fact",
	},
}

// unheard are mistakes in how the program listens to hooks and to clients.
var unheard = map[string]change{
	"the word of hooks isn't heard": {
		"loop/hooks.go", "	if out.Decision == hook.Continue {\n", "	if out.Decision != \"\" {\n",
		"turn 2, call 1: write_file would be allow instead of deny",
	},
	"the refusal of a client is taken for a result": {
		"loop/clienttool.go", `case a.Decision != "submit":`, `case a.Decision == "never":`,
		"turn 2, call 2: fact",
	},
}

// TestLongReplayFindsAChangedProgram compiles the program with one change in its loop,
// its permission decisions or its tools at a time, and runs a recorded session again
// with each: the first difference is named.
func TestLongReplayFindsAChangedProgram(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("skipped: programs with a changed loop, policy or tool, which have to be compiled; set AGENTD_TEST_LONG")
	}
	findsEach(t, recorded(t), mainSession, changes)
	findsEach(t, recordedOthers(t), mainSession, unheard)
}

// findsEach replays a session in programs with one change each, which say what is
// different.
func findsEach(t *testing.T, k *kit, sessionID string, changes map[string]change) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "case.json")
	if err := os.WriteFile(file, k.export(command.ExportScope{SessionID: sessionID}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			out, err := exec.Command(changed(t, c), file).CombinedOutput()
			if err != nil || !strings.Contains(string(out), c.says) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// changed compiles the replayer with a change.
func changed(t *testing.T, c change) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	put := func(path, content string) {
		to := filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		if err := os.WriteFile(to, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, path)] = to
	}
	put("internal/replayer/main.go", replayer)
	if c.file != "" {
		src, err := os.ReadFile(filepath.Join(root, c.file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(src), c.from) == 0 {
			t.Fatalf("%s has no %q any more: change this test", c.file, c.from)
		}
		put(c.file, strings.Replace(string(src), c.from, c.to, 1))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "replayer")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-overlay", list, "-o", program, "agentd/internal/replayer")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}
