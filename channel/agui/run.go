package agui

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"agentd/channel"
	"agentd/channel/turnview"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// run is one run: which turn it follows, from where on.
type run struct {
	h      *Handler
	caller command.Caller
	in     *input

	// turnID is the turn that is followed, none if nothing runs.
	turnID string
	// after is the sequence behind which the run's facts begin.
	after uint64
	// history says that the client gets the existing messages, removed the last
	// fact that is gone, 0 if all are there.
	history bool
	removed uint64
	view    *view
	// mode is what the turn runs in if not in the session's, plan what it is about to do,
	// as far as it was read.
	mode string
	plan []turnview.PlanItem
}

// view is the part of a session's snapshot that is needed here.
type view struct {
	Sequence       uint64 `json:"sequence"`
	Title          string `json:"title"`
	PermissionMode string `json:"permissionMode"`
	Threads        []struct {
		ThreadID        string            `json:"threadId"`
		Status          string            `json:"status"`
		Phase           string            `json:"phase"`
		ActiveTurnID    string            `json:"activeTurnId"`
		TurnCount       int64             `json:"turnCount"`
		Block           *turnview.Block   `json:"block"`
		PendingRequests []turnview.Action `json:"pendingRequests"`
	} `json:"threads"`
}

// sessionView returns the session as it is, nil if there is none.
func (r *run) sessionView(ctx context.Context) (*view, error) {
	none := 0
	v, err := runCommand[view](ctx, r.h, r.caller, &command.GetSession{SessionID: r.in.ThreadID, Limit: &none})
	if fault.KindOf(err) == fault.NotFound {
		return nil, nil
	}
	if err != nil || v.PermissionMode != "" {
		return v, err
	}
	host, err := runCommand[command.PolicyResult](ctx, r.h, r.caller, &command.GetPolicy{SessionID: r.in.ThreadID})
	if err != nil {
		return nil, err
	}
	v.PermissionMode = host.Mode
	return v, nil
}

// pending are the actions that wait in the session.
func (v *view) pending() []turnview.Action {
	var out []turnview.Action
	if v != nil {
		for i := range v.Threads {
			out = append(out, v.Threads[i].PendingRequests...)
		}
	}
	return out
}

// beginTurn finds or makes the turn of the run.
func (r *run) beginTurn(ctx context.Context) error {
	v, err := r.sessionView(ctx)
	if err != nil {
		return err
	}
	r.view = v
	if len(r.in.Resume) > 0 {
		return r.resume(ctx)
	}
	known := v != nil && len(v.Threads) > 0 && v.Threads[0].TurnCount > 0
	input, err := r.in.turnInput(known)
	if err != nil {
		return err
	}
	if input == nil {
		return r.attach()
	}
	if waiting := v.pending(); len(waiting) > 0 && v.Threads[0].ActiveTurnID != r.in.RunID {
		return fault.New(fault.Conflict, "the thread waits for the action %s: answer it with resume", waiting[0].ID)
	}
	p := r.in.ForwardedProps
	ctx = channel.Accepting(ctx)
	made, err := runCommand[command.SubmitTurnResult](ctx, r.h, r.caller, &command.SubmitTurn{
		SessionID: r.in.ThreadID, Create: true, TurnID: r.in.RunID, Input: input,
		Options:  &event.TurnOptions{Model: p.Model, PermissionMode: p.PermissionMode},
		Metadata: event.Raw(`{"channel":"agui"}`),
	})
	if err != nil {
		return err
	}
	r.turnID, r.after, r.mode = made.TurnID, made.Sequence-1, p.PermissionMode
	r.view, err = r.sessionView(ctx)
	return err
}

// attach follows what is running, after telling what was said.
func (r *run) attach() error {
	if r.view == nil {
		return fault.Param("messages", "there is nothing to answer")
	}
	r.history, r.after = true, r.view.Sequence
	if len(r.view.Threads) > 0 {
		r.turnID = r.view.Threads[0].ActiveTurnID
	}
	return nil
}

// resume answers interrupts, and goes on with the turn that waited.
func (r *run) resume(ctx context.Context) error {
	waiting := map[string]*turnview.Action{}
	list := r.view.pending()
	for i := range list {
		waiting[list[i].ID] = &list[i]
	}
	answered := map[string]bool{}
	for i := range r.in.Resume {
		id := r.in.Resume[i].InterruptID
		switch {
		case waiting[id] == nil:
			return fault.New(fault.Conflict, "resume: there is no open interrupt %.80q", id)
		case answered[id]: // nothing is answered then: which of the two would it be?
			return fault.Param("resume", "the interrupt %s is answered twice", id)
		}
		answered[id] = true
	}
	if len(r.in.Resume) < len(waiting) {
		return fault.New(fault.Conflict, "resume: %d interrupts are open but %d are answered; a run must answer all of them", len(waiting), len(r.in.Resume))
	}
	r.after, r.turnID = r.view.Sequence, r.view.Threads[0].ActiveTurnID
	ctx = channel.Accepting(ctx) // the turn goes on with the answers
	for i := range r.in.Resume {
		x := &r.in.Resume[i]
		if _, err := runCommand[command.RespondActionResult](ctx, r.h, r.caller, x.decision(waiting[x.InterruptID])); err != nil {
			return err
		}
	}
	var err error
	r.view, err = r.sessionView(ctx)
	return err
}

