package loop_test

import (
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/redact"
	"agentd/sandbox"
)

func TestCommandsLeaveTheirFacts(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell), runtimetest.CallsTool("shell", runtimetest.ShellArgs("echo out; echo err >&2; exit 3")), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	p := runtimetest.Payloads[*event.ToolResult](k, "sess_a")[0]
	if p.ExitCode != event.Int(3) || p.Status != "ok" || !strings.Contains(p.Preview, "out") || !strings.Contains(p.Preview, "err") {
		t.Errorf("%+v", p)
	}
	started, ended := runtimetest.Payloads[*event.ProcessStarted](k, "sess_a"), runtimetest.Payloads[*event.ProcessCompleted](k, "sess_a")
	if len(started) != 1 || len(ended) != 1 || ended[0].ExitCode != 3 || started[0].ProcessID != p.ProcessID {
		t.Errorf("%+v %+v", started, ended)
	}
	if a := runtimetest.Payloads[*event.SandboxApplied](k, "sess_a"); len(a) != 1 || a[0].Enforcement.Filesystem == sandbox.None {
		t.Errorf("%+v", a)
	}
}

// TestInterruptOfARunningCommand ends the whole tree.
func TestInterruptOfARunningCommand(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell), runtimetest.CallsTool("shell", runtimetest.ShellArgs("sleep 1000 & echo here; sleep 1000")))
	r := k.Submit("sess_a", "go")
	k.WaitFor("sess_a", func(e *event.Event) bool {
		p, ok := e.Payload.(*event.ProcessOutput)
		return ok && strings.Contains(p.Text, "here")
	})
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a"})
	k.Fails(r, "interrupted")
	if p := runtimetest.Payloads[*event.ProcessTerminated](k, "sess_a"); len(p) != 1 || p[0].Reason != "parent_cancelled" {
		t.Errorf("%+v", p)
	}
	if p := runtimetest.Payloads[*event.ToolFailed](k, "sess_a"); len(p) != 1 || p[0].ErrorCategory != "interrupted" {
		t.Errorf("%+v", p)
	}
}

func TestCommandThatTakesTooLong(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell), runtimetest.CallsTool("shell", map[string]any{"command": "sleep 1000", "timeoutMs": 100}), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	if p := runtimetest.Payloads[*event.ProcessTerminated](k, "sess_a"); len(p) != 1 || p[0].Reason != "timeout" {
		t.Errorf("%+v", p)
	}
}

// TestLeavingTheSandboxIsAsked: in mode on_failure a violation becomes a question,
// and the answer lets the call run outside.
func TestLeavingTheSandboxIsAsked(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	outside, err := os.MkdirTemp(homeFor(t), "outside") //nolint:usetesting // commands have a /tmp of their own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(outside) })
	target := filepath.Join(outside, "file.txt")
	// The name is put together at run time, so that only the kernel can know.
	line := "d=" + filepath.Dir(target) + "; f=file.txt; python3 -c 'import sys; open(sys.argv[1], \"w\").write(\"x\")' $d/$f 2>&1 || (echo \"Permission denied: $d/$f\" >&2; exit 1)"
	for _, answer := range []string{"deny", "allow"} {
		k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("on_failure"), runtimetest.WithShell), runtimetest.CallsTool("shell", runtimetest.ShellArgs(line)), runtimetest.Says("done"))
		r := k.Submit("sess_a", "go")
		action, p := k.WaitForAction("sess_a", 1)
		if p.ActionType == "tool_permission" { // the analysis asks first: it can't tell what runs
			k.Respond(action, "allow")
			action, p = k.WaitForAction("sess_a", 2)
		}
		if p.ActionType != "sandbox_escape" {
			t.Fatalf("%s: asked %+v", answer, p)
		}
		if _, err := os.Stat(target); err == nil {
			t.Fatal("it was written from inside the sandbox")
		}
		if k.CountFacts("sess_a", event.TypeSandboxViolation) != 1 {
			t.Error("no sandbox.violation")
		}
		k.Respond(action, answer)
		k.Completes(r)
		_, err := os.Stat(target)
		applied := runtimetest.Payloads[*event.SandboxApplied](k, "sess_a")
		last := applied[len(applied)-1].Mode
		if answer == "allow" && (err != nil || last != "danger_full_access") {
			t.Errorf("allowed: %v, in %s", err, last)
		}
		if answer == "deny" && (err == nil || last == "danger_full_access" || len(runtimetest.Payloads[*event.ToolFailed](k, "sess_a")) != 1) {
			t.Errorf("denied: %v, in %s", err, last)
		}
	}
}

