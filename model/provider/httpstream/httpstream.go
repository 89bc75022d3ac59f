// Package httpstream is what the providers that speak HTTP have in common: one
// way to send a request and to read the stream that answers it, so that an
// adapter is left with its vendor's words.
//
// # Contract
//
// [Conn.Stream] sends one request and plays the answer through the adapter's
// [Decoder]. Whatever the server does, the caller gets chunks and then exactly
// one end: a chunk with Done, or a [*model.Error]. The end comes
//
//   - soon after the caller's context ends (interrupted, or timeout for a deadline),
//   - when the server sends nothing for Options.IdleTimeout (timeout). Comments and
//     pings of a server that is still thinking count as something,
//   - when an event is longer than [MaxEvent] or the answer longer than [Options.MaxAnswer]
//     (malformed), so that no server can fill the memory.
//
// Nothing is retried. Redirects are not followed, because a key sent in a header
// of the vendor's own would travel with them.
//
// The API key, and the values of headers that look like credentials, are sent to
// the server and appear nowhere else: where the server repeats them, in an error
// or in its answer, they are cut out of messages and of Raw.
//
// # Concurrency
//
// A Conn may be used by many goroutines. A Decoder belongs to one answer and is
// called by one goroutine at a time. No goroutine outlives an iteration.
package httpstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// MaxEvent is the length of the longest event that is read. The last event of
	// some vendors holds the whole answer again.
	MaxEvent = 16 << 20
	// DefaultMaxAnswer is how much text, reasoning and arguments of tool calls one
	// answer may hold. It is more than any model writes at once, and an answer is held
	// several times while it is recorded.
	DefaultMaxAnswer = 16 << 20
	// wireFactor is how many times longer a body may be than what it says: a stream
	// that sends token by token needs some hundred bytes for each.
	wireFactor = 8
	// MaxRaw is how much of what the server sent is kept.
	MaxRaw = 128 << 10
	// MaxToolCalls is how many tool calls one answer may hold.
	MaxToolCalls = 512
	// DefaultIdleTimeout is how long a silent server is waited for. Models that
	// reason may be silent for minutes.
	DefaultIdleTimeout = 5 * time.Minute
)

// Options are the settings of a provider. The zero value of each is valid.
type Options struct {
	// Name is the provider's id in facts and configuration; if empty, the
	// adapter's own name.
	Name string
	// BaseURL of the API; if empty, the vendor's.
	BaseURL string
	// APIKey is sent with each request, if there is one.
	APIKey string `json:"-"`
	// Client sends the requests; if nil, one that is made for long streams. Its
	// Timeout, if set, bounds whole answers.
	Client *http.Client
	// IdleTimeout is how long the server may be silent; if zero,
	// DefaultIdleTimeout.
	IdleTimeout time.Duration
	// MaxAnswer is how many bytes of text, reasoning and arguments of tool calls one
	// answer may hold; if zero, DefaultMaxAnswer.
	MaxAnswer int64
	// Headers are sent with each request, over the adapter's own.
	Headers map[string]string
	// Extra are members of the request's body beside the adapter's own, such as
	// temperature. A member that is an object in both is merged, any other is
	// replaced, and null takes it out.
	Extra map[string]json.RawMessage
}

// Format implements [fmt.Formatter]: options that end up in a log show no secret.
func (o Options) Format(s fmt.State, _ rune) {
	key := "none"
	if o.APIKey != "" {
		key = "set"
	}
	fmt.Fprintf(s, "{Name:%s BaseURL:%s APIKey:%s IdleTimeout:%s Headers:%d Extra:%d}", o.Name, shownURL(o.BaseURL), key, o.IdleTimeout, len(o.Headers), len(o.Extra))
}

func shownURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "invalid"
	}
	u.RawQuery = ""
	return u.Redacted()
}

// Conn sends the requests of one provider.
type Conn struct {
	name    string
	base    *url.URL
	baseErr error
	client  *http.Client
	idle    time.Duration
	headers map[string]string
	extra   map[string]json.RawMessage
	key     string
	secrets secrets
	// maxEvent, maxAnswer and maxBody are the bounds: of an event, of what an answer
	// says, and of what it takes to say it.
	maxEvent           int
	maxAnswer, maxBody int64
	// tools is the list of tools that was sent last.
	tools atomic.Pointer[encodedTools]
}

// New returns a connection with the options. Name and base stand for what the
// options leave empty. A base URL that can't be used fails each request.
func New(o Options, name, base string) *Conn {
	if o.Name == "" {
		o.Name = name
	}
	if o.BaseURL == "" {
		o.BaseURL = base
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = DefaultIdleTimeout
	}
	if o.MaxAnswer <= 0 {
		o.MaxAnswer = DefaultMaxAnswer
	}
	c := &Conn{name: o.Name, client: clientOf(o.Client), idle: o.IdleTimeout, headers: o.Headers, extra: o.Extra, key: o.APIKey, secrets: secretsOf(o), maxEvent: MaxEvent, maxAnswer: o.MaxAnswer, maxBody: wireFactor * o.MaxAnswer}
	c.base, c.baseErr = parseBase(o.BaseURL)
	return c
}

// Name of the provider.
func (c *Conn) Name() string { return c.name }

// Format implements [fmt.Formatter]: a connection in a log shows no secret.
func (c *Conn) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "httpstream.Conn(%s)", c.name) }

// Authorization returns headers with the key, if there is one, behind the prefix.
func (c *Conn) Authorization(name, prefix string) http.Header {
	h := http.Header{}
	if c.key != "" {
		h.Set(name, prefix+c.key)
	}
	return h
}

// Host is the host name of the base URL, in lower case, without a port.
func (c *Conn) Host() string { return strings.ToLower(c.base.Hostname()) }

// BasePath is the path of the base URL without a slash at its end.
func (c *Conn) BasePath() string { return strings.TrimRight(c.base.Path, "/") }

func parseBase(s string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(s))
	switch {
	case err != nil:
		return &url.URL{}, fmt.Errorf("the base URL can't be read")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return &url.URL{}, fmt.Errorf("the base URL %q is not an http or https URL", shownURL(s))
	}
	return u, nil
}

// clientOf returns a client that doesn't follow redirects unless the given one
// says what to do about them.
func clientOf(given *http.Client) *http.Client {
	c := &http.Client{}
	if given != nil {
		*c = *given
	} else {
		c.Transport = &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           dialFunc(),
			ForceAttemptHTTP2:     true,
			MaxIdleConns:          256,
			MaxIdleConnsPerHost:   128,
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   15 * time.Second,
			ExpectContinueTimeout: time.Second,
		}
	}
	if c.CheckRedirect == nil {
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return c
}
