package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"agentd/cmd/agentd/internal/config"
	"agentd/event"
	"agentd/store"
	"agentd/telemetry"
)

// Bounds of the exporter.
const (
	// maxBatch is how many spans go into one request.
	maxBatch = 512
	// maxBehind bounds the sessions that wait to be read.
	maxBehind = 1 << 16
	// lingerFor is how long spans are gathered before they are sent.
	lingerFor = 200 * time.Millisecond
	// flushWithin is how long the end of the program waits for a collector.
	flushWithin = 3 * time.Second
	// firstBackoff and lastBackoff bound the wait between attempts.
	firstBackoff = time.Second
	lastBackoff  = 30 * time.Second
	// toleratedFailures is how many attempts in a row fail before it is an outage.
	toleratedFailures = 3
)

// exporter sends telemetry of what this process does. It learns of facts where they
// are committed, but keeps none: it notes which sessions moved and reads the journal
// in its own time, so a collector that is down, slow or lossy costs a turn nothing
// but that note. Spans wait in a bounded queue; what doesn't fit is dropped, counted
// and said. Nothing is lost for good: "agentd telemetry export" rebuilds it.
//
// Committed may be called by any goroutine. Two goroutines are the exporter's own,
// from start to close: one follows, one sends.
type exporter struct {
	client   *otlpClient
	resource telemetry.Resource
	log      *slog.Logger
	signals  []string
	queueMax int
	interval time.Duration
	linger   time.Duration
	backoff  time.Duration
	follower projection

	// report records a fact about the runtime; set by start.
	report func(context.Context, event.Type, *event.RuntimeNotice) error
	began  time.Time
	stop   context.CancelFunc // ends following
	cut    context.CancelFunc // ends sending
	ended  chan struct{}      // following ended
	wg     sync.WaitGroup

	moved, ready chan struct{} // wake the follower, the sender
	sent         chan struct{} // wakes a follower that waits for room
	positions    *positions
	marks        *telemetryMarks

	mu     sync.Mutex
	behind map[string]stretch
	turn   []string
	queue  []queuedSpan
	// reached is what can be kept now, left the marks of earlier processes.
	reached reached
	left    map[string]leftover
	meter   telemetry.Meter

	figures exportFigures
	// outage and lossySaid are the sender's own.
	outage    outage
	lossySaid bool
}

// queuedSpan waits to be sent; its marks hold when it is.
type queuedSpan struct {
	telemetry.Span
	marks []marked
}

// exportFigures are what /metrics tells about the exporter.
type exportFigures struct {
	exported, rejected, full, refused, unsent, failedRequests, unread atomic.Int64
	down                                                              atomic.Bool
}

// outage is a time in which the collector takes nothing.
type outage struct {
	failures int
	since    time.Time
	dropped  int64 // up to the last time that something was taken
	said     bool
}

// newExporter returns the exporter that the configuration asks for, or nil.
func (a *app) newExporter(c *config.Config, s store.Store, runtimeID string, log *slog.Logger) *exporter {
	t := &c.Telemetry
	if t.OTLPEndpoint == "" {
		return nil
	}
	e := &exporter{
		client: newOTLPClient(t.OTLPEndpoint, t, a.env), resource: a.resource(t, runtimeID), log: log, signals: t.Signals,
		queueMax: int(t.QueueSize), interval: time.Duration(t.MetricsInterval), linger: lingerFor, backoff: firstBackoff,
		follower: projection{store: s, options: telemetryOptions(t), sessions: map[string]*followed{}},
		behind:   map[string]stretch{}, moved: make(chan struct{}, 1), ready: make(chan struct{}, 1), ended: make(chan struct{}),
		sent: make(chan struct{}, 1), positions: &positions{store: s}, marks: newMarks(s), left: map[string]leftover{},
	}
	e.follower.position = e.positions.load
	if e.interval <= 0 {
		e.interval = time.Minute
	}
	return e
}

