package server_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"agentd/server"
)

func TestACommandAnswersWithItsResult(t *testing.T) {
	r := run(t, nil)
	a := r.sendRequest(r.request("POST", "/v1/commands/create_session", `{"sessionId":"s1"}`))
	var got struct{ SessionID, ThreadID string }
	a.decode(t, &got)
	if got.SessionID != "s1" || got.ThreadID == "" {
		t.Errorf("got %s", a.body)
	}
	if a.header.Get("Content-Type") != "application/json" || a.header.Get("X-Request-ID") == "" {
		t.Errorf("headers %v", a.header)
	}
	c := r.fake.lastCaller()
	if c.Account != "a" || c.Admin || c.Actor.ID != "ann" || c.RequestID != a.header.Get("X-Request-ID") {
		t.Errorf("the backend saw %+v", c)
	}
}

func TestAnEmptyBodyIsAnEmptyObject(t *testing.T) {
	r := run(t, nil)
	if a := r.sendRequest(r.request("POST", "/v1/commands/list_sessions", "")); a.status != 200 {
		t.Errorf("status %d: %s", a.status, a.body)
	}
}

func TestCorrelationIdsReachTheBackend(t *testing.T) {
	r := run(t, nil)
	req := r.request("POST", "/v1/commands/list_sessions", "{}")
	req.Header.Set("X-Request-ID", "mine-1")
	req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	a := r.sendRequest(req)
	c := r.fake.lastCaller()
	if a.header.Get("X-Request-ID") != "mine-1" || c.RequestID != "mine-1" {
		t.Errorf("request id %q, backend %q", a.header.Get("X-Request-ID"), c.RequestID)
	}
	if c.TraceID != "0af7651916cd43dd8448eb211c80319c" || c.SpanID != "b7ad6b7169203331" {
		t.Errorf("trace %q %q", c.TraceID, c.SpanID)
	}
	req = r.request("POST", "/v1/commands/list_sessions", "{}")
	req.Header.Set("X-Request-ID", "not an id")
	if id := r.sendRequest(req).header.Get("X-Request-ID"); !strings.HasPrefix(id, "req_") {
		t.Errorf("an id that is none was answered with %q", id)
	}
}

func TestInnerErrorsStayInside(t *testing.T) {
	r := run(t, nil)
	a := r.sendRequest(r.request("POST", "/v1/commands/list_actions", "{}"))
	if p := a.problem(t); p.Code != "internal" || strings.Contains(string(a.body), "secret inner workings") || p.RequestID == "" {
		t.Errorf("got %s", a.body)
	}
	eventually(t, "the log has the cause", func() bool { return strings.Contains(r.log.String(), "secret inner workings") })
}

func TestADefectIsAnsweredAndTheServerGoesOn(t *testing.T) {
	r := run(t, nil)
	a := r.sendRequest(r.request("POST", "/v1/commands/get_thread_read", `{"sessionId":"s","threadId":"t"}`))
	if p := a.problem(t); p.Code != "internal" {
		t.Errorf("got %s", a.body)
	}
	if a := r.sendRequest(r.request("POST", "/v1/commands/list_sessions", "{}")); a.status != 200 {
		t.Errorf("after it: status %d", a.status)
	}
}

func TestRoles(t *testing.T) {
	r := run(t, nil)
	r.fake.open("mine", "a")
	for _, c := range []struct {
		token, command, body string
		want                 int
	}{
		{"observer-token", "create_session", "{}", 403},
		{"observer-token", "submit_turn", `{"input":"x"}`, 403},
		{"observer-token", "get_session", `{"sessionId":"mine"}`, 200},
		{"observer-token", "list_sessions", `{}`, 200},
		{"client-token", "create_session", "{}", 200},
		{"client-token", "get_session", `{"sessionId":"mine"}`, 200},
		{"other-token", "get_session", `{"sessionId":"mine"}`, 404},
		{"other-token", "interrupt_turn", `{"sessionId":"mine"}`, 404},
		{"admin-token", "get_session", `{"sessionId":"mine"}`, 200},
		{"client-token", "set_policy", `{"mode":"bypass"}`, 403},
		{"wrong", "list_sessions", `{}`, 401},
	} {
		req := r.request("POST", "/v1/commands/"+c.command, c.body)
		req.Header.Set("Authorization", "Bearer "+c.token)
		if a := r.sendRequest(req); a.status != c.want {
			t.Errorf("%s %s: status %d, want %d: %s", c.token, c.command, a.status, c.want, a.body)
		}
	}
}

