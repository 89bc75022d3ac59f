package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/channel/turnview"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// attend puts what the turn waits for to the client. A client of the newer revision
// gets it as its call's answer, and calls again; one of an older revision is asked
// while the call goes on; one that can't be asked is told. It returns nil to wait on.
func (w *waiter) attend(ctx context.Context) (*mcp.CallToolResult, error) {
	if err := w.answered(ctx); err != nil {
		return nil, err
	}
	if !w.watch.asked || w.question != nil {
		return nil, nil
	}
	w.watch.asked = false
	actions, err := w.s.pendingActions(ctx, w.id, w.ref)
	if err != nil || len(actions) == 0 {
		return nil, err
	}
	caps := w.req.ClientCapabilities()
	switch {
	case caps == nil || caps.Elicitation == nil || !w.id.Role.Allows(command.RoleClient):
		return (&outcome{ref: w.ref, watch: w.watch, status: "action_required", actions: actions}).result(), nil
	case w.req.ProtocolVersion() >= statelessSince:
		return &mcp.CallToolResult{InputRequests: inputRequests(actions), RequestState: w.ref.String()}, nil
	}
	w.question = newQuestion(ctx, w.req.Session, &actions[0])
	w.watch.asked = len(actions) > 1
	return nil, nil
}

// question is an action that is put to the client while its call goes on.
type question struct {
	action command.ActionRecord
	cancel context.CancelFunc
	done   chan struct{}
	// answer and err are valid once done is closed.
	answer *mcp.ElicitResult
	err    error
}

func newQuestion(ctx context.Context, session *mcp.ServerSession, a *command.ActionRecord) *question {
	ctx, cancel := context.WithCancel(ctx)
	q := &question{action: *a, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(q.done)
		q.answer, q.err = session.Elicit(ctx, elicitation(a))
	}()
	return q
}

// drop withdraws the question and waits for the goroutine that asked it.
func (w *waiter) drop() {
	if w.question == nil {
		return
	}
	w.question.cancel()
	<-w.question.done
	w.question = nil
}

