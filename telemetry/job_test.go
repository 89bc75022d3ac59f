package telemetry_test

import (
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/model/provider/script"
	"agentd/telemetry"
)

// jobFacts runs a job of three items, of which one fails.
func jobFacts(t *testing.T) []*event.Event {
	t.Helper()
	k := newKit(t, world{mode: "bypass", answers: []script.Answer{
		{When: &script.When{Contains: "BROKEN"}, Error: &script.Error{Category: "auth", Message: "no"}},
		{When: &script.When{Contains: "item"}, Text: "done"},
		{When: &script.When{Contains: "item"}, Text: "done"},
	}})
	k.runCommand(command.Local(), &command.CreateSession{SessionID: "sess_a"})
	k.runCommand(command.Local(), &command.CreateJob{
		JobID: "job_a", SessionID: "sess_a", Instruction: "item", Concurrency: 1, RetryPolicy: &event.RetryPolicy{MaxAttempts: 1},
		Items: []command.JobItemInput{{ItemID: "one", Input: event.Raw(`"item"`)}, {ItemID: "two", Input: event.Raw(`"item BROKEN"`)}, {ItemID: "three", Input: event.Raw(`"item"`)}},
	})
	k.until(func(e *event.Event) bool {
		return e.JobID == "job_a" && (e.Type == event.TypeJobCompleted || e.Type == event.TypeJobFailed)
	})
	return k.facts()
}

// TestJobs: a job is a span with one for each attempt at an item below it, and the
// turns that work on an item lead to it.
func TestJobs(t *testing.T) {
	facts := jobFacts(t)
	spans, measures, open := project(facts)
	jobs, items := named(spans, telemetry.OpJobRun), named(spans, telemetry.OpJobItem)
	if len(jobs) != 1 || len(items) != 3 || open != 0 {
		t.Fatalf("%d jobs, %d items, %d open", len(jobs), len(items), open)
	}
	failed := 0
	links := map[string]bool{}
	for _, s := range items {
		if s.ParentID != jobs[0].SpanID || s.TraceID != jobs[0].TraceID || s.Get(telemetry.AttrJobID) != "job_a" || s.Get(telemetry.AttrJobItemID) == nil {
			t.Errorf("the item %+v is not below its job", s)
		}
		if s.Failed {
			failed++
		}
		links[s.TraceID+s.SpanID] = true
	}
	if failed != 1 || jobs[0].Get(telemetry.AttrJobItems) != int64(3) {
		t.Errorf("%d items failed; the job is %+v", failed, jobs[0])
	}
	linked := 0
	for _, s := range spans {
		for _, l := range s.Links {
			linked++
			if !strings.HasPrefix(s.Name, telemetry.OpInvokeAgent) || !links[l.TraceID+l.SpanID] {
				t.Errorf("%s leads to %+v, which is no item", s.Name, l)
			}
		}
	}
	if linked != 3 {
		t.Errorf("%d turns lead to items, want 3", linked)
	}
	counts := map[string]int{}
	for _, m := range measures {
		counts[m.Instrument.Name]++
	}
	if counts["agentruntime.job.duration"] != 1 || counts["agentruntime.job.item.duration"] != 3 {
		t.Errorf("measured: %v", counts)
	}
}

// TestJobHoles: an end whose beginning is not known is a span that says so.
func TestJobHoles(t *testing.T) {
	facts := slices.DeleteFunc(jobFacts(t), func(e *event.Event) bool {
		return e.Type == event.TypeJobCreated || e.Type == event.TypeJobItemStarted
	})
	spans, _, _ := project(facts)
	n := 0
	for _, s := range spans {
		if s.Name == telemetry.OpJobRun || s.Name == telemetry.OpJobItem {
			n++
			if s.Get(telemetry.AttrCorrelation) != telemetry.MissingCorrelation {
				t.Errorf("%s hides that its beginning isn't known", s.Name)
			}
		}
	}
	if n != 4 {
		t.Errorf("%d spans, want 4", n)
	}
}

// TestContent: content is exported if it is asked for, bounded, and as the facts
// hold it.
func TestContent(t *testing.T) {
	long := strings.Repeat("ä", 20_000)
	k := newKit(t, world{mode: "bypass", answers: []script.Answer{
		{Text: "I look", Tools: []script.Tool{{Name: "list_files", Arguments: map[string]any{"path": "."}}}}, {Text: long},
	}})
	k.ends(k.submit(event.Trace{}, "what is here?"))
	facts := k.facts()
	p := telemetry.New("sess_a", telemetry.Content())
	found := map[string]string{}
	for _, e := range facts {
		out := p.Apply(e)
		for _, s := range out.Spans {
			for _, a := range s.Attrs {
				if text, ok := a.Value.(string); ok {
					found[a.Key] += text
				}
			}
		}
	}
	for key, want := range map[string]string{
		telemetry.AttrInputMessages: "what is here?", telemetry.AttrOutputMessages: `"type":"tool_call"`, telemetry.AttrToolArguments: `"path"`,
	} {
		if !strings.Contains(found[key], want) {
			t.Errorf("%s is %.200q, which has no %s", key, found[key], want)
		}
	}
	if _, ok := found[telemetry.AttrToolResult]; !ok {
		t.Error("the result is missing")
	}
	if got := found[telemetry.AttrOutputMessages]; !strings.Contains(got, `"content":"ää`) || len(got) > 20_000 || strings.ToValidUTF8(got, "?") != got {
		t.Errorf("the long answer has %d bytes", len(got))
	}
	// A fact of an older version holds all of it.
	whole := &event.Event{Type: event.TypeModelCompleted, Payload: &event.ModelCompleted{Message: &event.ModelMessage{Text: long}}}
	for _, e := range facts {
		if e.Type == event.TypeModelCompleted {
			whole.Scope, whole.Time, whole.Sequence = e.Scope, e.Time, e.Sequence
		}
	}
	old := telemetry.New("sess_a", telemetry.Content())
	for _, e := range facts {
		if e.Sequence == whole.Sequence {
			e = whole
		}
		for _, s := range old.Apply(e).Spans {
			if got, ok := s.Get(telemetry.AttrOutputMessages).(string); ok {
				found["old"] = got
			}
		}
	}
	if got := found["old"]; !strings.HasSuffix(got, "… (cut)") || len(got) > 20_000 || strings.ToValidUTF8(got, "?") != got {
		t.Errorf("the long answer of an older version has %d bytes", len(got))
	}
	plain, _, _ := project(facts)
	for _, s := range plain {
		for _, key := range []string{telemetry.AttrInputMessages, telemetry.AttrOutputMessages, telemetry.AttrToolArguments, telemetry.AttrToolResult} {
			if s.Get(key) != nil {
				t.Errorf("%s has %s although nobody asked", s.Name, key)
			}
		}
	}
}
