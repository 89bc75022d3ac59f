package otlp

import (
	"encoding/hex"
	"fmt"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"agentd/telemetry"
)

// EncodeTraces encodes spans as the body of an OTLP request. Bodies may be put
// behind each other: together they are the request with the spans of all.
func EncodeTraces(r telemetry.Resource, spans []telemetry.Span) ([]byte, error) {
	list := make([]*tracepb.Span, len(spans))
	for i := range spans {
		s, err := spanProto(&spans[i])
		if err != nil {
			return nil, err
		}
		list[i] = s
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: &resourcepb.Resource{Attributes: attrsProto(r.Attrs)}, SchemaUrl: telemetry.SchemaURL,
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: telemetry.ScopeName, Version: r.Version}, Spans: list, SchemaUrl: telemetry.SchemaURL,
		}},
	}}})
}

func spanProto(s *telemetry.Span) (*tracepb.Span, error) {
	var ids [3][]byte
	for i, id := range []string{s.TraceID, s.SpanID, s.ParentID} {
		var err error
		if ids[i], err = hex.DecodeString(id); err != nil {
			return nil, fmt.Errorf("id of span %s: %w", s.Name, err)
		}
	}
	out := &tracepb.Span{
		TraceId: ids[0], SpanId: ids[1], ParentSpanId: ids[2], Flags: telemetry.FlagSampled, Name: s.Name, Kind: tracepb.Span_SpanKind(s.Kind),
		StartTimeUnixNano: uint64(s.Start.UnixNano()), EndTimeUnixNano: uint64(s.End.UnixNano()),
		Attributes: attrsProto(s.Attrs), DroppedEventsCount: uint32(s.DroppedEvents),
	}
	for _, e := range s.Events {
		out.Events = append(out.Events, &tracepb.Span_Event{TimeUnixNano: uint64(e.Time.UnixNano()), Name: e.Name, Attributes: attrsProto(e.Attrs)})
	}
	for _, l := range s.Links {
		trace, err := hex.DecodeString(l.TraceID)
		if err != nil {
			return nil, fmt.Errorf("link of span %s: %w", s.Name, err)
		}
		span, err := hex.DecodeString(l.SpanID)
		if err != nil {
			return nil, fmt.Errorf("link of span %s: %w", s.Name, err)
		}
		out.Links = append(out.Links, &tracepb.Span_Link{TraceId: trace, SpanId: span})
	}
	if s.Failed {
		out.Status = &tracepb.Status{Code: telemetry.StatusError}
	}
	return out, nil
}

func attrsProto(attrs []telemetry.Attr) []*commonpb.KeyValue {
	out := make([]*commonpb.KeyValue, len(attrs))
	for i, a := range attrs {
		out[i] = &commonpb.KeyValue{Key: a.Key, Value: valueProto(a.Value)}
	}
	return out
}

func valueProto(v any) *commonpb.AnyValue {
	switch v := v.(type) {
	case string:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}}
	case int64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v}}
	case float64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}}
	case bool:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v}}
	case []string:
		list := &commonpb.ArrayValue{}
		for _, s := range v {
			list.Values = append(list.Values, valueProto(s))
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: list}}
	}
	return &commonpb.AnyValue{}
}

// EncodeMetrics encodes a snapshot as the body of an OTLP request.
func EncodeMetrics(r telemetry.Resource, s telemetry.Snapshot) ([]byte, error) {
	list := make([]*metricspb.Metric, len(s.Metrics))
	for i := range s.Metrics {
		list[i] = metricProto(&s.Metrics[i], uint64(s.Start.UnixNano()), uint64(s.Time.UnixNano()))
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(&metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource: &resourcepb.Resource{Attributes: attrsProto(r.Attrs)}, SchemaUrl: telemetry.SchemaURL,
		ScopeMetrics: []*metricspb.ScopeMetrics{{
			Scope: &commonpb.InstrumentationScope{Name: telemetry.ScopeName, Version: r.Version}, Metrics: list, SchemaUrl: telemetry.SchemaURL,
		}},
	}}})
}

func metricProto(m *telemetry.Metric, start, now uint64) *metricspb.Metric {
	out := &metricspb.Metric{Name: m.Name, Description: m.Description, Unit: m.Unit}
	if m.Bounds == nil {
		sum := &metricspb.Sum{AggregationTemporality: telemetry.Cumulative, IsMonotonic: true}
		for _, p := range m.Points {
			d := &metricspb.NumberDataPoint{Attributes: attrsProto(p.Attrs), StartTimeUnixNano: start, TimeUnixNano: now}
			if d.Value = (&metricspb.NumberDataPoint_AsInt{AsInt: int64(p.Sum)}); m.Fractional {
				d.Value = &metricspb.NumberDataPoint_AsDouble{AsDouble: p.Sum}
			}
			sum.DataPoints = append(sum.DataPoints, d)
		}
		out.Data = &metricspb.Metric_Sum{Sum: sum}
		return out
	}
	h := &metricspb.Histogram{AggregationTemporality: telemetry.Cumulative}
	for _, p := range m.Points {
		h.DataPoints = append(h.DataPoints, &metricspb.HistogramDataPoint{
			Attributes: attrsProto(p.Attrs), StartTimeUnixNano: start, TimeUnixNano: now, Count: p.Count, Sum: &p.Sum, Min: &p.Min, Max: &p.Max,
			BucketCounts: p.Buckets, ExplicitBounds: m.Bounds,
		})
	}
	out.Data = &metricspb.Metric_Histogram{Histogram: h}
	return out
}

// rejectedIn reads how many spans or points a collector says it didn't take:
// field 1 of the partial success, which is field 1 of the answer. The answer's own
// type would bring gRPC with it.
func rejectedIn(answer []byte) int64 {
	partial, ok := field(answer, protowire.BytesType)
	if !ok {
		return 0
	}
	body, n := protowire.ConsumeBytes(partial)
	if n < 0 {
		return 0
	}
	count, ok := field(body, protowire.VarintType)
	if !ok {
		return 0
	}
	v, n := protowire.ConsumeVarint(count)
	if n < 0 {
		return 0
	}
	return int64(v)
}

// field finds field 1 of a message and returns what follows its tag.
func field(b []byte, want protowire.Type) ([]byte, bool) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, false
		}
		b = b[n:]
		if num == 1 && typ == want {
			return b, true
		}
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return nil, false
		}
		b = b[n:]
	}
	return nil, false
}
