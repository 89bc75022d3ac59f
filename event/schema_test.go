package event_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"agentd/event"
	"agentd/event/eventtest"
	"agentd/internal/gen"
)

// TestOwnSchemaRejects changes valid events so that they are no longer ours;
// agentd's schemas are stricter than the standard's and must notice.
func TestOwnSchemaRejects(t *testing.T) {
	own := eventtest.Own(t)
	type fields = map[string]any
	mutations := map[string]func(e fields){
		"unknown field":         func(e fields) { e["surprise"] = true },
		"unknown payload field": func(e fields) { e["payload"].(fields)["surprise"] = true },
		"unknown type":          func(e fields) { e["type"] = "turn.dreamt" },
		"no type":               func(e fields) { delete(e, "type") },
		"other version":         func(e fields) { e["schemaVersion"] = "lime-profile-9.0.0" },
		"no session":            func(e fields) { delete(e, "sessionId") },
		"no event id":           func(e fields) { delete(e, "eventId") },
		"id of other letters":   func(e fields) { e["sessionId"] = "a b" },
		"empty id":              func(e fields) { e["threadId"] = "" },
		"id that is a number":   func(e fields) { e["traceId"] = 7 },
		"sequence zero":         func(e fields) { e["sequence"] = 0 },
		"broken time":           func(e fields) { e["timestamp"] = "yesterday" },
		"no payload":            func(e fields) { delete(e, "payload") },
		"payload that is null":  func(e fields) { e["payload"] = nil },
		"ref that is a number":  func(e fields) { e["refs"] = fields{"a": 1} },
		"unknown role":          func(e fields) { e["benchmark"] = fields{"role": "hero"} },
	}
	every(t, func(t *rapid.T, typ event.Type) {
		data := event.AppendJSON(nil, eventtest.Event(t, typ))
		if err := own.Validate(data); err != nil {
			t.Fatalf("before any change: %v", err)
		}
		names := make([]string, 0, len(mutations))
		for name := range mutations {
			names = append(names, name)
		}
		slices.Sort(names)
		name := rapid.SampledFrom(names).Draw(t, "mutation")
		var e fields
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatal(err)
		}
		mutations[name](e)
		changed, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if own.Validate(changed) == nil {
			t.Errorf("%s is accepted: %s", name, changed)
		}
	})
}

// TestStrictValidator shows that the validator of the standard's profile
// rejects, and that it lets extensions pass.
func TestStrictValidator(t *testing.T) {
	strict := eventtest.Strict(t)
	if !strict.Available() {
		t.Skip("not checked that the standard's profile rejects: ../shared/spec/schemas is absent")
	}
	e := sample()
	if err := strict.Validate(event.AppendJSON(nil, e)); err != nil {
		t.Errorf("a valid event: %v", err)
	}
	e.ToolCallID = ""
	if strict.Validate(event.AppendJSON(nil, e)) == nil {
		t.Error("a tool's event without its call is accepted")
	}
	extension := &event.Event{Type: event.TypeTurnSteered, Payload: &event.TurnSteered{}}
	if err := strict.Validate(event.AppendJSON(nil, extension)); err != nil {
		t.Errorf("an extension: %v", err)
	}
	for _, bad := range []string{`{"type":"turn.dreamt"}`, `{}`, `[`, `null`} {
		if strict.Validate([]byte(bad)) == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// TestStrictSnapshotValidator checks the standard's own example against the
// snapshot profile, and the same without a required field.
func TestStrictSnapshotValidator(t *testing.T) {
	strict := eventtest.StrictSnapshot(t)
	dir, ok := eventtest.SharedDir(t, "spec", "fixtures")
	if !strict.Available() || !ok {
		t.Skip("not checked that the snapshot profile rejects: ../shared/spec is absent")
	}
	data, err := os.ReadFile(filepath.Join(dir, "thread-read-snapshot.json"))
	if err != nil {
		t.Fatal(err)
	}
	var snapshot map[string]any
	if err := json.Unmarshal(data, &snapshot); err != nil {
		t.Fatal(err)
	}
	strict.Accept(t, data)
	delete(snapshot, "threads")
	data, err = json.Marshal(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	if strict.Validate(data) == nil {
		t.Error("a snapshot without threads is accepted")
	}
}

func TestSchemasAreServed(t *testing.T) {
	for _, name := range []string{"event", "event.schema.json", "event.turn", "event.limit.schema.json"} {
		data, ok := gen.Schema(name)
		if !ok || !json.Valid(data) {
			t.Errorf("Schema(%q): %v, %d bytes", name, ok, len(data))
		}
	}
	for _, name := range []string{"", "nothing", "../gen.go", "types/agentd.ts"} {
		if _, ok := gen.Schema(name); ok {
			t.Errorf("Schema(%q) finds something", name)
		}
	}
	for _, d := range event.Catalog() {
		if _, ok := gen.Schema("event." + string(d.Family)); !ok {
			t.Errorf("family %s has no schema", d.Family)
		}
	}
}
