package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"agentd/command"
)

// feedEvent is what a reader of the feed looks at.
type feedEvent struct {
	SessionID string `json:"sessionId"`
	Sequence  uint64 `json:"sequence"`
	Type      string `json:"type"`
}

// TestTheFeedGoesOnAfterItsCursor follows turns of several sessions over connections that
// break after a few frames: each event comes once, in the order of its session.
func TestTheFeedGoesOnAfterItsCursor(t *testing.T) {
	r := runLive(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first, frames := r.stream(ctx, "/v1/feed", "client-token")
	const sessions = 3
	for _, id := range []string{"s0", "s1", "s2"} {
		r.sendRequest(r.request("POST", "/v1/commands/submit_turn", `{"sessionId":"`+id+`","create":true,"input":"hello"}`)).decode(t, &command.SubmitTurnResult{})
	}
	seen, ended := map[string]uint64{}, 0
	body, reader := first, frames
	for ended < sessions {
		cursor := ""
		for range 3 {
			f, err := reader.Next()
			if err != nil {
				t.Fatal(err)
			}
			var e feedEvent
			if err := json.Unmarshal(f.Data, &e); err != nil || f.ID == "" || f.Event != "" {
				t.Fatalf("%+v, %v", f, err)
			}
			if e.Sequence != seen[e.SessionID]+1 {
				t.Fatalf("%s: %d after %d", e.SessionID, e.Sequence, seen[e.SessionID])
			}
			seen[e.SessionID], cursor = e.Sequence, f.ID
			if e.Type == "turn.completed" {
				if ended++; ended == sessions {
					break
				}
			}
		}
		_ = body.Body.Close()
		body, reader = r.stream(ctx, "/v1/feed?after="+url.QueryEscape("not used"), "client-token", "Last-Event-ID", cursor)
	}
	_ = body.Body.Close()
}

func TestTheFeedRefusesWhatIsNoCursor(t *testing.T) {
	r := runLive(t)
	for _, query := range []string{"?after=", "?after=nonsense", "?after=17", "?limit=3", "?sessionId=s", "?after=a&after=b"} {
		a := r.getPath("/v1/feed" + query)
		if p := a.problem(t); p.Status != http.StatusBadRequest || p.Detail == "" {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

// TestEventsNameTheirSubscription has two sessions and the feed on one connection: each
// notification says which subscription it is of, and those of the feed where to go on.
func TestEventsNameTheirSubscription(t *testing.T) {
	r := runLive(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ws := r.dial(ctx, "client-token")
	defer hangUp(ws)
	subscriptions := map[string]string{}
	for i, params := range []string{`{"sessionId":"a"}`, `{"sessionId":"b"}`, `{"feed":true}`} {
		if i < 2 {
			r.sendRequest(r.request("POST", "/v1/commands/create_session", params)).decode(t, &struct{}{})
		}
		wsSendf(t, ws, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":%s}`, params)
		for {
			var m struct {
				ID     json.RawMessage `json:"id"`
				Result struct {
					SubscriptionID string `json:"subscriptionId"`
				} `json:"result"`
			}
			if err := json.Unmarshal(wsRead(t, ws), &m); err != nil {
				t.Fatal(err)
			}
			if m.ID != nil {
				subscriptions[m.Result.SubscriptionID] = []string{"a", "b", ""}[i]
				break
			}
		}
	}
	r.sendRequest(r.request("POST", "/v1/commands/submit_turn", `{"sessionId":"b","input":"hello"}`)).decode(t, &command.SubmitTurnResult{})
	var cursor string
	for left := []string{"b", ""}; len(left) > 0; {
		var m struct {
			Method         string    `json:"method"`
			Params         feedEvent `json:"params"`
			SubscriptionID string    `json:"subscriptionId"`
			Cursor         string    `json:"cursor"`
		}
		if err := json.Unmarshal(wsRead(t, ws), &m); err != nil || m.Method != "event" {
			t.Fatalf("%+v, %v", m, err)
		}
		of, ok := subscriptions[m.SubscriptionID]
		if !ok || (of != "" && of != m.Params.SessionID) || (of == "") != (m.Cursor != "") {
			t.Errorf("%+v belongs to %q", m, of)
		}
		if of == "" {
			cursor = m.Cursor
		}
		if m.Params.Type == "turn.completed" {
			left = slices.DeleteFunc(left, func(s string) bool { return s == of })
		}
	}
	wsSendf(t, ws, `{"jsonrpc":"2.0","id":2,"method":"subscribe","params":{"feed":true,"cursor":"%s"}}`, cursor)
	for _, bad := range []string{`{"cursor":"x"}`, `{"feed":true,"cursor":"nonsense"}`, `{"feed":true,"sessionId":"a"}`, `{"feed":true,"after":3}`} {
		wsSendf(t, ws, `{"jsonrpc":"2.0","id":3,"method":"subscribe","params":%s}`, bad)
		for {
			var m struct {
				ID    json.RawMessage `json:"id"`
				Error *struct {
					Code int `json:"code"`
				} `json:"error"`
			}
			if err := json.Unmarshal(wsRead(t, ws), &m); err != nil {
				t.Fatal(err)
			}
			if string(m.ID) != "3" {
				continue
			}
			if m.Error == nil || m.Error.Code != -32602 {
				t.Errorf("%s: %+v", bad, m)
			}
			break
		}
	}
}
