package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentd/fault"
	"agentd/server"
)

// loginPlace is an identity provider whose codes are the tokens of the tests.
type loginPlace struct {
	url string
	err error
}

func (*loginPlace) Name() string { return "Example" }

func (e *loginPlace) LoginURL(_ context.Context, a server.LoginAttempt) (string, error) {
	return "https://login.example/authorize?state=" + a.State + "&back=" + url.QueryEscape(a.RedirectURL), e.err
}

func (*loginPlace) Redeem(_ context.Context, a server.LoginAttempt, back server.LoginAnswer) (string, error) {
	if a.Nonce == "" || len(a.Verifier) < 43 || back.Code == "used" {
		return "", &server.LoginError{Reason: server.LoginUsed, Err: errors.New("invalid_grant")}
	}
	return back.Code, nil
}

func (e *loginPlace) LogoutURL(context.Context) (string, error) { return e.url, e.err }

// visitor is a browser that follows nothing by itself, and keeps cookies as one does that ends them in time.
type visitor struct {
	t       *testing.T
	handler http.Handler
	host    string
	cookies map[string]*http.Cookie
}

func newVisitor(t *testing.T, p server.LoginProvider, change func(*server.Console)) (*visitor, *tokens) {
	t.Helper()
	known := newTokens()
	c := &server.Console{Key: []byte("key"), Provider: p, Files: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") })}
	if change != nil {
		change(c)
	}
	s := server.New(newFake(), &server.Options{Auth: known, Console: c, AllowedHosts: []string{"agents.example", "other.example"}})
	return &visitor{t, s.Handler(), "agents.example", map[string]*http.Cookie{}}, known
}

// visited is an answer that was read.
type visited struct {
	code   int
	header http.Header
	body   string
}

// visit asks for an address with the cookies that were given.
func (v *visitor) visit(method, address string, headers ...string) visited {
	v.t.Helper()
	req := httptest.NewRequestWithContext(v.t.Context(), method, address, http.NoBody)
	req.Host = v.host
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	for _, c := range v.cookies {
		if c.Expires.IsZero() || time.Now().Before(c.Expires) {
			req.AddCookie(c)
		}
	}
	w := httptest.NewRecorder()
	v.handler.ServeHTTP(w, req)
	for _, c := range (&http.Response{Header: w.Header()}).Cookies() {
		if c.MaxAge < 0 {
			delete(v.cookies, c.Name)
			continue
		}
		v.cookies[c.Name] = c
	}
	return visited{w.Code, w.Header(), w.Body.String()}
}

// begin begins a login and returns its state.
func (v *visitor) begin(query string) string {
	v.t.Helper()
	res := v.visit(http.MethodGet, "/ui/oidc/login"+query)
	to, err := url.Parse(res.header.Get("Location"))
	if err != nil || res.code != http.StatusSeeOther || to.Host != "login.example" {
		v.t.Fatalf("%d to %v, %v", res.code, to, err)
	}
	return to.Query().Get("state")
}

// finish comes back, and returns the status and where the page moves on to.
func (v *visitor) finish(query string) (status int, to, page string) {
	v.t.Helper()
	res := v.visit(http.MethodGet, "/ui/oidc/callback?"+query)
	_, rest, _ := strings.Cut(res.body, `content="0; url=`)
	to, _, _ = strings.Cut(rest, `"`)
	if csp := res.header.Get("Content-Security-Policy"); strings.Contains(csp, "unsafe") || !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") {
		v.t.Errorf("policy %q", csp)
	}
	if res.header.Get("Cache-Control") != "no-store" || res.header.Get("Referrer-Policy") != "no-referrer" {
		v.t.Errorf("headers %v", res.header)
	}
	return res.code, to, res.body
}

func (v *visitor) status() int { return v.visit(http.MethodGet, "/v1/status").code }

func TestLoginAtAProvider(t *testing.T) {
	v, _ := newVisitor(t, &loginPlace{url: "https://login.example/logout"}, nil)
	state := v.begin("?return=" + url.QueryEscape("/ui/s/sess_1?at=5#x"))
	for _, c := range v.cookies {
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/ui/oidc/" || c.MaxAge != 600 || strings.Contains(c.Value, state) {
			t.Errorf("cookie of the attempt: %v", c)
		}
	}
	status, to, _ := v.finish("code=client-token&state=" + state)
	if status != http.StatusOK || to != "/ui/s/sess_1?at=5#x" || v.status() != http.StatusOK {
		t.Fatalf("%d, to %q, then %d", status, to, v.status())
	}
	if len(v.cookies) != 1 || v.cookies["agentd_session"].SameSite != http.SameSiteStrictMode || !v.cookies["agentd_session"].HttpOnly {
		t.Errorf("cookies: %v", v.cookies)
	}
	if status, to, _ := v.finish("code=client-token&state=" + state); status != http.StatusBadRequest || to != "/ui/login?failed=state" {
		t.Errorf("the same answer again: %d, to %q", status, to)
	}
	res := v.visit(http.MethodPost, "/ui/logout", "Sec-Fetch-Site: same-origin")
	if !strings.Contains(res.body, `{"provider":"Example","path":"/ui/oidc/logout"}`) || len(v.cookies) != 0 {
		t.Errorf("logout: %d %s %v", res.code, res.body, v.cookies)
	}
	if res := v.visit(http.MethodGet, "/ui/oidc/logout"); res.header.Get("Location") != "https://login.example/logout" {
		t.Errorf("logout at the provider: %d %v", res.code, res.header)
	}
}

