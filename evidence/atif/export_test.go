package atif_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"testing"
	"time"

	"pgregory.net/rapid"

	"agentd/event"
	"agentd/event/eventtest"
	"agentd/evidence/atif"
	"agentd/store"
)

// journal is a list of facts.
type journal [][]byte

// Read implements [evidence.Facts].
func (j journal) Read(_ context.Context, _ string, r store.Range) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for i, data := range j {
			seq := uint64(i + 1)
			if (r.Before > 0 && seq >= r.Before) || !yield(store.Record{Sequence: seq, Data: data}, nil) {
				return
			}
		}
	}
}

// OpenBlob implements [evidence.Facts]: no fact here needs it.
func (j journal) OpenBlob(context.Context, string) (store.Blob, error) { return nil, store.ErrNotFound }

// told are the types of facts that a trajectory is made of.
var told = []event.Type{
	event.TypeTurnSubmitted, event.TypeTurnStarted, event.TypeTurnSteered, event.TypeTurnCompleted, event.TypeTurnFailed,
	event.TypeModelRequested, event.TypeModelCompleted, event.TypeModelFailed, event.TypeCostRecorded, event.TypeToolCatalogResolved,
	event.TypeToolStarted, event.TypeToolResult, event.TypeToolFailed, event.TypePermissionEvaluated, event.TypePermissionResolved,
	event.TypeSandboxApplied, event.TypeSandboxViolation, event.TypeHookCompleted, event.TypeHookFailed, event.TypeSubagentSpawned,
	event.TypeContextCompactionCompleted, event.TypeHistoryRollbackCompleted, event.TypeOutputSpilled, event.TypeOutputRedacted,
}

// story draws facts that refer to each other more or less as real ones do, and
// often don't: results before calls, calls without results, children of children.
func story(t *rapid.T) journal {
	var out journal
	threads, calls, requests := []string{"thread_root"}, []string{"call_0"}, []string{"req_0"}
	n := rapid.IntRange(1, 60).Draw(t, "facts")
	for i := range n {
		e := eventtest.Event(t, rapid.SampledFrom(told).Draw(t, "type"))
		e.SessionID, e.Sequence, e.ID = "sess_1", uint64(i+1), fmt.Sprintf("evt_%d", i)
		e.ThreadID = rapid.SampledFrom(threads).Draw(t, "thread")
		e.TurnID = rapid.SampledFrom([]string{"turn_1", "turn_2"}).Draw(t, "turn")
		e.ToolCallID = rapid.SampledFrom(calls).Draw(t, "call")
		e.ModelRequestID = rapid.SampledFrom(requests).Draw(t, "request")
		switch p := e.Payload.(type) {
		case *event.ModelRequested:
			e.ModelRequestID = fmt.Sprintf("req_%d", i)
			p.ModelRequestID = e.ModelRequestID
			requests = append(requests, e.ModelRequestID)
		case *event.ModelCompleted:
			p.ModelRequestID = e.ModelRequestID
			p.Message = &event.ModelMessage{Text: "x"}
			for k := range rapid.IntRange(0, 3).Draw(t, "calls") {
				c := event.ToolCallRequest{ToolCallID: fmt.Sprintf("call_%d_%d", i, k), ToolName: "f"}
				c.Arguments = rapid.SampledFrom([]event.Raw{nil, event.Raw(`{"a":1}`), event.Raw(`"x"`), event.Raw(`[1]`)}).Draw(t, "arguments")
				p.Message.ToolCalls = append(p.Message.ToolCalls, c)
				calls = append(calls, c.ToolCallID)
			}
		case *event.SubagentSpawned:
			e.SubagentID = fmt.Sprintf("sub_%d", i)
			p.ChildThreadID = fmt.Sprintf("thread_%d", i)
			threads = append(threads, p.ChildThreadID)
		}
		out = append(out, event.AppendJSON(nil, e))
	}
	return out
}

