package agentd_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/hook"
	"agentd/model/provider/script"
	"agentd/state"
)

// editor is a tool that the peer carries out.
func editor(change func(*event.ChannelTool)) func(*command.ConnectChannel) {
	t := event.ChannelTool{
		ToolName: "open_editor", Description: "Opens a file for the user.",
		InputSchema: event.Raw(`{"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}`),
	}
	if change != nil {
		change(&t)
	}
	return func(p *command.ConnectChannel) { p.Tools = append(p.Tools, t) }
}

var (
	opensEditor = wants("open_editor", map[string]any{"path": "a.txt"})
	// lenient lets everything run, and calls wait for a peer that went for a while.
	lenient = func(grace time.Duration) func(*agentd.Options) {
		return func(o *agentd.Options) { o.Loop.Host.Mode, o.Channels.ToolGrace = "bypass", grace }
	}
)

// call waits for the n-th call that a peer is given.
func (k *kit) call(sessionID string, n int) (*event.Event, *event.ActionRequired) {
	k.Helper()
	e := k.until(sessionID, func(e *event.Event) bool {
		if p, ok := e.Payload.(*event.ActionRequired); ok && p.ActionType == "client_tool" {
			n--
		}
		return n == 0
	})
	return e, e.Payload.(*event.ActionRequired)
}

func submitResult(actionID, result string) *command.RespondAction {
	return &command.RespondAction{ActionID: actionID, Decision: "submit", Payload: event.Raw(result)}
}

func (k *kit) inventory(sessionID string) map[string]event.ToolInfo {
	k.Helper()
	out := map[string]event.ToolInfo{}
	for _, t := range do[command.GetToolInventoryResult](k, &command.GetToolInventory{SessionID: sessionID}).Tools {
		out[t.ToolName] = t
	}
	return out
}

func TestPeerCarriesOutItsTool(t *testing.T) {
	var heard listener
	k := newKitWith(t, all(listened(&heard), lenient(0)), says("hello"), opensEditor, says("done"))
	k.channelIn("sess_t", "chan_t", editor(func(t *event.ChannelTool) { t.TimeoutMs = 60_000; t.IsDestructive = true }))
	info, ok := k.inventory("sess_t")["open_editor"]
	if !ok || info.RuntimeOwner != "client" || info.Source != "channel:chan_t" || !info.IsDestructive {
		t.Errorf("the inventory says %+v", info)
	}
	if _, ok := k.inventory("")["open_editor"]; ok {
		t.Error("a session's tool is everybody's")
	}
	r := k.submit("sess_t", "open it")
	e, p := k.call("sess_t", 1)
	if e.ToolCallID == "" || e.ChannelID != "chan_t" || p.ToolName != "open_editor" || !strings.Contains(string(p.SafeArgs), "a.txt") ||
		len(p.Schema) == 0 || !p.Destructive || !slices.Equal(p.Decisions, []string{"submit", "cancel"}) || p.ExpiresAt.Sub(e.Time) != time.Minute {
		t.Errorf("got %+v in %+v", p, e.Scope)
	}
	refused(k, submitResult(e.ActionID, `{"wrong":1}`), fault.InvalidParams)
	refused(k, &command.RespondAction{ActionID: e.ActionID, Decision: "allow"}, fault.InvalidParams)
	refused(k, &command.ResolvePermission{ActionID: e.ActionID, Decision: "allow"}, fault.Conflict)
	do[command.RespondActionResult](k, submitResult(e.ActionID, `{"content":[{"type":"text","text":"it is"},{"type":"text","text":"open"}]}`))
	k.completes(r)
	res := payloads[*event.ToolResult](k, "sess_t")
	if len(res) != 1 || res[0].ToolName != "open_editor" || res[0].Status != "ok" || res[0].Preview != "it is\nopen" {
		t.Errorf("got %+v", res)
	}
	requests := heard.heard()
	if last := requests[len(requests)-1]; !strings.Contains(transcript(last), "it is\nopen") {
		t.Errorf("the model was told %s", transcript(last))
	}
	offered := false
	for _, spec := range requests[1].Tools {
		offered = offered || (spec.Name == "open_editor" && strings.Contains(string(spec.Schema), `"path"`) && spec.Description != "")
	}
	if !offered {
		t.Errorf("the model was offered %+v", requests[1].Tools)
	}
	refused(k, submitResult(e.ActionID, `{"output":"other"}`), fault.Conflict) // another answer, too late
	do[command.ChannelResult](k, &command.DisconnectChannel{ChannelID: "chan_t"})
	if _, ok := k.inventory("sess_t")["open_editor"]; ok {
		t.Error("the tool outlives its peer")
	}
}