// untilAnswered returns a context that ends when the client has answered.
func (w *waiter) untilAnswered(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if q := w.question; q != nil {
		go func() {
			select {
			case <-q.done:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}

// answered takes the client's answer in, if there is one.
func (w *waiter) answered(ctx context.Context) error {
	q := w.question
	if q == nil {
		return nil
	}
	select {
	case <-q.done:
	default:
		return nil
	}
	w.drop()
	w.watch.asked = true // there may be more
	if q.err != nil {
		return fault.Wrap(fault.Unavailable, q.err, "the client didn't answer the turn's question; answer it with respond_action and call %s", waitTurn)
	}
	return w.s.answerActions(ctx, w.id, w.ref, map[string]*mcp.ElicitResult{q.action.ActionID: q.answer})
}

// inputRequests are actions as requests for input, by the action's id: an action has
// an id of its own, so a key is never used twice.
func inputRequests(actions []command.ActionRecord) mcp.InputRequestMap {
	m := mcp.InputRequestMap{}
	for i := range actions {
		m[actions[i].ActionID] = elicitation(&actions[i])
	}
	return m
}

// elicitation is an action as a form.
func elicitation(a *command.ActionRecord) *mcp.ElicitParams {
	p := &mcp.ElicitParams{Mode: "form", Message: promptOf(a)}
	switch {
	case !slices.Contains(a.Decisions, "submit"):
		p.RequestedSchema = decisionForm(a)
	case isForm(a.Schema):
		p.RequestedSchema = a.Schema
	case isValue(a.Schema):
		p.RequestedSchema = map[string]any{"type": "object", "properties": map[string]any{"answer": a.Schema}, "required": []any{"answer"}}
	default:
		p.RequestedSchema = textForm
	}
	return p
}

// isValue reports whether a schema is of one plain value, such as the reference of a
// credential: a form can ask for it as it is.
func isValue(schema event.Raw) bool {
	var s struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(schema, &s) == nil && slices.Contains(plainTypes, s.Type)
}

// plainTypes are those of the values that a form can ask for.
var plainTypes = []string{"string", "number", "integer", "boolean"}

// textForm asks for what no form can describe.
var textForm = json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string","title":"Answer","description":"A text, or JSON."}},"required":["answer"]}`)

// decisionForm offers the decisions of an action.
func decisionForm(a *command.ActionRecord) map[string]any {
	decisions := make([]any, 0, len(a.Decisions))
	for _, d := range a.Decisions {
		if d != "submit" {
			decisions = append(decisions, d)
		}
	}
	properties := map[string]any{
		"decision": map[string]any{"type": "string", "title": "Decision", "enum": decisions},
		"reason":   map[string]any{"type": "string", "title": "Reason"},
	}
	if more := membersOf(a.Schema); len(more) > 0 {
		// Such as the mode that an approved plan is carried out in.
		for name, member := range more {
			properties[name] = member
		}
	} else {
		properties["scope"] = scopeForm(a)
	}
	return map[string]any{"type": "object", "required": []any{"decision"}, "properties": properties}
}

// scopeForm offers how long an allow holds.
func scopeForm(a *command.ActionRecord) map[string]any {
	scopes := []any{"once", "session"}
	form := map[string]any{"type": "string", "title": "For how long", "default": "once"}
	if len(a.KeepRules) > 0 {
		scopes = append(scopes, "project")
		form["description"] = "project: always in this project: " + turnview.RulesText(a.KeepRules)
	}
	form["enum"] = scopes
	return form
}

// membersOf are what may come with a decision, if a form can ask for it.
func membersOf(schema event.Raw) map[string]json.RawMessage {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if !isForm(schema) || json.Unmarshal(schema, &s) != nil {
		return nil
	}
	return s.Properties
}

// isForm reports whether a schema can be shown as a form: an object whose members are
// plain values.
func isForm(schema event.Raw) bool {
	var s struct {
		Type       string `json:"type"`
		Properties map[string]struct {
			Type string `json:"type"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil || s.Type != "object" || len(s.Properties) == 0 {
		return false
	}
	for _, p := range s.Properties {
		if !slices.Contains(plainTypes, p.Type) {
			return false
		}
	}
	return true
}

// promptOf says to a person what is asked.
func promptOf(a *command.ActionRecord) string {
	text := a.Prompt
	if text == "" {
		text = "May the tool " + a.ToolName + " run?"
	}
	if a.ToolName != "" && len(a.SafeArgs) > 0 {
		text += fmt.Sprintf("\n%s %s", a.ToolName, wire.Shorten(string(a.SafeArgs), 2000))
	}
	if a.Reason != "" {
		text += "\n" + a.Reason
	}
	return text
}

// response turns a form's answer into the answer of an action, or nil if it leaves
// the action as it is.
func response(a *command.ActionRecord, r *mcp.ElicitResult) *command.RespondAction {
	p := &command.RespondAction{ActionID: a.ActionID}
	switch {
	case r.Action == "decline" && slices.Contains(a.Decisions, "deny"):
		p.Decision = "deny"
	case r.Action != "accept" && slices.Contains(a.Decisions, "cancel"):
		p.Decision = "cancel"
	case r.Action != "accept":
		return nil
	case !slices.Contains(a.Decisions, "submit"):
		p.Decision, _ = r.Content["decision"].(string)
		p.Scope, _ = r.Content["scope"].(string)
		p.Reason, _ = r.Content["reason"].(string)
		if p.Decision != "allow" {
			p.Scope = ""
			break
		}
		given := map[string]any{}
		for name := range membersOf(a.Schema) {
			if value, ok := r.Content[name]; ok {
				given[name] = value
			}
		}
		if len(given) > 0 {
			p.Payload = encodeJSON(given)
		}
	default:
		p.Decision, p.Payload = "submit", answerPayload(a, r.Content)
	}
	return p
}

// answerPayload is what was filled in, in the form that the action asked for.
func answerPayload(a *command.ActionRecord, content map[string]any) event.Raw {
	if isForm(a.Schema) {
		return encodeJSON(content)
	}
	if isValue(a.Schema) {
		return encodeJSON(content["answer"])
	}
	text, _ := content["answer"].(string)
	if json.Valid([]byte(text)) && text != "" {
		return event.Raw(text)
	}
	return encodeJSON(text)
}

// answerActions answers actions of a turn. Those that don't wait any more, or never did, are
// passed over.
func (s *Server) answerActions(ctx context.Context, id *Identity, ref turnRef, answers map[string]*mcp.ElicitResult) error {
	if len(answers) == 0 {
		return nil
	}
	actions, err := s.pendingActions(ctx, id, ref)
	if err != nil {
		return err
	}
	for i := range actions {
		r, ok := answers[actions[i].ActionID]
		if !ok || r == nil {
			continue
		}
		p := response(&actions[i], r)
		if p == nil {
			continue
		}
		if _, err := s.runCommand(ctx, id, p); err != nil && fault.KindOf(err) != fault.Conflict && fault.KindOf(err) != fault.NotFound {
			return err
		}
	}
	return nil
}

// pendingActions returns what a turn and the subagents that work for it wait for.
func (s *Server) pendingActions(ctx context.Context, id *Identity, ref turnRef) ([]command.ActionRecord, error) {
	var of []command.ActionRecord
	others := false
	p := &command.ListActions{SessionID: ref.Session, Status: "pending"}
	for {
		page, err := runCommandAs[command.ListActionsResult](ctx, s, id, p)
		if err != nil {
			return nil, err
		}
		for _, raw := range page.Actions {
			var a command.ActionRecord
			if err := json.Unmarshal(raw, &a); err != nil {
				return nil, fmt.Errorf("mcpserver: action: %w", err)
			}
			others = others || a.TurnID != ref.Turn
			of = append(of, a)
		}
		if p.Cursor = page.NextCursor; p.Cursor == "" {
			break
		}
	}
	if !others {
		return of, nil
	}
	turns, err := s.turnFamily(ctx, id, ref)
	return slices.DeleteFunc(of, func(a command.ActionRecord) bool { return !turns[a.TurnID] }), err
}

// turnFamily returns the ids of a turn and of the turns that subagents work on for it.
func (s *Server) turnFamily(ctx context.Context, id *Identity, ref turnRef) (map[string]bool, error) {
	none := 0
	type threads struct {
		Threads []struct {
			ParentTurnID string             `json:"parentTurnId"`
			Turns        []command.TurnRead `json:"turns"`
		} `json:"threads"`
	}
	snapshot, err := runCommandAs[threads](ctx, s, id, &command.GetSession{SessionID: ref.Session, Limit: &none})
	if err != nil {
		return nil, err
	}
	turns := map[string]bool{ref.Turn: true}
	for grown := true; grown; {
		grown = false
		for _, t := range snapshot.Threads {
			if !turns[t.ParentTurnID] {
				continue
			}
			for _, turn := range t.Turns {
				grown = grown || !turns[turn.TurnID]
				turns[turn.TurnID] = true
			}
		}
	}
	return turns, nil
}
