package contract_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agentd/command"
	"agentd/internal/gen"
	"agentd/internal/nodetest"
	"agentd/internal/tourtest"
)

func TestTheDocumentIsLinted(t *testing.T) {
	modules := nodetest.Modules(t, "holding the OpenAPI document against real traffic")
	lint := func(path string) (found int, output []byte) {
		cmd := exec.CommandContext(t.Context(), "node", filepath.Join(modules, redoclyProgram), "lint", "--config", "redocly.yaml", "--format", "json", path)
		cmd.Env = nodetest.Environment()
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		var report struct {
			Totals *struct{ Errors, Warnings int }
		}
		if bad := json.Unmarshal(stdout.Bytes(), &report); bad != nil || report.Totals == nil {
			t.Fatalf("redocly: %v, %v\n%s%s", err, bad, stdout.Bytes(), stderr.Bytes())
		}
		return report.Totals.Errors + report.Totals.Warnings, stdout.Bytes()
	}
	if n, out := lint(document); n > 0 {
		t.Errorf("%d findings:\n%s", n, out)
	}
	if n, out := lint("testdata/broken.json"); n == 0 {
		t.Errorf("the linter finds nothing in a broken document:\n%s", out)
	}
}

// client sends requests through a proxy and notes what was asked.
type client struct {
	*testing.T
	base string
	// operations are the methods and paths that succeeded.
	operations map[string]bool
	// around carries out a command if it isn't nil.
	around func(name command.Name, body string) answer
}

// answer is a whole answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// violates reports whether the proxy itself speaks.
func (a answer) violates() bool {
	return a.header.Get("Sl-Violations") != "" || bytes.Contains(a.body, []byte("/prism/errors#"))
}

// onceEach opens a connection for each request. The proxy closes one that it believes to
// be idle for five seconds, and a busy machine has it believe so while a request is on it.
var onceEach = &http.Transport{DisableKeepAlives: true}

func (c *client) send(method, path, body string, header ...string) answer {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer admin-token")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := onceEach.RoundTrip(req)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	data, err := io.ReadAll(res.Body)
	if err != nil {
		c.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, data}
}

// want sends a request that the server, not the proxy, must answer with a status.
func (c *client) want(status int, method, path, body string, header ...string) answer {
	c.Helper()
	a := c.send(method, path, body, header...)
	switch {
	case a.violates():
		c.Errorf("%s %s %s: the traffic doesn't fit the document: %s", method, path, body, a.body)
	case a.status != status:
		c.Errorf("%s %s %s: status %d, want %d: %s", method, path, body, a.status, status, a.body)
	case status < 300:
		path, _, _ = strings.Cut(path, "?")
		c.operations[method+" "+path] = true
	}
	return a
}

// runCommand carries out a command and decodes what the test needs of its result.
func (c *client) runCommand(name command.Name, body string, into any) {
	c.Helper()
	send := c.around
	if send == nil {
		send = func(name command.Name, body string) answer {
			return c.want(http.StatusOK, http.MethodPost, "/v1/commands/"+string(name), body)
		}
	}
	a := send(name, body)
	if into == nil {
		return
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		c.Fatalf("%s: %v in %s", name, err, a.body)
	}
}

func TestRealTrafficFitsTheDocument(t *testing.T) {
	modules := nodetest.Modules(t, "holding the OpenAPI document against real traffic")
	upstream := serve(t)
	c := &client{T: t, base: proxy(t, modules, upstream), operations: map[string]bool{}}
	session := driveCommands(c)
	for _, d := range command.Catalog() {
		if !d.Available {
			c.want(http.StatusServiceUnavailable, http.MethodPost, "/v1/commands/"+string(d.Name), d.Example)
		}
	}
	driveEvents(c, session)
	driveOutputs(c)
	driveDocuments(c)
	driveRPC(c)
	driveRefusals(c)
	checkCoverage(c)
	// The same server behind a proxy that lets wrong requests through: what the
	// server answers to them is in the document too.
	driveMistakes(&client{T: t, base: proxy(t, modules, upstream, "--validate-request=false"), operations: map[string]bool{}}, session)
}