// streamRun sends the run as events. Errors after the first event are sent as events.
func (r *run) streamRun(w http.ResponseWriter, req *http.Request) error {
	ctx := req.Context()
	out := newEvents(w)
	n := &narrator{threadID: r.in.ThreadID, runID: r.in.RunID, view: turnview.View{TurnID: r.turnID, WithSubagents: true}}
	err := r.opening(ctx, out)
	if err == nil {
		err = r.followTurn(ctx, n, out)
	}
	if ctx.Err() != nil {
		// Who only looked on, a page that was loaded anew, takes nothing along.
		if r.in.ForwardedProps.OnDisconnect != "continue" && !r.history && !n.ended {
			channel.Abandon(ctx, r.h.opt.Runtime, r.caller, r.in.ThreadID, r.turnID, r.h.opt.Logger)
		}
		return nil
	}
	if err != nil {
		_ = out.send(runError(err)) // the client may be gone
	}
	return nil
}

// opening sends what a run begins with.
func (r *run) opening(ctx context.Context, out events) error {
	first := object{"type": "RUN_STARTED", "threadId": r.in.ThreadID, "runId": r.in.RunID, "protocolVersion": protocolVersion}
	if r.in.ParentRunID != "" {
		first["parentRunId"] = r.in.ParentRunID
	}
	if err := out.send(first); err != nil {
		return err
	}
	var messages []object
	if r.history {
		var err error
		if messages, err = r.messages(ctx); err != nil {
			return err
		}
	}
	if err := out.send(object{"type": "STATE_SNAPSHOT", "snapshot": r.clientState()}); err != nil || !r.history {
		return err
	}
	return out.send(object{"type": "MESSAGES_SNAPSHOT", "messages": messages})
}

// clientState is the client's own, with ours below "agentd".
func (r *run) clientState() object {
	out := object{}
	_ = json.Unmarshal(r.in.State, &out) // a state that is no object can't hold ours
	if out == nil {
		out = object{}
	}
	own := object{"sessionId": r.in.ThreadID, "turnId": r.turnID}
	if before, ok := out["agentd"].(map[string]any); ok && before["plan"] != nil {
		own["plan"] = before["plan"] // it holds until there is another
	}
	if r.plan != nil {
		own["plan"] = r.plan
	}
	if r.removed > 0 {
		own["removedThrough"] = r.removed
	}
	if v := r.view; v != nil {
		own["title"], own["permissionMode"] = v.Title, cmp.Or(r.mode, v.PermissionMode)
		if len(v.Threads) > 0 {
			own["status"], own["phase"], own["turnCount"] = v.Threads[0].Status, v.Threads[0].Phase, v.Threads[0].TurnCount
		}
	}
	out["agentd"] = own
	return out
}

// followTurn sends what facts mean until the run is over.
func (r *run) followTurn(ctx context.Context, n *narrator, out events) error {
	if r.turnID == "" {
		return out.send(n.finished(object{"type": "success"}))
	}
	if r.view != nil && len(r.view.Threads) > 0 {
		t := &r.view.Threads[0]
		n.view.ThreadID = t.ThreadID
		// The fact that says so may be from before the run.
		if b := t.Block.Blocked(); b != nil {
			n.view.Blocked = b
		}
	}
	if r.history {
		n.view.Actions = r.view.pending()
		n.settle()
		if err := out.sendAll(n.drainEvents()); err != nil {
			return err
		}
	}
	stream, err := r.h.opt.Runtime.Subscribe(ctx, r.caller, r.in.ThreadID, r.after)
	if err != nil {
		return err
	}
	defer stream.Close()
	for !n.ended {
		facts, err := channel.NextWithin(ctx, stream, r.h.opt.Heartbeat)
		if err != nil {
			return err
		}
		if len(facts) == 0 {
			if err := out.Beat(); err != nil {
				return err
			}
		}
		for i := range facts {
			for _, c := range n.view.Read(facts[i].Data) {
				n.narrateChange(c)
			}
		}
		n.settle()
		if err := out.sendAll(n.drainEvents()); err != nil {
			return err
		}
	}
	return nil
}

