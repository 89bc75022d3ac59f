package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"agentd/event"
	"agentd/event/eventtest"
)

const testSession = "sess_test"

var epoch = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// pools are the few ids that random facts choose from, by the name of the field,
// so that facts meet: an end finds its start, an answer its question.
var pools = map[string][]string{
	"ThreadID":         {"thread_1", "thread_2", event.NotApplicable},
	"ParentThreadID":   {"thread_1", "thread_2"},
	"ChildThreadID":    {"thread_1", "thread_2"},
	"AssignedThreadID": {"thread_1", "thread_2"},
	"TurnID":           {"turn_1", "turn_2", "turn_3", event.NotApplicable},
	"ToTurnID":         {"turn_1", "turn_2"},
	"ParentTurnID":     {"turn_1", "turn_2"},
	"TaskID":           {"task_1", "task_2", "task_3"},
	"ParentTaskID":     {"task_1", "task_2"},
	"RunID":            {"run_1", "run_2", "run_3"},
	"ToolCallID":       {"tool_1", "tool_2", event.NotApplicable},
	"ActionID":         {"action_1", "action_2"},
	"ApprovalActionID": {"action_1", "action_2"},
	"SubagentID":       {"sub_1", "sub_2"},
	"ParentSubagentID": {"sub_1", "sub_2"},
	"ArtifactID":       {"artifact_1", "artifact_2"},
	"ProcessID":        {"proc_1", "proc_2"},
	"ChannelID":        {"chan_1", "chan_2"},
	"JobID":            {"job_1", "job_2"},
	"JobItemID":        {"item_1", "item_2", "item_3"},
	"ModelRequestID":   {"req_1", "req_2"},
	"HookRunID":        {"hook_1", "hook_2"},
	"CompactionID":     {"compaction_1", "compaction_2"},
	"RollbackID":       {"rollback_1", "rollback_2"},
	"RemoteTaskID":     {"remote_1", "remote_2"},
	"TrialID":          {"trial_1", "trial_2"},
	"OutputRef":        {"output_1", "output_2"},
	"TraceID":          {"trace_1", "trace_2"},
	"QuotaName":        {"budget", "tokens"},
	"RemovedTurns":     {"turn_1", "turn_2", "turn_3"},
	"DependsOn":        {"task_1", "task_2", "task_3"},
	"Blockers":         {"task_1", "action_1"},
	"TargetID":         {"task_1", "task_2", "thread_1"},
}

// facts draws a sequence of valid facts of any type, beginning with a session
// and a thread, perhaps with a task and a turn that runs.
func facts(t *rapid.T, n int) []*event.Event {
	list := []*event.Event{
		{Type: event.TypeSessionCreated, Payload: &event.SessionCreated{Title: "random"}},
		{Type: event.TypeThreadStarted, Scope: event.Scope{ThreadID: "thread_1"}, Payload: &event.ThreadStarted{Role: "main"}},
	}
	if rapid.Bool().Draw(t, "turn runs") {
		list = append(list,
			&event.Event{Type: event.TypeTaskCreated, Scope: event.Scope{TaskID: "task_1"}, Payload: &event.TaskCreated{TaskKind: "coding", Visibility: "foreground", Status: "accepted"}},
			&event.Event{Type: event.TypeTurnSubmitted, Scope: inTurn(), Payload: &event.TurnSubmitted{Status: "accepted", Source: "user"}},
			&event.Event{Type: event.TypeTurnStarted, Scope: inTurn(), Payload: &event.TurnStarted{Status: "running"}})
	}
	cast := cast(t)
	for range n {
		e := eventtest.Event(t, cast.Draw(t, "type"))
		meet(t, reflect.ValueOf(&e.Scope).Elem())
		meet(t, reflect.ValueOf(e.Payload).Elem())
		if e.Benchmark != nil {
			meet(t, reflect.ValueOf(e.Benchmark).Elem())
		}
		list = append(list, e)
	}
	for i, e := range list {
		stamp(e, uint64(i+1))
		if err := event.Check(e); err != nil {
			t.Fatalf("the generator made a fact that isn't valid: %v", err)
		}
	}
	return list
}

