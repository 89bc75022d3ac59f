package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/cmd/agentd/internal/config"
)

// A value may be given where the sandbox is given variables, and is then no secret.
func TestVariablesWithAValue(t *testing.T) {
	for _, setting := range variableSettings {
		err := loadText(t, fmt.Sprintf(setting, "GOFLAGS=-mod=mod"))
		if takes := strings.Contains(setting, "sandbox") && !strings.Contains(setting, "mcp"); takes != (err == nil) {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

// variableSettings are all settings that name variables; %s is the name.
var variableSettings = []string{
	"providers: [{id: p, kind: openai, apiKeyEnv: %q, models: [{id: m}]}]",
	"peers: [{id: p, protocol: a2a, cardURL: https://agent.example/card.json, tokenEnv: %q}]",
	"telemetry: {otlpEndpoint: http://127.0.0.1:1, headers: [{name: h, env: %q}]}",
	"mcp: [{id: m, command: [x], env: [%q]}]",
	"mcp: [{id: m, command: [x], sandbox: {env: [%q]}}]",
	"hooks: [{point: pre_tool_use, command: [x], sandbox: {env: [%q]}}]",
	"sandbox: {env: [%q]}",
}

func loadText(t *testing.T, text string) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(config.Sources{File: path})
	return err
}

func TestVariablesAreNames(t *testing.T) {
	drawn := "a8Kq2Lm9" + "Zx4Wv7Nb3Rt6"
	for _, setting := range variableSettings {
		for _, name := range []string{"OPENAI_API_KEY", "KEY", "_x", "my_key", "AWS_KEY_2_PROD_1", "HTTP2_TOKEN_V3", "Path"} {
			if err := loadText(t, fmt.Sprintf(setting, name)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, key := range []string{
			"sk-" + "proj-" + drawn + drawn, "ghp" + "_" + drawn + drawn[:16], "AKIA" + "ABCDEFGHIJKLMNOP", "sk" + "_live_" + drawn,
			drawn, "NAME=ghp" + "_" + drawn + drawn[:16], "a-b", "1KEY", "with blank", "$KEY", "${KEY}", strings.Repeat("A", 65), "agentd" + "_admin_" + drawn + drawn + drawn,
		} {
			err := loadText(t, fmt.Sprintf(setting, key))
			if err == nil || !strings.Contains(err.Error(), "environment variable") || strings.Contains(err.Error(), key) {
				t.Errorf("%s in %s: %v", key, setting, err)
			}
		}
	}
}