// runError is the event of a run that can't go on.
func runError(err error) object {
	p := wire.ProblemOf(err)
	return object{"type": "RUN_ERROR", "message": p.Detail, "code": p.Code}
}

// messages returns what was said in the session, and in what it was forked from,
// without what was taken back. Where retention removed the beginning, a message says
// so: the protocol has no other place that every front end shows.
func (r *run) messages(ctx context.Context) ([]object, error) {
	rt, t := r.h.opt.Runtime, &transcript{removed: map[string]bool{}}
	if r.after == 0 || len(r.view.Threads) == 0 {
		return t.list(), nil
	}
	segments, err := channel.HistorySegments(ctx, rt, r.caller, r.in.ThreadID, r.view.Threads[0].ThreadID)
	if err != nil {
		return nil, err
	}
	segments[len(segments)-1].Through = r.after
	for i := range segments {
		c := &segments[i]
		removed, err := c.Removed(ctx, rt, r.caller)
		if err != nil {
			return nil, err
		}
		if removed > 0 {
			t.entries = append(t.entries, entry{message: object{"id": c.SessionID + ".removed", "role": "assistant", "content": channel.RemovedNote(removed)}})
		}
		if c.SessionID == r.in.ThreadID {
			r.removed = removed
		}
		if _, err := c.Read(ctx, rt, r.caller, func(e *event.Event) {
			if e.SubagentID == "" && (e.ThreadID == "" || e.ThreadID == c.ThreadID) {
				t.addFact(e)
			}
		}); err != nil {
			return nil, err
		}
	}
	r.plan = t.planned()
	return t.list(), nil
}

// transcript gathers the messages of a conversation, and its plans.
type transcript struct {
	entries []entry
	plans   []plan
	removed map[string]bool
}

type plan struct {
	turnID string
	items  []turnview.PlanItem
}

type entry struct {
	turnID  string
	message object
}

func (t *transcript) addMessage(e *event.Event, m object) {
	t.entries = append(t.entries, entry{e.TurnID, m})
}

func (t *transcript) addFact(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.TurnSubmitted:
		t.addMessage(e, object{"id": e.TurnID, "role": "user", "content": inputText(p.Input, p.Preview)})
	case *event.TurnSteered:
		t.addMessage(e, object{"id": e.ID, "role": "user", "content": inputText(p.Input, p.Preview)})
	case *event.ModelCompleted:
		if p.Message == nil || !turnview.Speaks(p.Purpose) {
			return
		}
		if p.Message.Reasoning != "" {
			t.addMessage(e, object{"id": reasoningID(p.ModelRequestID), "role": "reasoning", "content": p.Message.Reasoning})
		}
		t.addMessage(e, assistantMessage(p))
	case *event.ToolResult:
		t.addMessage(e, object{"id": resultID(e.ToolCallID), "role": "tool", "toolCallId": e.ToolCallID, "content": p.Preview})
		if items := turnview.PlanOf(p); items != nil {
			t.plans = append(t.plans, plan{e.TurnID, items})
		}
	case *event.ToolFailed:
		t.addMessage(e, object{"id": resultID(e.ToolCallID), "role": "tool", "toolCallId": e.ToolCallID, "content": p.Message, "error": p.Message})
	case *event.RollbackCompleted:
		for _, id := range p.RemovedTurns {
			t.removed[id] = true
		}
	}
}

func assistantMessage(p *event.ModelCompleted) object {
	m := object{"id": p.ModelRequestID, "role": "assistant", "content": p.Message.Text}
	var calls []object
	for i := range p.Message.ToolCalls {
		c := &p.Message.ToolCalls[i]
		calls = append(calls, object{"id": c.ToolCallID, "type": "function", "function": object{"name": c.ToolName, "arguments": argumentsText(c.Arguments)}})
	}
	if calls != nil {
		m["toolCalls"] = calls
	}
	return m
}

// planned is the last plan that wasn't taken back.
func (t *transcript) planned() []turnview.PlanItem {
	for _, p := range slices.Backward(t.plans) {
		if !t.removed[p.turnID] {
			return p.items
		}
	}
	return nil
}

func (t *transcript) list() []object {
	out := []object{}
	for _, x := range t.entries {
		if !t.removed[x.turnID] {
			out = append(out, x.message)
		}
	}
	return out
}

// inputText is an input in words.
func inputText(input event.Raw, preview string) string {
	var parts []command.Part
	if json.Unmarshal(input, &parts) != nil {
		return preview
	}
	if text := textOf(parts); strings.TrimSpace(text) != "" {
		return text
	}
	return preview
}
