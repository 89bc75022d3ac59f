package server_test

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd"
	"agentd/admission"
	"agentd/model/provider/script"
)

// refusedWork submits a turn with a token and wants it refused with a status, when to come
// again and the reason.
func (r *running) refusedWork(token string, status int, code, says string) {
	r.t.Helper()
	req := r.request("POST", "/v1/commands/submit_turn", `{"input":"one more"}`)
	req.Header.Set("Authorization", "Bearer "+token)
	a := r.sendRequest(req)
	wait, err := strconv.Atoi(a.header.Get("Retry-After"))
	if a.status != status || err != nil || wait < 1 || !strings.Contains(string(a.body), `"code":"`+code+`"`) || !strings.Contains(string(a.body), says) {
		r.t.Errorf("%s: status %d, Retry-After %q, want %d and %q: %s", token, a.status, a.header.Get("Retry-After"), status, says, a.body)
	}
}

// TestOwnOverloadIs429: what an account does to itself is 429 for it alone, what all do
// together is 503 for everyone; each with when to come again.
func TestOwnOverloadIs429(t *testing.T) {
	t.Run("lines", func(t *testing.T) {
		r := runLiveWith(t, func(o *agentd.Options) {
			o.Provider = script.New("script", &script.Script{Repeat: true, Answers: []script.Answer{{Text: "never", Stall: time.Hour}}})
			o.Loop.MaxRunning = 1
			o.Session.Admission.Waiting = 1
		})
		submit := func(token string) int {
			req := r.request("POST", "/v1/commands/submit_turn", `{"input":"hello"}`)
			req.Header.Set("Authorization", "Bearer "+token)
			return r.sendRequest(req).status
		}
		eventually(t, "one turn is worked on and the others wait", func() bool { return submit("client-token") != 200 })
		r.refusedWork("client-token", 429, "rate_limited", "threads of this account wait")
		if status := submit("other-token"); status != 200 {
			t.Errorf("another account: %d", status)
		}
	})
	t.Run("writes", func(t *testing.T) {
		var now atomic.Int64
		now.Store(time.Now().UnixNano())
		r := runLiveWith(t, func(o *agentd.Options) {
			o.Session.Admission = admission.Options{Busy: 1, Clock: func() time.Time { return time.Unix(0, now.Load()) }}
		})
		r.sendRequest(r.request("POST", "/v1/commands/create_session", `{}`)).decode(t, &struct{}{})
		now.Add(int64(time.Second)) // a window in which every write took longer than an account's may
		r.refusedWork("client-token", 429, "rate_limited", "writes of this account take")
		req := r.request("POST", "/v1/commands/create_session", `{}`)
		req.Header.Set("Authorization", "Bearer other-token")
		if a := r.sendRequest(req); a.status != 200 {
			t.Errorf("another account: %d %s", a.status, a.body)
		}
	})
}
