package tool

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/event"
	"agentd/tool/toolkind"
)

func TestShell(t *testing.T) {
	d := newDesk(t)
	d.putFile("sub/x", "")
	d.link("sub", "link")
	d.link("/", "slash")
	changed := []event.FileChange{{Path: "x", Change: "created"}}
	d.command = func(*Command) (*Exit, error) {
		return &Exit{ProcessID: "proc_1", Output: []byte("a\xffb\n"), Dropped: 3, Code: 2, Changed: changed}, nil
	}
	res := d.ok(Shell, obj{"command": "make", "cwd": "link", "timeoutMs": 500, "tty": true})
	if string(res.Output) != "a\uFFFDb\n[exit code 2]\n" || *res.ExitCode != 2 || res.Dropped != 3 || res.IsError || res.ProcessID != "proc_1" || res.Preview != "a\uFFFDb\n" {
		t.Errorf("%q %+v", res.Output, res)
	}
	if diff := cmp.Diff(changed, res.Changed); diff != "" {
		t.Error(diff)
	}
	want := &Command{Line: "make", Cwd: filepath.Join(d.root, "sub"), TTY: true, TimeoutMs: 500, MaxOutput: 256 << 10}
	if diff := cmp.Diff(want, d.commands[0]); diff != "" {
		t.Error(diff)
	}

	d.command = func(*Command) (*Exit, error) { return &Exit{}, nil }
	if res := d.ok(Shell, obj{"command": "true"}); string(res.Output) != "[no output, exit code 0]\n" || *res.ExitCode != 0 {
		t.Errorf("%q", res.Output)
	}
	if got := d.commands[1].Cwd; got != d.root {
		t.Errorf("runs in %s", got)
	}
	d.command = func(*Command) (*Exit, error) { return &Exit{Output: []byte("ok"), Code: 137, Signal: "SIGKILL"}, nil }
	if res := d.ok(Shell, obj{"command": "x"}); string(res.Output) != "ok\n[ended by SIGKILL]\n" || *res.ExitCode != 137 {
		t.Errorf("%q", res.Output)
	}
	d.command = func(*Command) (*Exit, error) { return &Exit{ProcessID: "proc_2", Running: true}, nil }
	if res := d.ok(Shell, obj{"command": "x", "background": true}); res.ExitCode != nil || !res.Background || !strings.Contains(string(res.Output), "proc_2") {
		t.Errorf("%q %+v", res.Output, res)
	}

	n := len(d.commands)
	d.fails(Shell, obj{"command": "x", "cwd": ".."}, SandboxViolation)
	d.fails(Shell, obj{"command": "x", "cwd": "slash/etc"}, SandboxViolation)
	d.fails(Shell, obj{"command": "x", "cwd": "/etc"}, SandboxViolation)
	d.fails(Shell, obj{"command": "x", "cwd": "sub/x"}, InvalidInput, "not a folder")
	d.fails(Shell, obj{"command": "x", "cwd": "nowhere"}, NotFound)
	d.fails(Shell, obj{"command": ""}, InvalidInput, "command")
	if len(d.commands) != n {
		t.Error("something ran")
	}
	c := d.call(obj{"command": "x", "cwd": "/etc"})
	c.Outside = true
	if _, err := d.tools[Shell].Run(t.Context(), c); err != nil || d.commands[n].Cwd != "/etc" {
		t.Errorf("allowed to leave: %v", err)
	}
}

