package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentd/server/oidc/oidctest"
)

// webTab is a browser that follows nothing by itself. It knows its server by one name, whichever
// node answers.
type webTab struct {
	t       *testing.T
	host    string // empty for the server's address
	cookies map[string]string
}

// shown is what came beside the body of an answer.
type shown struct {
	StatusCode int
	Status     string
	Header     http.Header
}

// get asks a server for a path with the cookies of earlier answers.
func (b *webTab) get(p *process, path string) (res shown, body string) {
	return b.send(p, http.MethodGet, path)
}

func (b *webTab) send(p *process, method, path string) (shown, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, p.url+path, http.NoBody)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Host = b.host
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	for name, value := range b.cookies {
		req.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range res.Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c.Value
		}
	}
	return shown{res.StatusCode, res.Status, res.Header}, string(text)
}

// begin begins a login and returns where the person is sent.
func (b *webTab) begin(p *process) string {
	b.t.Helper()
	res, body := b.get(p, "/ui/oidc/login?return=/ui/inbox")
	if res.StatusCode != http.StatusSeeOther {
		b.t.Fatalf("%s %s", res.Status, body)
	}
	return res.Header.Get("Location")
}

// back comes back from the issuer, and returns the status and where the page moves on to.
func (b *webTab) back(p *process, address string) (status int, to string) {
	b.t.Helper()
	u, err := url.Parse(address)
	if err != nil || u.Path != "/ui/oidc/callback" {
		b.t.Fatalf("the issuer sends back to %q, %v", address, err)
	}
	res, body := b.get(p, u.RequestURI())
	_, rest, _ := strings.Cut(body, `content="0; url=`)
	to, _, _ = strings.Cut(rest, `"`)
	return res.StatusCode, to
}

// caller is who a server says that the browser is.
func (b *webTab) caller(p *process) string {
	b.t.Helper()
	var said struct {
		Caller struct{ Name, Role, Account string }
	}
	res, body := b.get(p, "/v1/status")
	if res.StatusCode != http.StatusOK {
		return res.Status
	}
	if err := json.Unmarshal([]byte(body), &said); err != nil {
		b.t.Fatal(err)
	}
	return said.Caller.Name + " " + said.Caller.Role + " " + said.Caller.Account
}

func newWebTab(t *testing.T) *webTab { return &webTab{t: t, cookies: map[string]string{}} }

// people of the tests.
func people() map[string]map[string]any {
	many := []string{"team-a"}
	for i := range 250 {
		many = append(many, fmt.Sprintf("00000000-0000-0000-0000-%012d", i))
	}
	return map[string]map[string]any{
		"ada": {"email": "ada@example.org", "groups": []string{"team-a"}}, "pam": {"groups": "platform"}, "mel": {"groups": "sales"},
		"ian": {"groups": many}, "eve": {"groups": "team-a", "aud": "payroll"}, "old": {"groups": "team-a", "exp": 1000}, "rob": {"groups": "team-a", "nonce": "of-another-login-entirely"},
		"liz": {"groups": "team-a", "iss": "https://elsewhere.example"}, "zoe": {"groups": "team-a", "aud": []string{"console", "payroll"}, "azp": "payroll"},
	}
}

const consoleSecret = "s3cret:+/&%-of-the-console"

// consoleOIDC is a configuration with an issuer at which people log in to the console.
func consoleOIDC(issuer *oidctest.Issuer, more string) string {
	return fmt.Sprintf(`oidc:
  issuer: %s
  audience: agentd
  grants:
    - {group: platform, role: admin}
    - {group: team-a, role: client, account: team_a}
  console: {clientId: console, clientSecretFile: %s, name: Example%s}
`, issuer.URL, "SECRET", more)
}