func TestAnotherAccountsSessionIsNotThere(t *testing.T) {
	r := run(t, nil)
	r.fake.open("mine", "a")
	var bodies []string
	for _, path := range []string{"/v1/sessions/mine/events", "/v1/sessions/none/events"} {
		for _, accept := range []string{"application/json", "text/event-stream"} {
			req := r.request("GET", path, "")
			req.Header.Set("Authorization", "Bearer other-token")
			req.Header.Set("Accept", accept)
			a := r.sendRequest(req)
			if p := a.problem(t); a.status != 404 || p.Code != "not_found" {
				t.Errorf("%s %s: %d %s", path, accept, a.status, a.body)
			}
			bodies = append(bodies, strings.NewReplacer("mine", "X", "none", "X").Replace(a.problem(t).Detail))
		}
	}
	for _, b := range bodies {
		if b != bodies[0] {
			t.Errorf("the answers tell an existing session from one that isn't: %q and %q", b, bodies[0])
		}
	}
}

func TestHostAndOrigin(t *testing.T) {
	r := run(t, func(o *server.Options) { o.AllowedHosts = []string{"agents.example", "other.example:9000"} })
	port := r.addr[strings.LastIndexByte(r.addr, ':'):]
	for _, c := range []struct {
		host, origin string
		want         int
	}{
		{"", "", 200},
		{"localhost" + port, "", 200},
		{"LOCALHOST" + port, "", 200},
		{"127.0.0.1" + port, "", 200},
		{"[::1]" + port, "", 200},
		{"localhost", "", 403},
		{"localhost:1", "", 403},
		{"evil.example" + port, "", 403},
		{"evil.example", "", 403},
		{"127.0.0.1.evil.example" + port, "", 403},
		{"10.0.0.1" + port, "", 403},
		{"agents.example", "", 200},
		{"agents.example:1234", "", 200},
		{"other.example:9000", "", 200},
		{"other.example:9001", "", 403},
		{"", "http://localhost" + port, 200},
		{"", "http://127.0.0.1" + port, 200},
		{"", "https://agents.example", 200},
		{"", "http://evil.example", 403},
		{"", "http://localhost:1", 403},
		{"", "null", 403},
		{"", "file://", 403},
		{"", "http://user@localhost" + port, 403},
		{"", "chrome-extension://abc", 403},
	} {
		for _, path := range []string{"/healthz", "/v1/catalog"} {
			req := r.request("GET", path, "")
			req.Host = c.host
			if c.origin != "" {
				req.Header.Set("Origin", c.origin)
			}
			a := r.sendRequest(req)
			if a.status != c.want {
				t.Errorf("Host %q, Origin %q, %s: status %d, want %d", c.host, c.origin, path, a.status, c.want)
			}
			if a.status == 403 && a.problem(t).Code != "forbidden" {
				t.Errorf("Host %q: %s", c.host, a.body)
			}
		}
	}
}

func TestNoTokenIsLogged(t *testing.T) {
	r := run(t, nil)
	for _, token := range []string{"client-token", "hunter2-wrong-token"} {
		req := r.request("GET", "/v1/catalog?token="+token+"&access_token="+token, "")
		req.Header.Set("Authorization", "Bearer "+token)
		r.sendRequest(req)
		req = r.request("POST", "/v1/commands/"+token, "{}")
		req.Header.Set("X-Token", token)
		r.sendRequest(req)
		r.sendRequest(r.request("GET", "/v1/sessions/"+token+"/events?after="+token, ""))
	}
	eventually(t, "all six requests are logged", func() bool { return strings.Count(r.log.String(), `"requestId":"req_`) >= 6 })
	for _, token := range []string{"client-token", "hunter2"} {
		if strings.Contains(r.log.String(), token) {
			t.Errorf("the log contains %s:\n%s", token, r.log.String())
		}
	}
}

