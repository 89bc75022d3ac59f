package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"html"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode"

	"agentd/fault"
)

// This file logs browsers in at an identity provider: the authorization code flow with PKCE,
// state and nonce. Whatever belongs to one attempt is in a sealed cookie of the browser that
// makes it, so any server with the same key can finish what another one began, and an answer
// of the provider is of no use in another browser.

// Addresses of the flow.
const (
	loginAtProvider  = consolePath + "oidc/login"
	logoutAtProvider = consolePath + "oidc/logout"
	// CallbackPath is where the provider sends browsers back to.
	CallbackPath = consolePath + "oidc/callback"
	loginPage    = consolePath + "login"
)

const (
	// attemptFor is how long a person may take to log in at the provider.
	attemptFor = 10 * time.Minute
	// maxAttempts is how many logins of one browser wait for the provider.
	maxAttempts = 4
	// maxReturn bounds the address of the page to return to, which is in a cookie meanwhile.
	maxReturn = 1500
	// maxCode and maxState bound what comes back.
	maxCode, maxState = 8 << 10, 128
)

// LoginProvider is an identity provider as the console's login needs it.
type LoginProvider interface {
	// Name is what people call it.
	Name() string
	// LoginURL returns the address at the provider that an attempt begins with.
	LoginURL(ctx context.Context, a LoginAttempt) (string, error)
	// Redeem returns the token for what the provider sent the browser back with. The
	// server's Auth has to know it. Its errors are a [LoginError], or faults.
	Redeem(ctx context.Context, a LoginAttempt, back LoginAnswer) (string, error)
	// LogoutURL returns the address at the provider at which people end their login there;
	// empty if it has none.
	LogoutURL(ctx context.Context) (string, error)
}

// LoginAttempt is what binds an attempt to one browser and to one answer.
type LoginAttempt struct {
	// State comes back with the browser, Nonce inside of the token; Verifier is PKCE's.
	State, Nonce, Verifier string
	// RedirectURL is where the browser comes back to.
	RedirectURL string
}