func TestResultsOfPeers(t *testing.T) {
	for _, c := range []struct{ payload, preview, status, structured string }{
		{`{"output":"plain"}`, "plain", "ok", ""},
		{`{"content":"text"}`, "text", "ok", ""},
		{`{"content":{"a": 1}}`, `{"a":1}`, "ok", `"a"`},
		{`{"content":[{"type":"image","data":"x"}]}`, `[{"type":"image","data":"x"}]`, "ok", "image"},
		{`{"output":"no such file","isError":true}`, "no such file", "error", ""},
	} {
		k := newKitWith(t, lenient(0), says("hello"), opensEditor, says("done"))
		k.channelIn("sess_r", "chan_r", editor(nil))
		r := k.submit("sess_r", "open it")
		e, _ := k.call("sess_r", 1)
		do[command.RespondActionResult](k, submitResult(e.ActionID, c.payload))
		k.completes(r)
		res := payloads[*event.ToolResult](k, "sess_r")[0]
		if res.Preview != c.preview || res.Status != c.status || !strings.Contains(string(res.StructuredContent), c.structured) {
			t.Errorf("%s: got %+v", c.payload, res)
		}
	}
}

func TestLargeResultOfAPeerIsStored(t *testing.T) {
	k := newKitWith(t, lenient(0), says("hello"), opensEditor, says("done"))
	k.channelIn("sess_l", "chan_l", editor(nil))
	r := k.submit("sess_l", "open it")
	e, _ := k.call("sess_l", 1)
	text := strings.Repeat("a long line of output\n", 2000)
	do[command.RespondActionResult](k, submitResult(e.ActionID, `{"output":`+string(quoted(text))+`}`))
	k.completes(r)
	res := payloads[*event.ToolResult](k, "sess_l")[0]
	if res.OutputRef == "" || k.output(res.OutputRef) != text {
		t.Errorf("got %+v", res)
	}
}

func TestPermissionRulesHoldForPeersTools(t *testing.T) {
	k := newKit(t, says("hello"), opensEditor, says("done"), opensEditor, says("denied"))
	k.channelIn("sess_q", "chan_q", editor(nil))
	r := k.submit("sess_q", "open it")
	id, p := k.required("sess_q", 1)
	if p.ActionType != "tool_permission" || p.ToolName != "open_editor" {
		t.Fatalf("got %+v", p)
	}
	k.respond(id, "allow")
	e, _ := k.call("sess_q", 1)
	do[command.RespondActionResult](k, submitResult(e.ActionID, `{"output":"open"}`))
	k.completes(r)
	do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_q", Rules: []event.PolicyRule{{Decision: "deny", Tool: "open_*"}}})
	k.completes(k.submit("sess_q", "again"))
	failed := payloads[*event.ToolFailed](k, "sess_q")
	if len(failed) != 1 || failed[0].ErrorCategory != "denied" {
		t.Errorf("got %+v", failed)
	}
	got := do[command.EvaluatePermissionResult](k, &command.EvaluatePermission{SessionID: "sess_q", ToolName: "open_editor", Input: event.Raw(`{"path":"x"}`)})
	if got.PermissionDecision.Decision != "deny" {
		t.Errorf("got %+v", got)
	}
}

func TestToolsThatCannotBeOffered(t *testing.T) {
	k := newKit(t)
	k.completes(k.submit("sess_n", "hello"))
	for name, tool := range map[string]event.ChannelTool{
		"built in":    {ToolName: "shell"},
		"a bad name":  {ToolName: "open editor"},
		"no schema":   {ToolName: "x", InputSchema: event.Raw(`{"type":"nothing"}`)},
		"too long":    {ToolName: "x", Description: strings.Repeat("x", 9<<10)},
		"for ever":    {ToolName: "x", TimeoutMs: 1 << 40},
		"without one": {},
	} {
		p := &command.ConnectChannel{Transport: "sse", PeerRole: "client", SessionID: "sess_n", Tools: []event.ChannelTool{tool}}
		if why := refused(k, p, fault.InvalidParams); !strings.Contains(why, "tools") {
			t.Errorf("%s: %s", name, why)
		}
	}
	twice := []event.ChannelTool{{ToolName: "x"}, {ToolName: "x"}}
	refused(k, &command.ConnectChannel{Transport: "sse", PeerRole: "client", SessionID: "sess_n", Tools: twice}, fault.InvalidParams)
	if n := k.count("sess_n", event.TypeChannelConnected); n != 0 {
		t.Errorf("%d channels were opened", n)
	}
}

