package loop_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/loop"
	"agentd/model"
	"agentd/redact"
	"agentd/store/pebble"
	"agentd/tool"
)

func TestLargeOutputsSpill(t *testing.T) {
	long := strings.Repeat("0123456789\n", 2000)
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.ListenedBy(&heard), runtimetest.WithTools(t, runtimetest.ReadOnlyTool("long", runtimetest.GivesText(long)), runtimetest.ReadOnlyTool("short", runtimetest.GivesText("short")))), runtimetest.CallsTool("long", nil), runtimetest.CallsTool("short", nil), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	results := runtimetest.Payloads[*event.ToolResult](k, "sess_a")
	if p := results[0]; p.OutputRef == "" || p.SizeBytes != int64(len(long)) || !p.Truncated || len(p.Preview) > 1200 || !strings.HasPrefix(p.Preview, "0123456789\n") {
		t.Errorf("%+v", p)
	}
	if got := k.ReadOutput(results[0].OutputRef); got != long {
		t.Errorf("%d bytes behind the reference", len(got))
	}
	spilled := runtimetest.Payloads[*event.OutputStored](k, "sess_a")
	if len(spilled) != 1 || spilled[0].OutputRef != results[0].OutputRef || spilled[0].MediaType == "" {
		t.Errorf("%+v", spilled)
	}
	if p := results[1]; p.OutputRef != "" || p.Truncated || p.Preview != "short" {
		t.Errorf("%+v", p)
	}
	if m := heard.Heard()[1].Messages; len(m[len(m)-1].Text) < len(long)-100 || len(m[len(m)-1].Text) > 40<<10 {
		t.Errorf("the model was shown %d bytes", len(m[len(m)-1].Text))
	}
}

func TestWhatAModelIsShownIsBounded(t *testing.T) {
	huge := strings.Repeat("x", 3<<20)
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.ListenedBy(&heard), runtimetest.WithTools(t, runtimetest.ReadOnlyTool("huge", runtimetest.GivesText(huge)))), runtimetest.CallsTool("huge", nil), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	m := heard.Heard()[1].Messages
	last := m[len(m)-1].Text
	ref := runtimetest.Payloads[*event.ToolResult](k, "sess_a")[0].OutputRef
	if len(last) > 64<<10 || !strings.Contains(last, ref) || !strings.Contains(last, "left out") {
		t.Errorf("the model was shown %d bytes", len(last))
	}
}

func TestInvalidTextIsMended(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.WithTools(t, runtimetest.ReadOnlyTool("odd", runtimetest.GivesText("a\xff\xfeb"))), runtimetest.CallsTool("odd", nil), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	if p := runtimetest.Payloads[*event.ToolResult](k, "sess_a")[0]; p.Preview != "a\uFFFDb" {
		t.Errorf("%q", p.Preview)
	}
}

// TestFloodIsBounded: a command that prints 100 MB leaves a bounded output, and
// says how much it was.
func TestFloodIsBounded(t *testing.T) { floodIsBounded(t, 100_000_000) }

// TestLongFloodOfAGigabyte is the same with ten times as much.
func TestLongFloodOfAGigabyte(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("AGENTD_TEST_LONG is not set: no command writes a gigabyte")
	}
	floodIsBounded(t, 1_000_000_000)
}

func floodIsBounded(t *testing.T, size int64) {
	runtimetest.NeedsSandbox(t)
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell, func(o *agentd.Options) { o.Loop.Outputs = loop.Outputs{MaxBytes: 1 << 20} }),
		runtimetest.CallsTool("shell", map[string]any{"command": fmt.Sprintf("yes 0123456789 | head -c %d", size)}), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	p := runtimetest.Payloads[*event.ToolResult](k, "sess_a")[0]
	if !p.Truncated || p.SizeBytes < size || p.OutputRef == "" {
		t.Errorf("%+v", p)
	}
	if got := k.ReadOutput(p.OutputRef); len(got) > 2<<20 {
		t.Errorf("%d bytes were kept", len(got))
	}
	stored := runtimetest.Payloads[*event.OutputStored](k, "sess_a")
	// It is said once that the output is kept apart from the facts, and once what was dropped of it.
	if len(stored) != 2 || stored[1].DroppedBytes < size-(2<<20) || k.CountFacts("sess_a", event.TypeOutputSpilled) != 1 || k.CountFacts("sess_a", event.TypeOutputTruncated) != 1 {
		t.Errorf("%d facts of the output, the last: %+v", len(stored), stored[len(stored)-1])
	}
	if n := len(k.Facts("sess_a")); n > 400 {
		t.Errorf("a flood left %d facts", n)
	}
}