// driveCommands carries out every available command once at least.
func driveCommands(c *client) (session string) {
	c.Helper()
	var made command.CreateSessionResult
	c.runCommand("create_session", `{"sessionId":"s","title":"Colours","metadata":{"a":1}}`, &made)
	var one, two, three command.SubmitTurnResult
	c.runCommand("submit_turn", `{"sessionId":"s","input":"Paint it.","idempotencyKey":"k"}`, &one)
	action := waitForAction(c)
	c.runCommand("submit_turn", `{"sessionId":"s","input":[{"type":"text","text":"And this."}]}`, &two)
	c.runCommand("submit_turn", `{"sessionId":"s","input":"And that.","options":{"queuePolicy":"queue"}}`, &three)
	c.runCommand("promote_queued_turn", fmt.Sprintf(`{"sessionId":"s","turnId":%q}`, three.TurnID), nil)
	c.runCommand("remove_queued_turn", fmt.Sprintf(`{"sessionId":"s","turnId":%q}`, two.TurnID), nil)
	c.runCommand("list_actions", `{"status":"pending"}`, nil)
	c.runCommand("get_thread_read", fmt.Sprintf(`{"sessionId":"s","threadId":%q}`, made.ThreadID), nil)
	c.runCommand("resume_thread", fmt.Sprintf(`{"sessionId":"s","threadId":%q}`, made.ThreadID), nil)
	c.runCommand("respond_action", fmt.Sprintf(`{"actionId":%q,"decision":"submit","payload":"blue"}`, action), nil)
	waitForEvent(c, "turn.completed")
	c.runCommand("interrupt_turn", `{"sessionId":"s","queue":"clear"}`, nil)
	c.runCommand("list_sessions", `{}`, nil)
	c.runCommand("list_sessions", `{"limit":1,"query":"Colours"}`, nil)
	c.runCommand("get_session", `{"sessionId":"s","limit":1000}`, nil)
	driveGoverned(c, made.ThreadID, one.TurnID)
	tourtest.Tour(c.T, "s", made.ThreadID, one.TurnID, func(name command.Name, body string) json.RawMessage {
		var result json.RawMessage
		c.runCommand(name, body, &result)
		return result
	})
	return made.SessionID
}

// driveGoverned carries out the commands about tools, permissions, processes and
// history.
func driveGoverned(c *client, threadID, firstTurn string) {
	c.Helper()
	thread := fmt.Sprintf(`"sessionId":"s","threadId":%q`, threadID)
	c.runCommand("get_tool_inventory", `{"sessionId":"s"}`, nil)
	c.runCommand("get_execution_environment", `{}`, nil)
	c.runCommand("evaluate_permission", `{"toolName":"shell","input":{"command":"rm -rf x"}}`, nil)
	c.runCommand("set_policy", `{"sessionId":"s","rules":[{"decision":"ask","tool":"shell"}]}`, nil)
	c.runCommand("get_policy", `{"sessionId":"s"}`, nil)
	c.runCommand("get_quotas", `{}`, nil)
	c.runCommand("compact_thread", "{"+thread+"}", nil)
	var turn command.SubmitTurnResult
	c.runCommand("submit_turn", `{"sessionId":"s","input":"Run something."}`, &turn)
	c.runCommand("resolve_permission", fmt.Sprintf(`{"actionId":%q,"decision":"allow"}`, waitForAction(c)), nil)
	var list command.ListProcessesResult
	for len(list.Processes) == 0 && !c.Failed() {
		c.runCommand("list_processes", `{"sessionId":"s"}`, &list)
	}
	process := fmt.Sprintf(`"processId":%q`, list.Processes[0].ProcessID)
	c.runCommand("write_process_stdin", "{"+process+`,"data":"hello\n"}`, nil)
	c.runCommand("resize_process", "{"+process+`,"rows":40,"cols":100}`, nil)
	c.runCommand("terminate_process", "{"+process+"}", nil)
	for status := ""; status != "completed" && !c.Failed(); {
		var read command.ThreadRead
		c.runCommand("get_thread_read", "{"+thread+"}", &read)
		status = read.Status
	}
	c.runCommand("explain", fmt.Sprintf(`{"sessionId":"s","turnId":%q}`, turn.TurnID), nil)
	c.runCommand("rollback_thread", fmt.Sprintf(`{%s,"toTurnId":%q,"files":"restore"}`, thread, firstTurn), nil)
	c.runCommand("fork_thread", "{"+thread+`,"atSequence":10}`, nil)
}

