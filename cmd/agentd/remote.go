package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"time"

	"agentd/client"
	"agentd/cmd/agentd/internal/facts"
	"agentd/command"
	"agentd/fault"
	"agentd/internal/wire"
)

// remoteFacts is a server.
type remoteFacts struct {
	client *client.Client
	http   *http.Client
	base   string
	token  string
	// socket is the path of a Unix socket, which no browser reaches; empty for an address.
	socket string
	// own says that it is the user's own server, in the background; root and cwd are
	// the project that it is used from, and the folder in it.
	own       bool
	root, cwd string
	// repeats says that what finds its server stopping is sent again.
	repeats bool
	// leave says that this process doesn't use the server any more; nil says nothing.
	leave func()
}

// dialServer returns the server that --server names.
func dialServer(address, token string) (*remoteFacts, error) {
	base, socket := serverAddress(address)
	r, err := newRemote(base, socket, token, nil)
	if err != nil {
		return nil, usagef("--server: %s", strings.TrimPrefix(err.Error(), "client: "))
	}
	r.repeats, r.http.Transport = true, &steady{next: r.http.Transport}
	return r, nil
}

// serverAddress reads what --server takes: an address; a Unix socket as unix:PATH
// or unix://PATH; or what "agentd serve" says of its socket, http+unix://PATH. A
// socket has no host, so the address behind it only names one.
func serverAddress(address string) (base, socket string) {
	for prefix, scheme := range map[string]string{"unix:": "http", "http+unix:": "http", "https+unix:": "https"} {
		if path, ok := strings.CutPrefix(address, prefix); ok {
			return scheme + "://localhost", strings.TrimPrefix(path, "//")
		}
	}
	return strings.TrimSuffix(address, "/"), ""
}

// dialNote returns the server that a note in a directory is about, and follows it
// when the note changes.
func dialNote(dir string, n *serverNote) (*remoteFacts, error) {
	base := n.base()
	if n.Socket != "" {
		base = strings.TrimSuffix(strings.Replace(base, "+unix", "", 1), n.Socket) + "localhost"
	}
	t := &renewing{dir: dir, note: n}
	r, err := newRemote(base, n.Socket, n.Token, t.pinned())
	if err == nil {
		t.next, r.http.Transport = r.http.Transport, t
	}
	return r, err
}

func newRemote(base, socket, token string, t *tls.Config) (*remoteFacts, error) {
	transport := &http.Transport{TLSClientConfig: t, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true, DisableCompression: onThisMachine(base)}
	if socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}
	} else {
		transport.Proxy = http.ProxyFromEnvironment
	}
	r := &remoteFacts{http: &http.Client{Transport: transport}, base: base, token: token, socket: socket}
	var err error
	r.client, err = client.New(base, &client.Options{Token: token, HTTPClient: r.http})
	return r, err
}

// address is where the server is, as "agentd daemon status" says it.
func (r *remoteFacts) address() string {
	if scheme, _, _ := strings.Cut(r.base, "://"); r.socket != "" {
		return scheme + "+unix://" + r.socket
	}
	return r.base
}

func certSum(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

func (*remoteFacts) Live() bool { return true }

func (*remoteFacts) Remote() bool { return true }

// TakeUp implements [facts.Source]: the server did it when it started.
func (*remoteFacts) TakeUp(context.Context, string) error { return nil }

func (r *remoteFacts) Open(ctx context.Context, ref string) (io.ReadCloser, error) {
	out, err := r.client.Output(ctx, ref, client.Range{})
	if err != nil {
		return nil, err
	}
	return out.Body, nil
}

func (r *remoteFacts) Do(ctx context.Context, p command.Params, result any) error {
	ctx, done := r.keyed(ctx, p)
	defer done()
	return r.client.Do(ctx, p, result)
}

func (r *remoteFacts) Page(ctx context.Context, sessionID string, after uint64, limit int) ([]facts.Fact, uint64, error) {
	page, err := r.client.Events(ctx, sessionID, after, limit)
	if err != nil {
		return nil, 0, err
	}
	out := make([]facts.Fact, len(page.Events))
	for i, e := range page.Events {
		out[i] = facts.Fact{Sequence: e.Sequence, Data: e.Data}
	}
	return out, page.LastSequence, nil
}

// followRetries is how many failures in a row a stream bears: a server that
// restarts is waited for, one that is gone is given up.
var followRetries = 20

// followTypes follows facts of some types; all if there are none.
func followTypes(types []string) *client.FollowOptions {
	return &client.FollowOptions{Types: types, Retries: followRetries}
}

func (r *remoteFacts) Follow(ctx context.Context, sessionID string, after uint64, o *client.FollowOptions) iter.Seq2[facts.Fact, error] {
	if o == nil {
		o = followTypes(nil)
	}
	return func(yield func(facts.Fact, error) bool) {
		for e, err := range r.client.Follow(ctx, sessionID, after, o) {
			if err == nil && e.Frame != "" {
				continue // a repair of the stream; the facts that follow have their numbers
			}
			if !yield(facts.Fact{Sequence: e.Sequence, Data: e.Data}, err) {
				return
			}
		}
	}
}

func (r *remoteFacts) Close() error {
	r.client.Close()
	if r.leave != nil {
		r.leave()
	}
	return nil
}

// status returns what the server says of itself.
func (r *remoteFacts) status(ctx context.Context) (json.RawMessage, error) {
	res, err := r.send(ctx, http.MethodGet, "/v1/status", nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return data, nil
}

// send carries out a request beside the commands.
func (r *remoteFacts) send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	res, err := r.http.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			err = fault.Wrap(fault.Unavailable, err, "the server can't be reached")
		}
		return nil, err
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	err = errors.Join(err, res.Body.Close())
	if p, ok := wire.DecodeProblem(data); ok {
		return nil, p.Err()
	}
	return nil, errors.Join(fmt.Errorf("the server answered %s", res.Status), err)
}