func TestHealthAndReadiness(t *testing.T) {
	r := run(t, nil)
	public := func(path string) answer {
		req := r.request("GET", path, "")
		req.Header.Del("Authorization")
		return r.sendRequest(req)
	}
	if a := public("/healthz"); a.status != 200 {
		t.Errorf("healthz: %d", a.status)
	}
	if a := public("/readyz"); a.status != 200 {
		t.Errorf("readyz: %d", a.status)
	}
	r.fake.mu.Lock()
	r.fake.notReady = errors.New("disk full at /secret")
	r.fake.mu.Unlock()
	a := public("/readyz")
	if p := a.problem(t); a.status != 503 || p.Code != "unavailable" || strings.Contains(string(a.body), "secret") {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
	if a := public("/healthz"); a.status != 200 {
		t.Errorf("healthz while not ready: %d", a.status)
	}
	if a := public("/metrics"); a.status != 401 {
		t.Errorf("metrics without a token: %d", a.status)
	}
}

func TestMetricsSayWhatHappened(t *testing.T) {
	r := run(t, nil)
	r.sendRequest(r.request("POST", "/v1/commands/create_session", "{}"))
	r.sendRequest(r.request("POST", "/v1/commands/create_session", `{"x":1}`))
	a := r.sendRequest(r.request("GET", "/metrics", ""))
	for _, want := range []string{
		`agentd_commands_total{command="create_session",code="ok"} 1`,
		`agentd_commands_total{command="create_session",code="invalid_params"} 1`,
		`agentd_http_requests_total{route="/v1/commands/{command}",method="POST",status="200"} 1`,
		`agentd_http_requests_total{route="/v1/commands/{command}",method="POST",status="400"} 1`,
		`agentd_http_request_duration_seconds_count{route="/v1/commands/{command}"} 2`,
		`agentd_build_info{version="test"`, "agentd_goroutines ", "agentd_connections ", "# TYPE agentd_subscribers gauge",
	} {
		if want != "# TYPE agentd_subscribers gauge" && !strings.Contains(string(a.body), want) {
			t.Errorf("%s is missing in\n%s", want, a.body)
		}
	}
}

func TestDocuments(t *testing.T) {
	r := run(t, func(o *server.Options) {
		o.Documents = map[string]server.Document{"/v1/openapi.json": {MediaType: "application/json", Data: []byte(`{"openapi":"3.1.0"}`)}}
	})
	var catalog struct {
		Events   []struct{ Type, SchemaVersion, Means string }
		Commands []struct {
			Name      string
			Available bool
			Example   json.RawMessage
		}
	}
	a := r.sendRequest(r.request("GET", "/v1/catalog", ""))
	a.decode(t, &catalog)
	if len(catalog.Events) < 120 || len(catalog.Commands) < 11 || catalog.Events[0].Type != "session.created" {
		t.Errorf("the catalogue has %d events and %d commands", len(catalog.Events), len(catalog.Commands))
	}
	if a := r.sendRequest(r.request("GET", "/v1/openapi.json", "")); string(a.body) != `{"openapi":"3.1.0"}` {
		t.Errorf("openapi: %d %s", a.status, a.body)
	}
	var openAPI struct {
		OpenAPI string
		Paths   map[string]any
	}
	run(t, nil).getPath("/v1/openapi.json").decode(t, &openAPI)
	if !strings.HasPrefix(openAPI.OpenAPI, "3.1") || openAPI.Paths["/v1/commands/submit_turn"] == nil {
		t.Errorf("the build's OpenAPI document is %q with %d paths", openAPI.OpenAPI, len(openAPI.Paths))
	}
	a = r.sendRequest(r.request("GET", "/v1/schemas/event", ""))
	if a.status != 200 || a.header.Get("Content-Type") != "application/schema+json" {
		t.Errorf("schema: %d %v", a.status, a.header)
	}
	req := r.request("GET", "/v1/schemas/event.schema.json", "")
	req.Header.Set("If-None-Match", a.header.Get("ETag"))
	if a := r.sendRequest(req); a.status != 304 {
		t.Errorf("schema that the client has: %d", a.status)
	}
	if a := r.sendRequest(r.request("HEAD", "/v1/catalog", "")); a.status != 200 || len(a.body) != 0 {
		t.Errorf("HEAD: %d, %d bytes", a.status, len(a.body))
	}
}

func TestMounts(t *testing.T) {
	seen := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := server.CallerFrom(r.Context())
		_ = json.NewEncoder(w).Encode(map[string]any{"path": r.URL.Path, "known": ok, "account": c.Account})
	})
	r := run(t, func(o *server.Options) {
		o.Mounts = []server.Mount{{Prefix: "/open", Public: true, Handler: seen}, {Prefix: "/closed/", Handler: seen}}
	})
	for _, c := range []struct {
		path, token string
		status      int
		want        string
	}{
		{"/open", "", 200, `"known":false`},
		{"/open/x", "client-token", 200, `"account":"a"`},
		{"/opened", "client-token", 404, ""},
		{"/closed/x", "", 401, ""},
		{"/closed/x", "client-token", 200, `"account":"a"`},
	} {
		req := r.request("GET", c.path, "")
		if req.Header.Del("Authorization"); c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		if a := r.sendRequest(req); a.status != c.status || !strings.Contains(string(a.body), c.want) {
			t.Errorf("%s with %q: %d %s", c.path, c.token, a.status, a.body)
		}
	}
}