// TestSecretsAreNowhere plants values in everything that a turn takes in, and looks
// for them in every byte that the store wrote.
func TestSecretsAreNowhere(t *testing.T) {
	secret := strings.Join([]string{"planted", "value", "8Qz3", "not", "a", "real", "one"}, "-")
	shaped := "sk-" + strings.Repeat("aB3dE5gH", 6) // the shape of a key
	both := secret + " and " + shaped
	dir := t.TempDir()
	s, err := pebble.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	for name, text := range map[string]string{"AGENTS.md": "Remember " + both, "notes.txt": "the key is " + both} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var heard []string
	n := 0
	leaky := &runtimetest.FakeModel{ProviderName: "leaky", Answer: func(_ context.Context, r *model.Request, send func(model.Chunk) bool) error {
		heard = append(heard, r.System+runtimetest.Conversation(r))
		n++
		switch n {
		case 1:
			return &model.Error{Category: model.Overloaded, Retryable: true, Message: "bad key " + both, Raw: []byte(both)}
		case 2:
			for _, piece := range strings.SplitAfter("I saw "+both, "e") {
				send(model.Chunk{Text: piece, Reasoning: piece})
			}
			send(model.Chunk{ToolCall: &model.ToolCall{ProviderID: "a", Name: "read_file", Arguments: event.Raw(`{"path":"notes.txt"}`)}})
			send(model.Chunk{ToolCall: &model.ToolCall{ProviderID: "b", Name: "spill", Arguments: event.Raw(`{"x":"` + both + `"}`)}})
			send(model.Chunk{ToolCall: &model.ToolCall{ProviderID: "c", Name: "broken", Malformed: `{"x":"` + both}})
			send(model.Chunk{ToolCall: &model.ToolCall{ProviderID: "d", Name: "broken", Arguments: event.Raw(`{}`)}})
			send(model.Chunk{ToolCall: &model.ToolCall{ProviderID: "e", Name: "request_input", Arguments: event.Raw(`{"prompt":"is it ` + both + `?"}`)}})
			send(model.Chunk{Done: &model.Done{StopReason: "tool_use", Raw: []byte(both), Native: event.Raw(`{"blocks":"` + both + `"}`)}})
		default:
			send(model.Chunk{Text: "done"})
			send(runtimetest.AnswerEnd("end_turn", 1, 1))
		}
		return nil
	}}
	spill := func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		c.Host.Progress("found "+both, 0.5, both)
		return &tool.Result{Output: []byte(strings.Repeat(both+"\n", 500)), Structured: event.Raw(`{"v":"` + both + `"}`)}, nil
	}
	broken := func(context.Context, *tool.Call) (*tool.Result, error) {
		return nil, fmt.Errorf("could not use %s", both)
	}
	k := &runtimetest.Kit{T: t, Store: s, Dir: work, Change: runtimetest.AllOf(runtimetest.QuickBackoff, runtimetest.WithTools(t, runtimetest.ReadOnlyTool("spill", spill), runtimetest.ReadOnlyTool("broken", broken)), func(o *agentd.Options) {
		o.Provider = leaky
		o.Loop.Redact = redact.New(redact.Options{Values: []string{secret}})
	})}
	k.Open()
	r := runtimetest.Do[command.SubmitTurnResult](k, &command.SubmitTurn{
		SessionID: "sess_a", Create: true, Input: runtimetest.Quoted("use " + both), Metadata: event.Raw(`{"note":"` + both + `"}`),
	})
	action, _ := k.WaitForAction("sess_a", 1)
	runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: action, Decision: "submit", Payload: event.Raw(`{"answer":"` + both + `"}`), Reason: "because of " + both})
	k.Completes(r)
	hang := k.Submit("sess_a", "again")
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a", Reason: "stop " + both})
	k.WaitForEnd("sess_a", hang.TurnID)
	for i, text := range heard {
		if strings.Contains(text, secret) || strings.Contains(text, shaped) {
			t.Errorf("request %d told the model a secret", i+1)
		}
	}
	for _, e := range k.Facts("sess_a") {
		if data := event.AppendJSON(nil, e); bytes.Contains(data, []byte(secret)) || bytes.Contains(data, []byte(shaped)) {
			t.Errorf("%s has a secret: %.300s", e.Type, data)
		}
	}
	if k.CountFacts("sess_a", event.TypeOutputRedacted) == 0 {
		t.Error("nothing says that something was taken out")
	}
	k.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	found := 0
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found += len(b)
		if bytes.Contains(b, []byte(secret)) || bytes.Contains(b, []byte(shaped)) {
			t.Errorf("%s has a secret", filepath.Base(path))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if found < 1000 {
		t.Errorf("only %d bytes were looked at", found)
	}
}