// telemetryOptions are what the configuration asks of projectors.
func telemetryOptions(t *config.Telemetry) []telemetry.Option {
	if t.Content {
		return []telemetry.Option{telemetry.Content()}
	}
	return nil
}

// resource says who the telemetry is from.
func (a *app) resource(t *config.Telemetry, runtimeID string) telemetry.Resource {
	r := telemetry.Resource{Version: a.version}
	r.Attrs = []telemetry.Attr{
		{Key: "service.name", Value: "agentd"},
		{Key: "service.version", Value: a.version},
		{Key: "service.instance.id", Value: runtimeID},
		{Key: telemetry.AttrRuntimeID, Value: runtimeID},
	}
	for _, kv := range t.Resource {
		name, value, _ := strings.Cut(kv, "=")
		i := slices.IndexFunc(r.Attrs, func(x telemetry.Attr) bool { return x.Key == name })
		if i < 0 {
			r.Attrs = append(r.Attrs, telemetry.Attr{Key: name, Value: value})
		} else {
			r.Attrs[i].Value = value
		}
	}
	return r
}

// start begins to follow and to send. Report may be nil.
func (e *exporter) start(ctx context.Context, report func(context.Context, event.Type, *event.RuntimeNotice) error) {
	e.report, e.began = report, time.Now()
	base := context.WithoutCancel(ctx)
	follow, stop := context.WithCancel(base)
	send, cut := context.WithCancel(base)
	e.stop, e.cut = stop, cut
	e.wg.Go(func() {
		defer close(e.ended)
		e.follow(follow)
	})
	e.wg.Go(func() { e.send(send) })
}

// close sends what is there, if the collector takes it soon, and ends.
func (e *exporter) close() {
	defer e.client.close()
	if e.stop == nil {
		return
	}
	limit := time.AfterFunc(flushWithin, e.cut)
	defer limit.Stop()
	e.stop()
	e.wg.Wait()
	e.cut()
	e.positions.release(context.Background())
	e.marks.release(context.Background())
}

// Committed implements [session.Observer].
func (e *exporter) Committed(sessionID string, facts []event.Event) {
	first := facts[0].Sequence
	e.note(sessionID, stretch{first: first, last: facts[len(facts)-1].Sequence, own: first})
}

// note notes that a stretch of a session is to be read.
func (e *exporter) note(sessionID string, s stretch) {
	e.mu.Lock()
	known, ok := e.behind[sessionID]
	switch {
	case ok:
		e.behind[sessionID] = known.join(s)
	case len(e.behind) >= maxBehind:
		e.figures.unread.Add(int64(s.last - s.first + 1))
	default:
		e.behind[sessionID] = s
		e.turn = append(e.turn, sessionID)
	}
	e.mu.Unlock()
	signalOne(e.moved)
}

func signalOne(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take removes the session that has waited longest.
func (e *exporter) take() (id string, s stretch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.turn) == 0 {
		return "", stretch{}
	}
	id, e.turn = e.turn[0], e.turn[1:]
	s = e.behind[id]
	delete(e.behind, id)
	return id, s
}

// follow reads what moved until ctx ends, and then what is left.
func (e *exporter) follow(ctx context.Context) {
	again := e.look(ctx)
	for {
		id, s := e.take()
		if id == "" {
			select {
			case <-e.moved:
				continue
			case <-again:
				again = e.look(ctx)
				continue
			case <-ctx.Done():
			}
			if id, s = e.take(); id == "" {
				return
			}
		}
		// The end of the program cuts what is sent, not what is read: that takes no time.
		whole := true
		at, err := e.follower.read(context.WithoutCancel(ctx), id, s, func(out telemetry.Output, own bool) {
			whole = e.takeOne(ctx, out, own) && whole
		})
		if err == nil && whole && (at.at != nil || at.through > 0) {
			e.reach(at)
		}
		if err != nil {
			e.figures.unread.Add(int64(s.last - s.first + 1))
			e.log.Warn("telemetry of a session can't be read", "sessionId", id, "error", err)
		}
	}
}

