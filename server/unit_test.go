package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/answertest"
)

// TestAccepts: what a client likes less or refuses is not what it gets.
func TestAccepts(t *testing.T) {
	for accept, want := range map[string]bool{
		"":                                    false,
		"*/*":                                 false,
		"text/event-stream":                   true,
		"Text/Event-Stream; q=1":              true,
		"application/json, text/event-stream": true,
		"application/json;q=0.5, text/event-stream;q=0.9":  true,
		"application/json, text/event-stream;q=0.5":        false,
		"text/event-stream;q=0":                            false,
		"text/event-stream;q=0.5, application/json;Q=0.6":  false,
		"text/event-stream;q=oops":                         true,
		"text/plain;q=0.1, text/event-stream;charset=utf8": true,
	} {
		if got := acceptsSSE(http.Header{"Accept": {accept}}); got != want {
			t.Errorf("%q asks for a stream: %t", accept, got)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, path, want string
		ok                  bool
	}{
		{"/v1/rpc", "/v1/rpc", "", true},
		{"/v1/rpc", "/v1/rpc/", "", false},
		{"/v1/commands/{command}", "/v1/commands/x", "x", true},
		{"/v1/commands/{command}", "/v1/commands/", "", false},
		{"/v1/commands/{command}", "/v1/commands/x/y", "", false},
		{"/v1/commands/{command}", "/v1/commands/x%2Fy", "x/y", true},
		{"/v1/sessions/{id}/events", "/v1/sessions/a/events", "a", true},
		{"/v1/sessions/{id}/events", "/v1/sessions//events", "", false},
		{"/v1/outputs/{ref...}", "/v1/outputs/a/b", "a/b", true},
		{"/v1/outputs/{ref...}", "/v1/outputs/a%2Fb%25", "a/b%", true},
		{"/v1/outputs/{ref...}", "/v1/outputs/%zz", "", false},
	} {
		if got, ok := matchPattern(c.pattern, c.path); got != c.want || ok != c.ok {
			t.Errorf("match(%q, %q) = %q, %t", c.pattern, c.path, got, ok)
		}
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true},
		{"a", "ab", false},
		{"*", "", true},
		{"tool.*", "tool.catalog.resolved", true},
		{"tool.*", "tools", false},
		{"*.started", "job.item.started", true},
		{"*.started", "turn.starte", false},
		{"a*b*c", "aXbYc", true},
		{"a*b*c", "aXcYb", false},
		{"*a*", "bab", true},
		{"a*a", "a", false},
	} {
		if got := glob(c.pattern, c.name); got != c.want {
			t.Errorf("glob(%q, %q) = %t", c.pattern, c.name, got)
		}
	}
}

func TestTraceOf(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if trace, span := traceOf(good); trace != "0af7651916cd43dd8448eb211c80319c" || span != "b7ad6b7169203331" {
		t.Errorf("got %q %q", trace, span)
	}
	if trace, _ := traceOf("01" + good[2:] + "-more"); trace == "" {
		t.Error("a later version with more fields is refused")
	}
	for _, bad := range []string{
		"", "x", good + "-x", "ff" + good[2:], strings.ToUpper(good), good[:len(good)-1],
		"00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-" + strings.Repeat("0", 16) + "-01",
		"00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
	} {
		if trace, span := traceOf(bad); trace != "" || span != "" {
			t.Errorf("%q was taken for %q %q", bad, trace, span)
		}
	}
}

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		after, oldest, last, from uint64
		reason                    string
	}{
		{0, 1, 10, 0, ""},
		{10, 1, 10, 10, ""},
		{11, 1, 10, 10, "cursor_past_end"},
		{0, 5, 10, 4, "retention"},
		{3, 5, 10, 4, "retention"},
		{4, 5, 10, 4, ""},
		{0, 0, 0, 0, ""},
	} {
		from, gap := streamPosition("s", c.after, c.oldest, c.last)
		reason := ""
		if gap != nil {
			reason = gap.Reason
			if gap.GapFrom > gap.GapTo {
				t.Errorf("%+v: the gap is empty: %+v", c, gap)
			}
		}
		if from != c.from || reason != c.reason {
			t.Errorf("%+v: from %d, %q", c, from, reason)
		}
	}
}

