package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"agentd/server"
)

// withConsole has a server hand out a page.
func withConsole(o *server.Options) {
	o.Console = &server.Console{Key: []byte("key"), Files: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "page")
	})}
	o.Mounts = []server.Mount{{Prefix: "/mounted", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}}
}

// reply is an answer that was read.
type reply struct {
	StatusCode int
	Status     string
	cookies    []*http.Cookie
	body       []byte
}

// send sends a request with headers given as "Name: value".
func (r *running) send(method, path, body string, headers ...string) reply {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.base+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	read, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return reply{res.StatusCode, res.Status, res.Cookies(), read}
}

// loginCookie logs in and returns the cookie as a header.
func (r *running) loginCookie(token string) string {
	r.t.Helper()
	res := r.send(http.MethodPost, "/ui/login", `{"token":"`+token+`"}`, "Content-Type: application/json")
	if res.StatusCode != http.StatusOK || len(res.cookies) != 1 {
		r.t.Fatalf("login: %s, cookies %v", res.Status, res.cookies)
	}
	c := res.cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "/" || strings.Contains(c.Value, token) || c.Expires.IsZero() {
		r.t.Errorf("cookie: %v", c)
	}
	return "Cookie: " + c.Name + "=" + c.Value
}

func TestConsoleFilesNeedNoToken(t *testing.T) {
	r := run(t, withConsole)
	for _, path := range []string{"/ui/", "/ui/inbox", "/ui/s/a/b"} {
		if res := r.send(http.MethodGet, path, ""); res.StatusCode != http.StatusOK {
			t.Errorf("GET %s: %s", path, res.Status)
		}
	}
	without := run(t, nil)
	if res := without.send(http.MethodGet, "/ui/", ""); res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusNotFound {
		t.Errorf("without a console: %s", res.Status)
	}
}

func TestConsoleCookie(t *testing.T) {
	r := run(t, withConsole)
	cookie := r.loginCookie("client-token")
	const header, same = "X-Agentd-Console: 1", "Sec-Fetch-Site: same-origin"
	for _, c := range []struct {
		name, method, path string
		headers            []string
		want               int
	}{
		{"a read", http.MethodGet, "/v1/status", nil, 200},
		{"a read by a bookmark", http.MethodGet, "/v1/status", []string{"Sec-Fetch-Site: none"}, 200},
		{"a read of another site", http.MethodGet, "/v1/status", []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"a read of another port", http.MethodGet, "/v1/status", []string{"Sec-Fetch-Site: same-site"}, 403},
		{"a write", http.MethodPost, "/v1/commands/list_sessions", []string{header, same}, 200},
		{"a write where the browser only sends Origin", http.MethodPost, "/v1/commands/list_sessions", []string{header, "Origin: " + r.base}, 200},
		{"a write without the header", http.MethodPost, "/v1/commands/list_sessions", []string{same}, 403},
		{"a write without metadata", http.MethodPost, "/v1/commands/list_sessions", []string{header}, 403},
		{"a write of another port", http.MethodPost, "/v1/commands/list_sessions", []string{header, "Sec-Fetch-Site: same-site"}, 403},
		{"a write of another origin", http.MethodPost, "/v1/commands/list_sessions", []string{header, same, "Origin: http://localhost:1"}, 403},
		{"a write without a reason", http.MethodPost, "/v1/rpc", []string{header, "Sec-Fetch-Site: none"}, 403},
		{"a mount", http.MethodGet, "/mounted", []string{same}, 401},
		{"a wrong token beside it", http.MethodGet, "/v1/status", []string{"Authorization: Bearer no"}, 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.t = t
			if res := r.send(c.method, c.path, "{}", append(c.headers, cookie, "Content-Type: application/json")...); res.StatusCode != c.want {
				t.Errorf("%s, want %d", res.Status, c.want)
			}
		})
	}
	r.t = t
	if res := r.send(http.MethodGet, "/v1/status", "", cookie[:len(cookie)-3]+"AAA"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a changed cookie: %s", res.Status)
	}
	again := runOn(t, r.fake, withConsole)
	again.tokens = r.tokens
	if res := again.send(http.MethodGet, "/v1/status", "", strings.Replace(cookie, cookieOf(r), cookieOf(again), 1)); res.StatusCode != http.StatusOK {
		t.Errorf("a server with the same key: %s", res.Status)
	}
	r.tokens.revoke("client-token")
	if res := r.send(http.MethodGet, "/v1/status", "", cookie); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("after the token was revoked: %s", res.Status)
	}
}

// cookieOf is the name of a server's cookie.
func cookieOf(r *running) string {
	u, _ := url.Parse(r.base) // it was made by us
	return "agentd_session_" + u.Port()
}

