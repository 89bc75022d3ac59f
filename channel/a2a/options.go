package a2a

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/command"
)

// Version of the protocol that the server speaks.
const Version = "1.0"

// Protocol is the name of the protocol in facts.
const Protocol = "a2a"

// Paths at which the server expects to be mounted.
const (
	// CardPath is where the public agent card is.
	CardPath = "/.well-known/agent-card.json"
	// RPCPath is the JSON-RPC binding.
	RPCPath = "/a2a/rpc"
	// RESTPath is what the addresses of the HTTP+JSON binding begin with.
	RESTPath = "/a2a/rest"
)

// Options configure a [Server]. Runtime and Caller are required.
type Options struct {
	// Runtime is what the server drives.
	Runtime command.Runtime
	// Caller returns who sent a request, and its role.
	Caller func(context.Context) (command.Caller, command.Role, bool)
	// Card describes the agent.
	Card CardInfo
	// Push configures push notifications. Without a key there are none.
	Push PushOptions
	// PassOn has the node that owns a session answer a request that failed with the
	// given error, before anything was sent; false if it can't. Nil never can.
	PassOn func(context.Context, error) bool
	// Own makes this node the owner of a session, so that of several nodes one tells of its
	// tasks; the error names the one that owns it. Nil: there is only one node.
	Own func(ctx context.Context, sessionID string) error
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Clock defaults to time.Now.
	Clock func() time.Time

	// MaxBody is the largest body, default 16 MiB; MaxParts the most parts of a
	// message, default 100.
	MaxBody  int64
	MaxParts int
	// MaxList bounds the bytes of a page of tasks, default 8 MiB; a page has at least
	// one task.
	MaxList int64
	// Heartbeat is the longest silence of a stream, default 10 s.
	Heartbeat time.Duration
	// CancelWait is how long CancelTask waits for the task to stop, default 5 s.
	CancelWait time.Duration

	fixtureOptions
}

// CardInfo is what the agent card says.
type CardInfo struct {
	// Name and Description are for people and for other agents.
	Name, Description string
	// URL is the address of the server, without a path.
	URL string
	// Version of the agent.
	Version string
	// Extended offers a card with more to those who have a token.
	Extended bool
	// MaxAge is how long the card may be kept, default 5 minutes.
	MaxAge time.Duration
	// Extensions that the agent declares.
	Extensions []proto.AgentExtension
}

// PushOptions configure push notifications.
type PushOptions struct {
	// Key seals credentials; at least 16 bytes. Empty: peers are not told.
	Key []byte
	// OtherKeys returns further keys, which open what they sealed. It is asked when Key
	// doesn't open something; if nil, there are none.
	OtherKeys func(context.Context) ([][]byte, error)
	// AllowHosts are hosts, with or without a port, that may be notified although their
	// addresses are not public.
	AllowHosts []string
	// Attempts is how often in a row a place is tried before it is given up,
	// default 12; Backoff the first wait, default 1 s; it doubles up to MaxBackoff,
	// default 5 minutes.
	Attempts            int
	Backoff, MaxBackoff time.Duration
	// Timeout of one request, default 15 s.
	Timeout time.Duration
	// Workers is how many tasks of one account are notified about at once, default 8;
	// AllWorkers of all accounts together, default 128.
	Workers, AllWorkers int
	// Transport replaces the guarded one, in tests.
	Transport http.RoundTripper
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.PassOn == nil {
		o.PassOn = func(context.Context, error) bool { return false }
	}
	if o.Own == nil {
		o.Own = func(context.Context, string) error { return nil }
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	setDefault(&o.MaxBody, 16<<20)
	setDefault(&o.MaxParts, 100)
	setDefault(&o.MaxList, 8<<20)
	setDefault(&o.Heartbeat, 10*time.Second)
	setDefault(&o.CancelWait, 5*time.Second)
	setDefault(&o.Card.MaxAge, 5*time.Minute)
	p := &o.Push
	setDefault(&p.Attempts, 12)
	setDefault(&p.Backoff, time.Second)
	setDefault(&p.MaxBackoff, 5*time.Minute)
	setDefault(&p.Timeout, 15*time.Second)
	setDefault(&p.Workers, 8)
	setDefault(&p.AllWorkers, 128)
}

// setDefault replaces a value that isn't positive.
func setDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
