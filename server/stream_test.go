package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentd/event"
	"agentd/event/eventtest"
	"agentd/internal/wire"
	"agentd/server"
)

// pageOf is a page of events on the wire.
type pageOf struct {
	Events []struct {
		Type     string
		Sequence uint64
		Item     struct{ ItemID, Kind, Status, Title, Text, Delta string }
	}
	LastSequence, NextAfter uint64
	Gap                     *server.Repair
}

func TestPages(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	r.fake.deltas("s", 299)
	for _, c := range []struct {
		query          string
		n              int
		first, next    uint64
		wantLast       uint64
		pastEnd, onGap bool
	}{
		{query: "", n: 200, first: 1, next: 200, wantLast: 300},
		{query: "?after=200", n: 100, first: 201, next: 300, wantLast: 300},
		{query: "?after=10&limit=5", n: 5, first: 11, next: 15, wantLast: 300},
		{query: "?limit=1000", n: 300, first: 1, next: 300, wantLast: 300},
		{query: "?after=300", n: 0, next: 300, wantLast: 300},
		{query: "?after=301", n: 0, next: 300, wantLast: 300, pastEnd: true},
		{query: "?lastEventId=298&after=1", n: 2, first: 299, next: 300, wantLast: 300},
		{query: "?types=session.*", n: 1, first: 1, next: 300, wantLast: 300},
		{query: "?types=session.*,model.delta&limit=3", n: 3, first: 1, next: 3, wantLast: 300},
	} {
		a := r.sendRequest(r.request("GET", "/v1/sessions/s/events"+c.query, ""))
		var p pageOf
		a.decode(t, &p)
		if len(p.Events) != c.n || p.NextAfter != c.next || p.LastSequence != c.wantLast {
			t.Errorf("%q: %d events, nextAfter %d, last %d", c.query, len(p.Events), p.NextAfter, p.LastSequence)
			continue
		}
		for i, e := range p.Events {
			if len(p.Events) > 1 && e.Sequence != c.first+uint64(i) {
				t.Errorf("%q: event %d has sequence %d", c.query, i, e.Sequence)
			}
		}
		if (p.Gap != nil) != c.pastEnd {
			t.Errorf("%q: gap %+v", c.query, p.Gap)
		}
	}
}

func TestLastEventIDWinsOverAfter(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	r.fake.deltas("s", 9)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, frames := r.stream(ctx, "/v1/sessions/s/events?after=2", "client-token", "Last-Event-ID", "8")
	defer res.Body.Close()
	f, err := frames.Next()
	if err != nil || f.ID != "9" || f.Event != "" {
		t.Errorf("got %+v, %v", f, err)
	}
}

func TestAStreamReplaysThenFollows(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	r.fake.deltas("s", 999)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, frames := r.stream(ctx, "/v1/sessions/s/events", "client-token")
	defer res.Body.Close()
	if ct := res.Header.Get("Content-Type"); ct != "text/event-stream" {
		t.Errorf("media type %q", ct)
	}
	for want := uint64(1); want <= 1200; want++ {
		if want == 1001 {
			go r.fake.deltas("s", 200)
		}
		f, err := frames.Next()
		if err != nil {
			t.Fatal(err)
		}
		var e struct{ Sequence uint64 }
		if err := json.Unmarshal(f.Data, &e); err != nil {
			t.Fatal(err)
		}
		if f.ID != strconv.FormatUint(want, 10) || e.Sequence != want || f.Event != "" {
			t.Fatalf("frame %d: id %s, event %q, sequence %d", want, f.ID, f.Event, e.Sequence)
		}
	}
}