// waitForAction asks until the model's question is there.
func waitForAction(c *client) string {
	c.Helper()
	for c.Context().Err() == nil && !c.Failed() {
		var list struct{ Actions []struct{ ActionID string } }
		c.runCommand("list_actions", `{"status":"pending"}`, &list)
		if len(list.Actions) > 0 {
			return list.Actions[0].ActionID
		}
	}
	c.FailNow()
	return ""
}

// waitForEvent asks until the session has an event of the type.
func waitForEvent(c *client, typ string) {
	c.Helper()
	for c.Context().Err() == nil && !c.Failed() {
		if a := c.want(http.StatusOK, http.MethodGet, "/v1/sessions/s/events?types="+typ, ""); bytes.Contains(a.body, []byte(`"type":"`+typ)) {
			return
		}
	}
	c.FailNow()
}

func driveEvents(c *client, session string) {
	c.Helper()
	events := "/v1/sessions/" + session + "/events"
	for _, q := range []string{"", "?after=2&limit=1", "?lastEventId=3&limit=2", "?types=turn.*,session.created", "?profile=standard", "?view=events", "?snapshot=0"} {
		if a := c.want(http.StatusOK, http.MethodGet, events+q, ""); !bytes.Contains(a.body, []byte(`"eventId"`)) {
			c.Errorf("%s: no event: %s", q, a.body)
		}
	}
	c.want(http.StatusOK, http.MethodGet, events, "", "Last-Event-ID", "2")
	if a := c.want(http.StatusOK, http.MethodGet, events+"?view=items&limit=1000", ""); !bytes.Contains(a.body, []byte(`"item.completed"`)) {
		c.Errorf("no item: %s", a.body)
	}
	if a := c.want(http.StatusOK, http.MethodGet, events+"?after=1000000", ""); !bytes.Contains(a.body, []byte(`"cursor_past_end"`)) {
		c.Errorf("no gap: %s", a.body)
	}
	c.want(http.StatusNotFound, http.MethodGet, "/v1/sessions/nobody/events", "")
}

// driveOutputs reads an input that was too large for its event.
func driveOutputs(c *client) {
	c.Helper()
	var turn command.SubmitTurnResult
	c.runCommand("submit_turn", fmt.Sprintf(`{"input":%q}`, strings.Repeat("a long story ", 1000)), &turn)
	var page struct {
		Events []struct{ Payload struct{ InputRef string } }
	}
	a := c.want(http.StatusOK, http.MethodGet, "/v1/sessions/"+turn.SessionID+"/events?types=turn.submitted", "")
	if err := json.Unmarshal(a.body, &page); err != nil || len(page.Events) != 1 || page.Events[0].Payload.InputRef == "" {
		c.Fatalf("no reference: %v in %s", err, a.body)
	}
	path := "/v1/outputs/" + url.PathEscape(page.Events[0].Payload.InputRef)
	whole := c.want(http.StatusOK, http.MethodGet, path, "")
	// The proxy parses what says that it is JSON, also a part: the element without
	// its list is such a part.
	last := len(whole.body) - 1
	part := c.want(http.StatusPartialContent, http.MethodGet, path, "", "Range", fmt.Sprintf("bytes=1-%d", last-1))
	if last < 1000 || !bytes.Equal(part.body, whole.body[1:last]) {
		c.Errorf("a part is %q of %d bytes", part.body, len(whole.body))
	}
	c.want(http.StatusRequestedRangeNotSatisfiable, http.MethodGet, path, "", "Range", "bytes=9000000-")
	c.want(http.StatusNotModified, http.MethodGet, path, "", "If-None-Match", whole.header.Get("ETag"))
	c.want(http.StatusNotFound, http.MethodGet, "/v1/outputs/nothing", "")
}