// homeFor is a folder outside of the workspace and of /tmp, which commands have to
// themselves.
func homeFor(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{os.Getenv("HOME"), "/var/lib", "."} {
		if f, err := os.CreateTemp(dir, "probe"); dir != "" && err == nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
			abs, err := filepath.Abs(dir)
			if err == nil {
				return abs
			}
		}
	}
	t.Skip("skipped: leaving the sandbox; no folder outside of /tmp can be written to")
	return ""
}

// TestViolationInOtherModesIsAFailure that the model is told.
func TestViolationInOtherModesIsAFailure(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell, runtimetest.ListenedBy(&heard)), runtimetest.CallsTool("shell", runtimetest.ShellArgs("echo x > /etc/agentd-test")), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	e := k.WaitFor("sess_a", func(e *event.Event) bool {
		return e.Type == event.TypeActionRequired || e.Type == event.TypeSandboxViolation
	})
	if e.Type == event.TypeActionRequired { // the redirection is seen before it runs
		if p := e.Payload.(*event.ActionRequired); p.ActionType != "sandbox_escape" {
			t.Errorf("%+v", p)
		}
		k.Respond(e.ActionID, "deny")
	}
	k.Completes(r)
	if p := runtimetest.Payloads[*event.ToolFailed](k, "sess_a"); len(p) != 1 {
		t.Errorf("%+v", p)
	}
}

func TestBackgroundProcessOutlivesItsCall(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell), runtimetest.CallsTool("shell", map[string]any{"command": "cat", "background": true}), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	p := runtimetest.Payloads[*event.ToolResult](k, "sess_a")[0]
	if p.Status != "background" || p.ProcessID == "" {
		t.Fatalf("%+v", p)
	}
	runtimetest.Do[command.WriteProcessStdinResult](k, &command.WriteProcessStdin{ProcessID: p.ProcessID, Data: "hello\n", EOF: true})
	k.WaitFor("sess_a", runtimetest.FactIs(event.TypeProcessCompleted, ""))
	var text string
	for _, o := range runtimetest.Payloads[*event.ProcessOutput](k, "sess_a") {
		text += o.Text
	}
	if text != "hello\n" {
		t.Errorf("%q", text)
	}
}

// TestPiecesOfAnOutputLieSideBySide: each says where it begins and has its text, or
// where what isn't text can be read.
func TestPiecesOfAnOutputLieSideBySide(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	redacts := func(o *agentd.Options) { o.Loop.Redact = redact.New(redact.Options{}) }
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell, redacts), runtimetest.CallsTool("shell", map[string]any{"command": "cat", "background": true}), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	id := runtimetest.Payloads[*event.ToolResult](k, "sess_a")[0].ProcessID
	const whole = "abc\xff\x00def"
	write := func(b string, eof bool, until func(*event.ProcessOutput) bool) {
		runtimetest.Do[command.WriteProcessStdinResult](k, &command.WriteProcessStdin{ProcessID: id, Base64: command.Base64(base64.StdEncoding.EncodeToString([]byte(b))), EOF: eof})
		k.WaitFor("sess_a", func(e *event.Event) bool {
			p, ok := e.Payload.(*event.ProcessOutput)
			return ok && until(p)
		})
	}
	write(whole[:3], false, func(p *event.ProcessOutput) bool { return p.Text != "" }) // the end of it is held back: a secret may begin there
	write(whole[3:5], false, func(p *event.ProcessOutput) bool { return p.Binary })
	write(whole[5:], true, func(p *event.ProcessOutput) bool { return strings.HasSuffix(p.Text, "f") })
	at := int64(0)
	for _, p := range runtimetest.Payloads[*event.ProcessOutput](k, "sess_a") {
		piece := p.Text
		if p.Binary {
			blob, _, err := k.Runtime.Output(t.Context(), command.Local(), p.OutputRef)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(blob)
			if err := errors.Join(err, blob.Close()); err != nil {
				t.Fatal(err)
			}
			piece = string(b)
		}
		end := at + int64(len(piece))
		if piece == "" || p.Offset != at || p.SizeBytes != int64(len(piece)) || end > int64(len(whole)) || whole[at:end] != piece {
			t.Fatalf("at %d of %q: %+v is %q", at, whole, p, piece)
		}
		at = end
	}
	if at != int64(len(whole)) {
		t.Errorf("the pieces end at %d", at)
	}
}

// TestBackgroundProcessEndsWithTheRuntime, and the facts say so.
func TestBackgroundProcessEndsWithTheRuntime(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell), runtimetest.CallsTool("shell", map[string]any{"command": "sleep 1000", "background": true}), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	k.Close()
	if p := runtimetest.Payloads[*event.ProcessTerminated](k, "sess_a"); len(p) != 1 || p[0].Reason != "shutdown" {
		t.Errorf("%+v", p)
	}
	k.Open()
}