func TestPeerGivesNoResultInTime(t *testing.T) {
	k := newKitWith(t, lenient(0), says("hello"), opensEditor, says("done"))
	k.channelIn("sess_o", "chan_o", editor(func(t *event.ChannelTool) { t.TimeoutMs = 1 }))
	r := k.submit("sess_o", "open it")
	e, _ := k.call("sess_o", 1)
	k.completes(r)
	failed := payloads[*event.ToolFailed](k, "sess_o")
	if len(failed) != 1 || failed[0].ErrorCategory != "timeout" {
		t.Errorf("got %+v", failed)
	}
	refused(k, submitResult(e.ActionID, `{"output":"late"}`), fault.Conflict)
}

func TestPeerDeclines(t *testing.T) {
	k := newKitWith(t, lenient(0), says("hello"), opensEditor, says("done"))
	k.channelIn("sess_d", "chan_d", editor(nil))
	r := k.submit("sess_d", "open it")
	e, _ := k.call("sess_d", 1)
	do[command.RespondActionResult](k, &command.RespondAction{ActionID: e.ActionID, Decision: "cancel", Reason: "the user closed it", ChannelID: "chan_d"})
	k.completes(r)
	if failed := payloads[*event.ToolFailed](k, "sess_d"); len(failed) != 1 || failed[0].ErrorCategory != "denied" || !strings.Contains(failed[0].Message, "the user closed it") {
		t.Errorf("got %+v", failed)
	}
}

func TestOnlyItsPeerCarriesOutACall(t *testing.T) {
	k := newKitWith(t, lenient(0), says("hello"), opensEditor, says("done"))
	k.channelIn("sess_y", "chan_y", editor(nil))
	k.connect("sess_y", "chan_z", nil)
	r := k.submit("sess_y", "open it")
	e, _ := k.call("sess_y", 1)
	wrong := submitResult(e.ActionID, `{"output":"x"}`)
	wrong.ChannelID = "chan_z"
	refused(k, wrong, fault.Conflict)
	refusedAs(k, as("acme"), submitResult(e.ActionID, `{"output":"x"}`), fault.NotFound)
	right := submitResult(e.ActionID, `{"output":"x"}`)
	right.ChannelID = "chan_y"
	do[command.RespondActionResult](k, right)
	k.completes(r)
}

func TestPeerThatVanishesLeavesItsCallLost(t *testing.T) {
	for name, vanish := range map[string]func(*kit){
		"closed":       func(k *kit) { do[command.ChannelResult](k, &command.DisconnectChannel{ChannelID: "chan_v"}) },
		"its stream":   func(k *kit) { k.follow("chan_v", "sess_v").Left("closed") },
		"the runtime ": func(k *kit) { k.close(); k.open() },
	} {
		t.Run(name, func(t *testing.T) {
			k := newKitWith(t, lenient(10*time.Millisecond), says("hello"), opensEditor, says("done"))
			k.channelIn("sess_v", "chan_v", editor(nil))
			r := k.submit("sess_v", "open it")
			e, _ := k.call("sess_v", 1)
			vanish(k)
			gone := k.until("sess_v", is(event.TypeChannelDisconnected, "")).Payload.(*event.ChannelDisconnected)
			if !slices.Equal(gone.PendingToolCallIDs, []string{e.ToolCallID}) {
				t.Errorf("got %+v", gone)
			}
			k.completes(r)
			failed := payloads[*event.ToolFailed](k, "sess_v")
			if len(failed) != 1 || failed[0].ErrorCategory != "lost" || failed[0].Retryable {
				t.Errorf("got %+v", failed)
			}
			refused(k, submitResult(e.ActionID, `{"output":"late"}`), fault.Conflict)
		})
	}
}

func TestPeerThatIsBackInTimeFinishesItsCall(t *testing.T) {
	for name, vanish := range map[string]func(*kit){
		"its stream":  func(k *kit) { k.follow("chan_g", "sess_g").Left("closed") },
		"the runtime": func(k *kit) { k.close(); k.open() },
	} {
		t.Run(name, func(t *testing.T) {
			k := newKitWith(t, lenient(time.Hour), says("hello"), opensEditor, says("done"))
			token := k.channelIn("sess_g", "chan_g", editor(nil))
			r := k.submit("sess_g", "open it")
			e, _ := k.call("sess_g", 1)
			vanish(k)
			k.until("sess_g", is(event.TypeChannelDisconnected, ""))
			do[command.ReconnectChannelResult](k, &command.ReconnectChannel{ChannelID: "chan_g", ResumeToken: token})
			if _, ok := k.inventory("sess_g")["open_editor"]; !ok {
				t.Error("the peer is back without its tool")
			}
			do[command.RespondActionResult](k, submitResult(e.ActionID, `{"output":"open"}`))
			k.completes(r)
			if failed := payloads[*event.ToolFailed](k, "sess_g"); len(failed) != 0 {
				t.Errorf("got %+v", failed)
			}
		})
	}
}

