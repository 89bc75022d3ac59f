package evidence_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/model/provider/script"
	"agentd/store/storetest"
	"agentd/tool"
)

// replayer is a program that runs a case again and says the first difference.
const replayer = `package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"agentd"
	"agentd/evidence"
	"agentd/store/storetest"
)

func main() {
	data, err := os.ReadFile(os.Args[1])
	c := &evidence.Case{}
	if err == nil {
		err = json.Unmarshal(data, c)
	}
	var d *evidence.Difference
	if err == nil {
		d, err = agentd.Replay(context.Background(), storetest.NewMem(), c)
	}
	switch {
	case err != nil:
		fmt.Println("error:", err)
	case d != nil:
		fmt.Println(d.Says)
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
		"turn 1, call 1: the recording has permission.evaluated (decision allow",
	},
	"the loop doesn't try again": {
		"loop/next.go", "case c.Retryable && c.Tries < tries && p.patient(c):", "case c.Retryable && c.Tries < tries-3 && p.patient(c):",
		"turn 1: the recording has model.requested (attempt 2, model script/test, purpose turn, step 1), the replay has turn.failed",
	},
	"the loop counts steps otherwise": {
		"loop/next.go", "return p.callModel(t, turn, c.Step+1, 1)", "return p.callModel(t, turn, c.Step+2, 1)",
		`model.requested: step was "2" and is "3"`,
	},
	"a turn ends before its tools were answered": {
		"loop/next.go", `if c.StopReason == "tool_use" || len(turn.Tools) > 0 ||`, `if`,
		"the replay has turn.completed (outcome tool_use, steps 1)",
	},
	"decisions are stricter": {
		"permission/permission.go", "	o := q.settle(f, r)\n", "	o := q.settle(f, r)\n	if o.decision == Allow {\n		o.decision = Deny\n	}\n",
		`turn 1, call 1: permission.evaluated: decision was "allow" and is "deny"`,
	},
	"decisions are looser": {
		"permission/permission.go", "	o := q.settle(f, r)\n", "	o := q.settle(f, r)\n	o.decision = Allow\n",
		`permission.evaluated: decision was "deny" and is "allow"`,
	},
	"tools take any input": {
		"tool/inventory.go", "func (e *Entry) Validate(input event.Raw) error {\n", "func (e *Entry) Validate(input event.Raw) error {\n	if len(input) > 0 {\n		return nil\n	}\n",
		"turn 1, call 2: the recording has tool.failed (category invalid_input",
	},
}

// TestLongReplayFindsAChangedProgram compiles the program with one change in its loop,
// its permission decisions or its tools at a time, and runs a recorded session again
// with each: the first difference is named.
func TestLongReplayFindsAChangedProgram(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("skipped: programs with a changed loop, policy or tool, which have to be compiled; set AGENTD_TEST_LONG")
	}
	k := newKit(t, nil,
		script.Answer{Error: &script.Error{Category: "overloaded", Message: "busy", Retryable: true}},
		wants("write_file", map[string]any{"path": "a.txt", "content": "b"}),
		wants("read_file", map[string]any{"path": 7}),
		script.Answer{Text: "done"},
		wants("write_file", map[string]any{"path": "c.txt", "content": "d"}), script.Answer{Text: "not allowed"})
	k.turn("sess_changed", "go", nil)
	k.turn("sess_changed", "again", &event.TurnOptions{PermissionMode: "plan"})
	findsEach(t, k, "sess_changed", changes)
}

// findsEach replays a session in programs with one change each, which say what is
// different.
func findsEach(t *testing.T, k *kit, sessionID string, changes map[string]change) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "case.json")
	res := do[command.ExportResult](k, &command.ExportReplay{ExportScope: command.ExportScope{SessionID: sessionID}})
	if err := os.WriteFile(file, k.output(res.Ref), 0o600); err != nil {
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

// other is a tool that was changed.
type other struct{ tool.Tool }

func (other) Run(context.Context, *tool.Call) (*tool.Result, error) {
	return nil, tool.Errorf(tool.Execution, "it can't write any more")
}

// TestLiveReplayFindsAChangedTool: on its recordings a replay shows what the loop makes
// of what tools gave; what they give now is seen live.
func TestLiveReplayFindsAChangedTool(t *testing.T) {
	answers := []script.Answer{wants("write_file", map[string]any{"path": "a.txt", "content": "b"}), {Text: "done"}}
	k := newKit(t, nil, answers...)
	k.turn("sess_tool", "write", nil)
	c := caseOf(k, command.ExportScope{SessionID: "sess_tool"})
	live := func(tools ...tool.Tool) []evidence.OutcomeDifference {
		r, err := tool.NewRegistry(tools...)
		if err != nil {
			t.Fatal(err)
		}
		opt := agentd.Options{Provider: script.New("script", &script.Script{Answers: answers}), Model: "test"}
		opt.Loop.Workspace, opt.Loop.Host.Mode, opt.Loop.Tools = t.TempDir(), "auto", r
		s := storetest.NewMem()
		defer s.Close()
		report, err := agentd.ReplayWith(t.Context(), s, c, agentd.ReplayOptions{Live: &opt})
		if err != nil {
			t.Fatal(err)
		}
		return report.Outcomes
	}
	if got := live(tool.Builtins(nil)...); len(got) != 1 || got[0].Says != "the same" {
		t.Errorf("with the same tools: %+v", got)
	}
	tools := tool.Builtins(nil)
	for i, x := range tools {
		if x.Info().ToolName == "write_file" {
			tools[i] = other{x}
		}
	}
	if got := live(tools...); len(got) != 1 || !strings.Contains(got[0].Says, "called write_file execution instead of write_file ok") {
		t.Errorf("with a changed tool: %+v", got)
	}
}
