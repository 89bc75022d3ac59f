package telemetry_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/telemetry"
)

func instrument(t *testing.T, name string) *telemetry.Instrument {
	t.Helper()
	for _, i := range telemetry.Instruments() {
		if i.Name == name {
			return i
		}
	}
	t.Fatalf("there is no metric %s", name)
	return nil
}

// TestInstruments checks the buckets that the conventions give, and that no name is
// used twice.
func TestInstruments(t *testing.T) {
	seen := map[string]bool{}
	for _, i := range telemetry.Instruments() {
		if seen[i.Name] || i.Unit == "" || i.Description == "" || !slices.IsSorted(i.Bounds) {
			t.Errorf("%+v", i)
		}
		seen[i.Name] = true
	}
	tokens, duration := instrument(t, "gen_ai.client.token.usage"), instrument(t, "gen_ai.client.operation.duration")
	if len(tokens.Bounds) != 14 || tokens.Bounds[13] != 67108864 || len(duration.Bounds) != 14 || duration.Bounds[13] != 81.92 {
		t.Errorf("the buckets are %v and %v", tokens.Bounds, duration.Bounds)
	}
}

func TestMeter(t *testing.T) {
	duration, retries := instrument(t, "gen_ai.client.operation.duration"), instrument(t, "agentruntime.model.retries")
	attr := []telemetry.Attr{{Key: "gen_ai.request.model", Value: "m"}}
	var m telemetry.Meter
	for _, v := range []float64{0.01, 0.011, 100} {
		m.Add([]telemetry.Measure{{Instrument: duration, Value: v, Attrs: attr}})
	}
	m.Add([]telemetry.Measure{{Instrument: retries, Value: 1}, {Instrument: retries, Value: 1}})
	s := m.Snapshot(time.Unix(1, 0), time.Unix(2, 0))
	if len(s.Metrics) != 2 {
		t.Fatalf("%+v", s)
	}
	p := s.Metrics[0].Points[0]
	if p.Count != 3 || p.Buckets[0] != 1 || p.Buckets[1] != 1 || p.Buckets[14] != 1 || p.Min != 0.01 || p.Max != 100 {
		t.Errorf("the histogram is %+v", p)
	}
	data, err := telemetry.MetricsJSON(telemetry.Resource{Version: "1"}, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"asInt":"2"`, `"isMonotonic":true`, `"aggregationTemporality":2`, `"count":"3"`, `"bucketCounts":["1","1","0"`, `"startTimeUnixNano":"1000000000"`,
		`{"key":"gen_ai.request.model","value":{"stringValue":"m"}}`, `"schemaUrl":"https://opentelemetry.io/schemas/1.41.0"`,
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s is missing in %s", want, data)
		}
	}
	m.Add([]telemetry.Measure{{Instrument: retries, Value: 1}})
	if s.Metrics[1].Points[0].Sum != 2 {
		t.Error("a snapshot changes later")
	}
}

// TestManySeries checks the bound on attribute sets: nothing is lost, and it is said.
func TestManySeries(t *testing.T) {
	retries := instrument(t, "agentruntime.model.retries")
	var m telemetry.Meter
	const n = 1500
	for i := range n {
		m.Add([]telemetry.Measure{{Instrument: retries, Value: 1, Attrs: []telemetry.Attr{{Key: "gen_ai.request.model", Value: fmt.Sprint("m", i)}}}})
	}
	total, overflow := 0.0, 0.0
	points := m.Snapshot(time.Unix(1, 0), time.Unix(2, 0)).Metrics[0].Points
	for _, p := range points {
		total += p.Sum
		if p.Attrs[0].Key == telemetry.AttrOverflow {
			overflow += p.Sum
		}
	}
	if total != n || overflow == 0 || len(points) > 1001 {
		t.Errorf("%d series hold %v, %v of them together", len(points), total, overflow)
	}
}

func TestTracesJSON(t *testing.T) {
	s := telemetry.Span{
		TraceID: strings.Repeat("a", 32), SpanID: strings.Repeat("b", 16), Name: "chat m", Kind: telemetry.Client, Start: time.Unix(1, 5), End: time.Unix(2, 0),
		Attrs:  []telemetry.Attr{{Key: "i", Value: int64(7)}, {Key: "f", Value: 0.5}, {Key: "b", Value: true}, {Key: "l", Value: []string{"x", "y"}}, {Key: "s", Value: "t"}},
		Events: []telemetry.SpanEvent{{Time: time.Unix(1, 6), Name: "e"}}, DroppedEvents: 3, Failed: true,
	}
	data, err := telemetry.TracesJSON(telemetry.Resource{}, []telemetry.Span{s})
	if err != nil || !json.Valid(data) {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"kind":3`, `"startTimeUnixNano":"1000000005"`, `"status":{"code":2}`, `"droppedEventsCount":3`, `{"key":"i","value":{"intValue":"7"}}`,
		`{"doubleValue":0.5}`, `{"boolValue":true}`, `{"arrayValue":{"values":[{"stringValue":"x"},{"stringValue":"y"}]}}`, `"traceId":"` + strings.Repeat("a", 32),
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s is missing in %s", want, data)
		}
	}
	if strings.Contains(string(data), "parentSpanId") {
		t.Error("a root has a parent")
	}
}
