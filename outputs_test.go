package agentd_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// TestThreadGoesOnWithoutExpiredOutputs: what the model was told long ago is told
// again from its beginning, and a client is told why it can't read the rest.
func TestThreadGoesOnWithoutExpiredOutputs(t *testing.T) {
	var heard listener
	k := newKitWith(t, all(mode("auto"), listened(&heard)), wants("read_file", map[string]any{"path": "long.txt"}), says("It is long."), says("It was long."))
	k.write("long.txt", strings.Repeat("a line of a long file\n", 1000))
	k.completes(k.submit("sess_a", "read it"))
	ref := payloads[*event.ToolResult](k, "sess_a")[0].OutputRef
	if got := k.output(ref); !strings.Contains(got, "a line of a long file") {
		t.Fatalf("%.100q", got)
	}
	k.close()
	k.change = all(mode("auto"), listened(&heard), func(o *agentd.Options) { o.Session.ExpireAfter = time.Millisecond })
	k.open() // nothing of the conversation is in memory any more
	expired := k.until("sess_a", func(e *event.Event) bool { return e.Type == event.TypeOutputExpired })
	if p := expired.Payload.(*event.OutputExpired); p.OutputRef != ref || expired.ToolCallID == "" {
		t.Errorf("%+v", expired)
	}
	k.completes(k.submit("sess_a", "and now"))
	requests := heard.heard()
	if got := transcript(requests[len(requests)-1]); !strings.Contains(got, "a line of a long file") || !strings.Contains(got, "the rest has expired") {
		t.Errorf("the model was told:\n%s", got)
	}
	_, _, err := k.r.Output(context.Background(), command.Local(), ref)
	if fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), "expired on") {
		t.Errorf("got %v", err)
	}
}
