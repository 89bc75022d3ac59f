package agentd_test

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
	"agentd/redact"
	"agentd/sandbox"
)

func shell(line string) map[string]any { return map[string]any{"command": line} }

func TestCommandsLeaveTheirFacts(t *testing.T) {
	needsSandbox(t)
	k := newKitWith(t, all(mode("auto"), withShell), wants("shell", shell("echo out; echo err >&2; exit 3")), says("done"))
	k.completes(k.submit("sess_a", "go"))
	p := payloads[*event.ToolResult](k, "sess_a")[0]
	if p.ExitCode != event.Int(3) || p.Status != "ok" || !strings.Contains(p.Preview, "out") || !strings.Contains(p.Preview, "err") {
		t.Errorf("%+v", p)
	}
	started, ended := payloads[*event.ProcessStarted](k, "sess_a"), payloads[*event.ProcessCompleted](k, "sess_a")
	if len(started) != 1 || len(ended) != 1 || ended[0].ExitCode != 3 || started[0].ProcessID != p.ProcessID {
		t.Errorf("%+v %+v", started, ended)
	}
	if a := payloads[*event.SandboxApplied](k, "sess_a"); len(a) != 1 || a[0].Enforcement.Filesystem == sandbox.None {
		t.Errorf("%+v", a)
	}
}

// TestInterruptOfARunningCommand ends the whole tree.
func TestInterruptOfARunningCommand(t *testing.T) {
	needsSandbox(t)
	k := newKitWith(t, all(mode("auto"), withShell), wants("shell", shell("sleep 1000 & echo here; sleep 1000")))
	r := k.submit("sess_a", "go")
	k.until("sess_a", func(e *event.Event) bool {
		p, ok := e.Payload.(*event.ProcessOutput)
		return ok && strings.Contains(p.Text, "here")
	})
	do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a"})
	k.fails(r, "interrupted")
	if p := payloads[*event.ProcessTerminated](k, "sess_a"); len(p) != 1 || p[0].Reason != "parent_cancelled" {
		t.Errorf("%+v", p)
	}
	if p := payloads[*event.ToolFailed](k, "sess_a"); len(p) != 1 || p[0].ErrorCategory != "interrupted" {
		t.Errorf("%+v", p)
	}
}

func TestCommandThatTakesTooLong(t *testing.T) {
	needsSandbox(t)
	k := newKitWith(t, all(mode("auto"), withShell), wants("shell", map[string]any{"command": "sleep 1000", "timeoutMs": 100}), says("done"))
	k.completes(k.submit("sess_a", "go"))
	if p := payloads[*event.ProcessTerminated](k, "sess_a"); len(p) != 1 || p[0].Reason != "timeout" {
		t.Errorf("%+v", p)
	}
}