func TestLostReadIsAskedAgainOfThePeerThatIsBack(t *testing.T) {
	k := newKitWith(t, lenient(-1), says("hello"), opensEditor, says("done"))
	k.channelIn("sess_a", "chan_a", editor(func(t *event.ChannelTool) { t.IsReadOnly = true }))
	k.connect("sess_a", "chan_b", editor(func(t *event.ChannelTool) { t.IsReadOnly = true }))
	r := k.submit("sess_a", "open it")
	e, _ := k.call("sess_a", 1)
	if e.ChannelID != "chan_b" { // of two the one that came last
		t.Errorf("%s was asked", e.ChannelID)
	}
	do[command.ChannelResult](k, &command.DisconnectChannel{ChannelID: "chan_b"})
	e, _ = k.call("sess_a", 2)
	if e.ChannelID != "chan_a" {
		t.Errorf("%s was asked", e.ChannelID)
	}
	do[command.RespondActionResult](k, submitResult(e.ActionID, `{"output":"open"}`))
	k.completes(r)
	if failed := payloads[*event.ToolFailed](k, "sess_a"); len(failed) != 1 || failed[0].ErrorCategory != "lost" {
		t.Errorf("got %+v", failed)
	}
}

func TestCallOfAPeerThatIsGoneIsUnavailable(t *testing.T) {
	slow := script.Answer{Tools: opensEditor.Tools, Delay: 50 * time.Millisecond}
	k := newKitWith(t, lenient(0), says("hello"), wants("request_input", map[string]any{"prompt": "Now?"}), slow, says("done"))
	k.channelIn("sess_u", "chan_u", editor(nil))
	r := k.submit("sess_u", "open it")
	id, _ := k.required("sess_u", 1)
	do[command.ChannelResult](k, &command.DisconnectChannel{ChannelID: "chan_u"})
	do[command.RespondActionResult](k, submitResult(id, `"yes"`))
	k.completes(r)
	failed := payloads[*event.ToolFailed](k, "sess_u")
	if len(failed) != 1 || failed[0].ErrorCategory != "unavailable" {
		t.Errorf("got %+v", failed)
	}
}

func TestInterruptEndsACallOfAPeer(t *testing.T) {
	k := newKitWith(t, lenient(0), says("hello"), opensEditor, says("done"))
	k.channelIn("sess_i", "chan_i", editor(nil))
	r := k.submit("sess_i", "open it")
	e, _ := k.call("sess_i", 1)
	if read := k.thread(r); read.Phase != "waiting_resource" || read.Status != state.ThreadBlocked {
		t.Errorf("the thread is %s, %s", read.Status, read.Phase)
	}
	do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_i"})
	k.fails(r, "interrupted")
	refused(k, submitResult(e.ActionID, `{"output":"late"}`), fault.Conflict)
}

func TestTurnMayNameAPeersTool(t *testing.T) {
	k := newKitWith(t, lenient(0), says("hello"), opensEditor, says("done"))
	refused(k, &command.SubmitTurn{SessionID: "sess_x", Create: true, Input: quoted("x"), Options: &event.TurnOptions{Tools: []string{"open_editor"}}}, fault.InvalidParams)
	token := k.channelIn("sess_x", "chan_x", editor(nil))
	k.close()
	k.open()
	do[command.ReconnectChannelResult](k, &command.ReconnectChannel{ChannelID: "chan_x", ResumeToken: token})
	r := k.ask("sess_x", "open it", &event.TurnOptions{Tools: []string{"open_editor"}})
	e, _ := k.call("sess_x", 1)
	do[command.RespondActionResult](k, submitResult(e.ActionID, `{"output":"open"}`))
	k.completes(r)
}

func TestHooksSeeThePeersTool(t *testing.T) {
	h := &hooks{points: []hook.Point{hook.PostToolUse}, answer: always(`{"updatedOutput":"seen by a hook"}`)}
	k := newKitWith(t, all(lenient(0), h.use(t)), says("hello"), opensEditor, says("done"))
	k.channelIn("sess_k", "chan_k", editor(nil))
	r := k.submit("sess_k", "open it")
	e, _ := k.call("sess_k", 1)
	do[command.RespondActionResult](k, submitResult(e.ActionID, `{"output":"open"}`))
	k.completes(r)
	if res := payloads[*event.ToolResult](k, "sess_k"); len(res) != 1 || res[0].Preview != "seen by a hook" {
		t.Errorf("got %+v", res)
	}
}
