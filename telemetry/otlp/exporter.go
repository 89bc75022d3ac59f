package otlp

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"agentd/event"
	"agentd/store"
	"agentd/telemetry"
)

// MaxBatch is how many spans go into one request at most.
const MaxBatch = 512

// Bounds of the exporter.
const (
	// maxBehind bounds the sessions that wait to be read.
	maxBehind = 1 << 16
	// lingerFor is how long spans are gathered before they are sent.
	lingerFor = 200 * time.Millisecond
	// flushWithin is how long Close waits for a collector.
	flushWithin = 3 * time.Second
	// firstBackoff and lastBackoff bound the wait between attempts.
	firstBackoff = time.Second
	lastBackoff  = 30 * time.Second
	// defaultQueueSize and defaultInterval apply where Options say nothing.
	defaultQueueSize = 8192
	defaultInterval  = time.Minute
)

// Options of an [Exporter]. The zero value of every field but Collector.Endpoint is
// usable.
type Options struct {
	// Collector says where telemetry is sent.
	Collector Collector
	// Resource says who the telemetry is from.
	Resource telemetry.Resource
	// Projector are options of the projection, such as [telemetry.Content].
	Projector []telemetry.Option
	// Signals are what is sent: "traces", "metrics". If empty, both.
	Signals []string
	// QueueSize bounds the spans that wait to be sent; what doesn't fit is dropped and
	// counted. If zero, 8192.
	QueueSize int
	// MetricsInterval is how often metrics are sent. If zero, once a minute.
	MetricsInterval time.Duration
	// Logger gets outages and losses. If nil, nothing is logged.
	Logger *slog.Logger
}

// Collector says where telemetry is sent, and how.
type Collector struct {
	// Endpoint is the collector's address, such as http://127.0.0.1:4318. Paths such as
	// /v1/traces are appended.
	Endpoint string
	// Headers go with every request.
	Headers http.Header
	// Gzip compresses requests.
	Gzip bool
	// Timeout bounds one request. If zero, 10 seconds.
	Timeout time.Duration
}

// Reporter records a notice about the runtime itself. The runtime that is followed is
// one.
type Reporter interface {
	Report(ctx context.Context, t event.Type, n *event.RuntimeNotice) error
}

// Exporter sends the telemetry of one runtime. See the package comment.
type Exporter struct {
	client   *Client
	resource telemetry.Resource
	log      *slog.Logger
	signals  []string
	queueMax int
	interval time.Duration
	linger   time.Duration
	backoff  time.Duration
	flush    time.Duration
	follower projection

	// reporter records a fact about the runtime; set by Start, may be nil.
	reporter Reporter
	began    time.Time
	stop     context.CancelFunc // ends following
	cut      context.CancelFunc // ends sending
	ended    chan struct{}      // following ended
	wg       sync.WaitGroup

	moved, ready chan struct{} // wake the follower, the sender
	sent         chan struct{} // wakes a follower that waits for room
	positions    *positions
	marks        *markingStore

	mu     sync.Mutex
	behind map[string]stretch
	turn   []string
	queue  []queuedSpan
	// reached is what can be kept now, left the marks of earlier processes.
	reached reached
	left    map[string]leftover
	meter   telemetry.Meter

	figures figures
	// outage and lossySaid are the sender's own.
	outage    outage
	lossySaid bool
}

// queuedSpan waits to be sent; its marks hold when it is.
type queuedSpan struct {
	telemetry.Span
	marks []marked
}

// New returns an exporter for the runtime over a store. The runtime must be given
// [Exporter.Store] as its store and the exporter as its observer.
func New(s store.Store, o Options) *Exporter {
	e := &Exporter{
		client: NewClient(o.Collector), resource: o.Resource, log: o.Logger, signals: o.Signals,
		queueMax: o.QueueSize, interval: o.MetricsInterval, linger: lingerFor, backoff: firstBackoff, flush: flushWithin,
		follower: projection{store: s, options: o.Projector, sessions: map[string]*followed{}},
		behind:   map[string]stretch{}, moved: make(chan struct{}, 1), ready: make(chan struct{}, 1), ended: make(chan struct{}),
		sent: make(chan struct{}, 1), positions: &positions{store: s}, marks: newMarkingStore(s), left: map[string]leftover{},
	}
	e.follower.position = e.positions.load
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.queueMax <= 0 {
		e.queueMax = defaultQueueSize
	}
	if e.interval <= 0 {
		e.interval = defaultInterval
	}
	return e
}

