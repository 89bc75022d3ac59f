package event_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentd/event"
	"agentd/event/eventtest"
)

// sample is an event of about 600 bytes, as a session writes it.
func sample() *event.Event {
	return &event.Event{
		Type: event.TypeToolResult, ID: "evt_06ff0m2v5wyqz8k9tj4b7n3xhd", RuntimeID: "runtime_main",
		Time: time.Date(2026, 11, 15, 5, 40, 12, 345678000, time.UTC), SessionID: "sess_06ff0m2v5wyqz8k9tj4b7n3xhe", Sequence: 4711,
		Scope: event.Scope{
			ThreadID: "thread_06ff0m2v5wyqz8k9tj4b7n3xhf", TurnID: "turn_06ff0m2v5wyqz8k9tj4b7n3xhg",
			TaskID: "task_06ff0m2v5wyqz8k9tj4b7n3xhh", StepID: "step_06ff0m2v5wyqz8k9tj4b7n3xhj",
			ToolCallID: "tool_06ff0m2v5wyqz8k9tj4b7n3xhk",
		},
		Payload: &event.ToolResult{
			ToolName: "shell", Status: "ok", DurationMs: 1234, ExitCode: event.Int(0), SizeBytes: 71,
			Preview: "total 3\n-rw-r--r-- 1 user user 12 README.md\n\"quoted\" and ünïcödé\n",
		},
	}
}

