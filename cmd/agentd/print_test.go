package main

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"agentd/cmd/agentd/internal/terminal"
)

func TestEventLine(t *testing.T) {
	at := time.Now().UTC().Truncate(time.Millisecond)
	data := `{"type":"turn.failed","sequence":7,"timestamp":"` + at.Format(time.RFC3339Nano) + `","payload":{"status":"failed","failureCategory":"internal","error":{"message":"no\u001b[2J luck"}}}`
	line, err := parseLine([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	plain := line.format(&printer{})
	if want := at.Local().Format("15:04:05.000") + "     7 turn.failed                  failed  internal  no[2J luck"; plain != want {
		t.Errorf("line is\n%q, want\n%q", plain, want)
	}
	for _, c := range []struct{ ids, want string }{
		{`"turnId":"turn_1","taskId":"task_1","toolCallId":"tool_1"`, "tool_1 "},
		{`"turnId":"turn_1","toolCallId":"not_applicable"`, "turn_1 "},
		{`"taskId":"task_1"`, "task_1 "},
	} {
		about, err := parseLine([]byte(`{"type":"tool.started","payload":{},` + c.ids + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if bare := about.format(&printer{}); strings.Contains(bare, "_1") {
			t.Errorf("ids that nobody asked for: %q", bare)
		}
		about.withID = true
		if got := about.format(&printer{}) + " "; !strings.Contains(got, " "+c.want) {
			t.Errorf("%s: %q doesn't name %s", c.ids, got, c.want)
		}
	}
	if coloured := line.format(&printer{Ink: terminal.Dark}); !strings.Contains(coloured, "\x1b[31mturn.failed") {
		t.Errorf("a failure isn't terminal.Red: %q", coloured)
	}
}

func TestWanted(t *testing.T) {
	for _, tt := range []struct {
		typ, patterns string
		want          bool
	}{
		{"tool.result", "", true},
		{"tool.result", "tool.*", true},
		{"task.attempt.started", "task.*", true},
		{"turn.started", "tool.*,turn.started", true},
		{"turn.started", "tool.*", false},
	} {
		var patterns []string
		if tt.patterns != "" {
			patterns = strings.Split(tt.patterns, ",")
		}
		if got := wanted(tt.typ, patterns); got != tt.want {
			t.Errorf("wanted(%s, %s) = %v", tt.typ, tt.patterns, got)
		}
	}
}

// TestLinesActOnNoTerminal: whatever a line quotes, it keeps our colours and nothing else.
func TestLinesActOnNoTerminal(t *testing.T) {
	var out strings.Builder
	p := &printer{Ink: terminal.Dark, w: bufio.NewWriter(&out)}
	p.linef("%s in %s", p.Paint(terminal.Red, "none"), "a\x1b]0;title\a\x1b[2J\u202eb")
	if err := p.flush(); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[31mnone\x1b[0m in a]0;title[2Jb\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