func TestLoginAtAProviderFails(t *testing.T) {
	for _, c := range []struct {
		name, query, reason string
		status              int
	}{
		{"denied", "error=access_denied&state=STATE", "denied", 403},
		{"another error", "error=server_error&error_description=a+b&state=STATE", "refused", 401},
		{"an error of no form", "error=%3Cscript%3E&state=STATE", "refused", 401},
		{"no code", "state=STATE", "refused", 401},
		{"a code that was used", "code=used&state=STATE", "code", 401},
		{"a token that is not known", "code=unknown&state=STATE", "token", 401},
		{"no state", "code=client-token", "state", 400},
		{"another state", "code=client-token&state=ABCDEFGHIJKLMNOPQRSTUVWXYZ", "state", 400},
		{"a long state", "code=client-token&state=" + strings.Repeat("x", 200), "state", 400},
		{"denied in another browser", "error=access_denied&state=other", "state", 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, _ := newVisitor(t, &loginPlace{}, nil)
			state := v.begin("")
			status, to, page := v.finish(strings.ReplaceAll(c.query, "STATE", state))
			if status != c.status || to != "/ui/login?failed="+c.reason || v.status() != http.StatusUnauthorized {
				t.Errorf("%d, to %q; then %d", status, to, v.status())
			}
			says := v.visit(http.MethodGet, "/ui/logins?failed="+c.reason).body
			if !strings.Contains(says, `"problem":"`) || strings.Contains(page, "script") {
				t.Errorf("the login page says %s, the page %s", says, page)
			}
		})
	}
}

// TestLoginOfAnotherBrowser: what the provider sent one browser back with is of no use in another.
func TestLoginOfAnotherBrowser(t *testing.T) {
	v, _ := newVisitor(t, &loginPlace{}, nil)
	state := v.begin("")
	mine := v.cookies
	v.cookies = map[string]*http.Cookie{}
	v.begin("")
	if status, to, _ := v.finish("code=admin-token&state=" + state); status != http.StatusBadRequest || to != "/ui/login?failed=state" || v.status() != http.StatusUnauthorized {
		t.Errorf("another browser: %d, to %q", status, to)
	}
	v.cookies = mine
	second := v.begin("") // in another tab
	for _, state := range []string{state, second} {
		if status, to, _ := v.finish("code=client-token&state=" + state); status != http.StatusOK || to != "/ui/" {
			t.Errorf("a tab: %d, to %q", status, to)
		}
	}
}

func TestLoginAtAProviderTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, known := newVisitor(t, &loginPlace{}, nil)
		known.ids["short"] = server.Identity{TokenID: "t9", Name: "ann", Role: "client", Account: "a", Expires: time.Now().Add(20 * time.Minute)}
		state := v.begin("")
		time.Sleep(9 * time.Minute)
		if status, to, _ := v.finish("code=short&state=" + state); status != http.StatusOK {
			t.Fatalf("in time: %d, to %q", status, to)
		}
		if v.status() != http.StatusOK {
			t.Error("the login doesn't count")
		}
		late := v.begin("")
		time.Sleep(10 * time.Minute)
		if status, to, _ := v.finish("code=short&state=" + late); status != http.StatusBadRequest || to != "/ui/login?failed=expired" {
			t.Errorf("late: %d, to %q", status, to)
		}
		time.Sleep(2 * time.Minute)
		if v.status() != http.StatusUnauthorized {
			t.Error("the login outlives its token")
		}
	})
}

// TestLoginReturnsToTheConsole: whatever a link asks for, one ends on a page of the console.
func TestLoginReturnsToTheConsole(t *testing.T) {
	v, _ := newVisitor(t, &loginPlace{}, nil)
	for asked, want := range map[string]string{
		"/ui/inbox": "/ui/inbox", "/ui/": "/ui/", "/ui/sessions?q=a+b&tag=x": "/ui/sessions?q=a+b&tag=x", "": "/ui/",
		`/ui/s/"onx=1`: "/ui/s/%22onx=1", "/ui/s/%3Cscript%3E": "/ui/s/%3Cscript%3E",
		"https://evil.example/ui/": "/ui/", "//evil.example/ui/": "/ui/", `/\evil.example`: "/ui/", `/ui/\..\x`: "/ui/", "/ui/../v1/status": "/ui/",
		"/ui//evil.example": "/ui/", "/ui/%2e%2e/x": "/ui/", "javascript:alert(1)": "/ui/", "/uix": "/ui/", "ui/inbox": "/ui/", "/v1/status": "/ui/",
		"/ui/oidc/login": "/ui/", "/ui/login": "/ui/", "/ui/a\nb": "/ui/", "/ui/" + strings.Repeat("x", 2000): "/ui/", "http:/ui/": "/ui/",
	} {
		state := v.begin("?return=" + url.QueryEscape(asked))
		if status, to, _ := v.finish("code=client-token&state=" + state); status != http.StatusOK || to != strings.ReplaceAll(want, "&", "&amp;") {
			t.Errorf("%q: %d, to %q, want %q", asked, status, to, want)
		}
	}
}

