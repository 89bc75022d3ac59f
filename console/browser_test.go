package console_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"agentd/internal/nodetest"
)

// browser returns the program of a Chromium, or ends the test.
func browser(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("AGENTD_TEST_BROWSER_PATH"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("AGENTD_TEST_BROWSER") == "require" {
		t.Fatal("chromium is not in PATH; run scripts/browser.sh")
	}
	t.Skip("skipped: the console's tests need a browser, and chromium is not in PATH; run scripts/browser.sh")
	return ""
}

// TestBrowser drives the console in a real browser: each file test/NAME.test.mjs. Single ones run with
// AGENTD_TEST_PAGES="inbox session", those of them whose names fit with AGENTD_TEST_NAMED="plan|form"; with
// AGENTD_TEST_SCREENS=1 the pictures in docs are taken anew.
func TestBrowser(t *testing.T) {
	inBrowser(t, 100_000)
}

// inBrowser runs the files of test/ with a long session of so many facts at hand.
func inBrowser(t *testing.T, facts int) {
	t.Helper()
	chromium := browser(t)
	node := toolbox(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "agentd")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "agentd/cmd/agentd").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	var env []string
	for _, kv := range nodetest.Environment() {
		if !strings.HasPrefix(kv, "AGENTD_") || strings.HasPrefix(kv, "AGENTD_TEST_") {
			env = append(env, kv)
		}
	}
	env = append(env, "AGENTD_PROGRAM="+program, "AGENTD_BROWSER="+chromium, "AGENTD_FOLDER="+dir, "XDG_STATE_HOME="+filepath.Join(dir, "state"),
		"AGENTD_LONG_DATA="+filepath.Join(dir, "long"), "AGENTD_LONG_FACTS="+strconv.Itoa(facts))
	longSession(t, filepath.Join(dir, "long"), facts)
	accept := exec.CommandContext(t.Context(), program, "data", "accept", "--yes", filepath.Join(dir, "long"))
	accept.Env = env
	if out, err := accept.CombinedOutput(); err != nil {
		t.Fatalf("agentd data accept: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), node, "test/run.mjs")
	cmd.Env = env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ran := 0
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var result struct {
			Name, Error, Skip, Log string
			Ms                     int
		}
		if json.Unmarshal(lines.Bytes(), &result) != nil {
			t.Log(lines.Text())
			continue
		}
		ran++
		t.Run(result.Name, func(t *testing.T) {
			t.Logf("%d ms %s", result.Ms, result.Log)
			if result.Skip != "" {
				t.Skip("skipped: " + result.Skip)
			}
			if result.Error != "" {
				t.Error(result.Error)
			}
		})
	}
	if err := cmd.Wait(); err != nil || ran == 0 {
		t.Errorf("the tests in the browser: %v, %d ran\n%s", err, ran, stderr.Bytes())
	}
}
