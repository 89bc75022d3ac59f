package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"agentd/event"
)

// begun is a request whose answer has begun; the rest of it comes on a channel.
func (p *process) begun(path, body string, headers ...string) <-chan string {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.token())
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req) //nolint:bodyclose // what reads it closes it
	if err != nil {
		p.t.Fatal(err)
	}
	rest := make(chan string, 1)
	go func() {
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			text = append(text, "\n"+err.Error()...)
		}
		rest <- string(text)
	}()
	return rest
}

// TestProtocolsSayThatFilesAreOutOfReach: a client of AG-UI or of the OpenAI endpoint that
// follows a session, or comes to it, whose files no live node reaches, gets an error in its own
// protocol and doesn't wait for ever.
func TestProtocolsSayThatFilesAreOutOfReach(t *testing.T) {
	f := newFleet(t, "1h", slow)
	dir := f.dir()
	a := f.placed("node-a", t.TempDir(), placedScript, "").node(dir)
	b := f.placed("node-b", t.TempDir(), placedScript, "").node(f.dir())
	r := a.submit("write it")
	a.completed(r)
	const key = "the-same-request"
	stay := `{"model":"agentd","stream":true,"input":"stay there","metadata":{"session_id":"` + r.SessionID + `"}}`
	direct := a.begun("/v1/responses", stay, "Idempotency-Key", key)
	a.until(r.SessionID, event.TypeModelRequested, 3)
	behind := `{"model":"agentd","stream":true,"input":"and on","metadata":{"session_id":"` + r.SessionID + `"}}`
	look := `{"threadId":"` + r.SessionID + `","runId":"look","messages":[]}`
	followed := b.begun("/agui", look)
	through := b.begun("/v1/responses", behind)
	f.kill(a)
	gone := "on node node-a, which is gone; it goes on by itself when the files are there again\""
	says := func(name, got string, want ...string) {
		t.Helper()
		for _, w := range append(want, gone) {
			if !strings.Contains(got, w) {
				t.Errorf("%s: no %s in %s", name, w, got)
			}
		}
	}
	// A client of the node that is gone, or one that it answered through another node.
	for name, answer := range map[string]<-chan string{"at the node": direct, "through another node": through} {
		if got := <-answer; !strings.HasSuffix(got, io.ErrUnexpectedEOF.Error()) {
			t.Errorf("%s: the answer looks whole: %s", name, got)
		}
	}
	says("a run that was followed", <-followed, `"RUN_ERROR"`, `"code":"place_unreachable"`)
	b.until(r.SessionID, event.TypeThreadUpdated, 1)
	_, got := b.post("/agui", look)
	says("a run that is attached later", got, `"RUN_ERROR"`, `"code":"place_unreachable"`)
	_, got = b.post("/v1/responses", stay, "Idempotency-Key", key)
	says("the same request again", got, "event: error", `"code":"place_unreachable"`)
	_, got = b.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"go"}]}`, "X-Agentd-Session", r.SessionID)
	var refused struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(got), &refused); err != nil || refused.Error.Code != "unavailable" || !strings.Contains(refused.Error.Message, "start node node-a again") {
		t.Errorf("another request: %v, %s", err, got)
	}
}