// takeOne takes what a fact yields. What an earlier process left waits for room, and
// its measurements were counted then. False says that it was left to the next.
func (e *exporter) takeOne(ctx context.Context, out telemetry.Output, own bool) bool {
	if !own {
		out.Measures = nil
		if len(out.Spans) > 0 && !e.room(ctx) {
			return false
		}
	}
	e.add(out)
	return true
}

// add queues what a fact yields.
func (e *exporter) add(out telemetry.Output) {
	if len(out.Spans) == 0 && len(out.Measures) == 0 {
		return
	}
	e.mu.Lock()
	e.meter.Add(out.Measures)
	dropped := 0
	if e.wants("traces") {
		room := max(e.queueMax-len(e.queue), 0)
		n := min(room, len(out.Spans))
		for _, span := range out.Spans[:n] {
			e.queue = append(e.queue, queuedSpan{Span: span})
		}
		dropped = len(out.Spans) - n
	}
	e.mu.Unlock()
	e.figures.full.Add(int64(dropped))
	signalOne(e.ready)
}

func (e *exporter) wants(signal string) bool {
	return len(e.signals) == 0 || slices.Contains(e.signals, signal)
}

// batch returns the next spans to send. They stay in the queue until they are sent,
// so that its bound holds for them too.
func (e *exporter) batch() []telemetry.Span {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]telemetry.Span, 0, min(len(e.queue), maxBatch))
	for i := range cap(out) {
		out = append(out, e.queue[i].Span)
	}
	return out
}

func (e *exporter) done(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range n {
		for _, m := range e.queue[i].marks {
			e.reached.add(m)
		}
	}
	if e.queue = e.queue[n:]; len(e.queue) == 0 {
		e.queue = nil
	}
	signalOne(e.sent)
}

// send sends spans as they come and metrics from time to time, until following has
// ended and everything is sent, or ctx ends.
func (e *exporter) send(ctx context.Context) {
	tick := time.NewTicker(e.interval)
	defer tick.Stop()
	for {
		select {
		case <-e.ready:
			e.pause(ctx, e.linger)
			e.drain(ctx)
		case <-tick.C:
			e.sendMetrics(ctx)
		case <-e.ended:
			e.drain(ctx)
			e.sendMetrics(ctx)
			e.giveUp()
			return
		}
	}
}

// pause waits, unless the program ends.
func (e *exporter) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.ended:
	case <-ctx.Done():
	}
}

// drain sends what is queued. After a failure it waits and tries again; at the end
// of the program there is one attempt.
func (e *exporter) drain(ctx context.Context) {
	wait := e.backoff
	for ctx.Err() == nil {
		spans := e.batch()
		if len(spans) == 0 {
			e.savePositions(ctx)
			return
		}
		again, after := e.attempt(ctx, spans)
		if !again {
			wait = e.backoff
			e.savePositions(ctx)
			continue
		}
		if e.isEnding() {
			return
		}
		e.pause(ctx, max(wait, after))
		wait = min(2*wait, lastBackoff)
	}
}

func (e *exporter) isEnding() bool {
	select {
	case <-e.ended:
		return true
	default:
		return false
	}
}

// attempt sends a batch once. It reports whether it should be tried again.
func (e *exporter) attempt(ctx context.Context, spans []telemetry.Span) (again bool, after time.Duration) {
	rejected, err := e.client.traces(ctx, e.resource, spans)
	if err == nil {
		e.figures.exported.Add(int64(len(spans)) - rejected)
		e.figures.rejected.Add(rejected)
		e.done(len(spans))
		e.recovered(ctx)
		e.lossy(ctx, rejected)
		return false, 0
	}
	e.figures.failedRequests.Add(1)
	refused, ok := err.(*sendError) //nolint:errorlint // it is returned as it is
	again = ok && refused.retry
	if !again {
		e.figures.refused.Add(int64(len(spans)))
		e.done(len(spans))
	} else {
		after = refused.after
	}
	e.failed(ctx, err, !again)
	return again, after
}

