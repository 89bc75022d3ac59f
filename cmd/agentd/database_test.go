package main

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"agentd/internal/pgtest"
)

// TestADatabaseThatIsAway: a database that is stopped, and one that became read-only as a former
// primary does, is no defect of the server. Whatever is asked for, at every door, is refused with
// when to come again, and is done once the database is back.
func TestADatabaseThatIsAway(t *testing.T) {
	cluster := pgtest.Start(t)
	f := newFleet(t, "30s", "repeat: true\nanswers: [{text: done}]\n")
	f.url = cluster.Database(t)
	p := f.node(f.dir())
	turn := p.submit("hello")
	p.completed(turn)
	session := fmt.Sprintf(`{"sessionId":%q`, turn.SessionID)
	ask := func(when string, requests map[string]string) {
		t.Helper()
		for path, body := range requests {
			method := http.MethodPost
			if body == "" {
				method = http.MethodGet
			}
			status, header, answer := p.exchange(p.token(), method, path, body, "A2A-Version", "1.0")
			again := header.Get("Retry-After") != "" || strings.Contains(answer, `"retryAfter":`)
			if status == http.StatusOK && path != "/v1/rpc" || status != http.StatusOK && status != http.StatusServiceUnavailable || !again {
				t.Errorf("%s, %s: %d, Retry-After %q: %s", when, path, status, header.Get("Retry-After"), answer)
			}
		}
	}
	writes := map[string]string{
		"/v1/commands/submit_turn":    session + `,"input":"again","idempotencyKey":"again"}`,
		"/v1/commands/create_session": `{}`,
		"/v1/rpc":                     `{"jsonrpc":"2.0","id":1,"method":"create_session","params":{}}`,
		"/a2a/rest/message:send":      `{"message":{"messageId":"m1","role":"ROLE_USER","contextId":"a","parts":[{"text":"hello"}]}}`,
		"/agui":                       `{"threadId":"thread-a","runId":"run-a","messages":[{"id":"m","role":"user","content":"hello"}]}`,
		"/v1/responses":               `{"model":"agentd","input":"hello"}`,
	}
	reads := map[string]string{
		"/v1/commands/list_sessions":                    `{}`,
		"/v1/commands/list_nodes":                       `{}`,
		"/v1/commands/get_session":                      `{"sessionId":"sess_unknown"}`,
		"/v1/sessions/" + turn.SessionID + "/events":    "",
		transferPath + "/" + turn.SessionID:             "",
		"/v1/outputs/sha256:" + strings.Repeat("0", 64): "",
	}
	cluster.Stop(t)
	ask("stopped", writes)
	ask("stopped", reads)
	cluster.Run(t)
	p.completed(p.submitTo(turn.SessionID))
	readOnly := func(setting string) {
		t.Helper()
		admin, err := pgx.Connect(t.Context(), f.url+"&default_transaction_read_only=off")
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range []string{`ALTER SYSTEM SET default_transaction_read_only = ` + setting, `SELECT pg_reload_conf()`} {
			if _, err := admin.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		if err := admin.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	until := func(want int) { // the server's processes take a setting up one by one
		t.Helper()
		status, _, _ := p.refusal("/v1/commands/create_session", `{}`)
		for status != want {
			status, _, _ = p.refusal("/v1/commands/create_session", `{}`)
		}
	}
	readOnly("on")
	until(http.StatusServiceUnavailable)
	ask("read-only", writes)
	readOnly("off")
	until(http.StatusOK)
	p.completed(p.submitTo(turn.SessionID))
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	recorded(t).replay(t) // the database goes before the rest does
}
