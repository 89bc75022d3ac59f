package channel_test

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
	"agentd/internal/runtimetest"
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
	opensEditor = runtimetest.CallsTool("open_editor", map[string]any{"path": "a.txt"})
	// lenient lets everything run, and calls wait for a peer that went for a while.
	lenient = func(grace time.Duration) func(*agentd.Options) {
		return func(o *agentd.Options) { o.Loop.Host.Mode, o.Channels.ToolGrace = "bypass", grace }
	}
)

// call waits for the n-th call that a peer is given.
func call(k *runtimetest.Kit, sessionID string, n int) (*event.Event, *event.ActionRequired) {
	k.Helper()
	e := k.WaitFor(sessionID, func(e *event.Event) bool {
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

func inventory(k *runtimetest.Kit, sessionID string) map[string]event.ToolInfo {
	k.Helper()
	out := map[string]event.ToolInfo{}
	for _, t := range runtimetest.Do[command.GetToolInventoryResult](k, &command.GetToolInventory{SessionID: sessionID}).Tools {
		out[t.ToolName] = t
	}
	return out
}

func TestPeerCarriesOutItsTool(t *testing.T) {
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.ListenedBy(&heard), lenient(0)), runtimetest.Says("hello"), opensEditor, runtimetest.Says("done"))
	channelIn(k, "sess_t", "chan_t", editor(func(t *event.ChannelTool) { t.TimeoutMs = 60_000; t.IsDestructive = true }))
	info, ok := inventory(k, "sess_t")["open_editor"]
	if !ok || info.RuntimeOwner != "client" || info.Source != "channel:chan_t" || !info.IsDestructive {
		t.Errorf("the inventory says %+v", info)
	}
	if _, ok := inventory(k, "")["open_editor"]; ok {
		t.Error("a session's tool is everybody's")
	}
	r := k.Submit("sess_t", "open it")
	e, p := call(k, "sess_t", 1)
	if e.ToolCallID == "" || e.ChannelID != "chan_t" || p.ToolName != "open_editor" || !strings.Contains(string(p.SafeArgs), "a.txt") ||
		len(p.Schema) == 0 || !p.Destructive || !slices.Equal(p.Decisions, []string{"submit", "cancel"}) || p.ExpiresAt.Sub(e.Time) != time.Minute {
		t.Errorf("got %+v in %+v", p, e.Scope)
	}
	runtimetest.Refused(k, submitResult(e.ActionID, `{"wrong":1}`), fault.InvalidParams)
	runtimetest.Refused(k, &command.RespondAction{ActionID: e.ActionID, Decision: "allow"}, fault.InvalidParams)
	runtimetest.Refused(k, &command.ResolvePermission{ActionID: e.ActionID, Decision: "allow"}, fault.Conflict)
	runtimetest.Do[command.RespondActionResult](k, submitResult(e.ActionID, `{"content":[{"type":"text","text":"it is"},{"type":"text","text":"open"}]}`))
	k.Completes(r)
	res := runtimetest.Payloads[*event.ToolResult](k, "sess_t")
	if len(res) != 1 || res[0].ToolName != "open_editor" || res[0].Status != "ok" || res[0].Preview != "it is\nopen" {
		t.Errorf("got %+v", res)
	}
	requests := heard.Heard()
	if last := requests[len(requests)-1]; !strings.Contains(runtimetest.Conversation(last), "it is\nopen") {
		t.Errorf("the model was told %s", runtimetest.Conversation(last))
	}
	offered := false
	for _, spec := range requests[1].Tools {
		offered = offered || (spec.Name == "open_editor" && strings.Contains(string(spec.Schema), `"path"`) && spec.Description != "")
	}
	if !offered {
		t.Errorf("the model was offered %+v", requests[1].Tools)
	}
	runtimetest.Refused(k, submitResult(e.ActionID, `{"output":"other"}`), fault.Conflict) // another answer, too late
	runtimetest.Do[command.ChannelResult](k, &command.DisconnectChannel{ChannelID: "chan_t"})
	if _, ok := inventory(k, "sess_t")["open_editor"]; ok {
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
		k := runtimetest.NewWith(t, lenient(0), runtimetest.Says("hello"), opensEditor, runtimetest.Says("done"))
		channelIn(k, "sess_r", "chan_r", editor(nil))
		r := k.Submit("sess_r", "open it")
		e, _ := call(k, "sess_r", 1)
		runtimetest.Do[command.RespondActionResult](k, submitResult(e.ActionID, c.payload))
		k.Completes(r)
		res := runtimetest.Payloads[*event.ToolResult](k, "sess_r")[0]
		if res.Preview != c.preview || res.Status != c.status || !strings.Contains(string(res.StructuredContent), c.structured) {
			t.Errorf("%s: got %+v", c.payload, res)
		}
	}
}

func TestLargeResultOfAPeerIsStored(t *testing.T) {
	k := runtimetest.NewWith(t, lenient(0), runtimetest.Says("hello"), opensEditor, runtimetest.Says("done"))
	channelIn(k, "sess_l", "chan_l", editor(nil))
	r := k.Submit("sess_l", "open it")
	e, _ := call(k, "sess_l", 1)
	text := strings.Repeat("a long line of output\n", 2000)
	runtimetest.Do[command.RespondActionResult](k, submitResult(e.ActionID, `{"output":`+string(runtimetest.Quoted(text))+`}`))
	k.Completes(r)
	res := runtimetest.Payloads[*event.ToolResult](k, "sess_l")[0]
	if res.OutputRef == "" || k.ReadOutput(res.OutputRef) != text {
		t.Errorf("got %+v", res)
	}
}

func TestPermissionRulesHoldForPeersTools(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("hello"), opensEditor, runtimetest.Says("done"), opensEditor, runtimetest.Says("denied"))
	channelIn(k, "sess_q", "chan_q", editor(nil))
	r := k.Submit("sess_q", "open it")
	id, p := k.WaitForAction("sess_q", 1)
	if p.ActionType != "tool_permission" || p.ToolName != "open_editor" {
		t.Fatalf("got %+v", p)
	}
	k.Respond(id, "allow")
	e, _ := call(k, "sess_q", 1)
	runtimetest.Do[command.RespondActionResult](k, submitResult(e.ActionID, `{"output":"open"}`))
	k.Completes(r)
	runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_q", Rules: []event.PolicyRule{{Decision: "deny", Tool: "open_*"}}})
	k.Completes(k.Submit("sess_q", "again"))
	failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_q")
	if len(failed) != 1 || failed[0].ErrorCategory != "denied" {
		t.Errorf("got %+v", failed)
	}
	got := runtimetest.Do[command.EvaluatePermissionResult](k, &command.EvaluatePermission{SessionID: "sess_q", ToolName: "open_editor", Input: event.Raw(`{"path":"x"}`)})
	if got.PermissionDecision.Decision != "deny" {
		t.Errorf("got %+v", got)
	}
}

