package oidc

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/time/rate"

	"agentd/fault"
)

// This file has how the provider is asked. Anyone can send tokens, and the provider may be down or
// slow to answer. So one question serves all who wait, none is asked while the last answer is
// fresh, and after a failure the next one waits.

const (
	asksPerSecond = 1
	asksAtOnce    = 5
	askTimeout    = 10 * time.Second
	maxAnswer     = 1 << 20
	// askedEvery is how long what the provider said is used without asking again: a key that it
	// took back is good for no longer. New keys are asked for when they are met.
	askedEvery = time.Hour
	// keptFor is how long that is used while the provider can't be asked.
	keptFor = 24 * time.Hour
	// pauseFor is how long the provider is left alone after it failed.
	pauseFor = 5 * time.Second
	// patience is how long who could use an earlier answer waits for a newer one.
	patience = time.Second
)

// algorithms are those by which providers sign. All are asymmetric: a public key is no secret.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// provider is what an identity provider says of itself.
type provider struct {
	verifier *oidc.IDTokenVerifier
	metadata
}

// metadata is the part of it that is used here.
type metadata struct {
	Keys       string   `json:"jwks_uri"`
	Algorithms []string `json:"id_token_signing_alg_values_supported"`
	AuthURL    string   `json:"authorization_endpoint"`
	TokenURL   string   `json:"token_endpoint"`
	LogoutURL  string   `json:"end_session_endpoint"`
	SecretSent []string `json:"token_endpoint_auth_methods_supported"`
	NamesSelf  bool     `json:"authorization_response_iss_parameter_supported"`
}

// asking is one question to the provider, for all who wait for the answer.
type asking struct {
	began time.Time
	done  chan struct{}
	// found and err are the answer, once done is closed.
	found *provider
	err   error
}

// reachProvider returns what the provider says of itself, and has it asked now and then.
func (a *Authenticator) reachProvider(ctx context.Context) (*provider, error) {
	a.mu.Lock()
	known, age := a.known, a.opt.Clock().Sub(a.asked)
	if known != nil && age < askedEvery {
		a.mu.Unlock()
		return known, nil
	}
	now := a.asking
	if now == nil {
		now = &asking{began: time.Now(), done: make(chan struct{})}
		a.asking = now
		go a.askProvider(context.WithoutCancel(ctx), now)
	}
	a.mu.Unlock()
	usable := known != nil && age < keptFor
	var late <-chan time.Time
	if usable {
		late = time.After(patience - time.Since(now.began))
	}
	select {
	case <-now.done:
	case <-late:
		return known, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if now.err != nil && usable {
		return known, nil
	}
	return now.found, now.err
}

// askProvider has the answer to a question, and keeps it if it is good.
func (a *Authenticator) askProvider(ctx context.Context, q *asking) {
	asked := a.opt.Clock()
	q.found, q.err = a.discover(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if q.err == nil {
		a.known, a.asked = q.found, asked
	}
	a.asking = nil
	close(q.done)
}

// discover asks the provider for everything that is needed to check its tokens. One that
// doesn't tell its keys has said nothing.
func (a *Authenticator) discover(ctx context.Context) (*provider, error) {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, &http.Client{Transport: a.asker}), a.opt.Issuer)
	p := &provider{}
	if err == nil {
		err = found.Claims(&p.metadata)
	}
	signs := slices.DeleteFunc(p.Algorithms, func(name string) bool { return !slices.Contains(algorithms, name) })
	set := keys{oidc.NewRemoteKeySet(oidc.ClientContext(ctx, &http.Client{Transport: &onDemand{next: a.asker, limit: a.limit}}), p.Keys)}
	if err == nil {
		err = set.fetchAll(ctx)
	}
	if err != nil {
		a.asker.pause(err)
		return nil, a.away(err)
	}
	// Who a token is meant for is checked in verify, because there may be two.
	p.verifier = oidc.NewVerifier(a.opt.Issuer, set, &oidc.Config{SkipClientIDCheck: true, SupportedSigningAlgs: signs, Now: a.opt.Clock})
	return p, nil
}

// away says that the provider can't be asked, and when it may be.
func (a *Authenticator) away(err error) error {
	f := fault.Wrap(fault.Unavailable, err, "%s can't be asked whether the token is good; try again later, or use a token of this server", a.opt.Issuer)
	f.RetryAfter = pauseFor
	if e, ok := errors.AsType[*awayError](err); ok {
		f.RetryAfter = e.after
	}
	return f
}

// keys are the provider's. The error of a token doesn't say whether they could be asked for, so
// that is noted in a context of [noteAway].
type keys struct{ oidc.KeySet }