// sendMetrics sends the sums. They are cumulative: what fails now is in the next.
func (e *exporter) sendMetrics(ctx context.Context) {
	if !e.wants("metrics") || ctx.Err() != nil {
		return
	}
	e.mu.Lock()
	s := e.meter.Snapshot(e.began, time.Now())
	e.mu.Unlock()
	if len(s.Metrics) == 0 {
		return
	}
	if _, err := e.client.metrics(ctx, e.resource, s); err != nil {
		e.figures.failedRequests.Add(1)
		e.failed(ctx, err, false)
		return
	}
	e.recovered(ctx)
}

// giveUp counts what could not be sent before the end.
func (e *exporter) giveUp() {
	e.mu.Lock()
	left := len(e.queue)
	e.queue = nil
	e.mu.Unlock()
	if left > 0 {
		e.figures.unsent.Add(int64(left))
		e.log.Warn("telemetry was not sent before the end", "spans", left, "advice", "agentd telemetry export rebuilds it from the facts")
	}
}

// dropped counts the spans that no collector has.
func (e *exporter) dropped() int64 {
	f := &e.figures
	return f.full.Load() + f.refused.Load() + f.rejected.Load()
}

// failed notes a failure. Several in a row, or one that loses spans, are an outage,
// which is said once.
func (e *exporter) failed(ctx context.Context, err error, lost bool) {
	o := &e.outage
	if o.failures++; o.failures == 1 {
		o.since = time.Now()
	}
	if o.said || (o.failures < toleratedFailures && !lost && e.dropped() == o.dropped) {
		return
	}
	o.said = true
	e.figures.down.Store(true)
	e.log.Warn("telemetry can't be sent", "endpoint", e.client.base, "error", err)
	e.tell(ctx, &event.RuntimeNotice{
		Code: "telemetry_unavailable", Message: "Telemetry can't be sent: " + err.Error() + ".",
		Advice: "Turns go on. Look at the collector; agentd telemetry export rebuilds from the facts what was dropped.",
	})
}

// recovered notes that the collector takes telemetry again.
func (e *exporter) recovered(ctx context.Context) {
	o := e.outage
	e.outage = outage{dropped: e.dropped()}
	if !o.said {
		return
	}
	e.figures.down.Store(false)
	lost := e.dropped() - o.dropped
	e.log.Info("telemetry is sent again", "after", time.Since(o.since).Round(time.Millisecond).String(), "droppedSpans", lost)
	details, err := json.Marshal(map[string]int64{"droppedSpans": lost, "outageMs": time.Since(o.since).Milliseconds()})
	if err != nil {
		return // numbers always encode
	}
	e.tell(ctx, &event.RuntimeNotice{
		Code: "telemetry_recovered", Message: "Telemetry is sent again.", Details: details,
		Advice: "agentd telemetry export rebuilds from the facts what was dropped.",
	})
}

// lossy says, once, that the collector takes requests but not all spans in them.
func (e *exporter) lossy(ctx context.Context, rejected int64) {
	if rejected == 0 || e.lossySaid {
		return
	}
	e.lossySaid = true
	e.log.Warn("the collector rejects spans", "endpoint", e.client.base, "rejected", rejected)
	e.tell(ctx, &event.RuntimeNotice{
		Code: "telemetry_rejected", Message: "The collector takes telemetry but rejects some of its spans.",
		Advice: "Look at the collector's log; agentd_telemetry_spans_dropped_total counts them.",
	})
}

// tell makes a notice a fact. Where that can't be done the log has said it.
func (e *exporter) tell(ctx context.Context, n *event.RuntimeNotice) {
	if e.report == nil || e.isEnding() {
		return
	}
	if err := e.report(ctx, event.TypeRuntimeWarning, n); err != nil {
		e.log.Debug("a notice about telemetry could not be recorded", "error", err)
	}
}
