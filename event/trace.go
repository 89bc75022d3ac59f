package event

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"sync"
)

// Lengths of the ids of W3C Trace Context, in hex digits.
const (
	traceIDLength = 32
	spanIDLength  = 16
)

// Bounds of a trace's state: the members that W3C Trace Context allows, and the length
// that every program has to pass on.
const (
	maxStateMembers = 32
	maxStateLength  = 512
)

// Trace is a place in a distributed trace, as W3C Trace Context names it: a trace
// and the span in it that work belongs to, both in lower-case hex, and what the tracing
// systems on the way here have to say to those behind. The zero value is no place.
type Trace struct {
	TraceID, SpanID, State string
}

// ParseTraceParent reads the value of a traceparent header, or of the field of that
// name in the _meta of MCP. What doesn't fit counts as none.
func ParseTraceParent(value string) (Trace, bool) {
	parts := strings.Split(value, "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || len(parts[3]) != 2 {
		return Trace{}, false
	}
	if parts[0] == "00" && len(parts) != 4 {
		return Trace{}, false
	}
	for _, p := range parts[:4] {
		if _, err := hex.DecodeString(p); err != nil || p != strings.ToLower(p) {
			return Trace{}, false
		}
	}
	t := Trace{TraceID: parts[1], SpanID: parts[2]}
	return t, t.valid()
}

// stateMember is one member of a tracestate: a key, maybe with its tenant, and a value.
// It is long when it is compiled, and most programs never see one.
var stateMember = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9][a-z0-9_*/-]{0,255}(@[a-z][a-z0-9_*/-]{0,13})?=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$`)
})

// ParseTraceState reads the value of a tracestate header, several joined with commas. It
// returns it without empty members, and nothing if it doesn't fit or is longer than what
// has to be passed on: without it the trace is still whole.
func ParseTraceState(value string) string {
	var members []string
	for m := range strings.SplitSeq(value, ",") {
		if m = strings.Trim(m, " \t"); m == "" {
			continue
		}
		if !stateMember().MatchString(m) {
			return ""
		}
		members = append(members, m)
	}
	state := strings.Join(members, ",")
	if len(members) > maxStateMembers || len(state) > maxStateLength {
		return ""
	}
	return state
}

func (t Trace) valid() bool {
	return len(t.TraceID) == traceIDLength && len(t.SpanID) == spanIDLength &&
		strings.Trim(t.TraceID, "0") != "" && strings.Trim(t.SpanID, "0") != ""
}

// Parent returns t as the value of a traceparent header, sampled; empty if t is no
// place.
func (t Trace) Parent() string {
	if !t.valid() {
		return ""
	}
	return "00-" + t.TraceID + "-" + t.SpanID + "-01"
}

// Span returns the place of the span that stands for id, in the same trace.
func (t Trace) Span(sessionID, id string) Trace {
	return Trace{TraceID: t.TraceID, SpanID: SpanIDOf(sessionID, id), State: t.State}
}

// TraceIDOf returns the trace that a turn begins when the caller sent none. It
// follows from the ids alone, so a later projection of the facts finds the trace
// that was propagated while the turn ran.
func TraceIDOf(sessionID, turnID string) string {
	return derived("trace", sessionID, turnID, traceIDLength/2)
}

// SpanIDOf returns the span that stands for what id names: a turn, a model request,
// a tool call, a hook run, a process.
func SpanIDOf(sessionID, id string) string {
	return derived("span", sessionID, id, spanIDLength/2)
}

// derived hashes ids to a number of bytes that aren't all zero.
func derived(kind, sessionID, id string, size int) string {
	sum := sha256.Sum256([]byte(kind + "\x00" + sessionID + "\x00" + id))
	out := hex.EncodeToString(sum[:size])
	if strings.Trim(out, "0") == "" {
		return out[:len(out)-1] + "1"
	}
	return out
}

type traceKey struct{}

// WithTrace says where in a trace the work under ctx belongs.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceFrom returns where the work under ctx belongs; the zero value if none was set.
func TraceFrom(ctx context.Context) Trace {
	t, _ := ctx.Value(traceKey{}).(Trace)
	return t
}