// Store returns the store that the runtime must use: it marks the sessions with
// telemetry to send, so that the next process finds what this one didn't send.
func (e *Exporter) Store() store.Store { return e.marks }

// Start begins to follow and to send. Outages become notices of the reporter, which
// may be nil. Call it once.
func (e *Exporter) Start(ctx context.Context, r Reporter) {
	e.reporter, e.began = r, time.Now()
	base := context.WithoutCancel(ctx)
	follow, stop := context.WithCancel(base)
	send, cut := context.WithCancel(base)
	e.stop, e.cut = stop, cut
	e.wg.Go(func() {
		defer close(e.ended)
		e.runFollower(follow)
	})
	e.wg.Go(func() { e.runSender(send) })
}

// Close sends what is queued, if the collector takes it within a few seconds, and waits
// for the exporter's goroutines. Close the runtime first.
func (e *Exporter) Close() {
	defer e.client.Close()
	if e.stop == nil {
		return
	}
	limit := time.AfterFunc(e.flush, e.cut)
	defer limit.Stop()
	e.stop()
	e.wg.Wait()
	e.cut()
	e.positions.release(context.Background())
	e.marks.release(context.Background())
}

// Committed notes that a session moved; the runtime calls it for facts that are durable.
func (e *Exporter) Committed(sessionID string, facts []event.Event) {
	first := facts[0].Sequence
	e.enqueueStretch(sessionID, stretch{first: first, last: facts[len(facts)-1].Sequence, own: first})
}

// enqueueStretch notes that a stretch of a session is to be read.
func (e *Exporter) enqueueStretch(sessionID string, s stretch) {
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
	wake(e.moved)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// nextStretch removes the session that has waited longest.
func (e *Exporter) nextStretch() (id string, s stretch) {
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

// runFollower reads what moved until ctx ends, and then what is left.
func (e *Exporter) runFollower(ctx context.Context) {
	again := e.catchUpAndSchedule(ctx)
	for {
		id, s := e.nextStretch()
		if id == "" {
			select {
			case <-e.moved:
				continue
			case <-again:
				again = e.catchUpAndSchedule(ctx)
				continue
			case <-ctx.Done():
			}
			if id, s = e.nextStretch(); id == "" {
				return
			}
		}
		// The end of the program cuts what is sent, not what is read: that takes no time.
		whole := true
		at, err := e.follower.read(context.WithoutCancel(ctx), id, s, func(out telemetry.Output, own bool) {
			whole = e.enqueueOutput(ctx, out, own) && whole
		})
		if err == nil && whole && (at.at != nil || at.through > 0) {
			e.recordReached(at)
		}
		if err != nil {
			e.figures.unread.Add(int64(s.last - s.first + 1))
			e.log.Warn("telemetry of a session can't be read", "sessionId", id, "error", err)
		}
	}
}

// enqueueOutput queues what a fact yields. What an earlier process left waits for room,
// and its measurements were counted then. False says that it was left to the next
// process.
func (e *Exporter) enqueueOutput(ctx context.Context, out telemetry.Output, own bool) bool {
	if !own {
		out.Measures = nil
		if len(out.Spans) > 0 && !e.waitForRoom(ctx) {
			return false
		}
	}
	if len(out.Spans) == 0 && len(out.Measures) == 0 {
		return true
	}
	e.mu.Lock()
	e.meter.Add(out.Measures)
	if e.sends("traces") {
		n := min(max(e.queueMax-len(e.queue), 0), len(out.Spans))
		for _, span := range out.Spans[:n] {
			e.queue = append(e.queue, queuedSpan{Span: span})
		}
		e.figures.full.Add(int64(len(out.Spans) - n))
	}
	e.mu.Unlock()
	wake(e.ready)
	return true
}

// waitForRoom waits until the queue takes more. It is for what an earlier process left,
// which can wait in the journal; false says that the program ends.
func (e *Exporter) waitForRoom(ctx context.Context) bool {
	for {
		e.mu.Lock()
		full := len(e.queue) > e.queueMax/2
		e.mu.Unlock()
		if !full {
			return true
		}
		select {
		case <-e.sent:
		case <-ctx.Done():
			return false
		}
	}
}

func (e *Exporter) sends(signal string) bool {
	return len(e.signals) == 0 || slices.Contains(e.signals, signal)
}