func TestShellFails(t *testing.T) {
	d := newDesk(t)
	d.command = func(*Command) (*Exit, error) { return nil, errors.New("no such shell") }
	d.fails(Shell, obj{"command": "x"}, Execution, "no such shell")
	d.command = func(*Command) (*Exit, error) {
		return nil, &Error{Category: SandboxViolation, Message: "no", Boundary: "network"}
	}
	if e := d.failure(Shell, obj{"command": "x"}, SandboxViolation); e.Boundary != "network" {
		t.Errorf("%+v", e)
	}
	d.command = func(*Command) (*Exit, error) {
		return &Exit{TimedOut: true, Code: 137, Signal: "SIGKILL", Output: []byte("so far\n")}, nil
	}
	res, err := d.run(Shell, obj{"command": "x", "timeoutMs": 1500})
	var e *Error
	if !errors.As(err, &e) || e.Category != Timeout || res == nil || !strings.Contains(string(res.Output), "so far") {
		t.Fatalf("%+v, %v", res, err)
	}
	requireWords(t, e.Message+e.Advice, "1.5s", "so far", "background")

	ctx, cancel := context.WithCancel(t.Context())
	d.command = func(*Command) (*Exit, error) {
		cancel()
		return &Exit{Signal: "SIGTERM", Code: 143, Output: []byte("half")}, nil
	}
	res, err = d.tools[Shell].Run(ctx, d.call(obj{"command": "x"}))
	if !errors.As(err, &e) || e.Category != Interrupted || res == nil || !strings.Contains(string(res.Output), "half") {
		t.Errorf("%+v, %v", res, err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err = d.tools[Shell].Run(ctx, d.call(obj{"command": "x"})); !errors.As(err, &e) || e.Category != Timeout {
		t.Errorf("%v", err)
	}
}

func TestUpdatePlan(t *testing.T) {
	d := newDesk(t)
	item := func(step, status string) obj { return obj{"step": step, "status": status} }
	res := d.ok(UpdatePlan, obj{"items": []obj{item(" read ", "completed"), item("write", "in_progress"), item("test", "pending"), item("skip", "cancelled")}})
	var p Plan
	if err := json.Unmarshal(res.Structured, &p); err != nil {
		t.Fatal(err)
	}
	want := Plan{Items: []PlanItem{{"read", "completed"}, {"write", "in_progress"}, {"test", "pending"}, {"skip", "cancelled"}}, Pending: 1, InProgress: 1, Completed: 1, Cancelled: 1}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
	if string(res.Output) != "Plan recorded: 1 of 4 steps completed.\n[x] read\n[~] write\n[ ] test\n[-] skip\n" {
		t.Errorf("%s", res.Output)
	}
	if res := d.ok(UpdatePlan, obj{"items": []obj{}}); string(res.Structured) != `{"items":[],"pending":0,"inProgress":0,"completed":0,"cancelled":0}` {
		t.Errorf("%s", res.Structured)
	}
	d.fails(UpdatePlan, obj{"items": []obj{item("  ", "pending")}}, InvalidInput, "items[0].step", "blank")
	d.fails(UpdatePlan, obj{"items": []obj{item("a", "pending"), item("a ", "completed")}}, InvalidInput, "items[1].step", "already items[0]")
	d.fails(UpdatePlan, obj{"items": []obj{item("a", "done")}}, InvalidInput, "items[0].status", "in_progress")
	for _, items := range []any{[]string{"a"}, []obj{{"step": "a"}}, []obj{{"text": "a", "id": 1}}, []obj{{"content": "a", "status": "pending"}}, []obj{{"title": "a", "priority": "high"}}} {
		if res := d.ok(UpdatePlan, obj{"items": items}); !strings.HasPrefix(string(res.Structured), `{"items":[{"step":"a","status":"pending"}]`) {
			t.Errorf("%v: %s", items, res.Structured)
		}
	}
	d.fails(UpdatePlan, obj{"items": []obj{{"stp": "a"}}}, InvalidInput, "items[0].step: is missing")
	d.fails(UpdatePlan, obj{"items": []any{7}}, InvalidInput, "items[0]")
	d.fails(UpdatePlan, obj{"items": make([]obj, 101)}, InvalidInput, "at most 100 items")
	d.fails(UpdatePlan, obj{}, InvalidInput, "items: is missing")
	// A host that doesn't validate gets the same answers.
	if _, err := updatePlan(t.Context(), d.call(`{"items":[{"step":"a","status":"done"}]}`)); err == nil {
		t.Error("an unknown status is taken")
	}
	if _, err := updatePlan(t.Context(), d.call(`{"items":[7]}`)); err == nil {
		t.Error("a number is taken for an item")
	}
}

// TestSpawnAgentNamesPeers: where there are peers a call may name one of them, and
// nobody else.
func TestSpawnAgentNamesPeers(t *testing.T) {
	r, err := NewRegistry(Builtins(&Options{Peers: []string{"translator", "re\"viewer"}})...)
	if err != nil {
		t.Fatal(err)
	}
	spawn, ok := r.Get(SpawnAgent)
	if !ok {
		t.Fatal("it isn't there")
	}
	for input, want := range map[string]bool{
		`{"role":"r","input":"x"}`:                                true,
		`{"role":"r","input":"x","peer":"translator"}`:            true,
		`{"role":"r","input":"x","peer":"re\"viewer"}`:            true,
		`{"role":"r","input":"x","peer":"stranger"}`:              false,
		`{"role":"r","input":"x","peer":""}`:                      false,
		`{"role":"r","input":"x","peer":"http://127.0.0.1/card"}`: false,
	} {
		if err := spawn.Validate(event.Raw(input)); (err == nil) != want {
			t.Errorf("%s: %v", input, err)
		}
	}
}

func TestBuiltins(t *testing.T) {
	props := map[string]string{
		ReadFile: "limit offset path!", WriteFile: "content! path!", EditFile: "all new! old! path!", ListFiles: "glob path!",
		SearchFiles: "glob path pattern!", Shell: "background command! cwd timeoutMs tty", UpdatePlan: "items!",
		RequestInput: "prompt! schema", SpawnAgent: "input! role! wait", PresentPlan: "plan!",
	}
	tools := Builtins(nil)
	if len(tools) != len(props) {
		t.Fatalf("%d tools", len(tools))
	}
	for _, tl := range tools {
		info := tl.Info()
		var schema struct {
			Type                 string
			Properties           map[string]struct{ Type, Description string }
			Required             []string
			AdditionalProperties *bool
		}
		if err := json.Unmarshal(info.InputSchema, &schema); err != nil {
			t.Fatal(err)
		}
		var names []string
		for name := range schema.Properties {
			if slices.Contains(schema.Required, name) {
				name += "!"
			}
			names = append(names, name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != props[info.ToolName] {
			t.Errorf("%s: %s", info.ToolName, got)
		}
		if schema.Type != "object" || schema.AdditionalProperties == nil || *schema.AdditionalProperties {
			t.Errorf("%s takes anything: %s", info.ToolName, info.InputSchema)
		}
		for name, p := range schema.Properties {
			if p.Type == "" || p.Description == "" {
				t.Errorf("%s.%s isn't described", info.ToolName, name)
			}
		}
		if len(info.Description) < 80 || len(info.Capabilities) == 0 || info.RuntimeOwner != "local" || info.InterruptBehavior == "" {
			t.Errorf("%+v", info)
		}
		info.Policy = PolicyAllowed
		fact := &event.Event{
			Type: event.TypeToolCatalogResolved, SessionID: "s",
			Scope:   event.Scope{ThreadID: "t", TurnID: "u", TaskID: "k", RunID: "r", StepID: "p", ToolCallID: event.NotApplicable},
			Payload: &event.ToolCatalogResolved{ToolCount: 1, Tools: []event.ToolInfo{info}},
		}
		if err := event.Check(fact); err != nil {
			t.Errorf("%s: %v", info.ToolName, err)
		}
		if toolkind.Of(info.ToolName).LoopOwned() {
			var e *Error
			if _, err := tl.Run(t.Context(), &Call{}); !errors.As(err, &e) || e.Category != Unavailable {
				t.Errorf("%s: %v", info.ToolName, err)
			}
		}
	}
	if !toolkind.RequestInput.LoopOwned() || !toolkind.SpawnAgent.LoopOwned() || !toolkind.PresentPlan.LoopOwned() || toolkind.Shell.LoopOwned() {
		t.Error("LoopOwned")
	}
}