func TestAppendJSONLayout(t *testing.T) {
	e := sample()
	e.Refs = map[string]string{"b": "2", "a": "1"}
	e.Benchmark = &event.Benchmark{TrialID: "trial_1"}
	e.Reward = &event.Reward{Value: 0.5, Criteria: []string{"tests pass"}}
	e.Comparison = &event.Comparison{Decision: "keep"}
	got := string(event.AppendJSON([]byte("kept:"), e))
	want := `kept:{"type":"tool.result","eventId":"evt_06ff0m2v5wyqz8k9tj4b7n3xhd","schemaVersion":"lime-profile-0.4.0",` +
		`"timestamp":"2026-11-15T05:40:12.345678Z","runtimeId":"runtime_main","sessionId":"sess_06ff0m2v5wyqz8k9tj4b7n3xhe","sequence":4711,` +
		`"threadId":"thread_06ff0m2v5wyqz8k9tj4b7n3xhf","turnId":"turn_06ff0m2v5wyqz8k9tj4b7n3xhg","taskId":"task_06ff0m2v5wyqz8k9tj4b7n3xhh",` +
		`"stepId":"step_06ff0m2v5wyqz8k9tj4b7n3xhj","toolCallId":"tool_06ff0m2v5wyqz8k9tj4b7n3xhk",` +
		`"refs":{"a":"1","b":"2"},"benchmark":{"trialId":"trial_1"},` +
		`"reward":{"value":0.5,"criteria":["tests pass"]},"comparison":{"meanRewardDelta":0,"timeoutRateDelta":0,"evidenceCompletenessRate":0,"decision":"keep"},` +
		`"payload":{"toolName":"shell","status":"ok","preview":"total 3\n-rw-r--r-- 1 user user 12 README.md\n\"quoted\" and ünïcödé\n",` +
		`"durationMs":1234,"sizeBytes":71,"exitCode":0}}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

// TestScopeOrder shows that every id is written, in the order of the struct.
func TestScopeOrder(t *testing.T) {
	e := sample()
	scope := reflect.ValueOf(&e.Scope).Elem()
	var want []string
	for i := range scope.NumField() {
		scope.Field(i).SetString("x")
		want = append(want, `"`+eventtest.WireID(scope.Type().Field(i).Name)+`":"x"`)
	}
	if got := string(event.AppendJSON(nil, e)); !strings.Contains(got, `"sequence":4711,`+strings.Join(want, ",")+`,"payload":`) {
		t.Errorf("want %s in:\n%s", want, got)
	}
}

// TestEncodersAgree checks the generated encoder against encoding/json, which
// reads the same tags. Only times differ: ours always have six digits.
func TestEncodersAgree(t *testing.T) {
	every(t, func(t *rapid.T, typ event.Type) {
		e := eventtest.Event(t, typ)
		data := event.AppendJSON(nil, e)
		if bytes.ContainsAny(data, "\n\r") {
			t.Errorf("more than one line: %q", data)
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(e.Payload); err != nil {
			t.Fatal(err)
		}
		got, err := event.DecodeHeader(data, new(event.Event))
		if err != nil {
			t.Fatal(err)
		}
		if hasTime(reflect.ValueOf(e.Payload).Elem()) {
			return // TestRoundTrip covers what is left.
		}
		if want := bytes.TrimSpace(b.Bytes()); !bytes.Equal(got, want) {
			t.Errorf("payload:\n%s\nencoding/json writes:\n%s", got, want)
		}
	})
}

func hasTime(v reflect.Value) bool {
	for _, f := range v.Fields() {
		if at, ok := reflect.TypeAssert[time.Time](f); ok && !at.IsZero() {
			return true
		}
		if f.Kind() != reflect.Slice || f.Type().Elem().Kind() != reflect.Struct {
			continue
		}
		for i := range f.Len() {
			if hasTime(f.Index(i)) {
				return true
			}
		}
	}
	return false
}

// TestNilListsAndMaps shows what an absent list, map or pointer becomes.
func TestNilListsAndMaps(t *testing.T) {
	tests := []struct {
		payload event.Payload
		typ     event.Type
		want    string
	}{
		{&event.QueueChanged{Reason: "started"}, event.TypeQueueChanged, `{"queue":[],"reason":"started"}`},
		{&event.OutputRedacted{}, event.TypeOutputRedacted, `{"count":0,"rules":[]}`},
		{&event.QuotaState{}, event.TypeQuotaLow, `{"limit":null,"used":null,"remaining":null}`},
		{&event.BenchmarkDataset{}, event.TypeBenchmarkDatasetResolved, `{}`},
		{
			&event.ToolResult{ToolName: "shell", Status: "background", ExitCode: event.NullInt()}, event.TypeToolResult,
			`{"toolName":"shell","status":"background","preview":"","durationMs":0,"exitCode":null}`,
		},
		{
			&event.ToolStarted{ToolName: "t", Policy: "allowed", SafeArgs: event.Raw("{ \"a b\" : [ 1 ] }\n")}, event.TypeToolStarted,
			`{"toolName":"t","safeArgs":{"a b":[1]},"policy":"allowed","isReadOnly":false}`,
		},
	}
	for _, tt := range tests {
		got := string(event.AppendJSON(nil, &event.Event{Type: tt.typ, Payload: tt.payload}))
		if !strings.HasSuffix(got, `"payload":`+tt.want+"}") {
			t.Errorf("%s: %s, want payload %s", tt.typ, got, tt.want)
		}
	}
}

func TestAppendJSONDoesNotAllocate(t *testing.T) {
	e := sample()
	e.Refs = map[string]string{"a": "1", "b": "2"}
	buf := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { buf = event.AppendJSON(buf[:0], e) }); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := event.Check(e); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a check", n)
	}
}

// reference is an envelope for encoding/json, to compare with.
type reference struct {
	Type          event.Type    `json:"type"`
	EventID       string        `json:"eventId"`
	SchemaVersion string        `json:"schemaVersion"`
	Timestamp     time.Time     `json:"timestamp"`
	RuntimeID     string        `json:"runtimeId"`
	SessionID     string        `json:"sessionId"`
	Sequence      uint64        `json:"sequence"`
	ThreadID      string        `json:"threadId,omitempty"`
	TurnID        string        `json:"turnId,omitempty"`
	TaskID        string        `json:"taskId,omitempty"`
	StepID        string        `json:"stepId,omitempty"`
	ToolCallID    string        `json:"toolCallId,omitempty"`
	Payload       event.Payload `json:"payload"`
}

func BenchmarkEncode(b *testing.B) {
	e := sample()
	size := int64(len(event.AppendJSON(nil, e)))
	b.Run("AppendJSON", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		buf := make([]byte, 0, 4096)
		for b.Loop() {
			buf = event.AppendJSON(buf[:0], e)
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		r := &reference{
			e.Type, e.ID, event.SchemaStandard, e.Time, e.RuntimeID, e.SessionID, e.Sequence,
			e.ThreadID, e.TurnID, e.TaskID, e.StepID, e.ToolCallID, e.Payload,
		}
		for b.Loop() {
			if _, err := json.Marshal(r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := event.Check(e); err != nil {
				b.Fatal(err)
			}
		}
	})
}