func TestTheDeliveredBytesAreTheStoredOnes(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	r.fake.append("s", event.Event{Type: event.TypeRuntimeWarning, Payload: &event.RuntimeNotice{Code: "x", Message: "line\nbreak \u2028 <&> \"q\""}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, frames := r.stream(ctx, "/v1/sessions/s/events?after=1", "client-token")
	defer res.Body.Close()
	f, err := frames.Next()
	if want := string(r.fake.sessions["s"].events[1].Data); err != nil || string(f.Data) != want {
		t.Errorf("got %s, want %s (%v)", f.Data, want, err)
	}
	a := r.sendRequest(r.request("GET", "/v1/sessions/s/events?after=1", ""))
	if !bytes.Contains(a.body, f.Data) {
		t.Errorf("the page has other bytes: %s", a.body)
	}
}

func TestSilenceIsBrokenByHeartbeats(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, _ := r.stream(ctx, "/v1/sessions/s/events?after=1", "client-token")
	defer res.Body.Close()
	buf := make([]byte, 64)
	for range 3 {
		n, err := res.Body.Read(buf)
		if err != nil || !strings.HasPrefix(string(buf[:n]), ":") {
			t.Fatalf("got %q, %v", buf[:n], err)
		}
	}
}

func TestSnapshotFirst(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, frames := r.stream(ctx, "/v1/sessions/s/events?snapshot=1", "client-token")
	defer res.Body.Close()
	f, err := frames.Next()
	if err != nil || f.Event != "snapshot" || f.ID != "" || !strings.Contains(string(f.Data), `"sessionId":"s"`) {
		t.Fatalf("first frame %+v %s, %v", f, f.Data, err)
	}
	if f, err = frames.Next(); err != nil || f.Event != "" || f.ID != "1" {
		t.Errorf("second frame %+v, %v", f, err)
	}
}

func TestAGapIsMarked(t *testing.T) {
	for _, c := range []struct {
		name  string
		after uint64
		want  server.Repair
		next  string
	}{
		{"retention", 3, server.Repair{SessionID: "s", RecoveryMode: "snapshot_repair", Reason: "retention", Status: "unavailable", GapFrom: 4, GapTo: 9, ContinuesAfter: 9}, "10"},
		{"past the end", 50, server.Repair{SessionID: "s", RecoveryMode: "snapshot_repair", Reason: "cursor_past_end", Status: "stale", GapFrom: 21, GapTo: 50, ContinuesAfter: 20}, "21"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, nil)
			r.fake.open("s", "a")
			r.fake.deltas("s", 19)
			r.fake.expire("s", 10)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			res, frames := r.stream(ctx, fmt.Sprintf("/v1/sessions/s/events?after=%d", c.after), "client-token")
			defer res.Body.Close()
			f, err := frames.Next()
			if err != nil || f.Event != "snapshot" {
				t.Fatalf("first frame %+v, %v", f, err)
			}
			f, err = frames.Next()
			var gap server.Repair
			if err != nil || f.Event != "snapshot.repaired" || json.Unmarshal(f.Data, &gap) != nil || gap != c.want {
				t.Fatalf("second frame %s %s, want %+v (%v)", f.Event, f.Data, c.want, err)
			}
			r.fake.deltas("s", 1)
			if f, err = frames.Next(); err != nil || f.ID != c.next {
				t.Errorf("third frame %+v, %v", f, err)
			}
			var p pageOf
			r.sendRequest(r.request("GET", fmt.Sprintf("/v1/sessions/s/events?after=%d", c.after), "")).decode(t, &p)
			if p.Gap == nil || p.Gap.Reason != c.want.Reason {
				t.Errorf("the page doesn't mark the gap: %+v", p)
			}
		})
	}
}

func TestFilters(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	tool := event.Scope{ThreadID: "th", TurnID: "tu", StepID: "st", ToolCallID: "tool_1"}
	r.fake.append("s",
		event.Event{Type: event.TypeToolStarted, Scope: tool, Payload: &event.ToolStarted{ToolName: "shell", Policy: "allowed"}},
		event.Event{Type: event.TypeTurnSteered, Scope: tool, Payload: &event.TurnSteered{Preview: "go on"}},
		event.Event{Type: event.TypeToolResult, Scope: tool, Payload: &event.ToolResult{ToolName: "shell", Status: "ok", Preview: "done", ChangedFiles: []event.FileChange{{Path: "a.txt", Change: "created"}}}},
	)
	for _, c := range []struct {
		query string
		want  []string
	}{
		{"types=tool.*", []string{"tool.started", "tool.result"}},
		{"types=*.started,session.created", []string{"session.created", "tool.started"}},
		{"types=*", []string{"session.created", "tool.started", "turn.steered", "tool.result"}},
		{"profile=standard", []string{"session.created", "tool.started", "tool.result"}},
		{"view=items", []string{"item.started", "item.completed", "item.completed", "item.completed"}},
		{"view=items&types=tool.*", []string{"item.started", "item.completed", "item.completed"}},
		{"view=items&types=item.started", []string{"item.started"}},
		{"view=items&profile=standard", []string{"item.started", "item.completed", "item.completed"}},
	} {
		var p pageOf
		r.sendRequest(r.request("GET", "/v1/sessions/s/events?"+c.query, "")).decode(t, &p)
		var got []string
		for _, e := range p.Events {
			got = append(got, e.Type)
		}
		if strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s: %v, want %v", c.query, got, c.want)
		}
		if p.NextAfter != 4 {
			t.Errorf("%s: nextAfter %d", c.query, p.NextAfter)
		}
	}
}

