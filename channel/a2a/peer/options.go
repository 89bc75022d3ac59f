package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"
)

// Protocol is the name of the protocol in facts.
const Protocol = "a2a"

// Ways to follow a task at a peer.
const (
	// DeliveryAuto streams if the peer offers it, else asks again and again.
	DeliveryAuto = "auto"
	// DeliveryStreaming and DeliveryPolling say which of the two.
	DeliveryStreaming = "streaming"
	DeliveryPolling   = "polling"
	// DeliveryPush has the peer tell of changes, and asks rarely.
	DeliveryPush = "push"
)

// Peer is an agent that work can be given to.
type Peer struct {
	// ID is what tasks name it by.
	ID string
	// CardURL is where its agent card is; without a path the usual place on that host.
	CardURL string
	// Token returns the bearer token that it wants; nil or empty: none. It is asked for
	// each request, so that a new one is taken over.
	Token func() string
	// AllowPrivate says that the card's own host may have an address that is not public.
	AllowPrivate bool
	// Hosts are further hosts, with their ports, that the card may name.
	Hosts []string
	// Delivery is one of the constants above; default auto.
	Delivery string
}

// Options configure a [Client]. Every field has a default.
type Options struct {
	// Peers are those that tasks can name. The address of a card always works, without
	// a token and for public addresses only, unless CardsOff.
	Peers    []Peer
	CardsOff bool
	// Push says where peers can tell of changes.
	Push PushOptions
	// Logger defaults to one that discards.
	Logger *slog.Logger

	// Attempts is how often in a row a peer is tried before the task is held, default
	// 20; Backoff the first wait, default 1 s; it doubles up to MaxBackoff, default a
	// minute.
	Attempts            int
	Backoff, MaxBackoff time.Duration
	// Poll is the first wait between two looks at a task, default 1 s; it doubles while
	// nothing changes, up to MaxPoll, default 30 s.
	Poll, MaxPoll time.Duration
	// Timeout of a request, default 30 s; Silence is how long a stream may be silent,
	// default a minute.
	Timeout, Silence time.Duration
	// MaxCard is the largest card, default 1 MiB; MaxBody the largest answer and the
	// most that a task delivers, default 32 MiB; MaxArtifacts the most parts of it,
	// default 200.
	MaxCard, MaxBody int64
	MaxArtifacts     int
}

// PushOptions say where peers can tell of changes.
type PushOptions struct {
	// URL is the address of [Client.PushHandler] as others reach it. Empty: no peer is
	// asked to tell.
	URL string
	// Key makes the secrets of tasks; at least 16 bytes.
	Key []byte
	// OtherKeys returns further keys that may have made the secret of a task; if nil, there
	// are none.
	OtherKeys func(context.Context) ([][]byte, error)
	// PassOn has the node that owns a session answer a notification that came here, and
	// reports whether it will. If nil, there is only one node.
	PassOn func(ctx context.Context, sessionID string) bool
}

func setDefault[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

func (o *Options) complete() error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	setDefault(&o.Attempts, 20)
	setDefault(&o.Backoff, time.Second)
	setDefault(&o.MaxBackoff, time.Minute)
	setDefault(&o.Poll, time.Second)
	setDefault(&o.MaxPoll, 30*time.Second)
	setDefault(&o.Timeout, 30*time.Second)
	setDefault(&o.Silence, time.Minute)
	setDefault(&o.MaxCard, 1<<20)
	setDefault(&o.MaxBody, 32<<20)
	setDefault(&o.MaxArtifacts, 200)
	if o.Push.URL != "" && len(o.Push.Key) < 16 {
		return errors.New("peer: push notifications need a key of at least 16 bytes")
	}
	for i := range o.Peers {
		if err := o.Peers[i].check(); err != nil {
			return err
		}
	}
	return nil
}

func (p *Peer) check() error {
	setDefault(&p.Delivery, DeliveryAuto)
	switch p.Delivery {
	case DeliveryAuto, DeliveryStreaming, DeliveryPolling, DeliveryPush:
	default:
		return fmt.Errorf("peer: %s: %q is not a known way to follow a task", p.ID, p.Delivery)
	}
	if p.ID == "" {
		return errors.New("peer: a peer has no id")
	}
	if _, err := cardAddress(p.CardURL); err != nil {
		return fmt.Errorf("peer: %s: %w", p.ID, err)
	}
	return nil
}

// cardAddress reads the address of a card.
func cardAddress(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the card's address is not an http or https URL")
	case u.User != nil:
		return nil, errors.New("the card's address contains user information; configure credentials separately")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/.well-known/agent-card.json"
	}
	u.Fragment = ""
	return u, nil
}

// hostPort is a URL's host with its port.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return strings.ToLower(net.JoinHostPort(u.Hostname(), port))
}

// listsHost reports whether a list of hosts has this one, with its port or without.
func listsHost(hosts []string, host string) bool {
	bare, _, err := net.SplitHostPort(host)
	for _, h := range hosts {
		if strings.EqualFold(h, host) || err == nil && strings.EqualFold(strings.Trim(h, "[]"), bare) {
			return true
		}
	}
	return false
}