// TestLoginToTheConsoleAtAProvider drives the whole flow against a server and an issuer of
// their own, and every way in which it fails.
func TestLoginToTheConsoleAtAProvider(t *testing.T) {
	issuer := oidctest.Start(t)
	issuer.Client = oidctest.Client{ID: "console", Secret: consoleSecret, People: people()}
	dir := t.TempDir()
	config := strings.ReplaceAll(consoleOIDC(issuer, ""), "SECRET", writeFile(t, dir, "secret", consoleSecret+"\n"))
	p := start(t, filepath.Join(dir, "data"), "--config", writeFile(t, dir, "c.yaml", config))
	if _, body := newWebTab(t).get(p, "/ui/logins"); body != `{"provider":{"name":"Example","path":"/ui/oidc/login"}}`+"\n" {
		t.Errorf("logins: %s", body)
	}
	b := newWebTab(t)
	back := issuer.Back(t, b.begin(p), "ada")
	attempt := b.cookies
	b.cookies = maps.Clone(attempt)
	if status, to := b.back(p, back); status != http.StatusOK || to != "/ui/inbox" {
		t.Fatalf("%d, to %q", status, to)
	}
	// The door gives what the token gives at the others.
	token := issuer.Token(t, map[string]any{"email": "ada@example.org", "groups": "team-a"})
	var bearer struct {
		Caller struct{ Name, Role, Account string }
	}
	if _, body := p.sendAs(token, http.MethodGet, "/v1/status", ""); json.Unmarshal([]byte(body), &bearer) != nil || b.caller(p) != "ada@example.org client team_a" ||
		bearer.Caller.Name+" "+bearer.Caller.Role+" "+bearer.Caller.Account != b.caller(p) {
		t.Errorf("by cookie %q, by token %s", b.caller(p), body)
	}
	if status, to := b.back(p, back); status != http.StatusBadRequest || to != "/ui/login?failed=state" {
		t.Errorf("the same address again: %d, to %q", status, to)
	}
	thief := &webTab{t: t, cookies: attempt}
	if status, to := thief.back(p, back); status != http.StatusUnauthorized || to != "/ui/login?failed=code" || thief.caller(p) != "401 Unauthorized" {
		t.Errorf("a code that was used: %d, to %q", status, to)
	}
	if status, to := newWebTab(t).back(p, issuer.Back(t, newWebTab(t).begin(p), "ada")); status != http.StatusBadRequest || to != "/ui/login?failed=state" {
		t.Errorf("in another browser: %d, to %q", status, to)
	}
	for person, want := range map[string]string{
		"nobody": "403 denied", "mel": "403 role", "eve": "401 token", "old": "401 token", "rob": "401 token", "liz": "401 token", "zoe": "401 token",
		"pam": "200 pam admin " + accountOf(t, p, issuer, "pam"), "ian": "200 ian client team_a",
	} {
		b := newWebTab(t)
		status, to := b.back(p, issuer.Back(t, b.begin(p), person))
		got := fmt.Sprint(status, " ", b.caller(p))
		if status != http.StatusOK {
			got = fmt.Sprint(status, " ", strings.TrimPrefix(to, "/ui/login?failed="))
			if b.caller(p) != "401 Unauthorized" {
				t.Errorf("%s is in: %s", person, b.caller(p))
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", person, got, want)
		}
	}
	wrong := newWebTab(t)
	foreign := strings.Replace(issuer.Back(t, wrong.begin(p), "ada"), url.QueryEscape(issuer.URL), "https%3A%2F%2Fevil.example", 1)
	if status, to := wrong.back(p, foreign); status != http.StatusUnauthorized || to != "/ui/login?failed=token" {
		t.Errorf("an answer of another issuer: %d, to %q", status, to)
	}
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"broken":           {200, "<html>", "refused"},
		"without a token":  {200, `{"access_token":"x"}`, "token"},
		"no JWT":           {200, `{"id_token":"a.b.c"}`, "token"},
		"an error":         {400, `{"error":"invalid_scope","error_description":"x"}`, "refused"},
		"a strange error":  {400, `{"error":"<script>"}`, "refused"},
		"a defect of its":  {502, `bad gateway`, "away"},
		"a redirection":    {302, ``, "refused"},
		"not this client":  {400, `{"error":"unauthorized_client"}`, "client"},
		"a number instead": {200, `{"id_token":1}`, "refused"},
	} {
		issuer.Client.Answer = func(map[string]any) (int, string) { return c.status, c.body }
		b := newWebTab(t)
		if _, to := b.back(p, issuer.Back(t, b.begin(p), "ada")); to != "/ui/login?failed="+c.want {
			t.Errorf("%s: to %q, want %s", name, to, c.want)
		}
	}
	issuer.Client.Answer = nil
	away := newWebTab(t)
	back2 := issuer.Back(t, away.begin(p), "ada")
	issuer.Down.Store(true)
	if status, to := away.back(p, back2); status != http.StatusServiceUnavailable || to != "/ui/login?failed=away" {
		t.Errorf("the issuer is away: %d, to %q", status, to)
	}
	issuer.Down.Store(false)
	writeFile(t, dir, "secret", "replaced-secret")
	if status, to := away.back(p, issuer.Back(t, away.begin(p), "ada")); status != http.StatusServiceUnavailable || to != "/ui/login?failed=client" {
		t.Errorf("another secret: %d, to %q", status, to)
	}
	if res, body := b.send(p, http.MethodPost, "/ui/logout"); res.StatusCode != http.StatusOK || body != `{"provider":"Example","path":"/ui/oidc/logout"}`+"\n" || b.caller(p) != "401 Unauthorized" {
		t.Errorf("logout: %s %s, then %s", res.Status, body, b.caller(p))
	}
	if res, _ := b.get(p, "/ui/oidc/logout"); res.Header.Get("Location") != issuer.URL+"/logout?client_id=console" {
		t.Errorf("logout at the issuer: %s %v", res.Status, res.Header)
	}
	p.stop(syscall.SIGTERM)
	code := mustQuery(t, back).Get("code")
	log := p.remainingLog()
	for _, secret := range []string{consoleSecret, "replaced-secret", code, mustQuery(t, back).Get("state"), "eyJ"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %q", secret)
		}
	}
	if !strings.Contains(log, "a login at the identity provider failed") || !strings.Contains(log, "invalid_scope") || strings.Contains(log, "<script>") {
		t.Errorf("the log: %s", log)
	}
}

