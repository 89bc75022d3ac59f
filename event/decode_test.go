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

func TestRoundTrip(t *testing.T) {
	every(t, func(t *rapid.T, typ event.Type) {
		want := eventtest.Event(t, typ)
		data := event.AppendJSON(nil, want)
		got, err := event.Decode(data)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("want (-), got (+):\n%s", cmp.Diff(want, got))
		}
		if again := event.AppendJSON(nil, got); !bytes.Equal(data, again) {
			t.Errorf("encoded again:\n%s\n%s", data, again)
		}
	})
}

// TestDecodeAnyOrder reads envelopes as others might write them: sorted keys,
// white space, escapes, unknown fields, times in another zone.
func TestDecodeAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := eventtest.Event(t, eventtest.Type().Draw(t, "type"))
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(event.AppendJSON(nil, want), &fields); err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "unknown field") {
			fields["vendorField"] = json.RawMessage(`{"a":[1,2]}`)
		}
		if rapid.Bool().Draw(t, "other zone") {
			at, err := json.Marshal(want.Time.In(time.FixedZone("west", -5*60*60)))
			if err != nil {
				t.Fatal(err)
			}
			fields["timestamp"] = at
		}
		if rapid.Bool().Draw(t, "escaped id") {
			fields["sessionId"] = json.RawMessage(`"\u0073\u002D1"`)
			want.SessionID = "s-1"
		}
		data, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "indent") {
			var b bytes.Buffer
			if err := json.Indent(&b, data, "", "  "); err != nil {
				t.Fatal(err)
			}
			data = b.Bytes()
		}
		got, err := event.Decode(data)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		// json.Marshal escapes HTML in raw values; the encoder doesn't undo that.
		if diff := cmp.Diff(want, got, cmp.Comparer(sameJSON)); diff != "" {
			t.Fatalf("want (-), got (+):\n%s", diff)
		}
	})
}

// sameJSON compares raw values by what they mean.
func sameJSON(a, b event.Raw) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// TestDecodeHeaderReuse reads different events into one Event: nothing of the
// one before may be left, and equal strings cost nothing.
func TestDecodeHeaderReuse(t *testing.T) {
	reused := new(event.Event)
	rapid.Check(t, func(t *rapid.T) {
		want := eventtest.Event(t, eventtest.Type().Draw(t, "type"))
		payload, err := event.DecodeHeader(event.AppendJSON(nil, want), reused)
		if err != nil {
			t.Fatal(err)
		}
		if reused.Payload != nil {
			t.Errorf("the payload of the event before is still there")
		}
		if err := reused.DecodePayload(payload); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(want, reused) {
			t.Fatalf("want (-), got (+):\n%s", cmp.Diff(want, reused))
		}
	})
	data := event.AppendJSON(nil, sample())
	if n := testing.AllocsPerRun(100, func() {
		if _, err := event.DecodeHeader(data, reused); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a header that is known already", n)
	}
}

// TestDecodeKeepsNothing shows that an event doesn't change with the bytes that
// it was read from.
func TestDecodeKeepsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := eventtest.Event(t, eventtest.Type().Draw(t, "type"))
		data := event.AppendJSON(nil, want)
		got, err := event.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		clear(data)
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("want (-), got (+):\n%s", cmp.Diff(want, got))
		}
	})
}

func TestDecodeRejects(t *testing.T) {
	valid := string(event.AppendJSON(nil, sample()))
	replace := func(old, with string) string {
		if !strings.Contains(valid, old) {
			t.Fatalf("the sample has no %s", old)
		}
		return strings.Replace(valid, old, with, 1)
	}
	envelope, _, _ := strings.Cut(valid, `,"payload"`)
	tests := []struct{ name, data, want string }{
		{"nothing", "", "decode"},
		{"no object", "[1]", "decode"},
		{"cut short", valid[:len(valid)-1], "decode"},
		{"cut in the payload", valid[:len(valid)-20], "decode"},
		{"something behind", valid + "{}", "decode"},
		{"unknown type", replace("tool.result", "tool.guess"), `type "tool.guess" is not in the catalogue`},
		{"other version", replace("lime-profile-0.4.0", "lime-profile-9.0.0"), `schema version "lime-profile-9.0.0"`},
		{"version of an extension", replace("lime-profile-0.4.0", "agentd-1"), `schema version "agentd-1"`},
		{"no version", replace(`"schemaVersion":"lime-profile-0.4.0",`, ""), `schema version ""`},
		{"bad time", replace("2026-11-15", "2026-11-31"), "timestamp"},
		{"year before all", replace(`2026-11-15T05:40:12.345678Z`, `0000-01-01T00:00:00+01:00`), "timestamp"},
		{"negative sequence", replace("4711", "-1"), "sequence"},
		{"sequence with a zero", replace("4711", "04711"), "decode"},
		{"no payload", envelope + "}", "payload"},
		{"payload of another kind", envelope + `,"payload":[]}`, "payload"},
		{"broken payload", replace(`"status":"ok"`, `"status":ok`), "payload of tool.result"},
		{"payload field of another type", replace(`"durationMs":1234`, `"durationMs":"1234"`), "durationMs"},
		{"brackets that don't match", replace(`"exitCode":0}`, `"exitCode":0]`), "payload"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, err := event.Decode([]byte(tt.data))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Decode: %v, %v, want an error with %q", e, err, tt.want)
			}
		})
	}
}

// TestDecodeHeaderOfUnknownType shows that a reader can step over types that it
// doesn't know.
func TestDecodeHeaderOfUnknownType(t *testing.T) {
	data := bytes.Replace(event.AppendJSON(nil, sample()), []byte("tool.result"), []byte("tool.guess"), 1)
	var e event.Event
	payload, err := event.DecodeHeader(data, &e)
	if err != nil || e.Type != "tool.guess" || e.Sequence != 4711 || !bytes.HasPrefix(payload, []byte(`{"toolName"`)) {
		t.Errorf("DecodeHeader: %+v, %s, %v", e, payload, err)
	}
}

