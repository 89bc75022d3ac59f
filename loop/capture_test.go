package loop_test

import (
	"fmt"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
)

// printed are the lines that "seq 1 n" prints.
func printed(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// piecesOf joins what the facts hold of a session's processes, and counts their text.
func piecesOf(k *runtimetest.Kit, sessionID string) (all string, text int) {
	for _, p := range runtimetest.Payloads[*event.ProcessOutput](k, sessionID) {
		text += len(p.Text)
		if all += p.Text; p.OutputRef != "" {
			all += k.ReadOutput(p.OutputRef)
		}
	}
	return all, text
}

// scenarios, long-running process: when stdout is larger than the budget the runtime emits
// output.spilled and keeps an output ref. It does so at once, while the process runs.
func TestOutputIsSpilledWhileTheProcessRuns(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	for _, background := range []bool{true, false} {
		t.Run(fmt.Sprintf("background %v", background), func(t *testing.T) {
			k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell), runtimetest.CallsTool("shell", map[string]any{
				"command": "seq 1 60000; until [ -e go ]; do sleep 0.05; done; echo end", "background": background,
			}), runtimetest.Says("done"))
			r := k.Submit("sess_a", "go")
			e := k.WaitFor("sess_a", runtimetest.FactIs(event.TypeOutputSpilled, ""))
			if n := k.CountFacts("sess_a", event.TypeProcessCompleted); n != 0 {
				t.Error("the process has ended before its output was spilled")
			}
			p := e.Payload.(*event.OutputStored)
			if e.ToolCallID == "" || e.ProcessID == "" || p.Preview == "" || p.SizeBytes <= 64<<10 {
				t.Errorf("%+v %+v", e.Scope, p)
			}
			if got := k.ReadOutput(p.OutputRef); int64(len(got)) != p.SizeBytes || !strings.HasPrefix(printed(60000), got) {
				t.Errorf("%d bytes are not what was printed so far", len(got))
			}
			k.WriteFile("go", "")
			k.WaitFor("sess_a", runtimetest.FactIs(event.TypeProcessCompleted, ""))
			k.Completes(r)
			all, text := piecesOf(k, "sess_a")
			if all != printed(60000)+"end\n" {
				t.Errorf("the facts hold %d bytes of %d", len(all), len(printed(60000))+4)
			}
			if text > 64<<10 {
				t.Errorf("the facts carry %d bytes of text", text)
			}
			if done := runtimetest.Payloads[*event.ProcessCompleted](k, "sess_a")[0]; k.ReadOutput(done.OutputRef) != all {
				t.Error("the whole output isn't at the ref of the end")
			}
		})
	}
}

// A process that prints little spills nothing.
func TestLittleOutputIsNotSpilled(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell), runtimetest.CallsTool("shell", runtimetest.ShellArgs("seq 1 500")), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	if n := k.CountFacts("sess_a", event.TypeOutputSpilled); n != 0 {
		t.Errorf("%d facts", n)
	}
	if all, text := piecesOf(k, "sess_a"); all != printed(500) || text != len(all) {
		t.Errorf("%d bytes, %d as text", len(all), text)
	}
}

// processes, recovery: after a restart the runtime tells which outputs are durable.
func TestRestartTellsWhatIsKeptOfAnOutput(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	d := &runtimetest.DyingStore{}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell, runtimetest.OnDyingStore(d)), runtimetest.CallsTool("shell", map[string]any{
		"command": "seq 1 20000; sleep 1000", "background": true,
	}), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	k.WaitFor("sess_a", func(e *event.Event) bool {
		p, ok := e.Payload.(*event.ProcessOutput)
		return ok && p.Offset+p.SizeBytes == int64(len(printed(20000)))
	})
	k.Crash(d)
	k.Open()
	k.WaitFor("sess_a", runtimetest.FactIs(event.TypeProcessTerminated, ""))
	res := runtimetest.Do[command.ListProcessesResult](k, &command.ListProcesses{SessionID: "sess_a"})
	if x := res.Processes[0]; x.OutputRef == "" || k.ReadOutput(x.OutputRef) != printed(20000) {
		t.Errorf("%+v", x)
	}
}
