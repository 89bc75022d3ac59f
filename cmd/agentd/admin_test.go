package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// TestAdministrationOfAServer: tokens are made, renewed and revoked over HTTP, JSON-RPC
// and the command line, each change is a fact, and no secret is anywhere but in the one
// answer that shows it.
func TestAdministrationOfAServer(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	config := writeFile(t, dir, "c.yaml", "telemetry: {otlpEndpoint: \"http://127.0.0.1:1/v1?sig=query-secret\"}\n")
	p := start(t, data, "--config", config)
	made, err := client.Call[command.NewTokenResult](t.Context(), p.client(), &command.CreateToken{
		Mutation: command.Mutation{IdempotencyKey: "one"}, Name: "laptop", Role: "client", Account: "alice",
	})
	if err != nil || made.Token == "" || made.Status != "active" {
		t.Fatalf("%+v %v", made, err)
	}
	again, err := client.Call[command.NewTokenResult](t.Context(), p.client(), &command.CreateToken{
		Mutation: command.Mutation{IdempotencyKey: "one"}, Name: "laptop", Role: "client", Account: "alice",
	})
	if err != nil || again.Token != "" || again.TokenID != made.TokenID {
		t.Errorf("a repeated call: %+v %v", again, err)
	}
	alice := p.clientWith(made.Token)
	if _, err := client.Call[command.CreateSessionResult](t.Context(), alice, &command.CreateSession{}); err != nil {
		t.Fatal(err)
	}
	for _, d := range command.Catalog() {
		if d.Scope != command.RoleAdmin {
			continue
		}
		params, err := command.Decode(d.Name, []byte(d.Example))
		if err != nil {
			t.Fatal(err)
		}
		if err := alice.Do(t.Context(), params, nil); fault.KindOf(err) != fault.Forbidden {
			t.Errorf("%s with a client's token: %v", d.Name, err)
		}
	}
	status, body := p.post("/v1/rpc", `{"jsonrpc":"2.0","id":1,"method":"rotate_token","params":{"tokenId":"laptop"}}`)
	var rotated struct{ Result command.NewTokenResult }
	if err := json.Unmarshal([]byte(body), &rotated); err != nil || status != http.StatusOK || rotated.Result.Token == "" {
		t.Fatalf("%d %s", status, body)
	}
	if err := alice.Do(t.Context(), &command.ListSessions{}, nil); fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("the old secret: %v", err)
	}
	if err := p.clientWith(rotated.Result.Token).Do(t.Context(), &command.ListSessions{}, nil); err != nil {
		t.Errorf("the new secret: %v", err)
	}
	accounts, err := client.Call[command.ListAccountsResult](t.Context(), p.client(), &command.ListAccounts{})
	if err != nil || len(accounts.Accounts) != 2 || accounts.Accounts[1].Account != "alice" || accounts.Accounts[1].Tokens != 1 || accounts.Accounts[1].Sessions != 1 {
		t.Errorf("%+v %v", accounts, err)
	}
	p.printed("tokens", "revoke", "laptop")
	if out := p.printed("tokens", "list"); !strings.Contains(string(out), "revoked") {
		t.Errorf("agentd tokens list: %s", out)
	}
	p.checkConfiguration()
	var changes []string
	for line := range strings.SplitSeq(string(p.printed("events", event.RuntimeSession, "--json")), "\n") {
		if e, err := event.Decode([]byte(line)); err == nil && e.Type == event.TypeRuntimeChanged {
			changes = append(changes, e.Payload.(*event.RuntimeChanged).Change)
		}
	}
	if strings.Join(changes, " ") != "token_created token_rotated token_revoked" {
		t.Errorf("the facts say %v", changes)
	}
	p.stop(syscall.SIGTERM)
	for _, secret := range []string{made.Token, rotated.Result.Token} {
		if findInFiles(t, data, secret) {
			t.Error("a secret is in the data directory")
		}
		if strings.Contains(p.remainingLog(), secret) {
			t.Error("a secret is in the log")
		}
	}
}

// clientWith returns a client with a token.
func (p *process) clientWith(token string) *client.Client {
	p.t.Helper()
	c, err := client.New(p.url, &client.Options{Token: token})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(c.Close)
	return c
}

// printed returns what a command prints that finds the server by its data.
func (p *process) printed(args ...string) []byte {
	p.t.Helper()
	out, err := self(p.t, append(args, "--data", p.data)...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

// checkConfiguration looks at the settings that the server shows.
func (p *process) checkConfiguration() {
	p.t.Helper()
	conf, err := client.Call[command.GetConfigurationResult](p.t.Context(), p.client(), &command.GetConfiguration{})
	if err != nil {
		p.t.Fatal(err)
	}
	shown, _ := json.Marshal(conf)
	if strings.Contains(string(shown), "query-secret") || !strings.Contains(string(shown), "sig=xxxxx") {
		p.t.Errorf("the settings are shown as %s", shown)
	}
	origins := map[string]string{}
	for _, s := range conf.Settings {
		origins[s.Name] = s.Origin
	}
	for name, want := range map[string]string{"telemetry.otlpEndpoint": "file", "data": "flag", "recovery": "default"} {
		if origins[name] != want {
			p.t.Errorf("%s comes from %q, want %q", name, origins[name], want)
		}
	}
}

// findInFiles reports whether a text is in a file below a directory.
func findInFiles(t *testing.T, dir, text string) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found = found || strings.Contains(string(content), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestSecretsOfTheConfigurationAreHidden(t *testing.T) {
	for in, want := range map[string]string{
		`"postgres://u:pw@h/db?password=x&sslmode=y"`: `"postgres://u:xxxxx@h/db?password=xxxxx&sslmode=xxxxx"`,
		`"http://h/path"`:        `"http://h/path"`,
		`"https://h/#frag"`:      `"https://h/#xxxxx"`,
		`"://"`:                  `"://…"`,
		`"http://h:port/?sig=a"`: `"http://…"`,
		`{"apiKeyEnv":"X","url":"http://h/?t=1","apiKey":"k","limits":{"tokensPerMinute":5}}`: `{"apiKey":"xxxxx","apiKeyEnv":"X","limits":{"tokensPerMinute":5},"url":"http://h/?t=xxxxx"}`,
		`[{"token":["a",""]},3,null,true]`: `[{"token":["xxxxx",""]},3,null,true]`,
	} {
		var v any
		if err := json.Unmarshal([]byte(in), &v); err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(withoutSecrets("providers[]", v)); strings.ReplaceAll(string(got), `\u0026`, "&") != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}