// cast returns the types that a sequence draws from: any, with a liking for a few
// families and for turns, so that facts of one kind come together.
func cast(t *rapid.T) *rapid.Generator[event.Type] {
	defs := event.Catalog()
	var all []event.Family
	for i := range defs {
		if !slices.Contains(all, defs[i].Family) {
			all = append(all, defs[i].Family)
		}
	}
	families := append(rapid.SliceOfN(rapid.SampledFrom(all), 2, 2).Draw(t, "families"), event.FamilyTurn)
	var liked []event.Type
	for i := range defs {
		if slices.Contains(families, defs[i].Family) {
			liked = append(liked, defs[i].Type)
		}
	}
	often := rapid.SampledFrom(liked)
	return rapid.OneOf(often, often, often, eventtest.Type())
}

// stamp sets what a session's writer sets.
func stamp(e *event.Event, sequence uint64) {
	e.ID, e.RuntimeID, e.SessionID, e.Sequence = fmt.Sprintf("evt_%d", sequence), "runtime_test", testSession, sequence
	e.Time = epoch.Add(time.Duration(sequence) * time.Second)
}

// meet replaces the ids in a struct by ones of the pools, and some raw values by
// null, which is the one that is easily taken for another.
func meet(t *rapid.T, v reflect.Value) {
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		pool, ok := pools[name]
		switch {
		case ok && f.Kind() == reflect.String && f.Len() > 0:
			f.SetString(rapid.SampledFrom(pool).Draw(t, name))
		case ok && f.Kind() == reflect.Slice:
			for j := range f.Len() {
				f.Index(j).SetString(rapid.SampledFrom(pool).Draw(t, name))
			}
		case f.Type() == reflect.TypeFor[event.Raw]() && f.Len() > 0:
			if rapid.IntRange(0, 2).Draw(t, name+" null") == 0 {
				f.Set(reflect.ValueOf(event.Raw("null")))
			}
		case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct && !f.IsNil():
			meet(t, f.Elem())
		case f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[time.Time]():
			meet(t, f)
		}
	}
}

// loose returns the fact as a careless producer could give it: empty lists are
// nil, null is absent where it is demanded, times have nanoseconds and a zone.
// In the journal it is the same fact.
func loose(t *rapid.T, e *event.Event) *event.Event {
	copied := decoded(t, encoded(e))
	loosen(reflect.ValueOf(copied.Payload).Elem())
	if a, b := encoded(copied), encoded(e); !slices.Equal(a, b) {
		t.Fatalf("the loose fact is another fact:\n%s\n%s", a, b)
	}
	return copied
}

func loosen(v reflect.Value) {
	for i := range v.NumField() {
		f, tag := v.Field(i), v.Type().Field(i).Tag.Get("json")
		switch x := f.Interface().(type) {
		case time.Time:
			if !x.IsZero() {
				f.Set(reflect.ValueOf(x.Add(123 * time.Nanosecond).In(time.FixedZone("test", 3600))))
			}
			continue
		case event.Raw:
			if string(x) == "null" && !slices.Contains([]byte(tag), ',') {
				f.SetZero()
			} else if len(x) > 0 {
				f.Set(reflect.ValueOf(event.Raw(" " + string(x) + "\n")))
			}
			continue
		}
		switch f.Kind() {
		case reflect.Slice:
			if f.Len() == 0 {
				f.SetZero()
			}
			for j := range f.Len() {
				if f.Index(j).Kind() == reflect.Struct {
					loosen(f.Index(j))
				}
			}
		case reflect.Struct:
			loosen(f)
		case reflect.Pointer:
			if !f.IsNil() && f.Type().Elem().Kind() == reflect.Struct {
				loosen(f.Elem())
			}
		}
	}
}

func encoded(e *event.Event) []byte { return event.AppendJSON(nil, e) }

func decoded(t fataler, data []byte) *event.Event {
	e, err := event.Decode(data)
	if err != nil {
		t.Fatalf("decode %s: %v", data, err)
	}
	return e
}

