package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
	"agentd/tool"
)

// clientTimeout is how long a peer may take for a call of a tool that says nothing
// else.
const clientTimeout = 5 * time.Minute

// clientResult is what a peer's answer to a call must look like.
var clientResult = event.Raw(`{"type":"object","properties":{` +
	`"content":{"description":"The result: text, a list of text parts, or any JSON."},` +
	`"output":{"type":"string","description":"The result as text."},` +
	`"isError":{"type":"boolean","description":"The tool ran and tells of an error."}},` +
	`"anyOf":[{"required":["content"]},{"required":["output"]}],"additionalProperties":false}`)

// clientTool is a tool that the peer of a channel carries out. A call of it is a
// state of the turn: an action that only that peer can answer.
type clientTool struct {
	channelID string
	timeout   time.Duration
	info      event.ToolInfo
}

// Info implements [tool.Tool].
func (t *clientTool) Info() event.ToolInfo { return t.info }

// Run implements [tool.Tool]. It is never called: the peer runs the tool.
func (t *clientTool) Run(context.Context, *tool.Call) (*tool.Result, error) {
	return nil, tool.Errorf(tool.Unavailable, "%s runs in the client of channel %s", t.info.ToolName, t.channelID)
}

// clientTools are the tools of the peers that follow a session now. Of two with
// the same name the one comes first, and counts, whose peer came last.
func clientTools(s *state.Session) []tool.Tool {
	var out []tool.Tool
	for _, c := range slices.Backward(s.Channels.Connected) {
		for i := range c.Tools {
			out = append(out, newClientTool(c.ChannelID, &c.Tools[i]))
		}
	}
	return out
}

// expectedTools are clientTools and, behind them, the tools of peers whose
// connection broke a moment ago: a call of one waits for its peer.
func expectedTools(s *state.Session, now time.Time) []tool.Tool {
	out := clientTools(s)
	for _, c := range slices.Backward(s.Channels.Disconnected) {
		if len(c.Tools) == 0 || !now.Before(c.GoneAt()) {
			continue
		}
		for i := range c.Tools {
			out = append(out, newClientTool(c.ChannelID, &c.Tools[i]))
		}
	}
	return out
}

func newClientTool(channelID string, t *event.ChannelTool) *clientTool {
	timeout := time.Duration(t.TimeoutMs) * time.Millisecond
	if timeout == 0 {
		timeout = clientTimeout
	}
	return &clientTool{channelID: channelID, timeout: timeout, info: event.ToolInfo{
		ToolName: t.ToolName, Description: t.Description, InputSchema: t.InputSchema, RuntimeOwner: "client", Source: "channel:" + channelID,
		IsReadOnly: t.IsReadOnly, IsDestructive: t.IsDestructive, IsConcurrencySafe: t.IsConcurrencySafe, InterruptBehavior: "cancel",
	}}
}

// CheckClientTool refuses a tool that a peer can't offer here: its name is taken or
// no model could call it, or its schema can't be used.
func (l *Loop) CheckClientTool(t *event.ChannelTool) error {
	if e, taken := l.opt.Tools.Get(t.ToolName); taken {
		return fmt.Errorf("the name is taken by a tool of %s", e.Info.RuntimeOwner)
	}
	if !tool.Callable(t.ToolName) {
		return fmt.Errorf("%q is not 1 to 64 characters from A-Z a-z 0-9 _ -", tool.Preview(t.ToolName, 80))
	}
	return tool.CheckSchema(t.InputSchema)
}

// clientNames remembers what peers' tools are called, so that a turn may name one
// in its options.
type clientNames struct {
	mu   sync.Mutex
	seen map[string]bool
}

// maxClientNames bounds what is remembered.
const maxClientNames = 10_000

func (n *clientNames) add(tools []event.ChannelTool) {
	if len(tools) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen == nil || len(n.seen) > maxClientNames {
		n.seen = map[string]bool{}
	}
	for i := range tools {
		n.seen[tools[i].ToolName] = true
	}
}

func (n *clientNames) has(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen[name]
}

// OfferClientTools lets turns name the tools of a peer that comes.
func (l *Loop) OfferClientTools(tools []event.ChannelTool) { l.clients.add(tools) }

// committedChannel notes what the end of a channel means for turns.
func (l *Loop) committedChannel(sessionID string, e *event.Event) {
	if p, ok := e.Payload.(*event.ChannelDisconnected); ok && len(p.PendingToolCallIDs) > 0 {
		l.wakeAbandoned(sessionID)
	}
}