// accountOf is the account that a person's token has at the other doors.
func accountOf(t *testing.T, p *process, issuer *oidctest.Issuer, person string) string {
	t.Helper()
	var said struct{ Caller struct{ Account string } }
	_, body := p.sendAs(issuer.Token(t, map[string]any{"sub": person, "groups": "platform"}), http.MethodGet, "/v1/status", "")
	if err := json.Unmarshal([]byte(body), &said); err != nil {
		t.Fatal(err)
	}
	return said.Caller.Account
}

func mustQuery(t *testing.T, address string) url.Values {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query()
}

// TestLoginToTheConsoleOnAnyNode begins a login at one node and finishes it at another: a
// public client, whose issuer takes no secret.
func TestLoginToTheConsoleOnAnyNode(t *testing.T) {
	issuer := oidctest.Start(t)
	issuer.Client = oidctest.Client{ID: "agentd", People: people()}
	f := newFleet(t, "1h", slow, "allowedHosts: [agents.example]", fmt.Sprintf(
		"oidc: {issuer: %q, audience: agentd, grants: [{group: team-a, role: client, account: team_a}], console: {clientId: agentd, redirectUrl: \"https://agents.example/ui/oidc/callback\"}}", issuer.URL))
	a, b := f.node(f.dir()), f.node(f.dir())
	browser := newWebTab(t)
	browser.host = "agents.example"
	back := issuer.Back(t, browser.begin(a), "ada")
	if !strings.HasPrefix(back, "https://agents.example/ui/oidc/callback?") {
		t.Fatalf("back to %s", back)
	}
	a.stop(syscall.SIGKILL)
	if status, to := browser.back(b, back); status != http.StatusOK || to != "/ui/inbox" || browser.caller(b) != "ada@example.org client team_a" {
		t.Errorf("at the other node: %d, to %q, then %s", status, to, browser.caller(b))
	}
}

func TestConsoleLoginsThatCannotBe(t *testing.T) {
	const begin = "oidc: {issuer: \"https://login.example.org\", audience: a, grants: [{group: g, role: client}], console: {"
	for _, c := range []struct{ config, says string }{
		{begin + "redirectUrl: \"https://agents.example/ui/oidc/callback\"}}", "oidc.console.clientId"},
		{begin + "clientId: c, redirectUrl: \"https://agents.example/\"}}", "oidc.console.redirectUrl"},
		{begin + "clientId: c, redirectUrl: \"https://agents.example/ui/oidc/callback?x=1\"}}", "oidc.console.redirectUrl"},
		{begin + "clientId: c, redirectUrl: \"http://agents.example/ui/oidc/callback\"}}", "must begin with https://"},
		{begin + "clientId: c, redirectUrl: nowhere}}", "oidc.console.redirectUrl"},
		{begin + "clientId: c, scopes: [profile]}}", "oidc.console.scopes"},
		{begin + "clientId: c, scopes: [\"openid profile\", openid]}}", "oidc.console.scopes"},
		{begin + "clientId: c, clientSecretEnv: A, clientSecretFile: /b}}", "has both clientSecretEnv and clientSecretFile"},
		{begin + "clientId: c, clientSecretEnv: \"sk-live-8f3hf93hf93hf93hf93hf93hf9\"}}", "oidc.console.clientSecretEnv"},
		{begin + "clientId: c, clientSecret: hidden-value}}", "clientSecret"},
		{begin + "clientId: c, name: " + strings.Repeat("n", 41) + "}}", "oidc.console.name"},
		{begin + "clientId: 1}}", "oidc.console.clientId"},
		{"oidc: {console: {clientId: c}}", "oidc.issuer"},
	} {
		out, err := self(t, "config", "check", writeFile(t, t.TempDir(), "c.yaml", c.config+"\n")).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.says) || strings.Contains(string(out), "8f3hf93") || strings.Contains(string(out), "hidden-value") {
			t.Errorf("%s: %v: %s", c.config, err, out)
		}
	}
	for config, says := range map[string]string{
		begin + "clientId: c, clientSecretEnv: AGENTD_TEST_NOT_SET}}": "oidc.console.clientSecretEnv: the variable AGENTD_TEST_NOT_SET is not set",
		begin + "clientId: c, clientSecretFile: /nowhere/secret}}":    "oidc.console.clientSecretFile",
	} {
		dir := t.TempDir()
		if _, errs, code := program(t, "serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--config", writeFile(t, dir, "c.yaml", config+"\n")); code != exitUsage || !strings.Contains(errs, says) {
			t.Errorf("%s: %d %s", config, code, errs)
		}
	}
}
