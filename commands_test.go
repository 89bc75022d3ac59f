package agentd_test

import (
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/redact"
	"agentd/store"
)

// TestSecretsOfCallersAreNotStored: whatever command carries them. Every parameter is
// tried in package command; this is the way of some into the facts.
func TestSecretsOfCallersAreNotStored(t *testing.T) {
	secret := "gh" + "p_" + strings.Repeat("a8Kq2Lm9Zx4W", 3)
	k := runtimetest.NewWith(t, func(o *agentd.Options) { o.Loop.Redact = redact.New(redact.Options{}) }, runtimetest.Says("done"))
	text := "32" + secret
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a", Title: text, Metadata: event.Raw(`{"a":"` + text + `"}`)})
	runtimetest.Do[command.ConnectChannelResult](k, &command.ConnectChannel{SessionID: "sess_a", ChannelID: "chan_a", Transport: "sse", PeerRole: "client", AccountRef: text, Capabilities: []string{text}})
	runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_a", Reason: text, Rules: []event.PolicyRule{{Decision: "ask", Tool: "shell", Reason: text}}})
	runtimetest.Do[command.TaskResult](k, &command.CreateTask{TaskID: "task_a", SessionID: "sess_a", Objective: text, TaskKind: text})
	k.Completes(runtimetest.Do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_a", Input: event.Raw(`"` + text + `"`)}))
	for _, p := range []command.Params{
		&command.CreateSession{SessionID: secret}, &command.CreateTask{TaskID: secret, Objective: "x"}, &command.CreateSession{SessionID: "sess_b", Mutation: command.Mutation{IdempotencyKey: secret}},
		&command.SetPolicy{SessionID: "sess_a", Rules: []event.PolicyRule{{Decision: "deny", Tool: "shell", Match: "curl " + secret}}},
	} {
		if said := runtimetest.Refused(k, p, fault.InvalidParams); strings.Contains(said, secret) {
			t.Errorf("%s repeats the secret: %s", p.Command(), said)
		}
	}
	for _, id := range []string{"sess_a", event.RuntimeSession} {
		for rec, err := range k.Store.Read(t.Context(), id, store.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(rec.Data), secret) {
				t.Errorf("%s", rec.Data)
			}
		}
	}
}

// BenchmarkRedactParams is what taking secrets out costs a submitted turn.
func BenchmarkRedactParams(b *testing.B) {
	r := redact.New(redact.Options{})
	p := &command.SubmitTurn{SessionID: "sess_0123456789abcdefghjkmnpqrs", Input: event.Raw(`"` + strings.Repeat("look at it again ", 12) + `"`)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := agentd.RedactParams(r, p); err != nil {
			b.Fatal(err)
		}
	}
}
