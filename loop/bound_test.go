package loop_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/tool"
	"agentd/transfer"
)

// events.md, "Event envelope": a large payload is referred to, not copied into events. A
// long answer is said by deltas that each fit, is not repeated where it ends, and is read
// back whole by those that need it: the reader of its ref, and the model in the next turn.
func TestAnswerThatIsLongStandsBehindARef(t *testing.T) {
	answer := strings.Repeat("An answer that goes on \u2028 and on. ", 10_000)
	heard := &runtimetest.Listener{}
	k := runtimetest.NewWith(t, runtimetest.ListenedBy(heard),
		script.Answer{Text: answer, Reasoning: strings.Repeat("hm ", 20_000)}, runtimetest.Says("short"), runtimetest.Says("short"))
	k.Completes(k.Submit("sess_a", "go"))
	var said string
	for i, p := range runtimetest.Payloads[*event.ModelDelta](k, "sess_a") {
		if p.Index != int64(i) {
			t.Errorf("delta %d has the index %d", i, p.Index)
		}
		said += p.Text
	}
	if said != answer {
		t.Errorf("the deltas say %d bytes, the answer has %d", len(said), len(answer))
	}
	done := runtimetest.Payloads[*event.ModelCompleted](k, "sess_a")[0]
	if done.Message != nil || done.MessageRef == "" || done.Preview == "" || len(done.Preview) > 2000 {
		t.Fatalf("%+v", done)
	}
	var whole event.ModelMessage
	if err := json.Unmarshal([]byte(k.ReadOutput(done.MessageRef)), &whole); err != nil || whole.Text != answer || len(whole.Reasoning) != 60_000 {
		t.Errorf("%d bytes of text, %v", len(whole.Text), err)
	}
	for range 2 {
		k.Completes(k.Submit("sess_a", "again"))
		if asked := heard.Heard(); !strings.Contains(runtimetest.Conversation(asked[len(asked)-1]), answer) {
			t.Error("the model isn't told what it said")
		}
		k.Close()
		k.Open()
	}
}

// A short answer stands in its event, as ever.
func TestShortAnswerStaysInItsEvent(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("short"))
	k.Completes(k.Submit("sess_a", "go"))
	if p := runtimetest.Payloads[*event.ModelCompleted](k, "sess_a")[0]; p.Message == nil || p.Message.Text != "short" || p.MessageRef != "" || p.Preview != "" {
		t.Errorf("%+v", p)
	}
}

// drawText draws a text that may be very long and hard to encode.
func drawText(r *rand.Rand) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	n := []int{0, 1, 100, 5_000, 70_000}[r.IntN(5)]
	return pick("word ", "\x01", "漢", "\"\\", "🙂 ", "\u2028") + strings.Repeat(pick("a", "\t", "ü", "\\"), n)
}

// checkStored reports facts that are too large, and references that don't give back what
// was stored under them.
func checkStored(t *testing.T, k *runtimetest.Kit, sessionID string) {
	t.Helper()
	for rec, err := range k.Store.Read(context.Background(), sessionID, store.Range{}) {
		if err != nil {
			t.Errorf("%v", err)
			return
		}
		if len(rec.Data) > event.MaxBytes {
			t.Errorf("fact %d has %d bytes: %.200s", rec.Sequence, len(rec.Data), rec.Data)
		}
		for _, ref := range store.RefsIn(rec.Data, 100) {
			b, err := store.ReadContent(context.Background(), k.Store, ref, 1<<30)
			if err != nil || store.RefOf(sha256.Sum256(b)) != ref {
				t.Errorf("fact %d: %s: %v", rec.Sequence, ref, err)
			}
		}
	}
}

// Whatever is said in a turn, by the user, the model, a tool or an error, no event is
// larger than 32 KiB, and what was said can be read back to the last byte.
func TestTurnsOfAnySizeAreBounded(t *testing.T) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { runTurnOfAnySize(t, rand.New(rand.NewPCG(seed, 19))) })
	}
}