func TestConsoleLogin(t *testing.T) {
	r := run(t, withConsole)
	for _, c := range []struct {
		name, body string
		headers    []string
		want       int
	}{
		{"a wrong token", `{"token":"no"}`, nil, 401},
		{"no token", `{}`, nil, 400},
		{"a token of a wrong type", `{"token":1}`, nil, 400},
		{"no JSON", `token`, nil, 400},
		{"another media type", `x`, []string{"Content-Type: text/plain"}, 415},
		{"a page of another origin", `{"token":"admin-token"}`, []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"an unknown code", `{"code":"no"}`, nil, 401},
		{"a body that is too long", `{"token":"` + strings.Repeat("x", 18_000) + `"}`, nil, 400},
		{"a form", `token=admin-token`, []string{"Content-Type: application/x-www-form-urlencoded"}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.t = t
			if res := r.send(http.MethodPost, "/ui/login", c.body, c.headers...); res.StatusCode != c.want {
				t.Errorf("%s, want %d", res.Status, c.want)
			}
		})
	}
	r.t = t
	if res := r.send(http.MethodPost, "/ui/link", ""); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a link without a token: %s", res.Status)
	}
	var link struct {
		Path string `json:"path"`
	}
	res := r.send(http.MethodPost, "/ui/link", "", "Authorization: Bearer client-token")
	if err := json.Unmarshal(res.body, &link); err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(link.Path, "#")
	for i, want := range []int{200, 401} {
		if res := r.send(http.MethodPost, "/ui/login", `{"code":"`+code+`"}`); res.StatusCode != want {
			t.Errorf("use %d of the link: %s, want %d", i+1, res.Status, want)
		}
	}
	if res := r.send(http.MethodPost, "/ui/logout", "", "Sec-Fetch-Site: same-origin"); res.StatusCode != http.StatusNoContent || res.cookies[0].MaxAge >= 0 {
		t.Errorf("logout: %s %v", res.Status, res.cookies)
	}
}

// TestConsoleSocketOnlyReads: a handshake can't carry the console's header.
func TestConsoleSocketOnlyReads(t *testing.T) {
	r := run(t, withConsole)
	name, value, _ := strings.Cut(r.loginCookie("admin-token"), ": ")
	dial := func(origin string) (*websocket.Conn, error) {
		conn, _, err := websocket.Dial(t.Context(), r.base+"/v1/ws", &websocket.DialOptions{HTTPHeader: http.Header{name: {value}, "Origin": {origin}}}) //nolint:bodyclose // the library closes it
		return conn, err
	}
	if conn, err := dial("http://localhost:1"); err == nil {
		_ = conn.CloseNow()
		t.Error("a page of another origin could connect")
	}
	conn, err := dial(r.base)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	ask := func(message string) string {
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
		_, answer, err := conn.Read(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
	if got := ask(`{"jsonrpc":"2.0","id":1,"method":"create_session","params":{}}`); !strings.Contains(got, `"code":"forbidden"`) {
		t.Errorf("a write: %s", got)
	}
	if got := ask(`{"jsonrpc":"2.0","id":2,"method":"list_sessions","params":{}}`); strings.Contains(got, `"error"`) {
		t.Errorf("a read: %s", got)
	}
}

// TestLoggingOutEndsWhatIsOpen: the next login in the same browser must not go on with the streams of the one before.
// Those of another browser go on.
func TestLoggingOutEndsWhatIsOpen(t *testing.T) {
	for how, leave := range map[string]func(*running, string) int{
		"logging out": func(r *running, cookie string) int {
			return r.send(http.MethodPost, "/ui/logout", "", cookie, "Sec-Fetch-Site: same-origin").StatusCode
		},
		"logging in as someone else": func(r *running, cookie string) int {
			return r.send(http.MethodPost, "/ui/login", `{"token":"client-token"}`, cookie, "Content-Type: application/json").StatusCode
		},
	} {
		t.Run(how, func(t *testing.T) {
			r := run(t, withConsole)
			r.fake.open("s", "a")
			open := func(cookie string) (*websocket.Conn, *http.Response) {
				name, value, _ := strings.Cut(cookie, ": ")
				conn, _, err := websocket.Dial(t.Context(), r.base+"/v1/ws", &websocket.DialOptions{HTTPHeader: http.Header{name: {value}, "Origin": {r.base}}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.CloseNow() })
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.base+"/v1/sessions/s/events", http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set(name, value)
				req.Header.Set("Accept", "text/event-stream")
				res, err := r.client.Do(req)
				if err != nil || res.StatusCode != http.StatusOK {
					t.Fatalf("the stream: %v %v", res, err)
				}
				t.Cleanup(func() { _ = res.Body.Close() })
				return conn, res
			}
			cookie, other := r.loginCookie("admin-token"), r.loginCookie("admin-token")
			socket, stream := open(cookie) //nolint:bodyclose // the test's end closes it
			kept, _ := open(other)         //nolint:bodyclose // the test's end closes it
			if status := leave(r, cookie); status/100 != 2 {
				t.Fatalf("status %d", status)
			}
			if res := r.send(http.MethodGet, "/v1/status", "", cookie); res.StatusCode != http.StatusUnauthorized {
				t.Errorf("a copy of the cookie: %s", res.Status)
			}
			if _, _, err := socket.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
				t.Errorf("the WebSocket: %v", err)
			}
			if _, err := io.Copy(io.Discard, stream.Body); err != nil {
				t.Errorf("the stream: %v", err)
			}
			wsSendf(t, kept, `{"jsonrpc":"2.0","id":1,"method":"list_sessions","params":{}}`)
			checkRPC(t, "another browser's", wsRead(t, kept), 0, "1")
		})
	}
}
