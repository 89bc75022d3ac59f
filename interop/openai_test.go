package interop_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestOpenAIEndpointWithTheOfficialClient(t *testing.T) {
	k := newProtoKit(t, "holding the OpenAI-compatible endpoint against the official client")
	dir := acpFolder(t)
	s := serve(t, dir, nil)
	k.node(t, "openai.mjs", dir, s.url, s.token, k.observer(t, dir))
}

// observer makes a token that may only look.
func (k *protoKit) observer(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), k.agentd, "tokens", "create", "eyes", "--role", "observer", "--json", "--config", filepath.Join(dir, "config.yaml"))
	cmd.Dir, cmd.Env = dir, protoEnvironment()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tokens create: %v", err)
	}
	var made struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(out, &made); err != nil || made.Token == "" {
		t.Fatalf("%v: %s", err, out)
	}
	return made.Token
}
