package server

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	rtmetrics "runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// MetricWriter writes figures in Prometheus's text form. It is for one goroutine.
type MetricWriter struct {
	out  strings.Builder
	last string
}

// Counter writes a figure that only grows. Labels are pairs of name and value.
func (w *MetricWriter) Counter(name, help string, value float64, labels ...string) {
	w.head(name, help, "counter")
	w.line(name, value, labels)
}

// Gauge writes a figure that goes up and down.
func (w *MetricWriter) Gauge(name, help string, value float64, labels ...string) {
	w.head(name, help, "gauge")
	w.line(name, value, labels)
}

// Histogram writes the counts of a histogram: counts[i] is the number of values
// up to bounds[i] that are above the bound before, the last one those above all.
func (w *MetricWriter) Histogram(name, help string, bounds []float64, counts []uint64, sum float64, labels ...string) {
	w.head(name, help, "histogram")
	total := uint64(0)
	for i, n := range counts {
		total += n
		le := "+Inf"
		if i < len(bounds) {
			le = strconv.FormatFloat(bounds[i], 'g', -1, 64)
		}
		w.line(name+"_bucket", float64(total), append(slices.Clone(labels), "le", le))
	}
	w.line(name+"_sum", sum, labels)
	w.line(name+"_count", float64(total), labels)
}