// wakeAbandoned has the threads looked at that wait for a peer which went: they wait
// for a while and no longer.
func (l *Loop) wakeAbandoned(sessionID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.wg.Go(func() {
		var threads []string
		err := l.m.View(l.ctx, sessionID, func(s *state.Session) error {
			for _, a := range s.Actions.Pending {
				if a.ActionType == state.ActionClientTool {
					threads = append(threads, a.ThreadID)
				}
			}
			return nil
		})
		if err != nil && l.ctx.Err() == nil {
			l.opt.Logger.Error("the calls of a disconnected client could not be checked", "sessionId", sessionID, "error", err)
		}
		for _, id := range threads {
			l.wakeThread(key{sessionID, id}, nil)
		}
	})
}

// clientTool returns the peer's tool that is called; nil if it is another.
func (r *toolRun) clientTool() *clientTool {
	t, _ := r.entry.Tool.(*clientTool)
	return t
}

// explainMissingTool explains a call of a tool that isn't there: the turn was offered it by a
// peer that has gone since.
func (r *toolRun) explainMissingTool(inv *state.ToolInventory) {
	if r.refused == nil || r.entry != nil || inv == nil {
		return
	}
	for i := range inv.Tools {
		if inv.Tools[i].ToolName == r.request.ToolName && inv.Tools[i].RuntimeOwner == "client" {
			r.refused = tool.Errorf(tool.Unavailable, "the client that runs %s is not connected", r.request.ToolName)
			r.refused.Advice = "Go on without it, or say that the client has to be connected."
			r.refused.Retryable = true
		}
	}
}

// askClient gives the call to the peer that carries it out.
func (r *toolRun) askClient(tx *session.Tx, t *clientTool) {
	scope := r.scope
	scope.ActionID, scope.ChannelID = tx.NewID(event.PrefixAction), t.channelID
	args, ref := r.safeArgs(tx)
	about, _ := json.Marshal(map[string]any{"channelId": t.channelID, "timeoutMs": t.timeout.Milliseconds()}) //nolint:errchkjson // plain values
	tx.Emit(event.Event{Type: event.TypeActionRequired, Scope: scope, Payload: &event.ActionRequired{
		ActionType: state.ActionClientTool, Prompt: "Carry out " + t.info.ToolName + " and submit its result.", Schema: clientResult,
		Decisions: []string{"submit", "cancel"}, Scope: about, ToolName: t.info.ToolName, SafeArgs: args, InputRef: ref,
		ExpiresAt: tx.Now().Add(t.timeout), OnTimeout: "cancel", Destructive: t.info.IsDestructive,
	}})
}

// loseAction ends a call whose peer went and didn't come back in time.
func loseAction(tx *session.Tx, a *state.Action, scope event.Scope) {
	scope.ChannelID = a.ChannelID
	tx.Emit(event.Event{Type: event.TypeActionResolved, Scope: scope, Payload: &event.ActionResolved{
		Decision: "cancel", Status: "cancelled", DecisionSource: "runtime", ActionType: a.ActionType,
		Reason: "the client on channel " + a.ChannelID + " is gone",
	}})
}

// finishTool ends a call whose action was answered.
func (l *Loop) finishTool(k key, e FinishTool) error {
	r := &toolRun{l: l, k: k}
	var a *state.Action
	var at position
	if err := l.viewIfNext(l.ctx, k, e, func(s *state.Session, t *state.Thread) {
		if x := s.Actions.Find(e.ActionID); x != nil && x.ActionType == state.ActionClientTool {
			c := *x
			a = &c
		}
		if c := findCall(t.Active, e.ToolCallID); c != nil {
			r.call, r.scope, r.links = *c, toolScope(t, t.Active, c), c.Links
		}
		r.place, r.mode, at = l.workplace(s, t, t.Active), l.modeOf(s, t, t.Active), positionOf(s, t)
	}); err != nil {
		return err
	}
	if a == nil {
		return l.recordEffect(k, e)
	}
	conv, err := l.transcripts.conversationAt(l.ctx, k, at)
	if err != nil {
		return err
	}
	var ok bool
	if r.request, ok = conv.call(e.ToolCallID); !ok {
		return fmt.Errorf("loop: no model requested tool call %s", e.ToolCallID)
	}
	r.input, r.host, r.began = r.request.Arguments, newToolHost(r), a.CreatedAt
	r.scope.ActionID, r.scope.ChannelID = a.ActionID, a.ChannelID
	return r.recordPeerAnswer(l.ctx, a)
}

