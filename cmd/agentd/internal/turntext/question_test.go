package turntext

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/event"
)

func TestQuestionParse(t *testing.T) {
	approval := &Question{ID: "action_1", Required: &event.ActionRequired{ToolName: "shell", Decisions: []string{"allow", "deny", "cancel"}}}
	for line, want := range map[string]string{
		"y": "allow//", "YES": "allow//", " a ": "allow/session/", "n": "deny//", "no because I say so": "deny//because I say so",
		"/cancel": "cancel//",
		"":        "answer y, a or n", "yes please": "answer y, a or n", "a bit": "answer y, a or n", "sure": "answer y, a or n",
	} {
		r, wrong := approval.Parse(line)
		got := wrong
		if wrong == "" {
			got = r.Decision + "/" + r.Scope + "/" + r.Reason
		}
		if got != want {
			t.Errorf("%q is %q, want %q", line, got, want)
		}
	}
	plan := &Question{ID: "action_1", Required: &event.ActionRequired{ActionType: "plan_approval", ToolName: "present_plan", Decisions: []string{"allow", "deny", "cancel"}}}
	const again = "answer y, a, a permission mode, or n with what to change"
	for line, want := range map[string]string{
		"y": `allow {"permissionMode":"default"} `, "a": `allow {"permissionMode":"auto"} `, "bypass": `allow {"permissionMode":"bypass"} `,
		"n": "deny  ", "no a test is missing": "deny  a test is missing", "/cancel": "cancel  ",
		"plan": again, "": again, "yes but": again, "sure": again,
	} {
		r, wrong := plan.Parse(line)
		got := wrong
		if wrong == "" {
			got = r.Decision + " " + string(r.Payload) + " " + r.Reason
		}
		if got != want {
			t.Errorf("to a plan %q is %q, want %q", line, got, want)
		}
	}
	for _, tt := range []struct{ schema, line, want string }{
		{"", "blue", `"blue"`},
		{"", `{"a":1}`, `{"a":1}`},
		{`{"type":"string"}`, "5", `"5"`},
		{`{"type":"integer"}`, "5", `5`},
		{`{"enum":["red","blue"]}`, "2", `"blue"`},
		{`{"enum":["red","blue"]}`, "RED", `"red"`},
		{`{"enum":["red","blue"]}`, "green", "choose 1 to 2"},
		{`{"enum":[1,2,3]}`, "2", `2`},
		{`{"type":"boolean"}`, "true", `true`},
		{`{"type":"boolean"}`, "2", `false`},
	} {
		q := &Question{ID: "action_1", Required: &event.ActionRequired{Decisions: []string{"submit", "cancel"}, Schema: event.Raw(tt.schema)}}
		r, wrong := q.Parse(tt.line)
		got := wrong
		if wrong == "" {
			got = string(r.Payload)
		}
		if got != tt.want {
			t.Errorf("%s: %q is %s, want %s", tt.schema, tt.line, got, tt.want)
		}
	}
}

// TestObjectInLines: an object is asked for property by property, those that are needed
// first.
func TestObjectInLines(t *testing.T) {
	q := &Question{ID: "action_1", Required: &event.ActionRequired{Decisions: []string{"submit", "cancel"}, Schema: event.Raw(`{"type":"object","required":["name","size"],"properties":{
		"colour":{"enum":["red","green",1000000]},"name":{"type":"string","description":"what it is called"},"size":{"type":"integer","default":3},"tags":{"type":"array"},"part":{"type":"number"}}}`)}}
	type step struct{ prompt, line, wrong string }
	for i, tt := range []struct {
		steps []step
		want  string
		says  string
	}{
		{[]step{
			{"name (what it is called): ", " ", "name is needed"},
			{"name (what it is called): ", "5", ""},
			{"size (a whole number; nothing means 3): ", "big", "size must be a whole number"},
			{"size (a whole number; nothing means 3): ", "", ""},
			{"colour (1 red, 2 green, 3 1000000; may be left empty): ", "blue", "colour must be 1 to 3, or one of the values"},
			{"colour (1 red, 2 green, 3 1000000; may be left empty): ", "GREEN", ""},
			{"tags (a list, with commas; may be left empty): ", "a, b", ""},
			{"part (a number; may be left empty): ", "x", "part must be a number"},
			{"part (a number; may be left empty): ", "", ""},
		}, `{"name":"5","size":3,"colour":"green","tags":["a","b"]}`, `answered: name: 5, size: 3, colour: green, tags: ["a","b"]`},
		// It begins again: the runtime may refuse an answer.
		{[]step{{"name (what it is called): ", `{"name":"x","size":1000000}`, ""}}, `{"name":"x","size":1000000}`, "answered: name: x, size: 1000000"},
		{[]step{{"name (what it is called): ", "/cancel", ""}}, "", "cancelled"},
	} {
		for j, s := range tt.steps {
			if got := q.Prompt(); got != s.prompt {
				t.Errorf("%d, %d: asks %q, want %q", i, j, got, s.prompt)
			}
			r, wrong := q.Parse(s.line)
			if wrong != s.wrong || r == nil && j == len(tt.steps)-1 || r != nil && wrong == "" && j < len(tt.steps)-1 {
				t.Fatalf("%d, %d: %+v, %q", i, j, r, wrong)
			}
			if j == len(tt.steps)-1 && (string(r.Payload) != tt.want || q.Describe(r) != tt.says) {
				t.Errorf("%d: %s, %s", i, r.Payload, q.Describe(r))
			}
		}
	}
}

