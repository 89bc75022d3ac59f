package session_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
)

// TestThreadGoesOnWithoutExpiredOutputs: what the model was told long ago is told
// again from its beginning, and a client is told why it can't read the rest.
func TestThreadGoesOnWithoutExpiredOutputs(t *testing.T) {
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.ListenedBy(&heard)), runtimetest.CallsTool("read_file", map[string]any{"path": "long.txt"}), runtimetest.Says("It is long."), runtimetest.Says("It was long."))
	k.WriteFile("long.txt", strings.Repeat("a line of a long file\n", 1000))
	k.Completes(k.Submit("sess_a", "read it"))
	ref := runtimetest.Payloads[*event.ToolResult](k, "sess_a")[0].OutputRef
	if got := k.ReadOutput(ref); !strings.Contains(got, "a line of a long file") {
		t.Fatalf("%.100q", got)
	}
	k.Close()
	k.Change = runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.ListenedBy(&heard), func(o *agentd.Options) { o.Session.ExpireAfter = time.Millisecond })
	k.Open() // nothing of the conversation is in memory any more
	expired := k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeOutputExpired })
	if p := expired.Payload.(*event.OutputExpired); p.OutputRef != ref || expired.ToolCallID == "" {
		t.Errorf("%+v", expired)
	}
	k.Completes(k.Submit("sess_a", "and now"))
	requests := heard.Heard()
	if got := runtimetest.Conversation(requests[len(requests)-1]); !strings.Contains(got, "a line of a long file") || !strings.Contains(got, "the rest has expired") {
		t.Errorf("the model was told:\n%s", got)
	}
	_, _, err := k.Runtime.Output(context.Background(), command.Local(), ref)
	if fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), "expired on") {
		t.Errorf("got %v", err)
	}
}