func TestToolsThatCannotBeOffered(t *testing.T) {
	k := runtimetest.New(t)
	k.Completes(k.Submit("sess_n", "hello"))
	for name, tool := range map[string]event.ChannelTool{
		"built in":    {ToolName: "shell"},
		"a bad name":  {ToolName: "open editor"},
		"no schema":   {ToolName: "x", InputSchema: event.Raw(`{"type":"nothing"}`)},
		"too long":    {ToolName: "x", Description: strings.Repeat("x", 9<<10)},
		"for ever":    {ToolName: "x", TimeoutMs: 1 << 40},
		"without one": {},
	} {
		p := &command.ConnectChannel{Transport: "sse", PeerRole: "client", SessionID: "sess_n", Tools: []event.ChannelTool{tool}}
		if why := runtimetest.Refused(k, p, fault.InvalidParams); !strings.Contains(why, "tools") {
			t.Errorf("%s: %s", name, why)
		}
	}
	twice := []event.ChannelTool{{ToolName: "x"}, {ToolName: "x"}}
	runtimetest.Refused(k, &command.ConnectChannel{Transport: "sse", PeerRole: "client", SessionID: "sess_n", Tools: twice}, fault.InvalidParams)
	if n := k.CountFacts("sess_n", event.TypeChannelConnected); n != 0 {
		t.Errorf("%d channels were opened", n)
	}
}

func TestPeerGivesNoResultInTime(t *testing.T) {
	k := runtimetest.NewWith(t, lenient(0), runtimetest.Says("hello"), opensEditor, runtimetest.Says("done"))
	channelIn(k, "sess_o", "chan_o", editor(func(t *event.ChannelTool) { t.TimeoutMs = 1 }))
	r := k.Submit("sess_o", "open it")
	e, _ := call(k, "sess_o", 1)
	k.Completes(r)
	failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_o")
	if len(failed) != 1 || failed[0].ErrorCategory != "timeout" {
		t.Errorf("got %+v", failed)
	}
	runtimetest.Refused(k, submitResult(e.ActionID, `{"output":"late"}`), fault.Conflict)
}

func TestPeerDeclines(t *testing.T) {
	k := runtimetest.NewWith(t, lenient(0), runtimetest.Says("hello"), opensEditor, runtimetest.Says("done"))
	channelIn(k, "sess_d", "chan_d", editor(nil))
	r := k.Submit("sess_d", "open it")
	e, _ := call(k, "sess_d", 1)
	runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: e.ActionID, Decision: "cancel", Reason: "the user closed it", ChannelID: "chan_d"})
	k.Completes(r)
	if failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_d"); len(failed) != 1 || failed[0].ErrorCategory != "denied" || !strings.Contains(failed[0].Message, "the user closed it") {
		t.Errorf("got %+v", failed)
	}
}

