// Package channel keeps the remote channels of a runtime: who is connected, how
// far each peer has got in each session, and which requests for permission and
// which tool calls cross a channel.
//
// # Contract
//
// What is true of a channel is in the facts of the sessions that it follows:
// channel.connected, channel.resumed and channel.disconnected, in the session that
// it was opened in (its home; without one, the runtime's own session) and in each
// that was added later. A channel is found by its id through the index. How far a
// peer has got is a cursor per session, durable beside the facts: to acknowledge
// an event makes no event, but for the first of each connection. A resume token
// is derived from a key of the store, shown to the client that opened the channel, and
// known to the facts by its hash alone.
//
// What a [Hub] keeps in memory is who is there now: streams that belong to a
// channel, and when a peer last gave a sign of life. It can be lost at any moment:
// [Hub.Recover] then records that the peers of an earlier process are gone, and
// they come back with reconnect_channel. A channel that goes ends no work.
//
// A request for permission is forwarded to the peers that can answer it and its
// answer is recorded for each, as a function of the folded state: whatever was
// missed is found at the next look.
//
// Beside the hub the package has what the adapters of protocols share: [NextWithin]
// follows a stream, [Facts] reads what there is of a session, [HistorySegments] finds the
// history of a thread, also of a fork, and [ResultOf] reads the result of a command.
//
// # Concurrency
//
// All methods of Hub may be called by many goroutines. Decisions run under the
// writer's lock of their session and take the hub's own lock within it, never the
// other way round. [Hub.Committed] only notes what is to be looked at; one
// goroutine looks, another watches for silence. [Hub.Close] stops both and waits.
package channel

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/session"
)

// Options configure a [Hub]. Key is required; every other field has a default.
type Options struct {
	// Key is what resume tokens are derived from: at least 32 random bytes, always
	// the same for one store.
	Key []byte
	// Silence is how long a peer without a stream may give no sign of life before it
	// counts as gone; default 90 s.
	Silence time.Duration
	// ToolGrace is how long calls of a peer's tools wait for it when its connection
	// broke; default 30 s. Negative is not at all.
	ToolGrace time.Duration
	// CheckTool refuses a tool that can't be offered; nil accepts all.
	CheckTool func(*event.ChannelTool) error
	// Offer gets the tools of a peer that connects; nil is allowed.
	Offer func([]event.ChannelTool)
	// Redact takes secrets out of what callers send; nil keeps everything.
	Redact func(event.Raw) event.Raw
	// NodeID is the name of this node of several, for peers whose channel is in the session
	// that belongs to all of them. If empty, such a channel is ended only by a node that is
	// alone.
	NodeID string
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Hub is all channels of one runtime.
type Hub struct {
	opt Options
	m   *session.Manager

	ctx    context.Context //nolint:containedctx // its life, ended by Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	woken  chan struct{}
	// watching counts the watched sessions: mostly there are none.
	watching atomic.Int64

	mu    sync.Mutex
	next  uint64
	peers map[string]*peer
	watch map[string]*watch
	due   map[string]struct{}
}

// New returns a hub that does nothing until Start.
func New(opt Options) *Hub {
	if opt.Silence == 0 {
		opt.Silence = 90 * time.Second
	}
	if opt.ToolGrace == 0 {
		opt.ToolGrace = 30 * time.Second
	}
	if opt.Offer == nil {
		opt.Offer = func([]event.ChannelTool) {}
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Hub{
		opt: opt, woken: make(chan struct{}, 1),
		peers: map[string]*peer{}, watch: map[string]*watch{}, due: map[string]struct{}{},
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Start binds the hub to the manager that it observes.
func (h *Hub) Start(m *session.Manager) {
	h.m = m
	h.wg.Go(h.runBridge)
	h.wg.Go(h.watchSilence)
}

// Close stops the hub and waits. Channels that are connected are found so at the
// next start.
func (h *Hub) Close() {
	h.cancel()
	h.wg.Wait()
}

// Register registers the handlers of the commands about channels.
func (h *Hub) Register(t *command.Table) {
	command.HandleKept(t, h.connectChannel, h.showToken)
	command.HandleKept(t, h.reconnectChannel, h.showSnapshot)
	command.Handle(t, h.ackEvents)
	command.Handle(t, h.sendMessage)
	command.Handle(t, h.disconnectChannel)
	command.Handle(t, h.listChannels)
}