// TestItemsAreEnvelopes: but for the type, which the standard's closed list doesn't
// have, and the version that says so, an item event is an event.
func TestItemsAreEnvelopes(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	tool := event.Scope{ThreadID: "th", TurnID: "tu", TaskID: "ta", RunID: "ru", StepID: "st", ToolCallID: "tool_1", ModelRequestID: "req_1", ProcessID: "proc_1", ActionID: "action_1"}
	r.fake.append("s",
		event.Event{Type: event.TypeTurnSubmitted, Scope: tool, Payload: &event.TurnSubmitted{Status: "accepted", Source: "user", Preview: "hi"}},
		event.Event{Type: event.TypeModelDelta, Scope: tool, Payload: &event.ModelDelta{Text: "he"}},
		event.Event{Type: event.TypeToolStarted, Scope: tool, Payload: &event.ToolStarted{ToolName: "shell", Policy: "allowed"}},
		event.Event{Type: event.TypeToolResult, Scope: tool, Payload: &event.ToolResult{ToolName: "shell", Status: "ok", Preview: "done", ChangedFiles: []event.FileChange{{Path: "a.txt", Change: "created"}}}},
	)
	var page struct{ Events []map[string]any }
	r.sendRequest(r.request("GET", "/v1/sessions/s/events?view=items", "")).decode(t, &page)
	if len(page.Events) != 5 {
		t.Fatalf("%d items", len(page.Events))
	}
	strict := eventtest.Strict(t)
	for _, e := range page.Events {
		item, ok := e["payload"].(map[string]any)
		if !ok || item["itemId"] == "" || item["kind"] == "" || item["status"] == "" || e["item"] != nil {
			t.Errorf("%s has the payload %v and also the item %v", e["type"], e["payload"], e["item"])
		}
		e["type"], e["schemaVersion"] = "tool.progress", event.SchemaStandard
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := strict.Validate(b); err != nil {
			t.Errorf("%s: %v", b, err)
		}
	}
}

// A client that is cut off between the items of one event must get them again.
func TestOnlyTheLastItemOfAnEventHasTheID(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	r.fake.append("s", event.Event{
		Type: event.TypeToolResult, Scope: event.Scope{ThreadID: "th", TurnID: "tu", StepID: "st", ToolCallID: "tool_1"},
		Payload: &event.ToolResult{ToolName: "x", Status: "ok", ChangedFiles: []event.FileChange{{Path: "a", Change: "created"}, {Path: "b", Change: "deleted"}}},
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, frames := r.stream(ctx, "/v1/sessions/s/events?after=1&view=items", "client-token")
	defer res.Body.Close()
	for i, want := range []string{"", "", "2"} {
		f, err := frames.Next()
		if err != nil || f.ID != want {
			t.Errorf("frame %d has the id %q, want %q (%v)", i, f.ID, want, err)
		}
	}
}

func TestTheGlobalStreamShowsWhatTheCallerMaySee(t *testing.T) {
	r := run(t, nil)
	r.fake.open("mine", "a")
	r.fake.open("theirs", "b")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, frames := r.stream(ctx, "/v1/events", "client-token")
	defer res.Body.Close()
	r.fake.deltas("theirs", 3)
	r.fake.deltas("mine", 2)
	r.fake.open("mine2", "a")
	last := map[string]uint64{}
	for range 3 {
		f, err := frames.Next()
		if err != nil {
			t.Fatal(err)
		}
		var e struct {
			SessionID string
			Sequence  uint64
		}
		if err := json.Unmarshal(f.Data, &e); err != nil {
			t.Fatal(err)
		}
		if e.SessionID == "theirs" || e.Sequence <= last[e.SessionID] || f.ID != "" {
			t.Errorf("got %s %d after %d, id %q", e.SessionID, e.Sequence, last[e.SessionID], f.ID)
		}
		last[e.SessionID] = e.Sequence
	}
}

// Clients are cut off at random places and come back with the id that they saw
// last: what they have in the end is the log, each event once and in order.
func TestCutClientsGetTheLogOnceAndInOrder(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	const total = 2000
	go func() {
		for i := 1; i < total; i += 7 {
			r.fake.deltas("s", min(7, total-i))
		}
	}()
	for client := range 8 {
		t.Run(strconv.Itoa(client), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(client), 1))
			last, cuts := uint64(0), 0
			for last < total {
				last = readSome(t, r, last, rng.IntN(40_000), total)
				cuts++
			}
			if cuts < 3 {
				t.Errorf("only %d connections: nothing was cut", cuts)
			}
		})
	}
}

// readSome reads whole frames out of so many bytes of a stream.
func readSome(t *testing.T, r *running, last uint64, bytes int, total uint64) uint64 {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, _ := r.stream(ctx, "/v1/sessions/s/events", "client-token", "Last-Event-ID", strconv.FormatUint(last, 10))
	defer res.Body.Close()
	frames := wire.NewSSEReader(io.LimitReader(res.Body, int64(bytes)), 0)
	for last < total {
		f, err := frames.Next()
		if err != nil {
			break
		}
		if want := strconv.FormatUint(last+1, 10); f.ID != want {
			t.Fatalf("after %d came %s", last, f.ID)
		}
		last++
	}
	return last
}