// TestWhatIsExportedIsLegal: whatever the facts are, what comes out is a document
// that the validator accepts, and the same again is the same.
func TestWhatIsExportedIsLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts := story(t)
		scope := atif.Scope{SessionID: "sess_1", ThreadID: "thread_root", TurnID: rapid.SampledFrom([]string{"", "turn_1"}).Draw(t, "scope")}
		opt := atif.Options{Version: rapid.SampledFrom([]string{"", atif.Level14}).Draw(t, "version")}
		var doc, again bytes.Buffer
		sum, err := atif.Export(context.Background(), facts, scope, opt, &doc)
		if errors.Is(err, atif.ErrNothing) || errors.Is(err, atif.ErrEmpty) {
			t.Skip("nothing to tell")
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := atif.Validate(doc.Bytes()); err != nil {
			t.Fatalf("%v\n%s", err, doc.Bytes())
		}
		if _, err := atif.Export(context.Background(), facts, scope, opt, &again); err != nil || !bytes.Equal(doc.Bytes(), again.Bytes()) {
			t.Fatalf("the same facts gave another document: %v", err)
		}
		var tr atif.Trajectory
		if err := json.Unmarshal(doc.Bytes(), &tr); err != nil {
			t.Fatal(err)
		}
		if int64(len(tr.Steps)) != sum.Steps || tr.FinalMetrics.Steps != sum.Steps || tr.SessionID != "sess_1" {
			t.Fatalf("the summary has %d steps, the document %d", sum.Steps, len(tr.Steps))
		}
		if opt.Version == atif.Level14 {
			old(t, doc.Bytes())
		}
	})
}

// old fails if a document has what version 1.4 has no place for.
func old(t *rapid.T, doc []byte) {
	for _, member := range []string{`"tool_definitions":`, `"llm_call_count":`, `"trajectory_id":`, `"subagent_trajectories":`, `"subagent_trajectory_ref":`} {
		if bytes.Contains(doc, []byte(member)) {
			t.Fatalf("version 1.4 has %s\n%s", member, doc)
		}
	}
	var tr atif.Trajectory
	if err := json.Unmarshal(doc, &tr); err != nil {
		t.Fatal(err)
	}
	for _, s := range tr.Steps {
		for _, c := range s.ToolCalls {
			if c.Extra != nil {
				t.Fatal("a call has extra")
			}
		}
	}
}

func TestAWriterReportsWhatCannotBeWritten(t *testing.T) {
	head := &atif.Trajectory{SchemaVersion: atif.Version, Agent: atif.Agent{Name: "a", Version: "1"}}
	w, err := atif.NewWriter(io.Discard, head)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(head); !errors.Is(err, atif.ErrEmpty) {
		t.Errorf("a trajectory without steps: %v", err)
	}
	full := errors.New("full")
	if _, err := atif.NewWriter(failing{full}, head); !errors.Is(err, full) {
		t.Errorf("a writer that fails: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// BenchmarkExport writes the trajectory of a turn with 20,000 model calls, each
// with a tool call: 100,000 facts.
func BenchmarkExport(b *testing.B) {
	const rounds = 20_000
	var facts journal
	add := func(typ event.Type, p event.Payload, change func(*event.Scope)) {
		e := &event.Event{Type: typ, ID: "evt_1", Time: time.Unix(1e9, 0), RuntimeID: "runtime_1", SessionID: "sess_1", Sequence: uint64(len(facts) + 1), Payload: p}
		e.ThreadID, e.TurnID = "thread_root", "turn_1"
		if change != nil {
			change(&e.Scope)
		}
		facts = append(facts, event.AppendJSON(nil, e))
	}
	for i := range rounds {
		call, req := fmt.Sprintf("call_%d", i), fmt.Sprintf("req_%d", i)
		of := func(s *event.Scope) { s.ToolCallID, s.ModelRequestID = call, req }
		add(event.TypeModelRequested, &event.ModelRequested{Provider: "p", Model: "m", ModelRequestID: req}, of)
		add(event.TypeModelCompleted, &event.ModelCompleted{ModelRequestID: req, Provider: "p", Model: "m", StopReason: "tool_use", Message: &event.ModelMessage{
			Text: "I look.", ToolCalls: []event.ToolCallRequest{{ToolCallID: call, ToolName: "read_file", Arguments: event.Raw(`{"path":"a"}`)}},
		}}, of)
		add(event.TypePermissionEvaluated, &event.PermissionEvaluated{Decision: "allow", DecisionSource: "mode", DecisionReason: "it reads", ToolName: "read_file", Scope: event.Raw(`{}`)}, of)
		add(event.TypeToolStarted, &event.ToolStarted{ToolName: "read_file", Policy: "allowed"}, of)
		add(event.TypeToolResult, &event.ToolResult{ToolName: "read_file", Status: "ok", Preview: "content"}, of)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := atif.Export(context.Background(), facts, atif.Scope{SessionID: "sess_1", ThreadID: "thread_root", TurnID: "turn_1"}, atif.Options{}, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(facts))*float64(b.N)/b.Elapsed().Seconds(), "facts/s")
}