func TestBareErrorsAreRecognised(t *testing.T) {
	const tail = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
	for raw, want := range map[string]fault.Kind{
		"HTTP/1.1 400 Bad Request" + tail + "400 Bad Request":                                 fault.InvalidParams,
		"HTTP/1.1 431 Request Header Fields Too Large" + tail:                                 fault.HeaderTooLarge,
		"HTTP/1.1 501 Not Implemented" + tail:                                                 fault.InvalidParams,
		"HTTP/1.1 417 Expectation Failed\r\nConnection: close\r\nContent-Length: 0\r\n\r\n":   fault.InvalidParams,
		"HTTP/1.1 404 Not Found\r\nContent-Type: application/problem+json\r\n\r\n{}":          "",
		"HTTP/1.1 200 OK" + tail:                                                              "",
		"HTTP/1.1 400":                                                                        "",
		"data: HTTP/1.1 400 Bad Request" + tail:                                               "",
		"HTTP/1.1 500 Internal Server Error\r\nDate: x\r\nContent-Type: text/plain\r\n\r\nxx": "",
	} {
		err := bareError([]byte(raw))
		if (err == nil) != (want == "") || (err != nil && fault.KindOf(err) != want) {
			t.Errorf("%q: %v, want %q", raw, err, want)
		}
	}
}

