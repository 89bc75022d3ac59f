package telemetry

import "time"

// Kind of a span, with OTLP's numbers.
type Kind int

// The kinds that occur.
const (
	Internal Kind = 1
	Client   Kind = 3
)

// Attr is an attribute: a key and a string, int64, float64, bool or []string.
type Attr struct {
	Key   string
	Value any
}

// Span is one ended operation.
type Span struct {
	// TraceID, SpanID and ParentID are in lower-case hex; ParentID is empty for a
	// root.
	TraceID, SpanID, ParentID string
	Name                      string
	Kind                      Kind
	Start, End                time.Time
	Attrs                     []Attr
	Events                    []SpanEvent
	// Links lead to spans of other traces that this one works for.
	Links []Link
	// DroppedEvents counts those that were too many.
	DroppedEvents int
	// Failed sets the status to error; without it the status is unset.
	Failed bool
}

// Link names a span, mostly of another trace.
type Link struct{ TraceID, SpanID string }

// SpanEvent is something that happened during a span.
type SpanEvent struct {
	Time  time.Time
	Name  string
	Attrs []Attr
}

// Get returns the value of an attribute, or nil.
func (s *Span) Get(key string) any {
	for _, a := range s.Attrs {
		if a.Key == key {
			return a.Value
		}
	}
	return nil
}

// maxEvents bounds the events of one span.
const maxEvents = 64

func (s *Span) addEvent(at time.Time, what string, attrs ...Attr) {
	if len(s.Events) >= maxEvents {
		s.DroppedEvents++
		return
	}
	s.Events = append(s.Events, SpanEvent{Time: at, Name: what, Attrs: presentAttrs(attrs)})
}

// set adds or replaces attributes; empty ones are left out.
func (s *Span) set(attrs ...Attr) {
	for _, a := range presentAttrs(attrs) {
		s.setAttr(a)
	}
}

func (s *Span) setAttr(a Attr) {
	for i := range s.Attrs {
		if s.Attrs[i].Key == a.Key {
			s.Attrs[i].Value = a.Value
			return
		}
	}
	s.Attrs = append(s.Attrs, a)
}

// fail marks the span as an error of a type.
func (s *Span) fail(errorType string) {
	s.Failed = true
	s.setAttr(Attr{AttrErrorType, errorType})
}

// presentAttrs leaves out attributes without a value: empty text, no list, zero time.
func presentAttrs(attrs []Attr) []Attr {
	out := make([]Attr, 0, len(attrs))
	for _, a := range attrs {
		switch v := a.Value.(type) {
		case nil:
			continue
		case string:
			if v == "" {
				continue
			}
		case []string:
			if len(v) == 0 {
				continue
			}
		}
		out = append(out, a)
	}
	return out
}

// positive is a number that says nothing when it is zero.
func positive(key string, n int64) Attr {
	if n <= 0 {
		return Attr{}
	}
	return Attr{key, n}
}

// seconds of a duration in milliseconds; nothing when it is zero.
func seconds(key string, ms int64) Attr {
	if ms <= 0 {
		return Attr{}
	}
	return Attr{key, toSeconds(ms)}
}

func millis(ms int64) time.Duration { return time.Duration(max(ms, 0)) * time.Millisecond }

func toSeconds(ms int64) float64 { return float64(ms) / 1000 }

// flagAttr is a boolean that is only said when it is true.
func flagAttr(key string, on bool) Attr {
	if !on {
		return Attr{}
	}
	return Attr{key, true}
}
