package interop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/nodetest"
)

// mcpScenarios are the scenarios that the suite runs against a server, by revision:
// all that the revision requires, and those beside them that it runs without
// counting them, the tasks extension's among them.
var mcpScenarios = map[string]string{
	"2025-11-25": `server-initialize logging-set-level ping completion-complete tools-list tools-call-simple-text tools-call-image
		tools-call-audio tools-call-embedded-resource tools-call-mixed-content tools-call-with-logging tools-call-error
		tools-call-with-progress tools-call-sampling tools-call-elicitation elicitation-sep1034-defaults server-sse-multiple-streams
		elicitation-sep1330-enums resources-list resources-read-text resources-read-binary resources-templates-read
		resources-subscribe resources-unsubscribe prompts-list prompts-get-simple prompts-get-with-args
		prompts-get-embedded-resource prompts-get-with-image dns-rebinding-protection
		server-session-lifecycle json-schema-2020-12 server-sse-polling`,
	"2026-07-28": `server-stateless completion-complete tools-list tools-call-simple-text tools-call-image tools-call-audio
		tools-call-embedded-resource tools-call-mixed-content tools-call-error tools-call-with-progress server-sse-multiple-streams
		resources-list resources-read-text resources-read-binary resources-templates-read sep-2164-resource-not-found prompts-list
		prompts-get-simple prompts-get-with-args prompts-get-embedded-resource prompts-get-with-image dns-rebinding-protection
		caching input-required-result-basic-elicitation input-required-result-basic-sampling input-required-result-basic-list-roots
		input-required-result-request-state input-required-result-multiple-input-requests input-required-result-multi-round
		input-required-result-missing-input-response input-required-result-non-tool-request input-required-result-result-type
		input-required-result-unsupported-methods input-required-result-tampered-state input-required-result-capability-check
		input-required-result-ignore-extra-params input-required-result-validate-input
		tasks-lifecycle tasks-capability-negotiation tasks-wire-fields tasks-request-state-removal tasks-mrtr-input
		tasks-request-headers tasks-dispatch-and-envelope tasks-status-notifications tasks-required-task-error
		tasks-mrtr-composition json-schema-2020-12 http-header-validation http-custom-header-server-validation`,
}

// mcpSkipped is the one check that the suite itself leaves out; the tests of
// channel/mcpserver have what it would look at.
const mcpSkipped = "tasks-status-notifications"

// mcpElsewhere are the scenarios of an extension that agentd doesn't offer: resources
// that are skills. The suite counts them in neither revision.
const mcpElsewhere = "sep-2640-skills-"

// TestMCPConformance runs the protocol's own suite against the program, in both
// revisions. Every check of every scenario has to hold, also where the suite only
// warns.
func TestMCPConformance(t *testing.T) {
	k := newProtoKit(t, "the conformance suite of the Model Context Protocol")
	s := serve(t, mcpFolder(t), nil, "--fixtures")
	preload, err := filepath.Abs("mcp_auth.mjs")
	if err != nil {
		t.Fatal(err)
	}
	k.holdsAllScenarios(t)
	// The parallel ones end before the server does.
	t.Run("revisions", func(t *testing.T) {
		for revision, names := range mcpScenarios {
			t.Run(revision, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				suite := filepath.Join(k.modules, "@modelcontextprotocol", "conformance", "dist", "index.js")
				run := func(dir string, which ...string) error {
					args := append([]string{"--import", preload, suite, "server", "--url", s.url + "/mcp", "--timeout", "300000", "-o", dir}, which...)
					cmd := exec.CommandContext(t.Context(), k.nodeProgram, args...)
					cmd.Env = append(nodetest.Environment(), "AGENTD_TOKEN="+s.token)
					out, err := cmd.CombinedOutput()
					if err != nil {
						err = fmt.Errorf("the suite: %w\n%s", err, out)
					}
					return err
				}
				err := run(dir, "--requirements", revision)
				failed := checkScenarios(t, dir, strings.Fields(names))
				if err != nil && len(failed) == 0 {
					t.Error(err)
				}
				// The suite waits for some things for a time of its own, which a busy
				// machine may pass: what failed is tried again, alone.
				for scenario, failures := range failed {
					for tries := 0; len(failures) > 0 && tries < 3; tries++ {
						dir := t.TempDir()
						err := run(dir, "--scenario", scenario, "--spec-version", revision, "--force")
						_, again := heldScenarios(t, dir)
						if failures = again[scenario]; err != nil && len(failures) == 0 {
							failures = []string{err.Error()}
						}
					}
					for _, f := range failures {
						t.Error(f)
					}
				}
			})
		}
	})
}

// listedScenario is a line of the suite's list: a name, and the revisions that it is
// of, or that it is of an extension.
var listedScenario = regexp.MustCompile(`(?m)^\s+- (\S+) \[([^\]]+)\]$`)