// ClientFailure is how a call ends whose client has submitted no result; nil if it has,
// or if the action is no call of a client's tool. A replay asks the same.
func ClientFailure(a *state.Action, c *state.ToolCall) *tool.Error {
	switch {
	case a.ActionType != state.ActionClientTool:
		return nil
	case a.Status == state.ActionExpired:
		failed := tool.Errorf(tool.Timeout, "the client returned no result in time")
		failed.Retryable = true
		return failed
	case a.DecisionSource == "runtime":
		failed := tool.Errorf(tool.Lost, "%s; the call may or may not have happened", a.DecisionReason)
		failed.Advice, failed.Retryable = "Check what is there before you do it again.", c.IsReadOnly
		return failed
	case a.Decision != "submit":
		why := "the client did not carry out the call"
		if a.DecisionReason != "" {
			why += ": " + a.DecisionReason
		}
		return tool.Errorf(tool.Denied, "%s", why)
	}
	return nil
}

// recordPeerAnswer records how a call ended that a peer was given.
func (r *toolRun) recordPeerAnswer(ctx context.Context, a *state.Action) error {
	if failed := ClientFailure(a, &r.call); failed != nil {
		return r.recordFailure(ctx, failed, nil)
	}
	res, err := r.clientOutput(ctx, a)
	if err != nil {
		return r.recordFailure(ctx, err, nil)
	}
	return r.recordResult(ctx, res)
}

// maxClientAnswer bounds the answer of a peer that is read.
const maxClientAnswer = 33 << 20

// clientOutput is the result that a peer submitted.
func (r *toolRun) clientOutput(ctx context.Context, a *state.Action) (*tool.Result, error) {
	payload := []byte(a.Payload)
	if a.PayloadRef != "" {
		text, err := readBlob(ctx, r.l.opt.Store, a.PayloadRef, maxClientAnswer)
		if err != nil {
			return nil, err
		}
		payload = []byte(text)
	}
	var in struct {
		Content json.RawMessage `json:"content"`
		Output  string          `json:"output"`
		IsError bool            `json:"isError"`
	}
	if err := json.Unmarshal(payload, &in); err != nil {
		return nil, tool.Errorf(tool.Execution, "the client's result can't be read: %v", err)
	}
	res := &tool.Result{Output: []byte(in.Output), IsError: in.IsError}
	if len(in.Content) > 0 {
		res.Output, res.Structured = contentOf(in.Content)
	}
	if most := r.l.opt.Outputs.MaxBytes; int64(len(res.Output)) > most {
		res.Dropped = int64(len(res.Output)) - most
		res.Output = []byte(strings.ToValidUTF8(string(res.Output[:most]), ""))
	}
	return res, nil
}

// contentOf is a peer's content as the model sees it: text, the text of a list of
// parts, or JSON.
func contentOf(content json.RawMessage) (text []byte, structured event.Raw) {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return []byte(s), nil
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if json.Unmarshal(content, &parts) == nil && len(parts) > 0 {
		var b strings.Builder
		for i, p := range parts {
			if p.Type != "text" || p.Text == nil {
				return compactJSON(content), content
			}
			if i > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(*p.Text)
		}
		return []byte(b.String()), nil
	}
	return compactJSON(content), content
}

func compactJSON(v []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return v
	}
	return b.Bytes()
}

// clientSpecs are the descriptions of the tools of peers that a turn was offered:
// those that the registry doesn't have are behind the inventory's reference.
func (l *Loop) clientSpecs(ctx context.Context, inv *state.ToolInventory) (map[string]event.ToolInfo, error) {
	out := map[string]event.ToolInfo{}
	if inv.InventoryRef == "" {
		return out, nil
	}
	text, err := readBlob(ctx, l.opt.Store, inv.InventoryRef, maxClientAnswer)
	if err != nil {
		return nil, err
	}
	var all []event.ToolInfo
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("loop: inventory %s: %w", inv.InventoryRef, err)
	}
	for _, t := range all {
		if t.RuntimeOwner == "client" {
			out[t.ToolName] = t
		}
	}
	return out, nil
}

// namedTool returns a tool of the runtime, or of a peer that follows the session.
func (l *Loop) namedTool(ctx context.Context, caller command.Caller, sessionID, name string) (*tool.Entry, error) {
	if e, ok := l.opt.Tools.Get(name); ok {
		return e, nil
	}
	var extra []tool.Tool
	if sessionID != "" {
		if err := l.m.ViewAs(ctx, caller, sessionID, func(s *state.Session) error {
			extra = clientTools(s)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	e, err := l.opt.Tools.Resolve(tool.Selection{Extra: extra}).Lookup(name)
	if err != nil {
		return nil, fault.New(fault.NotFound, "there is no tool %s", name)
	}
	return e, nil
}
