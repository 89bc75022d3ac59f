package telemetry

import (
	"encoding/json"
	"strconv"
	"time"
)

// Resource says who the telemetry is from.
type Resource struct {
	Attrs []Attr
	// Version of the instrumentation scope: that of the build.
	Version string
}

// The JSON form of OTLP: ids in hex, enumerations as numbers, 64-bit integers as
// text.
type (
	jsonTraces struct {
		ResourceSpans []jsonResourceSpans `json:"resourceSpans"`
	}
	jsonResourceSpans struct {
		Resource   jsonResource     `json:"resource"`
		ScopeSpans []jsonScopeSpans `json:"scopeSpans"`
		SchemaURL  string           `json:"schemaUrl"`
	}
	jsonResource struct {
		Attributes []jsonAttr `json:"attributes"`
	}
	jsonScopeSpans struct {
		Scope     jsonScope  `json:"scope"`
		Spans     []jsonSpan `json:"spans"`
		SchemaURL string     `json:"schemaUrl"`
	}
	jsonScope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	jsonSpan struct {
		TraceID       string      `json:"traceId"`
		SpanID        string      `json:"spanId"`
		ParentSpanID  string      `json:"parentSpanId,omitempty"`
		Flags         uint32      `json:"flags"`
		Name          string      `json:"name"`
		Kind          Kind        `json:"kind"`
		Start         string      `json:"startTimeUnixNano"`
		End           string      `json:"endTimeUnixNano"`
		Attributes    []jsonAttr  `json:"attributes"`
		Events        []jsonEvent `json:"events,omitempty"`
		DroppedEvents int         `json:"droppedEventsCount,omitempty"`
		Links         []jsonLink  `json:"links,omitempty"`
		Status        *jsonStatus `json:"status,omitempty"`
	}
	jsonEvent struct {
		Time       string     `json:"timeUnixNano"`
		Name       string     `json:"name"`
		Attributes []jsonAttr `json:"attributes,omitempty"`
	}
	jsonLink struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	}
	jsonStatus struct {
		Code int `json:"code"`
	}
	jsonAttr struct {
		Key   string    `json:"key"`
		Value jsonValue `json:"value"`
	}
	jsonValue struct {
		String *string    `json:"stringValue,omitempty"`
		Int    *string    `json:"intValue,omitempty"`
		Double *float64   `json:"doubleValue,omitempty"`
		Bool   *bool      `json:"boolValue,omitempty"`
		Array  *jsonArray `json:"arrayValue,omitempty"`
	}
	jsonArray struct {
		Values []jsonValue `json:"values"`
	}
)

// Numbers of OTLP.
const (
	// StatusError is the code of a failed span's status.
	StatusError = 2
	// FlagSampled is the W3C flag that every span here has: what exists is exported.
	FlagSampled = 1
	// Cumulative is the temporality of all metrics.
	Cumulative = 2
)

// TracesJSON encodes spans as an OTLP/JSON request, which is also a line of an OTLP
// JSON file.
func TracesJSON(r Resource, spans []Span) ([]byte, error) {
	list := make([]jsonSpan, len(spans))
	for i := range spans {
		list[i] = spanJSON(&spans[i])
	}
	return json.Marshal(jsonTraces{[]jsonResourceSpans{{
		Resource: jsonResource{attrsJSON(r.Attrs)}, SchemaURL: SchemaURL,
		ScopeSpans: []jsonScopeSpans{{Scope: jsonScope{ScopeName, r.Version}, Spans: list, SchemaURL: SchemaURL}},
	}}})
}