// Challenge is PKCE's, S256.
func (a *LoginAttempt) Challenge() string {
	sum := sha256.Sum256([]byte(a.Verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// LoginAnswer is what a provider sends a browser back with.
type LoginAnswer struct {
	Code string
	// Issuer is the parameter iss, empty if there is none.
	Issuer string
}

// sealedAttempt is what the cookie of an attempt holds.
type sealedAttempt struct {
	LoginAttempt
	// Return is the page to return to, Until when the attempt ends, in seconds since 1970.
	Return string
	Until  int64
}

// attemptCookie is the name of the cookie of an attempt. Each has its own, so that two tabs can log in beside
// each other.
func attemptCookie(r *http.Request, state string) string {
	sum := sha256.Sum256([]byte(state))
	return "agentd_oidc" + portSuffix(r) + "_" + hex.EncodeToString(sum[:6])
}

// serveLogins answers GET /ui/logins: how one can log in beside with a token, and what a reason means for which a
// login failed.
func (s *Server) serveLogins(w http.ResponseWriter, r *http.Request, _ *request) error {
	type provider struct {
		Name string `json:"name"`
		Path string `json:"path"`
	}
	var out struct {
		Provider *provider `json:"provider,omitempty"`
		Problem  string    `json:"problem,omitempty"`
	}
	if p := s.opt.Console.Provider; p != nil {
		out.Provider = &provider{p.Name(), loginAtProvider}
		out.Problem = LoginReason(r.URL.Query().Get("failed")).sentence(p.Name())
	}
	return writeJSON(w, mustMarshal(out))
}

// provider returns the identity provider, or why there is nothing to do.
func (s *Server) provider() (LoginProvider, error) {
	if p := s.opt.Console.Provider; p != nil {
		return p, nil
	}
	return nil, fault.New(fault.NotFound, "this server has no identity provider for the console; log in with a token")
}

// serveProviderLogin answers GET /ui/oidc/login: to the provider.
func (s *Server) serveProviderLogin(w http.ResponseWriter, r *http.Request, q *request) error {
	p, err := s.provider()
	if err != nil {
		return err
	}
	if dest := r.Header.Get("Sec-Fetch-Dest"); dest != "" && dest != "document" {
		return fault.New(fault.Forbidden, "only a page can log in")
	}
	to := returnPath(r.URL.Query().Get("return"))
	back := s.opt.Console.RedirectURL
	if back == "" {
		back = schemeOf(r) + "://" + r.Host + CallbackPath
	} else if u, err := url.Parse(back); err == nil && !strings.EqualFold(u.Host, r.Host) && !r.URL.Query().Has("there") {
		// The provider leads back to that name, where the cookie of this one isn't sent.
		u.Path, u.RawQuery = loginAtProvider, url.Values{"return": {to}, "there": {""}}.Encode()
		redirectAway(w, u.String())
		return nil
	}
	a := sealedAttempt{LoginAttempt{rand.Text(), rand.Text(), rand.Text() + rand.Text(), back}, to, time.Now().Add(attemptFor).Unix()}
	at, err := p.LoginURL(r.Context(), a.LoginAttempt)
	if err != nil {
		return s.failLogin(w, r, q, p, err)
	}
	dropAttempts(w, r)
	http.SetCookie(w, attemptCookieOf(r, &a, s.browsers.attempts.close(a), int(attemptFor/time.Second)))
	redirectAway(w, at)
	return nil
}

// redirectAway sends a browser to an address that we chose.
func redirectAway(w http.ResponseWriter, to string) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// attemptCookieOf is the cookie of an attempt; a negative age removes it. The provider's answer is a navigation from
// another site, with which only a lax cookie is sent.
func attemptCookieOf(r *http.Request, a *sealedAttempt, value string, age int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure where the browser speaks TLS
		Name: attemptCookie(r, a.State), Value: value, Path: consolePath + "oidc/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: isSecure(r, a),
	}
}

// isSecure reports whether the browser speaks TLS, to us or to a proxy before us.
func isSecure(r *http.Request, a *sealedAttempt) bool {
	return r.TLS != nil || strings.HasPrefix(a.RedirectURL, "https://")
}

// dropAttempts takes the cookies of earlier attempts away when there are many.
func dropAttempts(w http.ResponseWriter, r *http.Request) {
	var old []string
	for _, c := range r.Cookies() {
		if strings.HasPrefix(c.Name, "agentd_oidc"+portSuffix(r)+"_") {
			old = append(old, c.Name)
		}
	}
	if len(old) < maxAttempts {
		return
	}
	for _, name := range old {
		http.SetCookie(w, &http.Cookie{Name: name, Path: consolePath + "oidc/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: r.TLS != nil}) //nolint:gosec // Secure where the browser speaks TLS
	}
}

// serveProviderCallback answers GET /ui/oidc/callback, where the provider sends browsers: a login, or why there is
// none. It answers with a page that moves on and not with a redirection: the browser would count that as one
// of the provider's site, and not send the cookie of the login.
func (s *Server) serveProviderCallback(w http.ResponseWriter, r *http.Request, q *request) error {
	p, err := s.provider()
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead { // it has no page to move on from, and a code is used once
		return nil
	}
	a, err := s.finishAttempt(w, r)
	if err != nil {
		return s.failLogin(w, r, q, p, err)
	}
	back, err := readLoginAnswer(r.URL.Query())
	if err != nil {
		return s.failLogin(w, r, q, p, err)
	}
	token, err := p.Redeem(r.Context(), a.LoginAttempt, back)
	if err != nil {
		return s.failLogin(w, r, q, p, err)
	}
	if _, err := s.enterBrowser(w, r, token, true, isSecure(r, a)); err != nil {
		return s.failLogin(w, r, q, p, err)
	}
	return writeMovingPage(w, http.StatusOK, "You are logged in.", a.Return)
}

// finishAttempt returns the attempt that the browser comes back from, and takes its cookie
// away: it is good for one answer.
func (s *Server) finishAttempt(w http.ResponseWriter, r *http.Request) (*sealedAttempt, error) {
	state := r.URL.Query().Get("state")
	if state == "" || len(state) > maxState {
		return nil, &LoginError{LoginForeign, errors.New("no state came back")}
	}
	sent := r.CookiesNamed(attemptCookie(r, state))
	a := &sealedAttempt{}
	if len(sent) == 0 || !s.browsers.attempts.open(sent[0].Value, a) || subtle.ConstantTimeCompare([]byte(a.State), []byte(state)) != 1 {
		return nil, &LoginError{LoginForeign, errors.New("the state is not one of this browser")}
	}
	http.SetCookie(w, attemptCookieOf(r, a, "", -1))
	if time.Now().Unix() >= a.Until {
		return nil, &LoginError{LoginLate, errors.New("the login was begun too long ago")}
	}
	return a, nil
}

// readLoginAnswer reads what the provider says in the address.
func readLoginAnswer(q url.Values) (LoginAnswer, error) {
	switch said := q.Get("error"); {
	case said == "access_denied":
		return LoginAnswer{}, &LoginError{LoginDenied, errors.New("the provider answered access_denied")}
	case said != "":
		return LoginAnswer{}, &LoginError{LoginRefused, errors.New("the provider answered " + ErrorCode(said))}
	}
	back := LoginAnswer{Code: q.Get("code"), Issuer: q.Get("iss")}
	if back.Code == "" || len(back.Code) > maxCode {
		return back, &LoginError{LoginRefused, errors.New("the provider answered without a code")}
	}
	return back, nil
}

// ErrorCode returns an error code of OAuth as it may be logged; what isn't one could be anything.
func ErrorCode(said string) string {
	if said == "" || len(said) > 64 || strings.ContainsFunc(said, func(r rune) bool { return r != '_' && r != '-' && (r < 'a' || r > 'z') }) {
		return "an error that has no known form"
	}
	return said
}

// stillLogged is said to who logged out here, and not at the provider.
type stillLogged struct {
	Provider string `json:"provider"`
	// Path leads to where the login there is ended; empty if the provider names no such place.
	Path string `json:"path,omitempty"`
}

func (s *Server) stillLoggedIn(ctx context.Context) stillLogged {
	p := s.opt.Console.Provider
	out := stillLogged{Provider: p.Name()}
	if to, err := p.LogoutURL(ctx); err == nil && to != "" {
		out.Path = logoutAtProvider
	}
	return out
}

// serveProviderLogout answers GET /ui/oidc/logout: to where the provider ends its login. It is given no token,
// so it asks the person first.
func (s *Server) serveProviderLogout(w http.ResponseWriter, r *http.Request, _ *request) error {
	p, err := s.provider()
	if err != nil {
		return err
	}
	to, err := p.LogoutURL(r.Context())
	if err != nil {
		return err
	}
	if to == "" {
		return fault.New(fault.NotFound, "%s names no address at which a login is ended; log out there", p.Name())
	}
	redirectAway(w, to)
	return nil
}

// returnPath returns the page to return to: a path of the console, whatever was asked for.
func returnPath(asked string) string {
	u, err := url.Parse(asked)
	if err != nil || len(asked) > maxReturn || strings.Contains(asked, `\`) || strings.ContainsFunc(asked, unicode.IsControl) ||
		u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || path.Clean(u.Path)+"/" != strings.TrimSuffix(u.Path, "/")+"/" ||
		!strings.HasPrefix(u.Path, consolePath) || strings.HasPrefix(u.Path, consolePath+"oidc/") || u.Path == loginPage {
		return consolePath
	}
	return (&url.URL{Path: u.Path, RawQuery: u.RawQuery, Fragment: u.Fragment}).String()
}

// writeMovingPage answers with a page that says something and moves on at once.
func writeMovingPage(w http.ResponseWriter, status int, says, to string) error {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	keepSecret(w, true)
	to = html.EscapeString(to)
	return writeBody(w, status, []byte(`<!doctype html><html lang="en"><meta charset="utf-8"><title>agentd</title>`+
		`<meta http-equiv="refresh" content="0; url=`+to+`"><p>`+html.EscapeString(says)+` <a href="`+to+`">Go on</a></p></html>`+"\n"))
}