func TestARevokedTokenEndsItsStreams(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, frames := r.stream(ctx, "/v1/sessions/s/events", "client-token")
	defer res.Body.Close()
	other, otherFrames := r.stream(ctx, "/v1/sessions/s/events", "observer-token")
	defer other.Body.Close()
	if _, err := frames.Next(); err != nil {
		t.Fatal(err)
	}
	r.tokens.revoke("client-token")
	f, err := frames.Next()
	if err != nil || f.Event != "problem" || !strings.Contains(string(f.Data), "unauthenticated") {
		t.Fatalf("got %+v %s, %v", f, f.Data, err)
	}
	if _, err := frames.Next(); err == nil {
		t.Error("the stream goes on")
	}
	r.fake.deltas("s", 1)
	for _, want := range []string{"1", "2"} {
		if f, err := otherFrames.Next(); err != nil || f.ID != want {
			t.Errorf("the other stream: %+v, %v", f, err)
		}
	}
}

// TestARevokedTokenIsNotGoodUntilTheHeartbeat: its streams end long before that.
func TestARevokedTokenIsNotGoodUntilTheHeartbeat(t *testing.T) {
	r := run(t, func(o *server.Options) { o.Heartbeat, o.Recheck = time.Hour, 5*time.Millisecond })
	r.fake.open("s", "a")
	req := r.request(http.MethodGet, "/v1/sessions/s/events", "")
	req.Header.Set("Accept", "text/event-stream")
	res, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	r.tokens.revoke("client-token")
	// The stream has an end only because of the token.
	all, err := io.ReadAll(res.Body)
	if err != nil || !bytes.Contains(all, []byte("event: problem")) || bytes.Contains(all, []byte("heartbeat")) {
		t.Errorf("%v:\n%s", err, all)
	}
}

func TestAnExpiredTokenEndsItsStreams(t *testing.T) {
	r := run(t, func(o *server.Options) { o.Heartbeat = time.Hour })
	r.fake.open("s", "a")
	inTime(t, 200*time.Millisecond, func(limit time.Duration) bool {
		r.tokens.mu.Lock()
		id := r.tokens.ids["client-token"]
		id.Expires = time.Now().Add(limit)
		r.tokens.ids["client-token"] = id
		r.tokens.mu.Unlock()
		req := r.request(http.MethodGet, "/v1/sessions/s/events?after=1", "")
		req.Header.Set("Accept", "text/event-stream")
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode == http.StatusUnauthorized {
			return false // it had expired before the stream began
		}
		// The heartbeat is 15 s: it is the expiry that wakes the stream.
		f, err := wire.NewSSEReader(res.Body, 0).Next()
		if err != nil || f.Event != "problem" {
			t.Fatalf("got %+v %s, %v", f, f.Data, err)
		}
		return true
	})
}

func TestStreamsEndWhenTheServerStops(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	res, frames := r.stream(context.Background(), "/v1/sessions/s/events", "client-token")
	defer res.Body.Close()
	if _, err := frames.Next(); err != nil {
		t.Fatal(err)
	}
	r.stop()
	if f, err := frames.Next(); err == nil {
		t.Errorf("the stream goes on with %+v", f)
	}
}

func TestHeadOfAStreamDoesNotStream(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	req := r.request("HEAD", "/v1/sessions/s/events", "")
	req.Header.Set("Accept", "text/event-stream")
	if a := r.sendRequest(req); a.status != 200 || a.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%d %v", a.status, a.header)
	}
}

func TestStreamBounds(t *testing.T) {
	r := run(t, func(o *server.Options) { o.MaxStreams, o.MaxStreamsPerToken = 3, 2 })
	r.fake.open("s", "a")
	open := func(token string) answer {
		req := r.request("GET", "/v1/sessions/s/events", "")
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Authorization", "Bearer "+token)
		return r.sendRequest(req)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 {
		res, _ := r.stream(ctx, "/v1/sessions/s/events", "client-token")
		t.Cleanup(func() { res.Body.Close() })
	}
	if a := open("client-token"); a.status != 429 || a.header.Get("Retry-After") == "" || a.problem(t).Code != "rate_limited" {
		t.Errorf("a third stream of the token: %d %s", a.status, a.body)
	}
	res, _ := r.stream(ctx, "/v1/sessions/s/events", "observer-token")
	if a := open("admin-token"); a.status != 503 || a.header.Get("Retry-After") == "" || a.problem(t).Code != "unavailable" {
		t.Errorf("a fourth stream: %d %s", a.status, a.body)
	}
	res.Body.Close()
	eventually(t, "the place is free again", func() bool {
		req := r.request("HEAD", "/v1/sessions/s/events", "")
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Authorization", "Bearer admin-token")
		return r.sendRequest(req).status == http.StatusOK
	})
}