// VerifySignature implements [oidc.KeySet].
func (k keys) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.KeySet.VerifySignature(ctx, jwt)
	if note, ok := ctx.Value(awayKey{}).(*error); ok && isAway(err) {
		*note = err
	}
	return payload, err
}

// fetchAll has the keys fetched, by a token that none of them signed.
func (k keys) fetchAll(ctx context.Context) error {
	const unsigned = "eyJhbGciOiJSUzI1NiJ9.e30.AA"
	if _, err := k.KeySet.VerifySignature(ctx, unsigned); isAway(err) {
		return err
	}
	return nil
}

type awayKey struct{}

// noteAway returns a context in which it is noted that keys could not be asked for.
func noteAway(ctx context.Context) (noting context.Context, away *error) {
	away = new(error)
	return context.WithValue(ctx, awayKey{}, away), away
}

// checkClaim refuses a token that doesn't even claim to be a valid one of the provider's, without
// asking the provider.
func (a *Authenticator) checkClaim(token string) error {
	var header struct {
		Algorithm string `json:"alg"`
	}
	var claims struct {
		Issuer string  `json:"iss"`
		Expiry float64 `json:"exp"`
	}
	parts := strings.Split(token, ".")
	err := errors.Join(readPart(parts[0], &header), readPart(parts[1], &claims))
	switch {
	case err != nil:
	case !slices.Contains(algorithms, header.Algorithm):
		err = errors.New("no provider signs like that")
	case claims.Issuer != a.opt.Issuer && "https://"+claims.Issuer != a.opt.Issuer: // Google leaves it out
		err = errors.New("it is of another provider")
	case time.Unix(int64(claims.Expiry), 0).Before(a.opt.Clock()):
		return a.expired(time.Unix(int64(claims.Expiry), 0))
	}
	if err != nil {
		return a.refuse(err, a.opt.Audience)
	}
	return nil
}

// readPart reads a part of a token.
func readPart(part string, into any) error {
	data, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// asker asks a provider: for whole answers, in time, and not at all for a while after it failed.
type asker struct {
	next  http.RoundTripper
	clock func() time.Time

	mu     sync.Mutex
	failed error
	until  time.Time
}

// awayError says that a provider couldn't be asked, and when it may be.
type awayError struct {
	after time.Duration
	err   error
}

func (e *awayError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *awayError) Unwrap() error { return e.err }

func isAway(err error) bool {
	_, away := errors.AsType[*awayError](err)
	return away
}

// RoundTrip implements [http.RoundTripper]. The time that an answer may take is limited here,
// as an [http.Client] that does it hides the error.
func (k *asker) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := k.pausing(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	res, err := k.next.RoundTrip(r.WithContext(ctx))
	var answer []byte
	if err == nil {
		answer, err = io.ReadAll(res.Body)
		_ = res.Body.Close() // it was read
	}
	if err == nil && res.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("oidc: %s answered with status %d", r.URL, res.StatusCode)
	}
	if err != nil {
		k.pause(err)
		return nil, &awayError{pauseFor, err}
	}
	res.Body = io.NopCloser(bytes.NewReader(answer))
	return res, nil
}

// pause has the provider left alone because of an error, unless it is.
func (k *asker) pause(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.clock(); !now.Before(k.until) {
		k.failed, k.until = err, now.Add(pauseFor)
	}
}

// pausing says why the provider is left alone now, or returns nil.
func (k *asker) pausing() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if left := k.until.Sub(k.clock()); left > 0 {
		return &awayError{left, fmt.Errorf("oidc: it isn't asked again yet after: %w", k.failed)}
	}
	return nil
}

// onDemand bounds how often keys are asked for because of tokens, which anyone can make up. The
// first time is part of what the provider is asked about itself.
type onDemand struct {
	next  http.RoundTripper
	limit *rate.Limiter
	begun atomic.Bool
}

// RoundTrip implements [http.RoundTripper].
func (d *onDemand) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.begun.Swap(true) && !d.limit.Allow() {
		return nil, &awayError{time.Second, errTooOften}
	}
	return d.next.RoundTrip(r)
}

var errTooOften = errors.New("asked too often")

// bounded bounds how often a provider is asked, and how much it may answer.
type bounded struct {
	next  http.RoundTripper
	limit *rate.Limiter
}

// RoundTrip implements [http.RoundTripper].
func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if !b.limit.Allow() {
		return nil, errTooOften
	}
	res, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("oidc: %w", err)
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxAnswer), res.Body}
	return res, nil
}