func spanJSON(s *Span) jsonSpan {
	out := jsonSpan{
		TraceID: s.TraceID, SpanID: s.SpanID, ParentSpanID: s.ParentID, Flags: FlagSampled, Name: s.Name, Kind: s.Kind,
		Start: nanos(s.Start), End: nanos(s.End), Attributes: attrsJSON(s.Attrs), DroppedEvents: s.DroppedEvents,
	}
	for _, e := range s.Events {
		out.Events = append(out.Events, jsonEvent{nanos(e.Time), e.Name, attrsJSON(e.Attrs)})
	}
	for _, l := range s.Links {
		out.Links = append(out.Links, jsonLink(l))
	}
	if s.Failed {
		out.Status = &jsonStatus{StatusError}
	}
	return out
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func attrsJSON(attrs []Attr) []jsonAttr {
	out := make([]jsonAttr, len(attrs))
	for i, a := range attrs {
		out[i] = jsonAttr{a.Key, valueJSON(a.Value)}
	}
	return out
}

func valueJSON(v any) jsonValue {
	switch v := v.(type) {
	case string:
		return jsonValue{String: &v}
	case int64:
		s := strconv.FormatInt(v, 10)
		return jsonValue{Int: &s}
	case float64:
		return jsonValue{Double: &v}
	case bool:
		return jsonValue{Bool: &v}
	case []string:
		a := jsonArray{Values: []jsonValue{}}
		for i := range v {
			a.Values = append(a.Values, jsonValue{String: &v[i]})
		}
		return jsonValue{Array: &a}
	}
	return jsonValue{}
}

type (
	jsonMetrics struct {
		ResourceMetrics []jsonResourceMetrics `json:"resourceMetrics"`
	}
	jsonResourceMetrics struct {
		Resource     jsonResource       `json:"resource"`
		ScopeMetrics []jsonScopeMetrics `json:"scopeMetrics"`
		SchemaURL    string             `json:"schemaUrl"`
	}
	jsonScopeMetrics struct {
		Scope     jsonScope    `json:"scope"`
		Metrics   []jsonMetric `json:"metrics"`
		SchemaURL string       `json:"schemaUrl"`
	}
	jsonMetric struct {
		Name        string         `json:"name"`
		Description string         `json:"description,omitempty"`
		Unit        string         `json:"unit,omitempty"`
		Sum         *jsonSum       `json:"sum,omitempty"`
		Histogram   *jsonHistogram `json:"histogram,omitempty"`
	}
	jsonSum struct {
		DataPoints  []jsonPoint `json:"dataPoints"`
		Temporality int         `json:"aggregationTemporality"`
		Monotonic   bool        `json:"isMonotonic"`
	}
	jsonHistogram struct {
		DataPoints  []jsonPoint `json:"dataPoints"`
		Temporality int         `json:"aggregationTemporality"`
	}
	jsonPoint struct {
		Attributes []jsonAttr `json:"attributes,omitempty"`
		Start      string     `json:"startTimeUnixNano"`
		Time       string     `json:"timeUnixNano"`
		AsInt      string     `json:"asInt,omitempty"`
		AsDouble   *float64   `json:"asDouble,omitempty"`
		Count      string     `json:"count,omitempty"`
		Sum        *float64   `json:"sum,omitempty"`
		Buckets    []string   `json:"bucketCounts,omitempty"`
		Bounds     []float64  `json:"explicitBounds,omitempty"`
		Min        *float64   `json:"min,omitempty"`
		Max        *float64   `json:"max,omitempty"`
	}
)

// MetricsJSON encodes a snapshot as an OTLP/JSON request.
func MetricsJSON(r Resource, s Snapshot) ([]byte, error) {
	list := make([]jsonMetric, len(s.Metrics))
	for i, m := range s.Metrics {
		list[i] = jsonMetric{Name: m.Name, Description: m.Description, Unit: m.Unit}
		points := make([]jsonPoint, len(m.Points))
		for j := range m.Points {
			points[j] = pointJSON(m.Instrument, &m.Points[j], s)
		}
		if m.Bounds == nil {
			list[i].Sum = &jsonSum{points, Cumulative, true}
		} else {
			list[i].Histogram = &jsonHistogram{points, Cumulative}
		}
	}
	return json.Marshal(jsonMetrics{[]jsonResourceMetrics{{
		Resource: jsonResource{attrsJSON(r.Attrs)}, SchemaURL: SchemaURL,
		ScopeMetrics: []jsonScopeMetrics{{Scope: jsonScope{ScopeName, r.Version}, Metrics: list, SchemaURL: SchemaURL}},
	}}})
}

func pointJSON(i *Instrument, p *Point, s Snapshot) jsonPoint {
	out := jsonPoint{Attributes: attrsJSON(p.Attrs), Start: nanos(s.Start), Time: nanos(s.Time)}
	switch {
	case i.Bounds == nil && i.Fractional:
		out.AsDouble = &p.Sum
	case i.Bounds == nil:
		out.AsInt = strconv.FormatInt(int64(p.Sum), 10)
	default:
		out.Count, out.Sum, out.Min, out.Max, out.Bounds = strconv.FormatUint(p.Count, 10), &p.Sum, &p.Min, &p.Max, i.Bounds
		for _, n := range p.Buckets {
			out.Buckets = append(out.Buckets, strconv.FormatUint(n, 10))
		}
	}
	return out
}