// holdsAllScenarios checks the scenarios that are expected to run against those that
// the suite has: what a later version of it adds can't be missed.
func (k *protoKit) holdsAllScenarios(t *testing.T) {
	t.Helper()
	suite := filepath.Join(k.modules, "@modelcontextprotocol", "conformance", "dist", "index.js")
	cmd := exec.CommandContext(t.Context(), k.nodeProgram, suite, "list", "--server")
	cmd.Env = protoEnvironment()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the suite's list: %v\n%s", err, out)
	}
	listed := listedScenario.FindAllStringSubmatch(string(out), -1)
	if len(listed) < 60 {
		t.Fatalf("the suite's list has %d scenarios:\n%s", len(listed), out)
	}
	for _, m := range listed {
		revisions := strings.Split(strings.ReplaceAll(m[2], "extension", "2026-07-28"), ",")
		for revision, names := range mcpScenarios {
			expected := slices.Contains(revisions, revision) && !strings.HasPrefix(m[1], mcpElsewhere)
			if slices.Contains(strings.Fields(names), m[1]) != expected {
				t.Errorf("%s is in the suite for %s; here for %s: %v", m[1], m[2], revision, !expected)
			}
		}
	}
}

// resultFolder is the name of the folder in which a scenario's checks are.
var resultFolder = regexp.MustCompile(`^server-(.+)-\d{4}-\d{2}-\d{2}T[\d-]+Z$`)

// checkScenarios checks the checks that were made against the scenarios that there
// must be: one that wasn't run is as bad as one that failed. It returns what failed, by
// scenario.
func checkScenarios(t *testing.T, dir string, names []string) map[string][]string {
	t.Helper()
	held, failed := heldScenarios(t, dir)
	total := 0
	for _, name := range names {
		n, run := held[name]
		if delete(held, name); !run || n == 0 && name != mcpSkipped {
			t.Errorf("%s: no check was made", name)
		}
		total += n
	}
	if len(held) > 0 {
		t.Errorf("unexpected scenarios: %v", held)
	}
	t.Logf("%d scenarios, %d checks hold", len(names), total)
	return failed
}

// heldScenarios returns how many checks of each scenario hold, and which don't.
func heldScenarios(t *testing.T, dir string) (held map[string]int, failed map[string][]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	held, failed = map[string]int{}, map[string][]string{}
	for _, e := range entries {
		m := resultFolder.FindStringSubmatch(e.Name())
		if m == nil {
			t.Errorf("an unexpected folder: %s", e.Name())
			continue
		}
		n, failures := heldChecks(t, m[1], filepath.Join(dir, e.Name(), "checks.json"))
		held[m[1]] += n
		if len(failures) > 0 {
			failed[m[1]] = append(failed[m[1]], failures...)
		}
	}
	return held, failed
}

// heldChecks counts the checks of a scenario that hold, and returns the others.
func heldChecks(t *testing.T, scenario, path string) (held int, failures []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var checks []struct {
		ID           string `json:"id"`
		Status       string `json:"status"`
		ErrorMessage string `json:"errorMessage"`
	}
	if err := json.Unmarshal(data, &checks); err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		switch {
		case c.Status == "SUCCESS":
			held++
		case c.Status == "INFO", c.Status == "SKIPPED" && c.ID == mcpSkipped:
		default:
			failures = append(failures, fmt.Sprintf("%s: %s: %s: %s", scenario, c.ID, c.Status, c.ErrorMessage))
		}
	}
	return held, failures
}

// TestMCPOfficialClient drives the program with the protocol's own client, over HTTP
// and over standard input and output, beside a server and without one.
func TestMCPOfficialClient(t *testing.T) {
	k := newProtoKit(t, "the client of the Model Context Protocol")
	dir := mcpFolder(t)
	t.Run("stdio alone", func(t *testing.T) {
		k.node(t, "mcp.mjs", "stdio", dir)
	})
	s := serve(t, dir, nil)
	t.Run("http", func(t *testing.T) {
		k.node(t, "mcp.mjs", "http", s.url+"/mcp", s.token)
	})
	t.Run("stdio beside a server", func(t *testing.T) {
		k.node(t, "mcp.mjs", "stdio", dir)
	})
}

// TestMCPTaskSurvivesACrash kills the program while a task waits for an answer. The
// task is there at the next start and is answered then.
func TestMCPTaskSurvivesACrash(t *testing.T) {
	dir := mcpFolder(t)
	s := serve(t, dir, nil)
	created := s.ask("tools/call", map[string]any{"name": "run_turn", "arguments": map[string]any{"input": "write it"}})
	id, _ := created.Result["taskId"].(string)
	if id == "" {
		t.Fatalf("no task: %v %v", created.Result, created.Error)
	}
	s.task(id, "input_required")
	s.kill()
	s.start()
	responses := map[string]any{}
	for key := range s.task(id, "input_required")["inputRequests"].(map[string]any) {
		responses[key] = map[string]any{"action": "accept", "content": map[string]any{"decision": "allow"}}
	}
	if a := s.ask("tasks/update", map[string]any{"taskId": id, "inputResponses": responses}); a.Error != nil {
		t.Fatal(a.Error)
	}
	result := s.task(id, "completed")["result"]
	if !strings.Contains(fmt.Sprint(result), "It is written.") {
		t.Errorf("the result is %v", result)
	}
	if note, err := os.ReadFile(filepath.Join(dir, "work", "note.txt")); err != nil || !bytes.Equal(note, []byte("noted")) {
		t.Errorf("the note is %q: %v", note, err)
	}
}

// task polls a task until it has a status.
func (s *served) task(id, until string) map[string]any {
	s.t.Helper()
	for {
		a := s.ask("tasks/get", map[string]any{"taskId": id})
		if a.Error != nil {
			s.t.Fatalf("%s: %v", id, a.Error)
		}
		switch status := a.Result["status"]; {
		case status == until:
			return a.Result
		case status != "working" && status != "input_required":
			s.t.Fatalf("the task is %v: %v", status, a.Result)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