func driveDocuments(c *client) {
	c.Helper()
	for _, path := range []string{"/v1/catalog", "/v1/openapi.json", "/v1/schemas/event.schema.json", "/v1/schemas/command.submit_turn.params", "/v1/status", "/healthz", "/readyz", "/metrics"} {
		c.want(http.StatusOK, http.MethodGet, path, "")
	}
	c.want(http.StatusOK, http.MethodGet, "/healthz", "", "Authorization", "")
	catalog := c.want(http.StatusOK, http.MethodGet, "/v1/catalog", "")
	c.want(http.StatusNotModified, http.MethodGet, "/v1/catalog", "", "If-None-Match", catalog.header.Get("ETag"))
	c.want(http.StatusNotFound, http.MethodGet, "/v1/schemas/nothing", "")
}

func driveRPC(c *client) {
	c.Helper()
	for body, status := range map[string]int{
		`{"jsonrpc":"2.0","id":1,"method":"list_sessions","params":{}}`:                                           http.StatusOK,
		`[{"jsonrpc":"2.0","id":"a","method":"list_actions"},{"jsonrpc":"2.0","id":2,"method":"no_such_method"}]`: http.StatusOK,
		`{"jsonrpc":"2.0","id":3,"method":"get_session","params":{"sessionId":"nobody"}}`:                         http.StatusOK,
		`{"jsonrpc":"2.0","method":"list_sessions"}`:                                                              http.StatusNoContent,
	} {
		c.want(status, http.MethodPost, "/v1/rpc", body)
	}
}

// driveRefusals sends what fits the document and is refused all the same.
func driveRefusals(c *client) {
	c.Helper()
	for _, r := range []struct {
		status     int
		path, body string
		token      string
	}{
		{http.StatusNotFound, "get_session", `{"sessionId":"nobody"}`, "admin-token"},
		{http.StatusNotFound, "get_session", `{"sessionId":"s"}`, "observer-token"},
		{http.StatusForbidden, "create_session", `{}`, "observer-token"},
		{http.StatusUnauthorized, "list_sessions", `{}`, "no-such-token"},
		{http.StatusConflict, "create_session", `{"sessionId":"s","title":"Another"}`, "admin-token"},
		{http.StatusConflict, "submit_turn", `{"sessionId":"s","input":"Other.","idempotencyKey":"k"}`, "admin-token"},
		{http.StatusNotFound, "respond_action", `{"actionId":"action_none","decision":"allow"}`, "admin-token"},
	} {
		c.want(r.status, http.MethodPost, "/v1/commands/"+r.path, r.body, "Authorization", "Bearer "+r.token)
	}
}

// driveMistakes sends what the document forbids to the server.
func driveMistakes(c *client, session string) {
	c.Helper()
	for _, body := range []string{
		`{"input":7}`, `{"sessionId":"../x","input":"a"}`, `{"input":"a","noSuchParameter":1}`, `{"input":""}`, `{}`,
		`{"input":[{"type":"nothing"}]}`, `[]`, `null`, `"text"`,
	} {
		c.want(http.StatusBadRequest, http.MethodPost, "/v1/commands/submit_turn", body)
	}
	c.want(http.StatusUnsupportedMediaType, http.MethodPost, "/v1/commands/list_sessions", `{}`, "Content-Type", "text/plain")
	for _, q := range []string{"after=x", "limit=0", "limit=1001", "view=nothing", "profile=nothing", "types=no.such", "unknown=1", "snapshot=1", "lastEventId=-1"} {
		c.want(http.StatusBadRequest, http.MethodGet, "/v1/sessions/"+session+"/events?"+q, "")
	}
	for _, stream := range []string{"/v1/events", "/v1/feed"} {
		c.want(http.StatusServiceUnavailable, http.MethodGet, stream, "", "Accept", "text/event-stream")
	}
}

