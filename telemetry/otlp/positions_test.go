package otlp

import (
	"bytes"
	"context"
	"testing"

	"agentd/store"
	"agentd/telemetry"
	"agentd/telemetry/otlp/otlptest"
)

// TestTelemetryGoesOnFromItsPosition cuts a session at each of its facts: who begins
// at the position that was kept sends the same spans, none twice, and doesn't read
// the session from its beginning once a turn lies between.
func TestTelemetryGoesOnFromItsPosition(t *testing.T) {
	c := otlptest.NewCollector(t, nil)
	s := newSender(t, c.URL, nil)
	for range 4 {
		s.turn("sess_a")
	}
	mem := s.e.follower.store
	s.closeRuntime()
	head, err := mem.Head(t.Context(), "sess_a")
	if err != nil {
		t.Fatal(err)
	}
	whole, _ := readFrom(t, knowing(mem, nil), 1, head.Sequence)
	want, err := telemetry.TracesJSON(telemetry.Resource{}, whole)
	if err != nil {
		t.Fatal(err)
	}
	var late uint64
	for cut := uint64(1); cut < head.Sequence; cut++ {
		var kept *position
		var spans []telemetry.Span
		earlier := knowing(mem, nil)
		for at := uint64(1); at <= cut; at++ { // as facts come: one after the other
			more, pos := readFrom(t, earlier, at, at)
			if spans = append(spans, more...); pos != nil {
				kept = pos
			}
		}
		if kept != nil {
			late = max(late, kept.From)
		}
		more, _ := readFrom(t, knowing(mem, kept), cut+1, head.Sequence)
		got, err := telemetry.TracesJSON(telemetry.Resource{}, append(spans, more...))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, got) {
			t.Fatalf("cut after %d, at %+v, the spans differ:\n%s\n%s", cut, kept, want, got)
		}
	}
	if late < head.Sequence/4 {
		t.Errorf("of %d facts reading goes on after %d at the latest", head.Sequence, late)
	}
}

// knowing is a process that knows a position, or none.
func knowing(s store.Store, kept *position) *projection {
	return &projection{store: s, sessions: map[string]*followed{}, position: func(context.Context, string) (position, bool, error) {
		if kept == nil {
			return position{}, false, nil
		}
		return *kept, true, nil
	}}
}

func readFrom(t *testing.T, p *projection, first, last uint64) ([]telemetry.Span, *position) {
	t.Helper()
	var out []telemetry.Span
	m, err := p.read(t.Context(), "sess_a", stretch{first: first, last: last}, func(o telemetry.Output, _ bool) { out = append(out, o.Spans...) })
	if err != nil {
		t.Fatal(err)
	}
	return out, m.at
}