// Every payload from which items can be derived gives well-formed items with an
// id, and completes what it started under the same id.
func TestItems(t *testing.T) {
	scope := event.Scope{ThreadID: "th", TurnID: "turn_1", StepID: "st", ToolCallID: "tool_1", ModelRequestID: "req_1", ProcessID: "proc_1", ActionID: "action_1", SubagentID: "sub_1", TaskID: "task_1", RunID: "run_1"}
	for _, c := range []struct {
		e    event.Event
		want string
	}{
		{event.Event{Type: event.TypeTurnSubmitted, Payload: &event.TurnSubmitted{Status: "accepted", Source: "user", Preview: "hi"}}, "completed user_message turn_1 completed hi"},
		{event.Event{Type: event.TypeModelRequested, Payload: &event.ModelRequested{Purpose: "turn"}}, "started agent_message req_1 in_progress"},
		{event.Event{Type: event.TypeModelRequested, Payload: &event.ModelRequested{Purpose: "compaction"}}, ""},
		{event.Event{Type: event.TypeModelRequested, Payload: &event.ModelRequested{Purpose: "repair"}}, "started agent_message req_1 in_progress"},
		{event.Event{Type: event.TypeModelCompleted, Payload: &event.ModelCompleted{ModelRequestID: "req_1", Purpose: "compaction", Message: &event.ModelMessage{Text: "a summary", Reasoning: "hm"}}}, ""},
		{event.Event{Type: event.TypeModelDelta, Payload: &event.ModelDelta{Text: "he"}}, "updated agent_message req_1 in_progress +he"},
		{event.Event{Type: event.TypeModelCompleted, Payload: &event.ModelCompleted{ModelRequestID: "req_1", Message: &event.ModelMessage{Text: "hello", Reasoning: "hm"}}}, "completed reasoning req_1:reasoning completed hm; completed agent_message req_1 completed hello"},
		{event.Event{Type: event.TypeModelFailed, Payload: &event.ModelFailed{ModelRequestID: "req_1", ErrorCategory: "interrupted"}}, "completed agent_message req_1 cancelled"},
		{event.Event{Type: event.TypeReasoningDelta, Payload: &event.ReasoningDelta{Text: "h"}}, "started reasoning req_1:reasoning in_progress; updated reasoning req_1:reasoning in_progress +h"},
		{event.Event{Type: event.TypeReasoningDelta, Payload: &event.ReasoningDelta{Text: "m", Index: 1}}, "updated reasoning req_1:reasoning in_progress +m"},
		{event.Event{Type: event.TypeReasoningSummary, Payload: &event.ReasoningSummary{Text: "hm"}}, "completed reasoning req_1:reasoning completed hm"},
		{event.Event{Type: event.TypeToolStarted, Payload: &event.ToolStarted{ToolName: "shell"}}, "started tool_call tool_1 in_progress [shell]"},
		{event.Event{Type: event.TypeToolStarted, Payload: &event.ToolStarted{ToolName: "update_plan"}}, "started plan tool_1 in_progress [update_plan]"},
		{event.Event{Type: event.TypeToolProgress, Payload: &event.ToolProgress{ToolName: "shell", Text: "x"}}, "updated tool_call tool_1 in_progress [shell] +x"},
		{event.Event{Type: event.TypeToolResult, Payload: &event.ToolResult{ToolName: "write_file", Preview: "ok", ChangedFiles: []event.FileChange{{Path: "a", Change: "created"}}}}, "completed file_change tool_1:a completed [a] created; completed tool_call tool_1 completed [write_file] ok"},
		{event.Event{Type: event.TypeToolFailed, Payload: &event.ToolFailed{ToolName: "shell", ErrorCategory: "denied", Message: "no"}}, "completed tool_call tool_1 failed [shell] no"},
		{event.Event{Type: event.TypeProcessStarted, Payload: &event.ProcessStarted{Command: []string{"sh", "-c", "ls"}}}, "started command proc_1 in_progress [ls]"},
		{event.Event{Type: event.TypeProcessOutput, Payload: &event.ProcessOutput{Text: "x"}}, "updated command proc_1 in_progress +x"},
		{event.Event{Type: event.TypeProcessCompleted, Payload: &event.ProcessCompleted{}}, "completed command proc_1 completed"},
		{event.Event{Type: event.TypeProcessTerminated, Payload: &event.ProcessTerminated{Reason: "user"}}, "completed command proc_1 cancelled user"},
		{event.Event{Type: event.TypeActionRequired, Payload: &event.ActionRequired{ActionType: "tool_permission", Prompt: "may I"}}, "started action action_1 in_progress [tool_permission] may I"},
		{event.Event{Type: event.TypeActionResolved, Payload: &event.ActionResolved{Decision: "allow", Status: "resolved"}}, "completed action action_1 completed allow"},
		{event.Event{Type: event.TypeSubagentSpawned, Payload: &event.SubagentSpawned{Role: "tester"}}, "started subagent sub_1 in_progress [tester]"},
		{event.Event{Type: event.TypeSubagentFailed, Payload: &event.SubagentEnded{Status: "failed", Error: &event.Failure{Message: "oh"}}}, "completed subagent sub_1 failed oh"},
		{event.Event{Type: event.TypeTurnFailed, Payload: &event.TurnFailed{Status: "failed", FailureCategory: "internal", Error: &event.Failure{Message: "oh"}}}, "completed error turn_1:error failed [internal] oh"},
		{event.Event{Type: event.TypeRuntimeError, Payload: &event.RuntimeNotice{Code: "c", Message: "m"}}, "completed error evt_1 completed [c] m"},
		{event.Event{Type: event.TypeContextCompactionStarted, Payload: &event.CompactionStarted{CompactionID: "c1", Trigger: "requested"}}, "started compaction c1 in_progress [requested]"},
		{event.Event{Type: event.TypeContextCompactionFailed, Payload: &event.CompactionFailed{CompactionID: "c1", Error: event.Failure{Message: "no"}}}, "completed compaction c1 failed no"},
		{event.Event{Type: event.TypeTurnStarted, Payload: &event.TurnStarted{Status: "running"}}, ""},
		{event.Event{Type: event.TypeQueueChanged, Payload: &event.QueueChanged{}}, ""},
	} {
		e := c.e
		e.Scope, e.ID, e.SessionID, e.Sequence, e.Time = scope, "evt_1", "s", 7, time.Unix(0, 0)
		items, err := itemsOf(event.AppendJSON(nil, &e))
		if err != nil {
			t.Errorf("%s: %v", e.Type, err)
		}
		var got []string
		for _, it := range items {
			got = append(got, itemWords(t, &it))
			if err := answertest.ItemProblem(it.json()); err != nil {
				t.Error(err)
			}
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%s: %q, want %q", e.Type, s, c.want)
		}
	}
}

func itemWords(t *testing.T, it *ItemEvent) string {
	if it.Sequence != 7 || it.SessionID != "s" || it.EventID != "evt_1" || !json.Valid(it.json()) || !json.Valid(it.Payload.Data) ||
		it.SchemaVersion != "agentd-1" || it.TaskID != "task_1" || it.ToolCallID != "tool_1" {
		t.Errorf("%s is not whole: %+v", it.EventType, it)
	}
	words := []string{strings.TrimPrefix(it.Type, "item."), it.Payload.Kind, it.Payload.ItemID, it.Payload.Status}
	if it.Payload.Title != "" {
		words = append(words, "["+it.Payload.Title+"]")
	}
	if it.Payload.Text != "" {
		words = append(words, it.Payload.Text)
	}
	if it.Payload.Delta != "" {
		words = append(words, "+"+it.Payload.Delta)
	}
	return strings.Join(words, " ")
}

