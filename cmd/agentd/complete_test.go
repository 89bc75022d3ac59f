package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestValuesAreCompleted: where only some values can be, a shell offers them, and no
// files.
func TestValuesAreCompleted(t *testing.T) {
	for line, want := range map[string]string{
		"run --mode":               "untrusted",
		"submit --queue-policy":    "steer",
		"approve --mode":           "plan",
		"serve --log-level":        "warn",
		"sessions --log-format":    "json",
		"tokens create --role":     "observer",
		"export evidence --format": "agent-evidence",
		"sessions export --format": "cloudevents",
		"call":                     "submit_turn",
		"run --model":              "script/script",
		"chat --model":             "script/script",
		"submit --model":           "script/script",
	} {
		out, errs, code := program(t, append(append([]string{"__complete"}, strings.Fields(line)...), "")...)
		if code != 0 || !strings.Contains("\n"+out, "\n"+want) || !strings.Contains(out, "\n:4\n") {
			t.Errorf("agentd %s: exit code %d, want %s and no files:\n%s%s", line, code, want, out, errs)
		}
	}
}

// TestACommandOfCommandsIsAMistake: for a program it is an error like every other.
func TestACommandOfCommandsIsAMistake(t *testing.T) {
	for _, name := range []string{"tokens", "config", "policy", "bench", "telemetry", "completion", "evidence", "job"} {
		out, errs, code := program(t, name, "--json")
		var said struct{ Error, Code string }
		if err := json.Unmarshal([]byte(errs), &said); code != 2 || out != "" || err != nil || said.Code != "usage" || !strings.Contains(said.Error, "agentd "+name+" needs") {
			t.Errorf("agentd %s --json: exit code %d, %q and %q", name, code, out, errs)
		}
		if out, errs, code = program(t, name); code != 2 || !strings.Contains(out, "Usage:") || errs != "" {
			t.Errorf("agentd %s: exit code %d, %q and %q", name, code, out, errs)
		}
	}
}
