package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/fault"
	"agentd/server/oidc/oidctest"
)

// TestTokensOfAnIdentityProvider: people come in with what their company's login gave them,
// with the role and the account of their group, and services with an account of theirs.
func TestTokensOfAnIdentityProvider(t *testing.T) {
	issuer := oidctest.Start(t)
	dir := t.TempDir()
	p := start(t, filepath.Join(dir, "data"), "--config", writeFile(t, dir, "c.yaml", fmt.Sprintf(`oidc:
  issuer: %s
  audience: agentd
  grants:
    - {group: platform, role: admin}
    - {group: team-a, role: client, account: team_a}
    - {group: team-b, role: client, account: team_b}
    - {group: auditors, role: observer, account: team_a}
    - {subject: nightly, role: client, account: ci}
`, issuer.URL)))
	as := func(subject string, groups ...string) *client.Client {
		return p.clientWith(issuer.Token(t, map[string]any{"sub": subject, "email": subject + "@example.org", "groups": groups}))
	}
	ada := as("ada", "team-a")
	made, err := client.Call[command.CreateSessionResult](t.Context(), ada, &command.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	seen := func(c *client.Client) int {
		t.Helper()
		list, err := client.Call[command.ListSessionsResult](t.Context(), c, &command.ListSessions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Sessions)
	}
	if a, b, c, r := seen(as("eve", "team-a")), seen(as("bob", "team-b")), seen(as("pam", "platform")), seen(as("nightly")); a != 1 || b != 0 || c != 1 || r != 0 {
		t.Errorf("the same team sees %d sessions, another %d, an admin %d, a service %d", a, b, c, r)
	}
	if err := as("bob", "team-b").Do(t.Context(), &command.GetSession{SessionID: made.SessionID}, nil); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another team's session: %v", err)
	}
	if err := as("ida", "auditors").Do(t.Context(), &command.CreateSession{}, nil); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("an observer creates a session: %v", err)
	}
	if err := as("mel", "sales").Do(t.Context(), &command.ListSessions{}, nil); fault.KindOf(err) != fault.Forbidden || !strings.Contains(err.Error(), "no grant") {
		t.Errorf("no group of the server's: %v", err)
	}
	if err := p.clientWith(issuer.Token(t, map[string]any{"aud": "payroll", "groups": "platform"})).Do(t.Context(), &command.ListSessions{}, nil); fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("a token for another program: %v", err)
	}
	if _, body := p.sendAs(issuer.Token(t, map[string]any{"groups": "team-a", "email": "ada@example.org"}), http.MethodGet, "/v1/sessions/"+made.SessionID+"/events", ""); !strings.Contains(body, "ada@example.org") {
		t.Error("the facts don't say who created the session:", body)
	}
	issuer.Close() // what was learned of it lasts
	if seen(ada) != 1 {
		t.Error("the provider is down, and a token that it signed before is good no more")
	}
}

func TestAnIdentityProviderThatCannotBeUsed(t *testing.T) {
	for _, c := range []struct{ config, says string }{
		{"oidc: {issuer: \"http://login.example.org\", audience: a, grants: [{group: g, role: client}]}", "must begin with https://"},
		{"oidc: {issuer: \"https://login.example.org\", grants: [{group: g, role: client}]}", "oidc.audience"},
		{"oidc: {issuer: \"https://login.example.org\", audience: a}", "oidc.grants"},
		{"oidc: {issuer: \"https://login.example.org\", audience: a, grants: [{role: client}]}", "needs either group or subject"},
		{"oidc: {issuer: \"https://login.example.org\", audience: a, grants: [{group: g, subject: s, role: client}]}", "needs either group or subject"},
		{"oidc: {issuer: \"https://login.example.org\", audience: a, grants: [{group: g, role: owner}]}", "oidc.grants[0].role"},
		{"oidc: {issuer: \"https://login.example.org\", audience: a, grants: [{group: g, role: client, account: \"a b\"}]}", "is not an id"},
		{"oidc: {audience: a}", "oidc.issuer"},
	} {
		out, err := self(t, "config", "check", writeFile(t, t.TempDir(), "c.yaml", c.config+"\n")).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: %v: %s", c.config, err, out)
		}
	}
}
