package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"agentd/event"
)

// Options configure a [Server]. Auth is required for HTTP; every other field has
// a default, which a zero value stands for.
type Options struct {
	// Auth says who holds a token. If nil every request that needs one is refused.
	Auth Authenticator
	// Logger gets a line for each request. It defaults to one that discards.
	Logger *slog.Logger
	// IDs makes request ids; it defaults to a source of its own.
	IDs *event.IDs
	// Version is shown in the metrics and in the status.
	Version string
	// AllowedHosts are names, with or without a port, by which clients may
	// address the server beside its own addresses; without a port, with any.
	AllowedHosts []string
	// TLS makes [Server.Serve] speak TLS.
	TLS *tls.Config
	// Documents replace those of the build, by path: "/v1/openapi.json" and
	// "/v1/catalog".
	Documents map[string]Document
	// Mounts are handlers of others under the same authentication and bounds.
	Mounts []Mount
	// Console is the web application at /ui/; nil for none.
	Console *Console
	// Collect adds the runtime's own figures to /metrics.
	Collect func(ctx context.Context, w *MetricWriter)

	// MaxBody is the largest body, WebSocket message and line, default 32 MiB.
	MaxBody int64
	// MaxBodies bounds the bytes of all bodies in memory, default 256 MiB; one token
	// may have half of them.
	MaxBodies int64
	// MaxAnswers bounds the bytes of all large answers on their way to clients,
	// default 256 MiB; one token may have half of them.
	MaxAnswers int64
	// MaxHeader is the largest size of a request's line and headers, default 32 KiB.
	MaxHeader int
	// MaxConnections bounds open connections, default 4096; MaxRequestsPerToken the
	// requests, streams and WebSocket connections of one token, default half of that.
	MaxConnections, MaxRequestsPerToken int
	// MaxMutations and MaxReads bound the commands under way that change state,
	// default 512, and that don't, default 512.
	MaxMutations, MaxReads int
	// MaxMutationsPerToken and MaxReadsPerToken are one token's part of them, default
	// 256 and 384.
	MaxMutationsPerToken, MaxReadsPerToken int
	// MaxStreams bounds the subscriptions of all, default 10,000;
	// MaxStreamsPerToken those of one token, default 2000.
	MaxStreams, MaxStreamsPerToken int

	// SendBuffer bounds what the system keeps for a connection whose client doesn't
	// read, default 256 KiB. More is faster over long distances, and costs memory
	// for each slow client.
	SendBuffer int

	// NodeAlive says whether the node at an address (scheme and host) is one of those that
	// share the store; a request that was passed on to it is given up when it isn't. If nil,
	// only its silence counts.
	NodeAlive func(ctx context.Context, address string) (bool, error)
	// NodeSilence is how long another node may leave the question whether it is there
	// unanswered until requests that were passed on to it are given up, default 10 s. A
	// node that answers may take longer with a request.
	NodeSilence time.Duration
	// Nodes is what this node and the others know each other by; requests that are passed
	// on then need it on both sides. TLS has to come from its Config. If nil, nodes are
	// known by their addresses in the store alone.
	Nodes *NodeIdentity

	// HeaderTimeout is how long a client may take to send a request's headers,
	// default 10 s; BodyTimeout the same for a body and for a message over WebSocket,
	// from its first byte, default 60 s; IdleTimeout how
	// long a connection may wait for the next request, default 120 s.
	HeaderTimeout, BodyTimeout, IdleTimeout time.Duration
	// WriteTimeout is how long one write may wait for a slow reader, default 30 s.
	WriteTimeout time.Duration
	// CommandTimeout is the longest that a command may take, default 5 minutes.
	CommandTimeout time.Duration
	// MoveWait is how long a request waits for a session that is on its way from one node
	// to another: its node can't be reached any more, or says that another one has it.
	// The default is 15 s.
	MoveWait time.Duration
	// AdmissionWait is how long a command waits for its turn when the bound is
	// reached, default 2 s.
	AdmissionWait time.Duration
	// Heartbeat is the longest silence of a stream, default 10 s, at most 15 s.
	Heartbeat time.Duration
	// Recheck is how often the token of an open stream is looked at again, default
	// 1 s: that long a token outlives its revocation.
	Recheck time.Duration
	// StopTimeout is how long Serve waits for running requests when it stops,
	// default 10 s. From then on a write may take a quarter of it.
	StopTimeout time.Duration
}

// Document is a file that the server hands out.
type Document struct {
	MediaType string
	Data      []byte
}

// Mount is a handler of others.
type Mount struct {
	// Prefix of the paths that go there; "/" takes all other paths.
	Prefix string
	// Public paths need no token. Others find the caller with [CallerFrom].
	Public bool
	// Spools says that bodies go to a file and not into memory: those of others
	// are part of MaxBodies.
	Spools  bool
	Handler http.Handler
	// Refuse says in the protocol of the handler why a request could not be passed on to the
	// node that owns the session. The body of the request can be read once more, from its
	// beginning. If nil, that is a problem as at agentd's own addresses.
	Refuse func(w http.ResponseWriter, r *http.Request, err error)
}

// maxHeartbeat is what the wire contract promises.
const maxHeartbeat = 15 * time.Second

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.IDs == nil {
		o.IDs = event.NewIDs(nil, nil)
	}
	setDefault(&o.MaxBody, 32<<20)
	setDefault(&o.MaxBodies, 256<<20)
	setDefault(&o.MaxAnswers, 256<<20)
	setDefault(&o.MaxHeader, 32<<10)
	setDefault(&o.MaxConnections, 4096)
	setDefault(&o.MaxRequestsPerToken, max(1, o.MaxConnections/2))
	setDefault(&o.MaxMutations, 512)
	setDefault(&o.MaxReads, 512)
	setDefault(&o.MaxMutationsPerToken, 256)
	setDefault(&o.MaxReadsPerToken, 384)
	setDefault(&o.MaxStreams, 10_000)
	setDefault(&o.MaxStreamsPerToken, 2000)
	setDefault(&o.SendBuffer, 256<<10)
	setDefault(&o.HeaderTimeout, 10*time.Second)
	setDefault(&o.BodyTimeout, time.Minute)
	setDefault(&o.IdleTimeout, 2*time.Minute)
	setDefault(&o.WriteTimeout, 30*time.Second)
	setDefault(&o.CommandTimeout, 5*time.Minute)
	setDefault(&o.MoveWait, 15*time.Second)
	setDefault(&o.NodeSilence, 10*time.Second)
	setDefault(&o.AdmissionWait, 2*time.Second)
	setDefault(&o.Heartbeat, 10*time.Second)
	setDefault(&o.Recheck, time.Second)
	setDefault(&o.StopTimeout, 10*time.Second)
	o.Heartbeat = min(o.Heartbeat, maxHeartbeat)
}

// setDefault replaces a zero or negative value.
func setDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