func TestOnlyItsPeerCarriesOutACall(t *testing.T) {
	k := runtimetest.NewWith(t, lenient(0), runtimetest.Says("hello"), opensEditor, runtimetest.Says("done"))
	channelIn(k, "sess_y", "chan_y", editor(nil))
	connect(k, "sess_y", "chan_z", nil)
	r := k.Submit("sess_y", "open it")
	e, _ := call(k, "sess_y", 1)
	wrong := submitResult(e.ActionID, `{"output":"x"}`)
	wrong.ChannelID = "chan_z"
	runtimetest.Refused(k, wrong, fault.Conflict)
	runtimetest.RefusedAs(k, runtimetest.ClientOf("acme"), submitResult(e.ActionID, `{"output":"x"}`), fault.NotFound)
	right := submitResult(e.ActionID, `{"output":"x"}`)
	right.ChannelID = "chan_y"
	runtimetest.Do[command.RespondActionResult](k, right)
	k.Completes(r)
}

func TestPeerThatVanishesLeavesItsCallLost(t *testing.T) {
	for name, vanish := range map[string]func(*runtimetest.Kit){
		"closed": func(k *runtimetest.Kit) {
			runtimetest.Do[command.ChannelResult](k, &command.DisconnectChannel{ChannelID: "chan_v"})
		},
		"its stream":   func(k *runtimetest.Kit) { follow(k, "chan_v", "sess_v").Left("closed") },
		"the runtime ": func(k *runtimetest.Kit) { k.Close(); k.Open() },
	} {
		t.Run(name, func(t *testing.T) {
			k := runtimetest.NewWith(t, lenient(10*time.Millisecond), runtimetest.Says("hello"), opensEditor, runtimetest.Says("done"))
			channelIn(k, "sess_v", "chan_v", editor(nil))
			r := k.Submit("sess_v", "open it")
			e, _ := call(k, "sess_v", 1)
			vanish(k)
			gone := k.WaitFor("sess_v", runtimetest.FactIs(event.TypeChannelDisconnected, "")).Payload.(*event.ChannelDisconnected)
			if !slices.Equal(gone.PendingToolCallIDs, []string{e.ToolCallID}) {
				t.Errorf("got %+v", gone)
			}
			k.Completes(r)
			failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_v")
			if len(failed) != 1 || failed[0].ErrorCategory != "lost" || failed[0].Retryable {
				t.Errorf("got %+v", failed)
			}
			runtimetest.Refused(k, submitResult(e.ActionID, `{"output":"late"}`), fault.Conflict)
		})
	}
}

func TestPeerThatIsBackInTimeFinishesItsCall(t *testing.T) {
	for name, vanish := range map[string]func(*runtimetest.Kit){
		"its stream":  func(k *runtimetest.Kit) { follow(k, "chan_g", "sess_g").Left("closed") },
		"the runtime": func(k *runtimetest.Kit) { k.Close(); k.Open() },
	} {
		t.Run(name, func(t *testing.T) {
			k := runtimetest.NewWith(t, lenient(time.Hour), runtimetest.Says("hello"), opensEditor, runtimetest.Says("done"))
			token := channelIn(k, "sess_g", "chan_g", editor(nil))
			r := k.Submit("sess_g", "open it")
			e, _ := call(k, "sess_g", 1)
			vanish(k)
			k.WaitFor("sess_g", runtimetest.FactIs(event.TypeChannelDisconnected, ""))
			runtimetest.Do[command.ReconnectChannelResult](k, &command.ReconnectChannel{ChannelID: "chan_g", ResumeToken: token})
			if _, ok := inventory(k, "sess_g")["open_editor"]; !ok {
				t.Error("the peer is back without its tool")
			}
			runtimetest.Do[command.RespondActionResult](k, submitResult(e.ActionID, `{"output":"open"}`))
			k.Completes(r)
			if failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_g"); len(failed) != 0 {
				t.Errorf("got %+v", failed)
			}
		})
	}
}

