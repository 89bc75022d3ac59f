package server

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"agentd/command"
	"agentd/fault"
)

// consolePath is where the console is.
const consolePath = "/ui/"

// consoleRoutes are the console's addresses.
func (s *Server) consoleRoutes() []route {
	if s.opt.Console == nil || s.opt.Console.Files == nil {
		return nil
	}
	return []route{
		{http.MethodPost, consolePath + "login", true, s.serveLogin},
		{http.MethodPost, consolePath + "logout", true, s.serveLogout},
		{http.MethodPost, consolePath + "link", false, s.serveLoginLink},
		{http.MethodGet, consolePath + "logins", true, s.serveLogins},
		{http.MethodGet, loginAtProvider, true, s.serveProviderLogin},
		{http.MethodGet, CallbackPath, true, s.serveProviderCallback},
		{http.MethodGet, logoutAtProvider, true, s.serveProviderLogout},
		{http.MethodGet, "/ui", true, s.serveConsole},
		{http.MethodGet, consolePath, true, s.serveConsole},
		{http.MethodGet, consolePath + "{path...}", true, s.serveConsole},
	}
}

// serveConsole answers GET below /ui/ with the console's own files, for anyone.
func (s *Server) serveConsole(w http.ResponseWriter, r *http.Request, _ *request) error {
	if r.URL.Path == "/ui" {
		http.Redirect(w, r, consolePath, http.StatusPermanentRedirect)
		return nil
	}
	s.opt.Console.Files.ServeHTTP(w, r)
	return nil
}

// callerRead is who a caller is, in their own eyes.
type callerRead struct {
	Name      string       `json:"name"`
	Role      command.Role `json:"role"`
	Account   string       `json:"account,omitempty"`
	ExpiresAt time.Time    `json:"expiresAt,omitzero"`
}

func (id *Identity) read() callerRead {
	return callerRead{id.Name, id.Role, id.Account, id.Expires.UTC()}
}

// serveLogin answers POST /ui/login: a token, or the code of a link, for a cookie.
func (s *Server) serveLogin(w http.ResponseWriter, r *http.Request, _ *request) error {
	// Who is logged in by another page sees that page's sessions as their own.
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return fault.New(fault.Forbidden, "only the console's own page can log in")
	}
	in, err := readLogin(w, r)
	if err != nil {
		return err
	}
	token := strings.TrimSpace(in.Token)
	if in.Code != "" {
		if token, err = s.browsers.useLink(r.Context(), in.Code); err != nil {
			return err
		}
	}
	if token == "" {
		return fault.Param("token", "is missing")
	}
	id, err := s.enterBrowser(w, r, token, false, overTLS(r))
	if err != nil {
		return err
	}
	return writeJSON(w, mustMarshal(id.read()))
}

// enterBrowser logs a browser in with a token: elsewhere says that the provider gave it,
// secure that the browser speaks TLS.
func (s *Server) enterBrowser(w http.ResponseWriter, r *http.Request, token string, elsewhere, secure bool) (Identity, error) {
	if s.opt.Auth == nil || len(token) > maxToken {
		return Identity{}, errBadToken
	}
	id, err := s.opt.Auth.Authenticate(r.Context(), token)
	if err != nil {
		return Identity{}, err
	}
	until := time.Now().Add(loginFor)
	if !id.Expires.IsZero() && id.Expires.Before(until) {
		until = id.Expires
	}
	s.leaveLogin(r) // the new cookie takes the place of the old one
	s.setLogin(w, r, sealedLogin{Token: token, Until: until.Unix(), Elsewhere: elsewhere}, secure)
	return id, nil
}

// overTLS reports whether the browser speaks TLS, to us or to a proxy before us.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://")
}

// loginBody is what a browser logs in with.
type loginBody struct {
	Token string `json:"token"`
	Code  string `json:"code"`
}

// readLogin reads a login as JSON or as a form.
func readLogin(w http.ResponseWriter, r *http.Request) (in loginBody, err error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLoginBody))
	if err != nil {
		return in, fault.Wrap(fault.InvalidParams, err, "the body can't be read, or is longer than %s", sizeWord(maxLoginBody))
	}
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if media == "application/x-www-form-urlencoded" {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return in, fault.New(fault.InvalidParams, "the form can't be read")
		}
		return loginBody{form.Get("token"), form.Get("code")}, nil
	}
	if media != "application/json" && media != "" {
		return in, fault.New(fault.UnsupportedMedia, "the body must be application/json or a form")
	}
	if json.Unmarshal(body, &in) != nil {
		return in, fault.New(fault.InvalidParams, `the body must be {"token": "…"}`)
	}
	return in, nil
}

// serveLogout answers POST /ui/logout. It needs no good login: one that has ended can be left, too.
// Who logged in at the provider is told that their login there goes on.
func (s *Server) serveLogout(w http.ResponseWriter, r *http.Request, _ *request) error {
	if err := checkSameOrigin(r); err != nil {
		return err
	}
	l := s.leaveLogin(r)
	clearLogin(w, r)
	if l.Elsewhere && s.opt.Console.Provider != nil {
		return writeJSON(w, mustMarshal(s.stillLoggedIn(r.Context())))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// serveLoginLink answers POST /ui/link: a path that logs a browser in once, with
// the caller's token. The code is in the fragment, which no server and no log sees.
func (s *Server) serveLoginLink(w http.ResponseWriter, r *http.Request, q *request) error {
	code, until, err := s.browsers.addLink(r.Context(), q.login.TokenID, q.login.token)
	if err != nil {
		return err
	}
	keepSecret(w, true)
	return writeJSON(w, mustMarshal(struct {
		Path      string    `json:"path"`
		ExpiresAt time.Time `json:"expiresAt"`
	}{consolePath + "login#" + code, until}))
}
