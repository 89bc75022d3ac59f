package event_test

import (
	"context"
	"strings"
	"testing"

	"agentd/event"
)

func TestTraceParent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	tr, ok := event.ParseTraceParent(good)
	if !ok || tr.TraceID != "0af7651916cd43dd8448eb211c80319c" || tr.SpanID != "b7ad6b7169203331" || tr.Parent() != good {
		t.Errorf("%q is read as %+v, %v", good, tr, ok)
	}
	if _, ok := event.ParseTraceParent("01" + good[2:] + "-more"); !ok {
		t.Error("a later version may have more fields")
	}
	for _, bad := range []string{
		"", "00", "ff" + good[2:], good + "-more", "00-" + good[4:], good[:len(good)-1], good[:len(good)-1] + "x",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
	} {
		if tr, ok := event.ParseTraceParent(bad); ok {
			t.Errorf("%q is read as %+v", bad, tr)
		}
	}
	if p := (event.Trace{}).Parent(); p != "" {
		t.Errorf("no place is %q", p)
	}
}

func TestDerivedTrace(t *testing.T) {
	trace := event.TraceIDOf("sess_a", "turn_a")
	tr := event.Trace{TraceID: trace}.Span("sess_a", "tool_a")
	if again, ok := event.ParseTraceParent(tr.Parent()); !ok || again != tr {
		t.Errorf("%+v is no trace context", tr)
	}
	ids := map[string]bool{
		trace: true, event.TraceIDOf("sess_b", "turn_a"): true, event.TraceIDOf("sess_a", "turn_b"): true,
		tr.SpanID: true, event.SpanIDOf("sess_b", "tool_a"): true, event.SpanIDOf("sess_a", "turn_a"): true,
	}
	if len(ids) != 6 || event.TraceIDOf("sess_a", "turn_a") != trace {
		t.Errorf("the ids are %v", ids)
	}
	ctx := event.WithTrace(context.Background(), tr)
	if event.TraceFrom(ctx) != tr || event.TraceFrom(context.Background()) != (event.Trace{}) {
		t.Error("the context doesn't carry the trace")
	}
}

func TestTraceState(t *testing.T) {
	many := strings.Repeat("a=b,", 32)
	for value, want := range map[string]string{
		"": "", " , ": "", "rojo=00f067aa0ba902b7": "rojo=00f067aa0ba902b7", " a=b ,,\tt1@sys=c d ": "a=b,t1@sys=c d",
		many: many[:len(many)-1], many + "c=d": "", "a=" + strings.Repeat("x", 256): "a=" + strings.Repeat("x", 256), "a=" + strings.Repeat("x", 257): "",
		strings.Repeat("a="+strings.Repeat("x", 200)+",", 3): "", "a": "", "a=": "", "A=b": "", "a=b=c": "", "a=é": "", "a=b\r\nX: y": "", "@a=b": "",
	} {
		if got := event.ParseTraceState(value); got != want {
			t.Errorf("%q is read as %q, want %q", value, got, want)
		}
	}
}
