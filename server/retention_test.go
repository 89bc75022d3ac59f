package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence/replaytest"
	"agentd/fault"
	"agentd/model/provider/script"
	"agentd/server"
	"agentd/session"
	"agentd/store/storetest"
)

// trimmedSession is a server over the real runtime, with a session of one finished
// turn whose events through a sequence were removed.
func trimmedSession(t *testing.T, through uint64) (*running, *agentd.Runtime) {
	t.Helper()
	st := storetest.Strict(t, storetest.NewMem())
	opt := agentd.Options{Store: st, Provider: script.New("script", nil), Model: "script"}
	rt, err := agentd.Open(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
		replaytest.Recorded(t, opt.Store)
	})
	r := runOn(t, live{rt.Port()}, nil)
	var turn command.SubmitTurnResult
	r.sendRequest(r.request("POST", "/v1/commands/submit_turn", `{"sessionId":"s","create":true,"input":"hello"}`)).decode(t, &turn)
	sub, err := rt.Subscribe(t.Context(), command.Local(), "s", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	for ended := false; !ended; {
		records, err := sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range records {
			e, err := event.Decode(rec.Data)
			ended = ended || err == nil && e.Type == event.TypeTaskCompleted
		}
	}
	if _, err := rt.TrimSession(t.Context(), command.Local(), "s", session.TrimOptions{Before: through + 1}); err != nil {
		t.Fatal(err)
	}
	return r, rt
}

// TestWhatRetentionRemovedIsMarkedAtEveryDoor removes events for good and asks for
// them over HTTP, server-sent events, WebSocket and JSON-RPC.
func TestWhatRetentionRemovedIsMarkedAtEveryDoor(t *testing.T) {
	const through = 7
	r, rt := trimmedSession(t, through)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	want := server.Repair{
		SessionID: "s", RecoveryMode: "snapshot_repair", Reason: "retention", Status: "unavailable", GapFrom: 3, GapTo: through, ContinuesAfter: through,
	}

	var p pageOf
	r.sendRequest(r.request("GET", "/v1/sessions/s/events?after=2&limit=3", "")).decode(t, &p)
	if p.Gap == nil || *p.Gap != want || len(p.Events) != 3 || p.Events[0].Sequence != through+1 || p.NextAfter != through+3 {
		t.Errorf("the page: %+v, gap %+v", p, p.Gap)
	}
	p = pageOf{}
	r.sendRequest(r.request("GET", fmt.Sprintf("/v1/sessions/s/events?after=%d", through), "")).decode(t, &p)
	if p.Gap != nil || len(p.Events) == 0 || p.Events[0].Sequence != through+1 || p.Events[len(p.Events)-1].Sequence != p.LastSequence {
		t.Errorf("a page of what is left: %+v", p)
	}

	res, frames := r.stream(ctx, "/v1/sessions/s/events?after=2", "client-token")
	defer res.Body.Close()
	var gap server.Repair
	for _, name := range []string{"snapshot", "snapshot.repaired"} {
		f, err := frames.Next()
		if err != nil || f.Event != name {
			t.Fatalf("frame %+v, %v, want %s", f, err, name)
		}
		if name == "snapshot.repaired" && (json.Unmarshal(f.Data, &gap) != nil || gap != want) {
			t.Errorf("the stream marks %s", f.Data)
		}
	}
	if f, err := frames.Next(); err != nil || f.ID != fmt.Sprint(through+1) {
		t.Errorf("the first event: %+v, %v", f, err)
	}

	ws := r.dial(ctx, "client-token")
	defer hangUp(ws)
	wsSendf(t, ws, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s","after":2}}`)
	for _, part := range []string{`"recoveryMode":"snapshot_repair"`, `"method":"snapshot"`, `"method":"snapshot.repaired"`, fmt.Sprintf(`"sequence":%d`, through+1)} {
		if data := string(wsRead(t, ws)); !strings.Contains(data, part) {
			t.Errorf("got %s, want %s", data, part)
		}
	}

	rpc := r.sendRequest(r.request("POST", "/v1/rpc", `{"jsonrpc":"2.0","id":1,"method":"get_session","params":{"sessionId":"s","limit":500}}`))
	if body := string(rpc.body); !strings.Contains(body, fmt.Sprintf(`"removedThrough":%d`, through)) {
		t.Errorf("get_session says %s", body)
	}
	// Below the doors nobody is given less without being told.
	if _, _, err := rt.Port().Events(ctx, command.Local(), "s", 2, 10); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the runtime: %v", err)
	}
}
