package event_test

import (
	"flag"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"agentd/event"
	"agentd/event/eventtest"
)

// every runs a property for every type of the catalogue, so that none is left
// out by chance.
func every(t *testing.T, property func(t *rapid.T, typ event.Type)) {
	t.Helper()
	fewerChecks(t)
	for _, d := range event.Catalog() {
		t.Run(string(d.Type), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { property(t, d.Type) })
		})
	}
}

// fewerChecks lowers rapid's number of checks and its time to shrink a failure,
// unless they were given, for a test that does it for each of more than a
// hundred types.
func fewerChecks(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{"rapid.checks": "20", "rapid.shrinktime": "1s"} {
		f := flag.Lookup(name)
		if f.Value.String() != f.DefValue {
			continue
		}
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := f.Value.Set(f.DefValue); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// missingIDs returns the needs of e's type that e doesn't carry.
func missingIDs(e *event.Event) []string {
	d, _ := event.Lookup(e.Type)
	var missing []string
	for _, name := range d.Needs.Names() {
		if !carries(e, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

func carries(e *event.Event, name string) bool {
	switch name {
	case "refs":
		return e.Refs != nil
	case "benchmark":
		return e.Benchmark != nil
	case "comparison":
		return e.Comparison != nil
	case "reward":
		return e.Reward != nil
	}
	return scopeField(e, name).String() != ""
}

func scopeField(e *event.Event, wire string) reflect.Value {
	scope := reflect.ValueOf(&e.Scope).Elem()
	for i := range scope.NumField() {
		if eventtest.WireID(scope.Type().Field(i).Name) == wire {
			return scope.Field(i)
		}
	}
	panic("no id " + wire)
}

func drop(e *event.Event, name string) {
	switch name {
	case "refs":
		e.Refs = nil
	case "benchmark":
		e.Benchmark = nil
	case "comparison":
		e.Comparison = nil
	case "reward":
		e.Reward = nil
	default:
		scopeField(e, name).SetString("")
	}
}

// TestCheckAgreesWithTheStandard checks Check against the strict profile: what
// Check lets pass the profile accepts, what the profile rejects Check rejects,
// and Check rejects valid payloads only for fields that the catalogue lists.
func TestCheckAgreesWithTheStandard(t *testing.T) {
	strict := eventtest.Strict(t)
	if !strict.Available() {
		t.Skip("not checked that Check agrees with the standard: ../shared/spec/schemas is absent")
	}
	all := append((event.RewardInfo<<1 - 1).Names(), "parentTaskId", "requestId", "traceId")
	rapid.Check(t, func(t *rapid.T) {
		e := eventtest.Event(t, eventtest.StandardType().Draw(t, "type"))
		for _, name := range all {
			if rapid.IntRange(0, 3).Draw(t, "drop "+name) == 0 {
				drop(e, name)
			}
		}
		checked := event.Check(e)
		validated := strict.Validate(event.AppendJSON(nil, e))
		missing := missingIDs(e)
		switch {
		case checked == nil && validated != nil:
			t.Errorf("Check accepts what the standard rejects: %v", validated)
		case checked == nil && len(missing) > 0:
			t.Errorf("Check accepts without %v", missing)
		case checked != nil && len(missing) == 0:
			t.Errorf("Check rejects what the catalogue allows: %v", checked)
		case checked != nil && !strings.Contains(checked.Error(), strings.Join(missing, ", ")):
			t.Errorf("Check doesn't name %v: %v", missing, checked)
		}
	})
}

// TestNeedsSuffice shows for every type that what the catalogue demands is
// enough for the standard, and that no part of it may be left out.
func TestNeedsSuffice(t *testing.T) {
	strict, own := eventtest.Strict(t), eventtest.Own(t)
	every(t, func(t *rapid.T, typ event.Type) {
		e := eventtest.Event(t, typ)
		if err := event.Check(e); err != nil {
			t.Fatalf("Check: %v", err)
		}
		data := event.AppendJSON(nil, e)
		if err := strict.Validate(data); err != nil {
			t.Fatalf("%v", err)
		}
		if err := own.Validate(data); err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		d, _ := event.Lookup(typ)
		if d.Needs == 0 {
			return
		}
		name := rapid.SampledFrom(d.Needs.Names()).Draw(t, "left out")
		drop(e, name)
		if err := event.Check(e); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Check without %s: %v", name, err)
		}
		if own.Validate(event.AppendJSON(nil, e)) == nil {
			t.Errorf("agentd's schema accepts %s without %s", typ, name)
		}
	})
}

func TestCheckRejects(t *testing.T) {
	valid := func() *event.Event {
		return &event.Event{
			Type: event.TypeTurnStarted, SessionID: "sess_1",
			Scope:   event.Scope{ThreadID: "thread_1", TurnID: "turn_1", TaskID: "task_1", RunID: "run_1"},
			Payload: &event.TurnStarted{Status: "running"},
		}
	}
	if err := event.Check(valid()); err != nil {
		t.Fatalf("the valid event: %v", err)
	}
	tests := []struct {
		name   string
		change func(e *event.Event)
		want   string
	}{
		{"unknown type", func(e *event.Event) { e.Type = "turn.dreamt" }, `type "turn.dreamt" is not in the catalogue`},
		{"no session", func(e *event.Event) { e.SessionID = "" }, "sessionId is missing"},
		{"two ids", func(e *event.Event) { e.TurnID, e.RunID = "", "" }, "turnId, runId is missing"},
		{"no payload", func(e *event.Event) { e.Payload = nil }, "the catalogue says TurnStarted"},
		{"nil payload", func(e *event.Event) { e.Payload = (*event.TurnStarted)(nil) }, "payload"},
		{"another payload", func(e *event.Event) { e.Payload = &event.TurnSteered{} }, "*event.TurnSteered"},
		{"payload field", func(e *event.Event) { e.Payload = &event.TurnStarted{} }, "status"},
		{"benchmark field", func(e *event.Event) { e.Benchmark = &event.Benchmark{Role: "hero"} }, "benchmark: role"},
		{"comparison field", func(e *event.Event) {
			e.Comparison = &event.Comparison{Decision: "keep", P0QcGateRegressionCount: new(int64(-1))}
		}, "comparison: p0QcGateRegressionCount"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := valid()
			tt.change(e)
			if err := event.Check(e); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Check: %v, want %q", err, tt.want)
			}
		})
	}
}

// TestCheckRejectsBrokenFields breaks one random field of a valid payload
// against its tags; Check must name it, and where the fault can be encoded
// agentd's schema must reject it too.
func TestCheckRejectsBrokenFields(t *testing.T) {
	own := eventtest.Own(t)
	every(t, func(t *rapid.T, typ event.Type) {
		e := eventtest.Event(t, typ)
		faults := breakable(reflect.ValueOf(e.Payload).Elem(), "")
		if len(faults) == 0 {
			return
		}
		f := rapid.SampledFrom(faults).Draw(t, "fault")
		f.apply()
		err := event.Check(e)
		if err == nil || !strings.Contains(err.Error(), "payload: "+f.path+" ") {
			t.Fatalf("Check with %s: %v", f, err)
		}
		if f.visible && own.Validate(event.AppendJSON(nil, e)) == nil {
			t.Errorf("agentd's schema accepts %s", f)
		}
	})
}

// fault is one way to break a payload.
type fault struct {
	path  string
	what  string
	apply func()
	// visible faults can be seen in the encoded event.
	visible bool
}

func (f fault) String() string { return f.path + " " + f.what }

// breakable lists the faults that the tags of v's fields allow.
func breakable(v reflect.Value, prefix string) []fault {
	var list []fault
	for i := range v.NumField() {
		sf, field := v.Type().Field(i), v.Field(i)
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		path := prefix + name
		if sf.Tag.Get("enum") != "" {
			list = append(list, fault{path, "outside its set", func() { field.SetString("no_such_value") }, true})
		}
		switch sf.Tag.Get("check") {
		case "nonempty":
			list = append(list, fault{path, "empty", func() { field.SetString("") }, true})
		case "nonnil":
			list = append(list, fault{path, "nil", field.SetZero, true})
		}
		list = append(list, byType(field, path, options == "")...)
	}
	return list
}

func byType(field reflect.Value, path string, required bool) []fault {
	switch field.Interface().(type) {
	case event.Raw:
		list := []fault{
			{path, "no JSON", func() { field.SetBytes([]byte(`{"a":`)) }, false},
			{path, "not UTF-8", func() { field.SetBytes([]byte("\"\xff\"")) }, false},
			{path, "too deep", func() { field.SetBytes([]byte(strings.Repeat("[", 600) + strings.Repeat("]", 600))) }, false},
		}
		if required {
			list = append(list, fault{path, "empty", field.SetZero, false})
		}
		return list
	case time.Time:
		return []fault{{path, "in the year 12000", func() { field.Set(reflect.ValueOf(time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC))) }, false}}
	case event.OptionalInt:
		return nil
	case float64:
		return []fault{{path, "infinite", func() { field.SetFloat(math.Inf(1)) }, false}}
	case *float64:
		return []fault{{path, "not a number", func() { field.Set(reflect.ValueOf(new(math.NaN()))) }, false}}
	}
	return nested(field, path)
}

func nested(field reflect.Value, path string) []fault {
	switch {
	case field.Kind() == reflect.Struct:
		return breakable(field, path+".")
	case field.Kind() == reflect.Pointer && !field.IsNil() && field.Elem().Kind() == reflect.Struct:
		return breakable(field.Elem(), path+".")
	case field.Kind() == reflect.Slice && field.Len() > 0 && field.Index(0).Kind() == reflect.Struct:
		last := field.Len() - 1
		return breakable(field.Index(last), path+"["+string(rune('0'+last))+"].")
	}
	return nil
}
