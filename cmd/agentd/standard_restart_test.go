package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"agentd/command"
	"agentd/event"
)

// outputAt returns the bytes behind a reference.
func (p *process) outputAt(ref string) []byte {
	p.t.Helper()
	res := p.getWithToken("/v1/outputs/" + url.PathEscape(ref))
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: %d %s, %v", ref, res.StatusCode, body, err)
	}
	return body
}

// readEnvironment is what a snapshot of a session says of where it works.
type readEnvironment struct {
	ExecutionEnvironment struct {
		EnvRef        string
		MayStillExist []string
	}
}

// TestEnvironmentOfTheSandbox: permission-and-sandbox.md, sandbox profile: it has an
// environment_ref. What is there names the variables that a command sees, without their
// values, and it is the one that the read model tells.
func TestEnvironmentOfTheSandbox(t *testing.T) {
	t.Parallel()
	p, _ := startStandard(t, "")
	var applied *event.SandboxApplied
	for _, e := range p.turn("sess_env", "list") {
		if x, ok := e.Payload.(*event.SandboxApplied); ok {
			applied = x
		}
	}
	if applied == nil || applied.EnvironmentID == "" {
		t.Fatalf("%+v", applied)
	}
	var described struct{ Variables []string }
	body := p.outputAt(applied.EnvironmentID)
	if err := json.Unmarshal(body, &described); err != nil || !slices.Contains(described.Variables, "PATH") {
		t.Errorf("%s: %v", body, err)
	}
	for _, name := range described.Variables {
		if strings.ContainsAny(name, "=/: ") {
			t.Errorf("%q is more than the name of a variable", name)
		}
	}
	shown := call[struct {
		EnvRef         string
		SandboxProfile struct{ EnvironmentRef string }
	}](p, &command.GetExecutionEnvironment{SessionID: "sess_env"})
	read := call[readEnvironment](p, &command.GetSession{SessionID: "sess_env"}).ExecutionEnvironment
	for _, ref := range []string{shown.EnvRef, shown.SandboxProfile.EnvironmentRef, read.EnvRef} {
		if ref != applied.EnvironmentID {
			t.Errorf("%q is shown, the fact has %q", ref, applied.EnvironmentID)
		}
	}
	if none := call[struct{ EnvRef string }](p, &command.GetExecutionEnvironment{}); none.EnvRef != event.NotApplicable {
		t.Errorf("without a session: %q", none.EnvRef)
	}
}

// TestRestartTellsWhatIsLeft: execution-environment.md, recovery: after a restart the
// runtime tells which processes may still exist, which outputs are durable, which refs
// can't be had any more and which actions remain unresolved.
func TestRestartTellsWhatIsLeft(t *testing.T) {
	t.Parallel()
	p, dir := startStandard(t, "")
	p.turn("sess_left", "print")
	for n, whole := 1, len(numbersTo(20_000)); ; n++ {
		out, ok := p.until("sess_left", event.TypeProcessOutput, n).Payload.(*event.ProcessOutput)
		if ok && out.Offset+out.SizeBytes == int64(whole) {
			break
		}
	}
	var ended string // an output from before, of a call that has ended
	for _, e := range p.turn("sess_ended", "many") {
		if r, ok := e.Payload.(*event.ToolResult); ok {
			ended = r.OutputRef
		}
	}
	asks := submitParams(t, "question")
	asks.SessionID, asks.Create = "sess_asks", true
	call[command.SubmitTurnResult](p, asks)
	asked := p.until("sess_asks", event.TypeActionRequired, 1).ActionID
	p.stop(syscall.SIGKILL)

	q := start(t, p.data, "--config", filepath.Join(dir, "agentd.yaml"))
	told := q.until("sess_left", event.TypeHistoryReconstructed, 1).Payload.(*event.HistoryReconstructed)
	list := call[command.ListProcessesResult](q, &command.ListProcesses{SessionID: "sess_left"}).Processes
	if len(list) != 1 || list[0].Status != "terminated" || list[0].OutputRef == "" {
		t.Fatalf("%+v", list)
	}
	if got := q.outputAt(list[0].OutputRef); string(got) != numbersTo(20_000) {
		t.Errorf("%d bytes of the process's output are left", len(got))
	}
	says := strings.Join(told.Recovered, "\n")
	if !strings.Contains(says, list[0].ProcessID) || !strings.Contains(says, list[0].OutputRef) || told.Degraded || len(told.Missing) != 0 {
		t.Errorf("the restart tells %+v", told)
	}
	env := call[readEnvironment](q, &command.GetSession{SessionID: "sess_left"}).ExecutionEnvironment
	if env.MayStillExist == nil || len(env.MayStillExist) != 0 {
		t.Errorf("processes that may still exist: %q", env.MayStillExist)
	}
	if ended == "" || string(q.outputAt(ended)) != numbersTo(3000) {
		t.Errorf("the output of an earlier call is not at %q any more", ended)
	}
	open := call[command.ListActionsResult](q, &command.ListActions{Status: "pending"})
	if len(open.Actions) != 1 || !strings.Contains(string(open.Actions[0]), asked) {
		t.Errorf("unresolved: %s; want %s", open.Actions, asked)
	}
}

// numbersTo is what "seq 1 n" prints.
func numbersTo(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		b.WriteString(strconv.Itoa(i) + "\n")
	}
	return b.String()
}