// TestGeneratedDecoder checks the generated decoder against encoding/json: it
// reads all that the encoder writes, and reads the same.
func TestGeneratedDecoder(t *testing.T) {
	every(t, func(t *rapid.T, typ event.Type) {
		payload, err := event.DecodeHeader(event.AppendJSON(nil, eventtest.Event(t, typ)), new(event.Event))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := event.DecodeGenerated(typ, payload)
		if !ok {
			t.Fatalf("gives up at %s", payload)
		}
		want := event.NewPayload(typ)
		if err := json.Unmarshal(payload, want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("encoding/json (-), generated (+):\n%s", cmp.Diff(want, got))
		}
	})
}

// FuzzGeneratedDecoder shows that the generated decoder takes nothing that
// encoding/json refuses or reads otherwise.
func FuzzGeneratedDecoder(f *testing.F) {
	types := []event.Type{
		event.TypeToolResult, event.TypeTaskCreated, event.TypePermissionEvaluated, event.TypeSandboxApplied,
		event.TypeRoutingDecided, event.TypeBenchmarkComparisonCompleted, event.TypeTurnSubmitted,
	}
	for i, typ := range types {
		for n := range 5 {
			e := rapid.Custom(func(t *rapid.T) *event.Event { return eventtest.Event(t, typ) }).Example(n)
			payload, err := event.DecodeHeader(event.AppendJSON(nil, e), new(event.Event))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(i, payload)
		}
	}
	for _, s := range []string{
		`{"costUSD":1e400}`, `{"costUSD":01}`, `{"costUSD":1.}`, `{"costUSD":-}`, `{"costUSD":1 }`, `{"safeArgs":1 ,"x":2}`, `{"safeArgs":}`,
		`{"preview":"\ud83d\ude42"}`, `{"preview":"\u12"}`, `{"preview":"\x"}`, `{"preview":"` + "\x01" + `"}`, `{"preview":"` + "\xff" + `é"}`,
		`{"durationMs":-0}`, `{"durationMs":9223372036854775808}`, `{"durationMs":-9223372036854775808}`, `{"durationMs":-9223372036854775809}`, `{"durationMs":1.5}`, `{"preview":"a","preview":"b"}`, `{"Preview":"a"}`,
	} {
		f.Add(0, []byte(s))
	}
	f.Fuzz(func(t *testing.T, n int, payload []byte) {
		typ := types[uint(n)%uint(len(types))]
		got, ok := event.DecodeGenerated(typ, payload)
		if !ok {
			return
		}
		want := event.NewPayload(typ)
		if err := json.Unmarshal(payload, want); err != nil {
			t.Fatalf("%q is taken; encoding/json: %v", payload, err)
		}
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("%q: encoding/json (-), generated (+):\n%s", payload, cmp.Diff(want, got))
		}
	})
}

func FuzzDecode(f *testing.F) {
	defs := event.Catalog()
	for i := range defs {
		for n := range 2 {
			e := rapid.Custom(func(t *rapid.T) *event.Event { return eventtest.Event(t, defs[i].Type) }).Example(n)
			f.Add(event.AppendJSON(nil, e))
		}
	}
	f.Add([]byte(`{"type":"session.created","schemaVersion":"lime-profile-0.4.0","payload":{ "metadata" : [ 1 ] }}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := event.Decode(data)
		if err != nil {
			return
		}
		encoded := event.AppendJSON(nil, first)
		second, err := event.Decode(encoded)
		if err != nil {
			t.Fatalf("what was decoded can't be decoded again: %v\nfrom %q\nto   %q", err, data, encoded)
		}
		if again := event.AppendJSON(nil, second); !bytes.Equal(encoded, again) {
			t.Fatalf("encoded twice:\n%q\n%q", encoded, again)
		}
		// An event that may not be appended need not come back as it was: the
		// encoder writes null for a value that is missing.
		if event.Check(first) == nil {
			if diff := cmp.Diff(first, second, sameEvent()...); diff != "" {
				t.Fatalf("decoded first (-), second (+):\n%s\nfrom %q", diff, data)
			}
		}
	})
}

// sameEvent compares what the encoder keeps: times to the microsecond, and no
// difference between a list that is empty and one that is absent.
func sameEvent() cmp.Options {
	return cmp.Options{
		cmp.Comparer(func(a, b time.Time) bool { return a.Truncate(time.Microsecond).Equal(b.Truncate(time.Microsecond)) }),
		cmp.FilterValues(func(a, b any) bool {
			x, y := reflect.ValueOf(a), reflect.ValueOf(b)
			return isEmptyList(x) && isEmptyList(y)
		}, cmp.Ignore()),
	}
}

func isEmptyList(v reflect.Value) bool {
	return v.IsValid() && (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

func BenchmarkDecode(b *testing.B) {
	data := event.AppendJSON(nil, sample())
	perSecond := func(b *testing.B) { b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s") }
	b.Run("Decode", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := event.Decode(data); err != nil {
				b.Fatal(err)
			}
		}
		perSecond(b)
	})
	b.Run("DecodeHeader", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		var e event.Event
		for b.Loop() {
			if _, err := event.DecodeHeader(data, &e); err != nil {
				b.Fatal(err)
			}
		}
		perSecond(b)
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			r := reference{Payload: new(event.ToolResult)}
			if err := json.Unmarshal(data, &r); err != nil {
				b.Fatal(err)
			}
		}
		perSecond(b)
	})
}
