package oidc

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/time/rate"

	"agentd/fault"
	"agentd/internal/netaddr"
	"agentd/server"
)

// LoginOptions say how people log in to the console at the provider.
type LoginOptions struct {
	// ClientID is the console's id at the provider, which has to be [Options.Console], too.
	ClientID string
	// Secret returns the client's secret; nil for a public client. It is asked at each login,
	// so that a secret can be replaced.
	Secret func() (string, error)
	// Scopes are what is asked for. They have to contain openid; default openid, profile and email.
	Scopes []string
	// Name is what people call the provider. It defaults to the issuer's host.
	Name string
}

// Login is a [server.LoginProvider]: the authorization code flow with PKCE. The ID token is
// what the provider's answer is good for; nothing else of it is kept.
type Login struct {
	auth   *Authenticator
	opt    LoginOptions
	client *http.Client
}

// Whoever begins a login can have the provider asked about a code.
const (
	loginsPerSecond = 10
	loginsAtOnce    = 50
)

var _ server.LoginProvider = (*Login)(nil)

// NewLogin returns the login at the provider of an authenticator.
func (a *Authenticator) NewLogin(opt LoginOptions) *Login {
	if len(opt.Scopes) == 0 {
		opt.Scopes = []string{"openid", "profile", "email"}
	}
	if opt.Name == "" {
		opt.Name = a.opt.Issuer
		if u, err := url.Parse(a.opt.Issuer); err == nil && u.Host != "" {
			opt.Name = u.Host
		}
	}
	return &Login{auth: a, opt: opt, client: &http.Client{
		Timeout:   askTimeout,
		Transport: &bounded{next: http.DefaultTransport, limit: rate.NewLimiter(loginsPerSecond, loginsAtOnce)},
		// A code and a secret go to the address that the provider names, and to no other.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Name implements [server.LoginProvider].
func (l *Login) Name() string { return l.opt.Name }

// LoginURL implements [server.LoginProvider].
func (l *Login) LoginURL(ctx context.Context, a server.LoginAttempt) (string, error) {
	p, err := l.auth.reachProvider(ctx)
	if err != nil {
		return "", err
	}
	return withQuery(p.AuthURL, url.Values{
		"response_type": {"code"}, "client_id": {l.opt.ClientID}, "redirect_uri": {a.RedirectURL}, "scope": {strings.Join(l.opt.Scopes, " ")},
		"state": {a.State}, "nonce": {a.Nonce}, "code_challenge": {a.Challenge()}, "code_challenge_method": {"S256"},
	})
}

// LogoutURL implements [server.LoginProvider].
func (l *Login) LogoutURL(ctx context.Context) (string, error) {
	p, err := l.auth.reachProvider(ctx)
	if err != nil || p.LogoutURL == "" {
		return "", err
	}
	return withQuery(p.LogoutURL, url.Values{"client_id": {l.opt.ClientID}})
}

// withQuery adds parameters to an address of the provider's, which may have some.
func withQuery(address string, add url.Values) (string, error) {
	u, err := checkEndpoint(address)
	if err != nil {
		return "", err
	}
	query := u.Query()
	maps.Copy(query, add)
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// checkEndpoint refuses an address at which others could listen in, and what is none.
func checkEndpoint(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "https" && (u.Scheme != "http" || !netaddr.LoopbackHost(u.Hostname()))) {
		return nil, &server.LoginError{Reason: server.LoginRefused, Err: fmt.Errorf("the provider names %q as one of its addresses, which is not https", address)}
	}
	return u, nil
}

// Redeem implements [server.LoginProvider].
func (l *Login) Redeem(ctx context.Context, a server.LoginAttempt, back server.LoginAnswer) (string, error) {
	p, err := l.auth.reachProvider(ctx)
	if err != nil {
		return "", err
	}
	if issuer := l.auth.opt.Issuer; back.Issuer != issuer && (back.Issuer != "" || p.NamesSelf) {
		return "", &server.LoginError{Reason: server.LoginToken, Err: errors.New("the answer is of another issuer (iss)")}
	}
	token, err := l.requestToken(ctx, p, a, back.Code)
	if err != nil {
		return "", err
	}
	t, err := l.auth.verify(ctx, p, token, l.opt.ClientID)
	if err != nil {
		return "", err
	}
	var claims struct {
		AuthorizedParty string `json:"azp"`
	}
	switch err := t.Claims(&claims); {
	case err != nil:
		return "", &server.LoginError{Reason: server.LoginToken, Err: fmt.Errorf("the claims of the token: %w", err)}
	case subtle.ConstantTimeCompare([]byte(t.Nonce), []byte(a.Nonce)) != 1:
		return "", &server.LoginError{Reason: server.LoginToken, Err: errors.New("the token belongs to another login (nonce)")}
	case claims.AuthorizedParty != "" && claims.AuthorizedParty != l.opt.ClientID:
		return "", &server.LoginError{Reason: server.LoginToken, Err: errors.New("the token was given to another client (azp)")}
	}
	return token, nil
}

// requestToken exchanges a code for an ID token.
func (l *Login) requestToken(ctx context.Context, p *provider, a server.LoginAttempt, code string) (string, error) {
	if _, err := checkEndpoint(p.TokenURL); err != nil {
		return "", err
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {a.RedirectURL}, "code_verifier": {a.Verifier}, "client_id": {l.opt.ClientID}}
	secret := ""
	if l.opt.Secret != nil {
		var err error
		if secret, err = l.opt.Secret(); err != nil {
			return "", &server.LoginError{Reason: server.LoginClient, Err: err}
		}
	}
	// Where a provider doesn't say how it takes secrets, it is in the header.
	inBody := len(p.SecretSent) > 0 && !slices.Contains(p.SecretSent, "client_secret_basic")
	if secret != "" && inBody {
		form.Set("client_secret", secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return "", &server.LoginError{Reason: server.LoginFailed, Err: err}
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if secret != "" && !inBody {
		req.SetBasicAuth(url.QueryEscape(l.opt.ClientID), url.QueryEscape(secret))
	}
	res, err := l.client.Do(req)
	if err != nil {
		return "", fault.Wrap(fault.Unavailable, err, "%s can't be reached", l.opt.Name)
	}
	defer func() { _ = res.Body.Close() }() // it was read
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return "", fault.Wrap(fault.Unavailable, err, "%s broke its answer off", l.opt.Name)
	}
	return readTokenAnswer(res.StatusCode, body)
}

// readTokenAnswer returns the ID token of an answer. No part of the answer but its error code
// gets into an error: there may be tokens in it.
func readTokenAnswer(status int, body []byte) (string, error) {
	var answer struct {
		IDToken string `json:"id_token"`
		Error   string `json:"error"`
	}
	readable := json.Unmarshal(body, &answer) == nil
	switch {
	case status >= http.StatusInternalServerError || status == http.StatusTooManyRequests:
		return "", &server.LoginError{Reason: server.LoginAway, Err: fmt.Errorf("the provider answered the code with status %d", status)}
	case answer.Error == "invalid_grant":
		return "", &server.LoginError{Reason: server.LoginUsed, Err: errors.New("the provider answered the code with invalid_grant")}
	case answer.Error == "invalid_client" || answer.Error == "unauthorized_client" || status == http.StatusUnauthorized:
		return "", &server.LoginError{Reason: server.LoginClient, Err: errors.New("the provider doesn't accept the client id, or its secret")}
	case answer.Error != "" || status != http.StatusOK || !readable:
		said := ""
		if answer.Error != "" {
			said = ": " + server.ErrorCode(answer.Error)
		}
		return "", &server.LoginError{Reason: server.LoginRefused, Err: fmt.Errorf("the provider answered the code with status %d%s", status, said)}
	case answer.IDToken == "":
		return "", &server.LoginError{Reason: server.LoginToken, Err: errors.New("the provider gave no id_token; the client there must be allowed the scope openid")}
	}
	return answer.IDToken, nil
}
