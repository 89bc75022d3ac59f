package a2a

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/channel/turnview"
	"agentd/event"
	"agentd/state"
)

// The address that is dialled is what counts, whatever a name looked like before.
func TestANameThatLeadsInside(t *testing.T) {
	reached := false
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer inside.Close()
	at := strings.Replace(inside.URL, "127.0.0.1", "localhost", 1)
	for _, allow := range []bool{false, true} {
		transport := guarded(func(string) bool { return allow }, time.Minute)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(req)
		if err == nil {
			_ = res.Body.Close()
		}
		transport.CloseIdleConnections()
		if reached != allow || (!allow && !errors.Is(err, errRefused)) {
			t.Errorf("allowed %v: reached %v, %v", allow, reached, err)
		}
	}
}

func TestSealing(t *testing.T) {
	s, err := newSealer([]byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	other, err := newSealer([]byte(strings.Repeat("o", 32)))
	if err != nil {
		t.Fatal(err)
	}
	sealed := s.seal("here", []byte("secret"))
	if strings.Contains(sealed, "secret") || sealed == s.seal("here", []byte("secret")) {
		t.Error("it isn't sealed")
	}
	if got, err := s.open("here", sealed); err != nil || string(got) != "secret" {
		t.Errorf("%q %v", got, err)
	}
	first := "A" // one in 64 begins with it already
	if sealed[0] == 'A' {
		first = "B"
	}
	for name, err := range map[string]error{
		"elsewhere":   second(s.open("there", sealed)),
		"another key": second(other.open("here", sealed)),
		"changed":     second(s.open("here", first+sealed[1:])),
		"short":       second(s.open("here", "AAAA")),
		"no base64":   second(s.open("here", "%")),
	} {
		if err == nil {
			t.Errorf("%s: it opens", name)
		}
	}
	if _, err := newSealer([]byte("short")); err == nil {
		t.Error("a short key is taken")
	}
}

func second[T any](_ T, err error) error { return err }

func TestCamelCase(t *testing.T) {
	var v any
	in := `{"message_id":"a","parts":[{"media_type":"x","data":{"a_b":1},"metadata":{"c_d":2}}],"pageSize":1,"page_size":2,"_x":3}`
	if err := json.Unmarshal([]byte(in), &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(camel(v))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"X":3,"messageId":"a","pageSize":1,"page_size":2,"parts":[{"data":{"a_b":1},"mediaType":"x","metadata":{"c_d":2}}]}`
	if string(out) != want {
		t.Errorf("%s", out)
	}
}

func TestReplies(t *testing.T) {
	ask := turnview.Action{ID: "action_q", ActionRequired: &event.ActionRequired{ActionType: "structured_input", Decisions: []string{"submit", "cancel"}}}
	number := turnview.Action{ID: "action_n", ActionRequired: &event.ActionRequired{ActionType: "structured_input", Decisions: []string{"submit", "cancel"}, Schema: event.Raw(`{"type":"integer"}`)}}
	approve := turnview.Action{ID: "action_a", ActionRequired: &event.ActionRequired{ActionType: "tool_permission", Decisions: []string{"allow", "deny", "cancel"}}}
	text := func(s string) *proto.Message { return &proto.Message{Parts: proto.ContentParts{proto.NewTextPart(s)}} }
	data := func(v any) *proto.Message { return &proto.Message{Parts: proto.ContentParts{proto.NewDataPart(v)}} }
	for name, c := range map[string]struct {
		m       *proto.Message
		waiting []turnview.Action
		want    string // action, decision and payload; empty: refused
	}{
		"text":              {text("red"), []turnview.Action{ask}, `action_q submit "red"`},
		"a number":          {text("42"), []turnview.Action{number}, `action_n submit 42`},
		"no number":         {text("many"), []turnview.Action{number}, `action_n submit "many"`},
		"digits as a text":  {text("42"), []turnview.Action{ask}, `action_q submit "42"`},
		"data":              {data(map[string]any{"colour": "red"}), []turnview.Action{ask}, `action_q submit {"colour":"red"}`},
		"cancelled":         {data(map[string]any{"decision": "cancel"}), []turnview.Action{ask}, `action_q cancel `},
		"payload alone":     {data(map[string]any{"actionId": "action_q", "payload": 7}), []turnview.Action{ask}, `action_q submit 7`},
		"the oldest":        {text("x"), []turnview.Action{ask, number}, `action_q submit "x"`},
		"the one named":     {data(map[string]any{"actionId": "action_a", "decision": "deny"}), []turnview.Action{ask, approve}, `action_a deny `},
		"a word":            {text(" YES! "), []turnview.Action{approve}, `action_a allow `},
		"no word":           {text("go ahead maybe"), []turnview.Action{approve}, ``},
		"not offered":       {data(map[string]any{"decision": "submit"}), []turnview.Action{approve}, ``},
		"another one named": {data(map[string]any{"actionId": "action_x", "decision": "deny"}), []turnview.Action{approve}, ``},
		"nothing":           {&proto.Message{Parts: proto.ContentParts{proto.NewRawPart([]byte("x"))}}, []turnview.Action{approve}, ``},
	} {
		r, err := replyTo(c.m, c.waiting)
		got := ""
		if err == nil {
			got = r.ActionID + " " + r.Decision + " " + string(r.Payload)
		}
		if got != c.want {
			t.Errorf("%s: %q (%v), expected %q", name, got, err, c.want)
		}
	}
}

// The table of states is whole: each of ours has one of theirs, and none twice.
func TestStates(t *testing.T) {
	seen := map[proto.TaskState]bool{}
	for _, ours := range []string{
		state.PeerIdle, state.PeerRunning, state.PeerWaitingInput, state.PeerWaitingPermission, state.PeerCompleted, state.PeerFailed, state.PeerCancelled, state.PeerRejected,
	} {
		theirs := theirState(ours)
		if back, ok := ourState(theirs); !ok || back != ours || seen[theirs] {
			t.Errorf("%s is %s is %s", ours, theirs, back)
		}
		seen[theirs] = true
	}
	if len(seen) != 8 || theirState("missing") != proto.TaskStateUnspecified {
		t.Errorf("%d states", len(seen))
	}
}

// A credential is asked for as authorization, and the client of another channel is
// not asked of the peer.
func TestWhatIsAskedOfAPeer(t *testing.T) {
	p := &state.PeerTask{TaskID: "t", Direction: state.PeerInbound, Status: state.PeerRunning}
	step := func(action string, payload event.Payload) string {
		p.Follow(&event.Event{Scope: event.Scope{TaskID: "t", ActionID: action}, Payload: payload})
		return p.Status
	}
	for i, c := range []struct {
		action  string
		payload event.Payload
		want    string
	}{
		{"a", &event.ActionRequired{ActionType: "client_tool"}, state.PeerRunning},
		{"b", &event.ActionRequired{ActionType: "tool_permission"}, state.PeerWaitingInput},
		{"c", &event.ActionRequired{ActionType: "credential"}, state.PeerWaitingPermission},
		{"c", &event.ActionResolved{}, state.PeerWaitingInput},
		{"a", &event.ActionResolved{}, state.PeerWaitingInput},
		{"b", &event.ActionResolved{}, state.PeerRunning},
		{"", &event.TurnFailed{Status: "failed", FailureCategory: "hook_blocked"}, state.PeerRejected},
	} {
		if got := step(c.action, c.payload); got != c.want {
			t.Errorf("step %d: %s, expected %s", i, got, c.want)
		}
	}
}

func TestViewsAreBounded(t *testing.T) {
	vs := newViews()
	first := vs.viewOf("a", "0")
	for i := range maxViews {
		vs.viewOf("a", strings.Repeat("x", i+1))
	}
	if vs.viewOf("a", "0") == first || len(vs.byKey) > maxViews+1 || vs.order.Len() != len(vs.byKey) {
		t.Errorf("%d views are kept", len(vs.byKey))
	}
}

// The client that configures a push reads why it failed, and must not learn from it what only
// this machine can find out.
func TestErrorsOfAPushTellNoAddresses(t *testing.T) {
	const inside = "10.9.8.7"
	for name, err := range map[string]error{
		"refused": &url.Error{Op: "Post", URL: "http://db.example/?key=planted", Err: &net.OpError{Op: "dial", Err: fmt.Errorf("%w: %s:80", errRefused, inside)}},
		"unknown": &url.Error{Op: "Post", URL: "http://db.example/?key=planted", Err: &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "db.example", Server: inside + ":53"}}},
	} {
		got := plainError(err)
		if strings.Contains(got.Error(), inside) || strings.Contains(got.Error(), "planted") || errors.Is(got, errRefused) != (name == "refused") {
			t.Errorf("%s: %v", name, got)
		}
	}
}