func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	open := func() *Tokens {
		tk, err := OpenTokens(path, &TokensOptions{Admin: "top", Clock: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		return tk
	}
	a, b := open(), open() // two processes
	kept, secret, err := a.Create(NewToken{Name: "ci", Role: command.RoleClient, Account: "acme", ExpiresAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(path); strings.Contains(string(data), secret) || strings.Contains(string(data), secret[len(secret)-20:]) {
		t.Error("the file has the secret")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	id, err := b.Authenticate(t.Context(), secret)
	if err != nil || id.Name != "ci" || id.Role != command.RoleClient || id.Account != "acme" || id.TokenID != kept.ID || !id.Expires.Equal(now.Add(time.Hour)) {
		t.Errorf("%+v, %v", id, err)
	}
	if id, err := b.Authenticate(t.Context(), "top"); err != nil || id.Role != command.RoleAdmin {
		t.Errorf("%+v, %v", id, err)
	}
	for _, bad := range []string{"", "x", "to", "topp", secret[:len(secret)-1], secret + "x", "agentd_" + kept.ID, "agentd_" + kept.ID + "_", "agentd__"} {
		if _, err := b.Authenticate(t.Context(), bad); fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, _, err := b.Create(NewToken{Name: "ci", Role: command.RoleClient}); fault.KindOf(err) != fault.Conflict {
		t.Errorf("the same name: %v", err)
	}
	if _, err := a.Revoke("nobody"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("revoke: %v", err)
	}
	now = now.Add(2 * time.Hour)
	if _, err := b.Authenticate(t.Context(), secret); fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("expired: %v", err)
	}
	now = now.Add(-2 * time.Hour)
	if _, err := a.Revoke("ci"); err != nil {
		t.Error(err)
	}
	if _, err := b.Authenticate(t.Context(), secret); fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("revoked by another process: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	list, err := open().List()
	if err != nil || len(list) != 1 || list[0].RevokedAt.IsZero() || !list[0].LastUsedAt.Equal(now) {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestNewTokensAreChecked(t *testing.T) {
	tk, err := OpenTokens(filepath.Join(t.TempDir(), "t"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []NewToken{
		{},
		{Name: "x"},
		{Name: "x", Role: "root"},
		{Name: "a\nb", Role: command.RoleAdmin},
		{Name: "x", Role: command.RoleClient, Account: "../a"},
		{Name: "x", Role: command.RoleClient, ExpiresAt: time.Now().Add(-time.Second)},
	} {
		if _, _, err := tk.Create(bad); fault.KindOf(err) != fault.InvalidParams {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := tk.Authenticate(t.Context(), ""); err == nil {
		t.Error("the empty token is the empty admin token")
	}
}

func TestADamagedTokenFileKeepsAllButTheAdminOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	tk, err := OpenTokens(path, &TokensOptions{Admin: "top"})
	if err != nil {
		t.Fatal(err)
	}
	_, secret, err := tk.Create(NewToken{Name: "x", Role: command.RoleClient})
	if err != nil {
		t.Fatal(err)
	}
	for _, damage := range []string{"", "{", `{"version":2}`} {
		if err := os.WriteFile(path, []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := tk.Authenticate(t.Context(), secret); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%q: %v", damage, err)
		}
		if _, err := tk.Authenticate(t.Context(), "top"); err != nil {
			t.Errorf("%q: the admin: %v", damage, err)
		}
		if _, err := OpenTokens(path, nil); err == nil {
			t.Errorf("%q: opened", damage)
		}
	}
}

func TestAdminToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	made, err := AdminToken(path, "")
	if err != nil || len(made) < 40 {
		t.Fatalf("%q, %v", made, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := AdminToken(path, "")
	if err != nil || again != made {
		t.Errorf("%q, %v", again, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if given, err := AdminToken(path, "mine"); err != nil || given != "mine" {
		t.Errorf("%q, %v", given, err)
	}
	if _, err := AdminToken(path, "two words"); err == nil {
		t.Error("a token with white space")
	}
}

// Whatever a query is, it is read or refused as invalid, and what is read is
// within its bounds.
func FuzzQuery(f *testing.F) {
	f.Add("after=1&limit=5&types=tool.*&view=items", "7")
	f.Add("%zz", "")
	f.Add("types=*,*", "-1")
	f.Fuzz(func(t *testing.T, query, last string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.RawQuery = query
		r.Header.Set("Last-Event-ID", last)
		q, err := parseQuery(r)
		if err != nil {
			if fault.KindOf(err) != fault.InvalidParams {
				t.Errorf("%q: %v", query, err)
			}
			return
		}
		if q.limit < 1 || q.limit > maxPage || len(q.filter.globs) > maxGlobs {
			t.Errorf("%q: %+v", query, q)
		}
	})
}

// Whatever a path is, at most one pattern's routes fit.
func FuzzRoute(f *testing.F) {
	for _, p := range []string{"/v1/commands/x", "/v1/outputs/a%2Fb", "//", "/v1/sessions/%00/events"} {
		f.Add(p)
	}
	s := New(nil, nil)
	f.Fuzz(func(t *testing.T, path string) {
		fits, _ := s.findRoutes(&url.URL{Path: path, RawPath: path})
		for _, rt := range fits {
			if rt.pattern != fits[0].pattern {
				t.Errorf("%q fits %s and %s", path, rt.pattern, fits[0].pattern)
			}
		}
	})
}

// Whatever is stored, the filters pass it on, leave it out or fail; they don't panic.
func FuzzFilter(f *testing.F) {
	f.Add([]byte(`{"type":"tool.started","sequence":1}`))
	f.Add([]byte(`{"type":"`))
	f.Add([]byte("{}"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		for _, fl := range []filter{{}, {globs: []string{"tool.*"}}, {standard: true}, {items: true}} {
			_, _ = fl.apply(&command.Delivered{Data: data})
		}
	})
}

// TestAConnectionKeepsNoRequest: what is remembered of a connection is a name, not the
// request, with its headers and its token, that brought it.
func TestAConnectionKeepsNoRequest(t *testing.T) {
	l := &link{}
	request := func() weak.Pointer[http.Request] {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
		r = r.WithContext(context.WithValue(r.Context(), linkKey{}, l))
		if err := newHostList(nil).check(r); err != nil {
			t.Fatal(err)
		}
		return weak.Make(r)
	}()
	runtime.GC()
	if request.Value() != nil {
		t.Error("the request is still there")
	}
	if known := l.host.Load(); known == nil || *known != "localhost" {
		t.Error("the host isn't remembered")
	}
}

// Whatever headers say, they are read without a panic and never let a stranger in.
func FuzzHeaders(f *testing.F) {
	f.Add("localhost:80", "http://localhost", "Bearer x", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "bytes=0-1")
	f.Add("[::1", "null", "bearer", "", "")
	f.Fuzz(func(t *testing.T, host, origin, auth, trace, media string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		r.Header.Set("Origin", origin)
		r.Header.Set("Authorization", auth)
		r.Header.Set("Content-Type", media)
		if newHostList(nil).check(r) == nil {
			if name, _ := splitHost(strings.ToLower(host), "http"); !loopbackNames[name] {
				t.Errorf("the host %q was let in", host)
			}
		}
		_, _ = bearer(r)
		_ = checkMedia(r.Header)
		tr, span := traceOf(trace)
		if (tr == "") != (span == "") {
			t.Errorf("%q: %q %q", trace, tr, span)
		}
	})
}

// TestAStreamEndsWithItsContext: also if that ended while a batch was written, when the
// next one isn't waited for any more. It would be followed again and again.
func TestAStreamEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := followFor(ctx, time.Hour, nil, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
	if err := followFor(t.Context(), -time.Second, nil, nil, nil); err != nil {
		t.Errorf("a while that is over ends with %v", err)
	}
}

// TestLoginLinksAreShared: a token that makes links without end leaves some to others.
func TestLoginLinksAreShared(t *testing.T) {
	b := newBrowsers(&Console{})
	made := 0
	for range 2 * maxLinks {
		if _, _, err := b.addLink(t.Context(), "greedy", "token"); err == nil {
			made++
		}
	}
	code, _, err := b.addLink(t.Context(), "other", "token")
	if err != nil || made != maxLinksEach {
		t.Fatalf("%d links of one token; another's: %v", made, err)
	}
	if token, err := b.useLink(t.Context(), code); err != nil || token != "token" {
		t.Errorf("%q, %v", token, err)
	}
}