// fataler is what *testing.T and *rapid.T share.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// apply folds facts and returns what left the working set, encoded.
func apply(t fataler, s *Session, list []*event.Event) map[string]string {
	t.Helper()
	left := map[string]string{}
	for _, e := range list {
		evicted, err := s.Apply(e)
		if err != nil {
			t.Fatalf("apply %s: %v", e.Type, err)
		}
		for _, x := range evicted {
			data, err := x.Encode()
			if err != nil {
				t.Fatalf("encode %s: %v", x.Name, err)
			}
			if want, err := json.Marshal(x.Data); err != nil || !bytes.Equal(data, want) {
				t.Fatalf("the record %s is not what encoding/json makes of it: %v\n%s\n%s", x.Name, err, data, want)
			}
			left[x.Name] = string(data)
		}
	}
	return left
}

func stateBytes(t fataler, s *Session) string {
	t.Helper()
	b := s.Encode()
	if want, err := json.Marshal(s); err != nil || !bytes.Equal(b, want) {
		t.Fatalf("the encoded state is not what encoding/json makes of it: %v\n%s\n%s", err, b, want)
	}
	return string(b)
}

// story folds facts one after the other, for tests that say what they mean.
type story struct {
	t      testing.TB
	s      *Session
	facts  []*event.Event
	left   map[string]any
	strict *eventtest.Validator
}

// strict checks facts against the standard's strict profile. Reading the schemas
// takes longer than most stories.
var (
	strictOnce sync.Once
	strict     *eventtest.Validator
)

// newStory begins a story with a session and its main thread. At the end of the test
// the facts are read back from their encoded form and must fold to the same
// state, and no fact changes a snapshot that was taken before it.
func newStory(t testing.TB) *story {
	t.Helper()
	strictOnce.Do(func() { strict = eventtest.Strict(t) })
	st := &story{t: t, s: New(testSession), left: map[string]any{}, strict: strict}
	st.addFact(event.TypeSessionCreated, event.Scope{}, &event.SessionCreated{Title: "story", PermissionMode: "default"})
	st.addFact(event.TypeThreadStarted, event.Scope{ThreadID: "thread_1"}, &event.ThreadStarted{Role: "main"})
	t.Cleanup(st.refold)
	return st
}

func (st *story) addFact(typ event.Type, scope event.Scope, payload event.Payload) {
	st.t.Helper()
	st.foldEvent(&event.Event{Type: typ, Scope: scope, Payload: payload})
}

func (st *story) foldEvent(e *event.Event) {
	st.t.Helper()
	stamp(e, uint64(len(st.facts)+1))
	if err := event.Check(e); err != nil {
		st.t.Fatal(err)
	}
	st.strict.Accept(st.t, encoded(e))
	st.facts = append(st.facts, e)
	before := shown{what: st.s.Snapshot(), name: "a snapshot before " + string(e.Type)}
	before.text = marshal(st.t, before.what)
	evicted, err := st.s.Apply(e)
	if err != nil {
		st.t.Fatal(err)
	}
	before.check(st.t)
	for _, x := range evicted {
		st.left[x.Name] = x.Data
	}
}

func (st *story) refold() {
	if st.t.Failed() {
		return
	}
	again := New(testSession)
	for _, e := range st.facts {
		if _, err := again.Apply(decoded(st.t, encoded(e))); err != nil {
			st.t.Fatal(err)
		}
	}
	if live, replayed := stateBytes(st.t, st.s), stateBytes(st.t, again); live != replayed {
		st.t.Errorf("the replay differs from the live state:\n%s\n%s", live, replayed)
	}
}

func (st *story) now() time.Time { return st.s.UpdatedAt }

// inTurn is the scope of a fact of turn_1 in thread_1.
func inTurn() event.Scope {
	return event.Scope{ThreadID: "thread_1", TurnID: "turn_1", TaskID: "task_turn", RunID: "run_turn"}
}

func inTool(call string) event.Scope {
	scope := inTurn()
	scope.StepID, scope.ToolCallID = "step_1", call
	return scope
}

// startTurn submits and starts turn_1.
func (st *story) startTurn() {
	st.t.Helper()
	st.addFact(event.TypeTurnSubmitted, inTurn(), &event.TurnSubmitted{Status: "accepted", Source: "user", Input: event.Raw(`"hello"`)})
	st.addFact(event.TypeTurnStarted, inTurn(), &event.TurnStarted{Status: "running"})
}