func TestLoginByAnotherName(t *testing.T) {
	const back = "https://agents.example/ui/oidc/callback"
	v, _ := newVisitor(t, &loginPlace{}, func(c *server.Console) { c.RedirectURL = back })
	v.host = "other.example"
	res := v.visit(http.MethodGet, "/ui/oidc/login?return=/ui/inbox")
	if to := res.header.Get("Location"); to != "https://agents.example/ui/oidc/login?return=%2Fui%2Finbox&there=" || len(v.cookies) != 0 {
		t.Errorf("%d to %s, %v", res.code, to, v.cookies)
	}
	v.begin("?there=") // a proxy that changes the name doesn't make it go round
	clear(v.cookies)
	v.host = "agents.example"
	state := v.begin("")
	if status, _, _ := v.finish("code=client-token&state=" + state); status != http.StatusOK || !v.cookies["agentd_session"].Secure {
		t.Errorf("behind a proxy with TLS: %d, %v", status, v.cookies)
	}
}

func TestLoginAtAProviderThatIsAway(t *testing.T) {
	v, _ := newVisitor(t, &loginPlace{err: fault.New(fault.Unavailable, "it is away")}, nil)
	res := v.visit(http.MethodGet, "/ui/oidc/login")
	if res.code != http.StatusServiceUnavailable || !strings.Contains(res.body, "/ui/login?failed=away") || len(v.cookies) != 0 {
		t.Errorf("%d %s", res.code, res.body)
	}
	if res := v.visit(http.MethodGet, "/ui/oidc/login", "Sec-Fetch-Dest: image"); res.code != http.StatusForbidden {
		t.Errorf("as an image: %d", res.code)
	}
	without, _ := newVisitor(t, nil, nil)
	for _, path := range []string{"/ui/oidc/login", "/ui/oidc/callback?state=x&code=y", "/ui/oidc/logout"} {
		if res := without.visit(http.MethodGet, path); res.code != http.StatusNotFound {
			t.Errorf("%s without a provider: %d", path, res.code)
		}
	}
	if body := without.visit(http.MethodGet, "/ui/logins?failed=away").body; body != "{}\n" {
		t.Errorf("without a provider: %s", body)
	}
}

// TestManyLoginsBegun: attempts that come to nothing don't fill the browser with cookies.
func TestManyLoginsBegun(t *testing.T) {
	v, _ := newVisitor(t, &loginPlace{}, nil)
	for range 20 {
		v.begin("")
	}
	if n := len(v.cookies); n > 5 {
		t.Errorf("%d cookies", n)
	}
}

// TestLoginWithALongToken: browsers drop a cookie of more than 4096 bytes.
func TestLoginWithALongToken(t *testing.T) {
	v, known := newVisitor(t, &loginPlace{}, nil)
	long := strings.Repeat("groups.", 2000)
	known.ids[long] = server.Identity{TokenID: "t8", Name: "ann", Role: "client", Account: "a"}
	for _, code := range []string{long[:8000], "client-token", long[:8000]} { // the second is in fewer than the first left
		known.ids[long[:8000]] = known.ids[long]
		state := v.begin("")
		if status, to, _ := v.finish("code=" + code + "&state=" + state); status != http.StatusOK || v.status() != http.StatusOK {
			t.Errorf("a token of %d bytes: %d, to %q, then %d", len(code), status, to, v.status())
		}
		for _, c := range v.cookies {
			if n := len(c.Name) + len(c.Value); n > 4000 {
				t.Errorf("a cookie of %d bytes", n)
			}
		}
	}
	body := strings.NewReader(`{"token":"` + long + `"}`)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ui/login", body)
	req.Host = v.host
	w := httptest.NewRecorder()
	v.handler.ServeHTTP(w, req)
	if n := len((&http.Response{Header: w.Header()}).Cookies()); w.Code != http.StatusOK || n < 5 {
		t.Errorf("a token of %d bytes: %d, %d cookies", len(long), w.Code, n)
	}
	for _, c := range (&http.Response{Header: w.Header()}).Cookies() {
		v.cookies[c.Name] = c
	}
	if v.status() != http.StatusOK {
		t.Errorf("a token of %d bytes is not known", len(long))
	}
	delete(v.cookies, "agentd_session_3")
	if v.status() != http.StatusUnauthorized {
		t.Error("a login without its third part")
	}
	v.visit(http.MethodPost, "/ui/logout", "Sec-Fetch-Site: same-origin")
	if len(v.cookies) != 0 {
		t.Errorf("after logging out: %d cookies", len(v.cookies))
	}
}