func runTurnOfAnySize(t *testing.T, r *rand.Rand) {
	input, answer, reasoning := drawText(r), drawText(r), drawText(r)
	argument, output, failure := drawText(r), drawText(r), drawText(r)
	calls := []script.Tool{
		{Name: "gives", Arguments: map[string]any{"text": argument}},
		{Name: "fails", Arguments: map[string]any{"text": argument}},
		{Name: "nobody", Arguments: map[string]any{"text": argument}},
		{Name: "gives", Malformed: "{" + argument},
	}
	answers := []script.Answer{{Text: answer, Reasoning: reasoning, Tools: calls}, {Text: answer}}
	if r.IntN(4) == 0 {
		answers = append([]script.Answer{{Text: answer, Error: &script.Error{Category: "invalid_request", Message: failure}}}, answers...)
	}
	var given []string
	takes := func(result string, err error) func(context.Context, *tool.Call) (*tool.Result, error) {
		return func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			var in struct{ Text string }
			if err := json.Unmarshal(c.Input, &in); err != nil {
				return nil, err
			}
			given = append(given, in.Text)
			return &tool.Result{Output: []byte(result)}, err
		}
	}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), runtimetest.QuickBackoff, runtimetest.WithTools(t, runtimetest.ReadOnlyTool("gives", takes(output, nil)), runtimetest.WritingTool("fails", takes("", errors.New(failure+"."))))), answers...)
	end := k.WaitForEnd("sess_a", k.SubmitWith("sess_a", input, nil).TurnID)
	checkStored(t, k, "sess_a")
	facts := k.Facts("sess_a")
	var said string
	for _, e := range facts {
		switch p := e.Payload.(type) {
		case *event.ModelDelta:
			said += p.Text
		case *event.ToolResult:
			got := p.Preview
			if p.OutputRef != "" {
				got = k.ReadOutput(p.OutputRef)
			}
			if got != output {
				t.Errorf("the tool gave %d bytes, %d can be read", len(output), len(got))
			}
		case *event.ToolFailed:
			if e.ToolCallID != "" && p.ToolName == "fails" && !strings.Contains(p.Message, failure) {
				t.Errorf("the error has %d bytes, the fact says %d", len(failure), len(p.Message))
			}
		case *event.ModelCompleted:
			m, err := p.Whole(func(ref string) ([]byte, error) { return []byte(k.ReadOutput(ref)), nil })
			if err != nil || m.Text != answer {
				t.Errorf("the answer has %d bytes, %d can be read: %v", len(answer), len(m.Text), err)
			}
		case *event.TurnSubmitted:
			got := string(p.Input)
			if p.InputRef != "" {
				got = k.ReadOutput(p.InputRef)
			}
			var parts []command.Part
			if err := json.Unmarshal([]byte(got), &parts); err != nil || len(parts) != 1 || parts[0].Text != input {
				t.Errorf("the input has %d bytes, %d can be read: %v", len(input), len(got), err)
			}
		}
	}
	if end.Type == event.TypeTurnCompleted {
		if said != answer+answer {
			t.Errorf("the deltas say %d bytes of %d", len(said), 2*len(answer))
		}
		if len(given) != 2 || given[0] != argument || given[1] != argument {
			t.Errorf("the tools were given %d arguments", len(given))
		}
	}
}

// CONTRACT, "Changed" 4: what a client sends beyond what events carry is read back whole.
func TestCommandLineThatIsLongStandsBehindARef(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	line := "echo " + strings.Repeat("x", 70_000) + " | wc -c"
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell), runtimetest.CallsTool("shell", runtimetest.ShellArgs(line)), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	checkStored(t, k, "sess_a")
	if p := runtimetest.Payloads[*event.ProcessStarted](k, "sess_a")[0]; p.Command[len(p.Command)-1] != line {
		t.Errorf("the whole fact has another command: %d bytes", len(fmt.Sprint(p.Command)))
	}
	events, _, err := k.Runtime.Events(t.Context(), command.Local(), "sess_a", 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range events {
		e, err := event.Decode(rec.Data)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == event.TypeProcessStarted && (!e.IsCut() || !strings.Contains(k.ReadOutput(e.Refs[event.PayloadRef]), line)) {
			t.Errorf("%s", rec.Data)
		}
	}
}

// A session with facts that show only a part of their payload moves to another runtime:
// what isn't shown comes along, and the state there is the same.
func TestCutFactsTravel(t *testing.T) {
	failure := strings.Repeat("too long ", 20_000) + "!"
	fails := runtimetest.WritingTool("fails", func(context.Context, *tool.Call) (*tool.Result, error) { return nil, errors.New(failure) })
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), runtimetest.WithTools(t, fails)), runtimetest.CallsTool("fails", map[string]any{}), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	file := k.ExportSession("sess_a")
	other := runtimetest.New(t)
	if _, err := other.ImportSession(file, transfer.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	if p := runtimetest.Payloads[*event.ToolFailed](other, "sess_a"); len(p) != 1 || !strings.Contains(p[0].Message, failure) {
		t.Errorf("%d facts", len(p))
	}
	// Another node, or a restart, folds the facts from the beginning.
	other.Close()
	other.Open()
	other.Completes(other.Submit("sess_a", "again"))
	// Without what isn't shown nothing is imported, and the reason is told.
	cut := bytes.ReplaceAll(file, []byte(`"agentd.output"`), []byte(`"agentd.gone"`))
	if _, err := runtimetest.New(t).ImportSession(cut, transfer.ImportOptions{}); err == nil {
		t.Error("a file that was changed was imported")
	}
}