// TestTheProxyChecks shows that the tests above could fail.
func TestTheProxyChecks(t *testing.T) {
	modules := nodetest.Modules(t, "holding the OpenAPI document against real traffic")
	c := &client{T: t, base: proxy(t, modules, serve(t))}
	for _, r := range []struct {
		what, method, path, body string
		header                   []string
		status                   int
	}{
		{"a parameter of the wrong type", "POST", "/v1/commands/submit_turn", `{"input":7}`, nil, http.StatusUnprocessableEntity},
		{"an unknown parameter", "POST", "/v1/commands/list_sessions", `{"noSuchParameter":1}`, nil, http.StatusUnprocessableEntity},
		{"a query out of bounds", "GET", "/v1/sessions/s/events?limit=0", "", nil, http.StatusUnprocessableEntity},
		{"a request without a token", "GET", "/v1/status", "", []string{"Authorization", ""}, http.StatusUnauthorized},
		{"an answer that the document doesn't describe", "GET", "/v1/status", "", []string{lieHeader, `{"version":7}`}, http.StatusInternalServerError},
		{"an answer with a member too many", "POST", "/v1/commands/list_sessions", `{}`, []string{lieHeader, `{"sessions":[],"total":0,"more":1}`}, http.StatusInternalServerError},
		{"an answer with a member too few", "POST", "/v1/commands/list_sessions", `{}`, []string{lieHeader, `{"sessions":[]}`}, http.StatusInternalServerError},
		{"a member too many inside", "POST", "/v1/commands/list_turns", `{}`, []string{lieHeader, `{"turns":[{"more":1}],"total":1}`}, http.StatusInternalServerError},
		{"a path that the document doesn't have", "GET", "/v1/nothing", "", nil, http.StatusNotFound},
	} {
		if a := c.send(r.method, r.path, r.body, r.header...); a.status != r.status || !a.violates() {
			t.Errorf("%s went by: %d %s", r.what, a.status, a.body)
		}
	}
	if a := c.send("GET", "/v1/status", ""); a.status != http.StatusOK || a.violates() {
		t.Errorf("what fits is refused: %d %s", a.status, a.body)
	}
}

// notDriven are operations of the document that a proxy of whole answers can't
// pass on; package server tests them.
var notDriven = map[string]string{
	"GET /v1/events":                       "a stream without an end",
	"GET /v1/feed":                         "a stream without an end",
	"GET /v1/processes/{processId}/output": "a stream",
	"GET /v1/ws":                           "an upgrade of the connection",
	"HEAD /v1/outputs/{ref}":               "the proxy wants to parse the body that isn't there",
}

// checkCoverage wants every operation of the document to have succeeded, but for
// commands that aren't available and what can't be driven.
func checkCoverage(c *client) {
	c.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			Available *bool `json:"x-agentd-available"`
		}
	}
	if err := json.Unmarshal(gen.OpenAPI(), &doc); err != nil {
		c.Fatal(err)
	}
	for path, methods := range doc.Paths {
		for method, o := range methods {
			name := strings.ToUpper(method) + " " + path
			available := o.Available == nil || *o.Available
			switch done, excused := driven(c, name), notDriven[name] != ""; {
			case available && !done && !excused:
				c.Errorf("%s is in the document and never succeeded", name)
			case done && excused:
				c.Errorf("%s can be driven after all", name)
			}
		}
	}
}

// driven reports whether a request that fits "METHOD /path/{variable}" succeeded.
func driven(c *client, operation string) bool {
	var pattern strings.Builder
	for i, literal := range regexp.MustCompile(`\{\w+\}`).Split(operation, -1) {
		if i > 0 {
			pattern.WriteString("[^/]+")
		}
		pattern.WriteString(regexp.QuoteMeta(literal))
	}
	fits := regexp.MustCompile("^" + pattern.String() + "$")
	for request := range c.operations {
		if fits.MatchString(request) {
			return true
		}
	}
	return false
}
