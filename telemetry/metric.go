package telemetry

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
)

// Instrument describes a metric.
type Instrument struct {
	Name, Unit, Description string
	// Bounds of a histogram's buckets; nil for a counter.
	Bounds []float64
	// Fractional says that a counter's values are no whole numbers.
	Fractional bool
}

// Buckets that the conventions recommend.
var (
	tokenBounds    = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
	durationBounds = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	// waitBounds are for what people and queues take: up to a day.
	waitBounds = []float64{0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400}
)

// The instruments.
var (
	tokenUsage       = &Instrument{Name: "gen_ai.client.token.usage", Unit: "{token}", Description: "Number of input and output tokens used.", Bounds: tokenBounds}
	modelDuration    = &Instrument{Name: "gen_ai.client.operation.duration", Unit: "s", Description: "Duration of model calls.", Bounds: durationBounds}
	timeToFirstChunk = &Instrument{Name: "gen_ai.client.operation.time_to_first_chunk", Unit: "s", Description: "Time from a model call to the first piece of its answer.", Bounds: durationBounds}
	turnDuration     = &Instrument{Name: "agentruntime.turn.duration", Unit: "s", Description: "Duration of turns, from submission to end.", Bounds: waitBounds}
	taskDuration     = &Instrument{Name: "agentruntime.task.duration", Unit: "s", Description: "Duration of attempts at tasks.", Bounds: waitBounds}
	jobDuration      = &Instrument{Name: "agentruntime.job.duration", Unit: "s", Description: "Duration of jobs, from creation to end.", Bounds: waitBounds}
	jobItemDuration  = &Instrument{Name: "agentruntime.job.item.duration", Unit: "s", Description: "Duration of attempts at items of jobs.", Bounds: waitBounds}
	modelRetries     = &Instrument{Name: "agentruntime.model.retries", Unit: "{retry}", Description: "Model calls that repeat a failed one."}
	taskRetries      = &Instrument{Name: "agentruntime.task.retries", Unit: "{retry}", Description: "Attempts at a task after the first."}
	toolDuration     = &Instrument{Name: "agentruntime.tool.duration", Unit: "s", Description: "Duration of tool calls, without the wait for a permission.", Bounds: durationBounds}
	hookDuration     = &Instrument{Name: "agentruntime.hook.duration", Unit: "s", Description: "Duration of hook runs.", Bounds: durationBounds}
	queueWait        = &Instrument{Name: "agentruntime.queue.wait", Unit: "s", Description: "Time from the submission of a turn to its start.", Bounds: waitBounds}
	permissionWait   = &Instrument{Name: "agentruntime.permission.wait", Unit: "s", Description: "Time that permissions were waited for.", Bounds: waitBounds}
	processRuntime   = &Instrument{Name: "agentruntime.process.runtime", Unit: "s", Description: "Runtime of processes.", Bounds: waitBounds}
	cost             = &Instrument{Name: "agentruntime.cost", Unit: "USD", Description: "Cost of model calls.", Fractional: true}
	unpriced         = &Instrument{Name: "agentruntime.cost.unpriced", Unit: "{request}", Description: "Model calls whose price is not known."}
	rateLimits       = &Instrument{Name: "agentruntime.rate_limits", Unit: "{hit}", Description: "Rate limits that asked to wait."}
	quotaEvents      = &Instrument{Name: "agentruntime.quota.events", Unit: "{event}", Description: "Budgets and quotas that ran low or out."}
	exports          = &Instrument{Name: "agentruntime.evidence.exports", Unit: "{export}", Description: "Exports of evidence, replay cases and reviews."}
	exportDuration   = &Instrument{Name: "agentruntime.evidence.export.duration", Unit: "s", Description: "Duration of exports.", Bounds: durationBounds}
)

// Instruments returns all metrics, in the order of the reference.
func Instruments() []*Instrument {
	return []*Instrument{
		tokenUsage, modelDuration, timeToFirstChunk, turnDuration, taskDuration, jobDuration, jobItemDuration, modelRetries, taskRetries, toolDuration, hookDuration,
		queueWait, permissionWait, processRuntime, cost, unpriced, rateLimits, quotaEvents, exports, exportDuration,
	}
}

// Measure is one measurement.
type Measure struct {
	Instrument *Instrument
	Value      float64
	Attrs      []Attr
}

// maxSeries bounds the attribute sets of one metric; what is beyond is counted
// together under [AttrOverflow].
const maxSeries = 1000

// Meter sums measurements up. The zero value is ready to use.
type Meter struct {
	series map[*Instrument]map[string]*Point
}

// Point is the sum of the measurements with the same attributes.
type Point struct {
	Attrs []Attr
	Count uint64
	Sum   float64
	// Min, Max and Buckets are those of a histogram.
	Min, Max float64
	Buckets  []uint64
}

// Metric is an instrument with its points, sorted by their attributes.
type Metric struct {
	*Instrument
	Points []Point
}

// Snapshot is what was measured in a span of time, cumulative.
type Snapshot struct {
	Start, Time time.Time
	Metrics     []Metric
}

// Add adds measurements.
func (m *Meter) Add(measures []Measure) {
	if m.series == nil {
		m.series = map[*Instrument]map[string]*Point{}
	}
	for i := range measures {
		m.add(&measures[i])
	}
}

func (m *Meter) add(x *Measure) {
	by := m.series[x.Instrument]
	if by == nil {
		by = map[string]*Point{}
		m.series[x.Instrument] = by
	}
	attrs := x.Attrs
	k := seriesKey(attrs)
	p := by[k]
	if p == nil && len(by) >= maxSeries {
		attrs = []Attr{{AttrOverflow, true}}
		k = seriesKey(attrs)
		p = by[k]
	}
	if p == nil {
		p = &Point{Attrs: attrs, Min: x.Value, Max: x.Value, Buckets: make([]uint64, len(x.Instrument.Bounds)+1)}
		by[k] = p
	}
	p.Count++
	p.Sum += x.Value
	p.Min, p.Max = min(p.Min, x.Value), max(p.Max, x.Value)
	p.Buckets[sort.SearchFloat64s(x.Instrument.Bounds, x.Value)]++
}

func seriesKey(attrs []Attr) string {
	var b strings.Builder
	for _, a := range attrs {
		fmt.Fprintf(&b, "%s=%v\x00", a.Key, a.Value)
	}
	return b.String()
}

// Snapshot returns a copy of the sums.
func (m *Meter) Snapshot(start, now time.Time) Snapshot {
	s := Snapshot{Start: start, Time: now}
	for _, i := range Instruments() {
		by := m.series[i]
		if len(by) == 0 {
			continue
		}
		keys := make([]string, 0, len(by))
		for k := range by {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		metric := Metric{Instrument: i}
		for _, k := range keys {
			p := *by[k]
			p.Buckets = slices.Clone(p.Buckets)
			metric.Points = append(metric.Points, p)
		}
		s.Metrics = append(s.Metrics, metric)
	}
	return s
}
