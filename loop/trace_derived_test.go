package loop_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/state"
	"agentd/telemetry"
)

func tracing(o *agentd.Options) { o.Session.TraceFacts = true }

// specification.md, event envelope: trace_id and span_id are present when telemetry is
// available. evidence-and-replay.md: trace ids appear in events and in evidence exports.
func TestFactsCarryTheIDsThatTelemetryShows(t *testing.T) {
	k := runtimetest.NewWith(t, tracing,
		script.Answer{When: &script.When{Contains: "parent"}, Tools: []script.Tool{{Name: "spawn_agent", Arguments: map[string]any{"role": "r", "input": "child"}}}},
		script.Answer{When: &script.When{Contains: "parent"}, Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "a", "content": "b"}}}},
		script.Answer{When: &script.When{Contains: "parent"}, Text: "done"},
		script.Answer{When: &script.When{Contains: "child"}, Text: "child done"},
	)
	r := k.SubmitWith("sess_a", "parent", &event.TurnOptions{PermissionMode: "bypass"})
	k.Completes(r)
	runtimetest.Do[command.CompactThreadResult](k, &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID})
	k.Close()
	k.Open()
	k.Completes(k.Submit("sess_a", "another child"))

	facts := k.Facts("sess_a")
	projector, spans := telemetry.New("sess_a"), map[string]telemetry.Span{}
	for _, e := range facts {
		for _, s := range projector.Apply(e).Spans {
			spans[s.SpanID] = s
		}
	}
	for _, e := range facts {
		if e.TraceID == "" || e.SpanID == "" {
			t.Errorf("fact %d (%s) carries trace %q and span %q", e.Sequence, e.Type, e.TraceID, e.SpanID)
			continue
		}
		s, shown := spans[e.SpanID]
		if shown && s.TraceID != e.TraceID {
			t.Errorf("fact %d (%s) is of trace %s, its span %q of %s", e.Sequence, e.Type, e.TraceID, s.Name, s.TraceID)
		}
		if inTurn := e.TurnID != "" && e.TurnID != event.NotApplicable; inTurn && !shown {
			t.Errorf("fact %d (%s) names span %s, which telemetry doesn't show", e.Sequence, e.Type, e.SpanID)
		}
	}
	for id, s := range spans {
		if _, ok := spans[s.ParentID]; s.ParentID != "" && !ok || s.ParentID == id {
			t.Errorf("span %q hangs on %q", s.Name, s.ParentID)
		}
	}
	if turn := facts[slices.IndexFunc(facts, func(e *event.Event) bool { return e.Type == event.TypeTurnStarted })]; turn.TraceID != event.TraceIDOf("sess_a", r.TurnID) {
		t.Errorf("the turn is of trace %s", turn.TraceID)
	}
}

// telemetry.md: a missing id is recorded as such. evidence-and-replay.md: evidence and
// read models come from the same facts, so they count the same ones.
func TestEvidenceAndReadModelCountTracesAlike(t *testing.T) {
	for _, c := range []struct {
		name, read, signal string
		change             func(*agentd.Options)
		trace              string
	}{
		{"telemetry is on", state.Joined, "exported", tracing, ""},
		{"a caller traces its turn", state.MissingCorrelation, "missing_correlation", nil, "0af7651916cd43dd8448eb211c80319c"},
		{"nobody traces", state.Unavailable, "not_applicable", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := runtimetest.NewWith(t, c.change, runtimetest.Says("one"), runtimetest.Says("two"))
			k.Completes(k.Submit("sess_a", "first"))
			caller := command.Local()
			caller.TraceID = c.trace
			k.Completes(runtimetest.DoAs[command.SubmitTurnResult](k, caller, &command.SubmitTurn{SessionID: "sess_a", Input: event.Raw(`"second"`)}))
			sum := runtimetest.Do[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_a"}).TelemetrySummary
			if sum.JoinStatus != c.read {
				t.Errorf("the read model says %+v", sum)
			}
			res := runtimetest.Do[command.ExportResult](k, &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: "sess_a"}})
			var pack struct {
				Signals []struct {
					Signal, Status string
					Items          int64
				} `json:"signals"`
			}
			if err := json.Unmarshal(bytes.TrimSpace(res.Pack), &pack); err != nil {
				t.Fatal(err)
			}
			for _, s := range pack.Signals {
				if s.Signal != "traces" {
					continue
				}
				if s.Status != c.signal || c.signal == "missing_correlation" && s.Items != sum.Untraced {
					t.Errorf("the pack says %+v, the read model %+v", s, sum)
				}
			}
		})
	}
}