// TestLeavingTheSandboxIsAsked: in mode on_failure a violation becomes a question,
// and the answer lets the call run outside.
func TestLeavingTheSandboxIsAsked(t *testing.T) {
	needsSandbox(t)
	outside, err := os.MkdirTemp(homeFor(t), "outside") //nolint:usetesting // commands have a /tmp of their own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(outside) })
	target := filepath.Join(outside, "file.txt")
	// The name is put together at run time, so that only the kernel can know.
	line := "d=" + filepath.Dir(target) + "; f=file.txt; python3 -c 'import sys; open(sys.argv[1], \"w\").write(\"x\")' $d/$f 2>&1 || (echo \"Permission denied: $d/$f\" >&2; exit 1)"
	for _, answer := range []string{"deny", "allow"} {
		k := newKitWith(t, all(mode("on_failure"), withShell), wants("shell", shell(line)), says("done"))
		r := k.submit("sess_a", "go")
		action, p := k.required("sess_a", 1)
		if p.ActionType == "tool_permission" { // the analysis asks first: it can't tell what runs
			k.respond(action, "allow")
			action, p = k.required("sess_a", 2)
		}
		if p.ActionType != "sandbox_escape" {
			t.Fatalf("%s: asked %+v", answer, p)
		}
		if _, err := os.Stat(target); err == nil {
			t.Fatal("it was written from inside the sandbox")
		}
		if k.count("sess_a", event.TypeSandboxViolation) != 1 {
			t.Error("no sandbox.violation")
		}
		k.respond(action, answer)
		k.completes(r)
		_, err := os.Stat(target)
		applied := payloads[*event.SandboxApplied](k, "sess_a")
		last := applied[len(applied)-1].Mode
		if answer == "allow" && (err != nil || last != "danger_full_access") {
			t.Errorf("allowed: %v, in %s", err, last)
		}
		if answer == "deny" && (err == nil || last == "danger_full_access" || len(payloads[*event.ToolFailed](k, "sess_a")) != 1) {
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
	needsSandbox(t)
	var heard listener
	k := newKitWith(t, all(mode("auto"), withShell, listened(&heard)), wants("shell", shell("echo x > /etc/agentd-test")), says("done"))
	r := k.submit("sess_a", "go")
	e := k.until("sess_a", func(e *event.Event) bool {
		return e.Type == event.TypeActionRequired || e.Type == event.TypeSandboxViolation
	})
	if e.Type == event.TypeActionRequired { // the redirection is seen before it runs
		if p := e.Payload.(*event.ActionRequired); p.ActionType != "sandbox_escape" {
			t.Errorf("%+v", p)
		}
		k.respond(e.ActionID, "deny")
	}
	k.completes(r)
	if p := payloads[*event.ToolFailed](k, "sess_a"); len(p) != 1 {
		t.Errorf("%+v", p)
	}
}

func TestBackgroundProcessOutlivesItsCall(t *testing.T) {
	needsSandbox(t)
	k := newKitWith(t, all(mode("auto"), withShell), wants("shell", map[string]any{"command": "cat", "background": true}), says("done"))
	k.completes(k.submit("sess_a", "go"))
	p := payloads[*event.ToolResult](k, "sess_a")[0]
	if p.Status != "background" || p.ProcessID == "" {
		t.Fatalf("%+v", p)
	}
	do[command.WriteProcessStdinResult](k, &command.WriteProcessStdin{ProcessID: p.ProcessID, Data: "hello\n", EOF: true})
	k.until("sess_a", is(event.TypeProcessCompleted, ""))
	var text string
	for _, o := range payloads[*event.ProcessOutput](k, "sess_a") {
		text += o.Text
	}
	if text != "hello\n" {
		t.Errorf("%q", text)
	}
}

// TestPiecesOfAnOutputLieSideBySide: each says where it begins and has its text, or
// where what isn't text can be read.
func TestPiecesOfAnOutputLieSideBySide(t *testing.T) {
	needsSandbox(t)
	redacts := func(o *agentd.Options) { o.Loop.Redact = redact.New(redact.Options{}) }
	k := newKitWith(t, all(mode("auto"), withShell, redacts), wants("shell", map[string]any{"command": "cat", "background": true}), says("done"))
	k.completes(k.submit("sess_a", "go"))
	id := payloads[*event.ToolResult](k, "sess_a")[0].ProcessID
	const whole = "abc\xff\x00def"
	write := func(b string, eof bool, until func(*event.ProcessOutput) bool) {
		do[command.WriteProcessStdinResult](k, &command.WriteProcessStdin{ProcessID: id, Base64: command.Base64(base64.StdEncoding.EncodeToString([]byte(b))), EOF: eof})
		k.until("sess_a", func(e *event.Event) bool {
			p, ok := e.Payload.(*event.ProcessOutput)
			return ok && until(p)
		})
	}
	write(whole[:3], false, func(p *event.ProcessOutput) bool { return p.Text != "" }) // the end of it is held back: a secret may begin there
	write(whole[3:5], false, func(p *event.ProcessOutput) bool { return p.Binary })
	write(whole[5:], true, func(p *event.ProcessOutput) bool { return strings.HasSuffix(p.Text, "f") })
	at := int64(0)
	for _, p := range payloads[*event.ProcessOutput](k, "sess_a") {
		piece := p.Text
		if p.Binary {
			blob, _, err := k.r.Output(t.Context(), command.Local(), p.OutputRef)
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
	needsSandbox(t)
	k := newKitWith(t, all(mode("auto"), withShell), wants("shell", map[string]any{"command": "sleep 1000", "background": true}), says("done"))
	k.completes(k.submit("sess_a", "go"))
	k.close()
	if p := payloads[*event.ProcessTerminated](k, "sess_a"); len(p) != 1 || p[0].Reason != "shutdown" {
		t.Errorf("%+v", p)
	}
	k.open()
}