// head writes what comes before the first line of a name. All lines of a name
// must be written one after the other.
func (w *MetricWriter) head(name, help, kind string) {
	if w.last == name {
		return
	}
	w.last = name
	fmt.Fprintf(&w.out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (w *MetricWriter) line(name string, value float64, labels []string) {
	w.out.WriteString(name)
	for i := 0; i+1 < len(labels); i += 2 {
		sep := ","
		if i == 0 {
			sep = "{"
		}
		fmt.Fprintf(&w.out, "%s%s=%q", sep, labels[i], labels[i+1])
	}
	if len(labels) > 1 {
		w.out.WriteByte('}')
	}
	w.out.WriteByte(' ')
	w.out.WriteString(strconv.FormatFloat(value, 'g', -1, 64))
	w.out.WriteByte('\n')
}

// histogram counts durations. Goroutines may share it.
type histogram struct {
	counts [len(latencyBounds) + 1]atomic.Uint64
	nanos  atomic.Int64
}

// latencyBounds are in seconds.
var latencyBounds = [...]float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

func (h *histogram) observe(d time.Duration) {
	i, _ := slices.BinarySearch(latencyBounds[:], d.Seconds())
	h.counts[i].Add(1)
	h.nanos.Add(int64(d))
}

func (h *histogram) write(w *MetricWriter, name, help string, labels ...string) {
	counts := make([]uint64, len(h.counts))
	for i := range h.counts {
		counts[i] = h.counts[i].Load()
	}
	w.Histogram(name, help, latencyBounds[:], counts, time.Duration(h.nanos.Load()).Seconds(), labels...)
}

// family is a set of figures with the same name and different labels. The labels
// come from tables of ours, never from a caller, so the set stays small.
type family[T any] struct {
	mu sync.RWMutex
	by map[string]*T
}

// labelSeparator joins label values into a key; it is in none of them.
const labelSeparator = "\x00"

func (f *family[T]) get(labels ...string) *T {
	key := strings.Join(labels, labelSeparator)
	f.mu.RLock()
	v := f.by[key]
	f.mu.RUnlock()
	if v != nil {
		return v
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if v = f.by[key]; v == nil {
		if f.by == nil {
			f.by = map[string]*T{}
		}
		v = new(T)
		f.by[key] = v
	}
	return v
}

// each calls fn for each figure in the order of the labels.
func (f *family[T]) each(fn func(labels []string, v *T)) {
	f.mu.RLock()
	keys := make([]string, 0, len(f.by))
	for k := range f.by {
		keys = append(keys, k)
	}
	f.mu.RUnlock()
	slices.Sort(keys)
	for _, k := range keys {
		f.mu.RLock()
		v := f.by[k]
		f.mu.RUnlock()
		fn(strings.Split(k, labelSeparator), v)
	}
}

// metrics are the server's own figures.
type metrics struct {
	started     time.Time
	requests    family[atomic.Int64] // route, method, status
	latency     family[histogram]    // route
	commands    family[atomic.Int64] // command, code
	commandTime family[histogram]    // command
	bounds      family[atomic.Int64] // bound
	streams     family[atomic.Int64] // transport: open now
	events      family[atomic.Int64] // transport: delivered
	inFlight    atomic.Int64
	forwarded   atomic.Int64
	connections atomic.Int64
	received    atomic.Int64
	sent        atomic.Int64
	panics      atomic.Int64
}

// serveMetrics answers GET /metrics.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request, _ *request) error {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	return writeBody(w, http.StatusOK, []byte(s.exposition(r.Context())))
}

// exposition returns all figures.
func (s *Server) exposition(ctx context.Context) string {
	w := &MetricWriter{}
	m := &s.metrics
	w.Gauge("agentd_build_info", "The running build; always 1.", 1, "version", s.opt.Version, "go", runtime.Version())
	w.Gauge("agentd_start_time_seconds", "When the server started, in Unix time.", float64(m.started.UnixMilli())/1000)
	s.writeTraffic(w)
	m.commands.each(func(l []string, v *atomic.Int64) {
		w.Counter("agentd_commands_total", "Commands by outcome; the code is ok or a problem's.", float64(v.Load()), "command", l[0], "code", l[1])
	})
	m.commandTime.each(func(l []string, v *histogram) {
		v.write(w, "agentd_command_duration_seconds", "How long commands took.", "command", l[0])
	})
	m.streams.each(func(l []string, v *atomic.Int64) {
		w.Gauge("agentd_subscribers", "Open subscriptions.", float64(v.Load()), "transport", l[0])
	})
	m.events.each(func(l []string, v *atomic.Int64) {
		w.Counter("agentd_events_delivered_total", "Events written to subscribers.", float64(v.Load()), "transport", l[0])
	})
	m.bounds.each(func(l []string, v *atomic.Int64) {
		w.Counter("agentd_bounds_hit_total", "How often a bound turned something away.", float64(v.Load()), "bound", l[0])
	})
	w.Gauge("agentd_commands_in_flight", "Commands under way.", float64(s.mutations.Load().Running), "kind", "mutation")
	w.Gauge("agentd_commands_in_flight", "Commands under way.", float64(s.reads.Load().Running), "kind", "read")
	w.Gauge("agentd_commands_waiting", "Commands that wait because too many are under way.", float64(s.mutations.Load().Waiting), "kind", "mutation")
	w.Gauge("agentd_commands_waiting", "Commands that wait because too many are under way.", float64(s.reads.Load().Waiting), "kind", "read")
	writeProcess(w)
	if s.opt.Collect != nil {
		s.opt.Collect(ctx, w)
	}
	return w.out.String()
}

func (s *Server) writeTraffic(w *MetricWriter) {
	m := &s.metrics
	m.requests.each(func(l []string, v *atomic.Int64) {
		w.Counter("agentd_http_requests_total", "Requests that were answered.", float64(v.Load()), "route", l[0], "method", l[1], "status", l[2])
	})
	m.latency.each(func(l []string, v *histogram) {
		v.write(w, "agentd_http_request_duration_seconds", "How long requests took, streams to their end.", "route", l[0])
	})
	w.Counter("agentd_forwarded_total", "Requests that were passed on to the node that owns the session.", float64(m.forwarded.Load()))
	w.Gauge("agentd_http_in_flight", "Requests under way, open streams included.", float64(m.inFlight.Load()))
	w.Gauge("agentd_connections", "Open connections.", float64(m.connections.Load()))
	w.Gauge("agentd_body_bytes", "Memory of large bodies that are being read or carried out.", float64(s.bodies.inUse()))
	w.Gauge("agentd_answer_bytes", "Memory of large answers on their way to clients.", float64(s.answers.inUse()))
	w.Counter("agentd_received_bytes_total", "Bytes of bodies and messages that came in.", float64(m.received.Load()))
	w.Counter("agentd_sent_bytes_total", "Bytes of bodies and messages that went out.", float64(m.sent.Load()))
	w.Counter("agentd_panics_total", "Requests that ended in a defect of agentd.", float64(m.panics.Load()))
}

func writeProcess(w *MetricWriter) {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	w.Gauge("agentd_goroutines", "Goroutines of the process.", float64(runtime.NumGoroutine()))
	w.Gauge("agentd_heap_bytes", "Bytes of live and unswept heap objects.", float64(mem.HeapAlloc))
	live := []rtmetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	rtmetrics.Read(live)
	w.Gauge("agentd_heap_live_bytes", "Bytes of the heap that the last collection found in use.", float64(live[0].Value.Uint64()))
	w.Gauge("agentd_memory_bytes", "Memory that the process has from the system.", float64(mem.Sys))
	w.Counter("agentd_gc_cycles_total", "Garbage collections.", float64(mem.NumGC))
}