// TestNoChangeNamesItsFile: what would write what is there already is still named.
func TestNoChangeNamesItsFile(t *testing.T) {
	q := &Question{ID: "action_1", Required: &event.ActionRequired{ToolName: "write_file", SafeArgs: event.Raw(`{"path":"a.txt","content":"same\n"}`)}}
	q.ShowBefore("same\n")
	if panel := strings.Join(q.Panel(terminal.NoColour, 80), "\n"); !strings.Contains(panel, "a.txt") {
		t.Errorf("shown is\n%s", panel)
	}
}

func TestShortTexts(t *testing.T) {
	got := []string{
		terminal.Took(12), terminal.Took(1234), terminal.Took(61_000), terminal.Took(3_600_000),
		terminal.Money(0), terminal.Money(0.00001), terminal.Money(0.0123), terminal.Money(1.5),
		terminal.Count(12), terminal.Count(12_345), terminal.Count(2_000_000),
		terminal.Plural(1, "turn"), terminal.Plural(0, "turn"),
		ShortArgs("shell", event.Raw(`{"command":"ls\n-l\u001b[2J"}`)), ShortArgs("read_file", event.Raw(`{"path":"a"}`)),
		ShortArgs("mcp__x__y", event.Raw(`{"a":1}`)), ShortArgs("mcp__x__y", event.Raw(`{}`)), ShortArgs("x", event.Raw(`not json`)),
		elapsed(time.Unix(10, 0), time.Unix(5, 0)), elapsed(time.Unix(10, 0), time.Unix(9, 0)),
	}
	want := []string{
		"12ms", "1.2s", "1m1s", "1h0m0s",
		"$0", "<$0.0001", "$0.0123", "$1.50",
		"12", "12.3k", "2.00M",
		"1 turn", "0 turns",
		"ls -l[2J", "a",
		`{"a":1}`, "", "not json",
		" 5s", "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Nothing that a person decides about can be hidden from them, and no name reaches the
// terminal as it came.
func TestQuestionsHideNothing(t *testing.T) {
	const name = "sh\x1b]0;t\a\u202e"
	for _, required := range []*event.ActionRequired{
		{ActionType: "tool_permission", ToolName: "shell", SafeArgs: event.Raw(`{"command":"echo \u202egnp.exe\u200b\r\u001b[2K; rm\u00a0x"}`)},
		{ActionType: "tool_permission", ToolName: "write_file", SafeArgs: event.Raw(`{"path":"a\u202eb","content":"x\u202e\u200b\u001b[2Ky\u00a0\n"}`)},
		{ActionType: "tool_permission", ToolName: "read_file", SafeArgs: event.Raw(`{"path":"/x\u202e\u200b\u001b[2Ky\u00a0"}`)},
		{ActionType: "tool_permission", ToolName: name, SafeArgs: event.Raw("{\"a\":\"\u202e\u200b\u00a0\"}")},
		{ActionType: "sandbox_escape", ToolName: name, KeepRules: []event.PolicyRule{{Tool: name, Match: "x\u202e\u200b\u00a0"}}},
	} {
		q := &Question{ID: "action_1", Required: required}
		for _, text := range []string{strings.Join(q.Panel(terminal.NoColour, 100), "\n"), q.Title() + "\n" + q.Wanted()} {
			if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%s: %q has what isn't seen", required.ToolName, text)
			}
		}
		if panel := strings.Join(q.Panel(terminal.NoColour, 100), "\n"); !strings.Contains(panel, "<U+202E>") || !strings.Contains(panel, "<U+200B>") {
			t.Errorf("%s: %q doesn't show it", required.ToolName, panel)
		}
	}
	// A path can't bring lines of a change of its own.
	path := "x\n+++ b/README.md\n@@ -0,0 +1,40 @@\n+hello/../../Makefile"
	args, err := json.Marshal(map[string]string{"path": path, "content": "evil:\n"})
	if err != nil {
		t.Fatal(err)
	}
	q := &Question{ID: "action_1", Required: &event.ActionRequired{ActionType: "tool_permission", ToolName: "write_file", SafeArgs: args}}
	if panel := q.Panel(terminal.NoColour, 200); len(panel) != 3 || !strings.Contains(panel[1], "Makefile") || !strings.Contains(panel[2], "+ evil:") {
		t.Errorf("%q", panel)
	}
	// A path that is too long for a title is shown whole: its end says which file it is.
	long := event.Raw(`{"path":"docs/` + strings.Repeat("a", 900) + `/../../Makefile","content":"evil:\n"}`)
	q = &Question{ID: "action_1", Required: &event.ActionRequired{ActionType: "tool_permission", ToolName: "write_file", SafeArgs: long}}
	if panel := strings.Join(q.Panel(terminal.NoColour, 60), "\n"); !strings.Contains(panel, "Makefile") {
		t.Errorf("%s", panel)
	}
	var out strings.Builder
	v := &View{Ink: terminal.NoColour, Stage: &LineStage{W: &out}}
	v.toolLine(false, name, "", "not found")
	if text := out.String(); strings.ContainsAny(text, "\x1b\a\u202e") || !strings.Contains(text, "sh]0;t") {
		t.Errorf("%q", text)
	}
}