func TestLostReadIsAskedAgainOfThePeerThatIsBack(t *testing.T) {
	k := runtimetest.NewWith(t, lenient(-1), runtimetest.Says("hello"), opensEditor, runtimetest.Says("done"))
	channelIn(k, "sess_a", "chan_a", editor(func(t *event.ChannelTool) { t.IsReadOnly = true }))
	connect(k, "sess_a", "chan_b", editor(func(t *event.ChannelTool) { t.IsReadOnly = true }))
	r := k.Submit("sess_a", "open it")
	e, _ := call(k, "sess_a", 1)
	if e.ChannelID != "chan_b" { // of two the one that came last
		t.Errorf("%s was asked", e.ChannelID)
	}
	runtimetest.Do[command.ChannelResult](k, &command.DisconnectChannel{ChannelID: "chan_b"})
	e, _ = call(k, "sess_a", 2)
	if e.ChannelID != "chan_a" {
		t.Errorf("%s was asked", e.ChannelID)
	}
	runtimetest.Do[command.RespondActionResult](k, submitResult(e.ActionID, `{"output":"open"}`))
	k.Completes(r)
	lost := 0
	for _, p := range runtimetest.Payloads[*event.ToolProgress](k, "sess_a") {
		if p.Phase == event.PhaseLost {
			lost++
		}
	}
	if failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_a"); lost != 1 || len(failed) != 0 {
		t.Errorf("lost %d times, %+v", lost, failed)
	}
}

func TestCallOfAPeerThatIsGoneIsUnavailable(t *testing.T) {
	slow := script.Answer{Tools: opensEditor.Tools, Delay: 50 * time.Millisecond}
	k := runtimetest.NewWith(t, lenient(0), runtimetest.Says("hello"), runtimetest.CallsTool("request_input", map[string]any{"prompt": "Now?"}), slow, runtimetest.Says("done"))
	channelIn(k, "sess_u", "chan_u", editor(nil))
	r := k.Submit("sess_u", "open it")
	id, _ := k.WaitForAction("sess_u", 1)
	runtimetest.Do[command.ChannelResult](k, &command.DisconnectChannel{ChannelID: "chan_u"})
	runtimetest.Do[command.RespondActionResult](k, submitResult(id, `"yes"`))
	k.Completes(r)
	failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_u")
	if len(failed) != 1 || failed[0].ErrorCategory != "unavailable" {
		t.Errorf("got %+v", failed)
	}
}

func TestInterruptEndsACallOfAPeer(t *testing.T) {
	k := runtimetest.NewWith(t, lenient(0), runtimetest.Says("hello"), opensEditor, runtimetest.Says("done"))
	channelIn(k, "sess_i", "chan_i", editor(nil))
	r := k.Submit("sess_i", "open it")
	e, _ := call(k, "sess_i", 1)
	if read := k.Thread(r); read.Phase != "waiting_resource" || read.Status != state.ThreadBlocked {
		t.Errorf("the thread is %s, %s", read.Status, read.Phase)
	}
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_i"})
	k.Fails(r, "interrupted")
	runtimetest.Refused(k, submitResult(e.ActionID, `{"output":"late"}`), fault.Conflict)
}

func TestTurnMayNameAPeersTool(t *testing.T) {
	k := runtimetest.NewWith(t, lenient(0), runtimetest.Says("hello"), opensEditor, runtimetest.Says("done"))
	runtimetest.Refused(k, &command.SubmitTurn{SessionID: "sess_x", Create: true, Input: runtimetest.Quoted("x"), Options: &event.TurnOptions{Tools: []string{"open_editor"}}}, fault.InvalidParams)
	token := channelIn(k, "sess_x", "chan_x", editor(nil))
	k.Close()
	k.Open()
	runtimetest.Do[command.ReconnectChannelResult](k, &command.ReconnectChannel{ChannelID: "chan_x", ResumeToken: token})
	r := k.SubmitWith("sess_x", "open it", &event.TurnOptions{Tools: []string{"open_editor"}})
	e, _ := call(k, "sess_x", 1)
	runtimetest.Do[command.RespondActionResult](k, submitResult(e.ActionID, `{"output":"open"}`))
	k.Completes(r)
}

func TestHooksSeeThePeersTool(t *testing.T) {
	h := &runtimetest.Hooks{Points: []hook.Point{hook.PostToolUse}, Answer: runtimetest.AlwaysAnswer(`{"updatedOutput":"seen by a hook"}`)}
	k := runtimetest.NewWith(t, runtimetest.AllOf(lenient(0), h.Use(t)), runtimetest.Says("hello"), opensEditor, runtimetest.Says("done"))
	channelIn(k, "sess_k", "chan_k", editor(nil))
	r := k.Submit("sess_k", "open it")
	e, _ := call(k, "sess_k", 1)
	runtimetest.Do[command.RespondActionResult](k, submitResult(e.ActionID, `{"output":"open"}`))
	k.Completes(r)
	if res := runtimetest.Payloads[*event.ToolResult](k, "sess_k"); len(res) != 1 || res[0].Preview != "seen by a hook" {
		t.Errorf("got %+v", res)
	}
}
