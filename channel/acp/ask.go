package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentd/channel/turnview"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/tool/toolkind"
)

// Options of a permission request. A plan is approved for the turn that made it, and
// may say in which mode it is carried out.
const (
	optionOnce    = "allow_once"
	optionAlways  = "allow_always"
	optionProject = "allow_project"
	optionAuto    = "approve_auto"
	optionReject  = "reject_once"
)

// isPlan says that a plan is to be approved.
func isPlan(act *turnview.Action) bool { return act.ActionType == "plan_approval" }

// options are what the client's user can choose.
func optionsFor(act *turnview.Action) []permissionOption {
	if !isPlan(act) {
		out := []permissionOption{{optionOnce, "Allow", "allow_once"}}
		if !act.OnceOnly {
			out = append(out, permissionOption{optionAlways, "Allow for this session", "allow_always"})
		}
		if len(act.KeepRules) > 0 {
			out = append(out, permissionOption{optionProject, clipLine("Always allow in this project: " + turnview.RulesText(act.KeepRules)), "allow_always"})
		}
		return append(out, permissionOption{optionReject, "Reject", "reject_once"})
	}
	out := []permissionOption{{optionOnce, "Approve the plan", "allow_once"}}
	if slices.Contains(modesOf(act.Schema), modeAuto) {
		out = append(out, permissionOption{optionAuto, "Approve it, and go on in mode " + modeAuto, "allow_always"})
	}
	return append(out, permissionOption{optionReject, "Keep planning", "reject_once"})
}

// modeAuto is the mode that is offered with the approval of a plan.
const modeAuto = "auto"

// modesOf are the permission modes that the answer to a plan may choose.
func modesOf(schema event.Raw) []string {
	var s struct {
		Properties struct {
			PermissionMode struct {
				Enum []string `json:"enum"`
			} `json:"permissionMode"`
		} `json:"properties"`
	}
	if len(schema) == 0 || json.Unmarshal(schema, &s) != nil {
		return nil
	}
	return s.Properties.PermissionMode.Enum
}

// askUserOnce asks the client's user about an action, once.
func (s *session) askUserOnce(act *turnview.Action) {
	if !act.WantsValue() {
		s.askInBackground(act.ID, func(ctx context.Context) { s.askPermission(ctx, act) })
		return
	}
	client := s.a.capabilities()
	if form, fits := formOf(act.Schema); fits && client.forms() {
		s.askInBackground(act.ID, func(ctx context.Context) { s.askForm(ctx, act, form) })
		return
	}
	s.mu.Lock()
	s.question = act
	s.mu.Unlock()
	s.showQuestion(act)
}

// askInBackground asks in a goroutine of its own, until the action is withdrawn.
func (s *session) askInBackground(id string, ask func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked[id] != nil {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.asked[id] = cancel
	started := s.a.spawn(func() {
		defer cancel()
		ask(ctx)
	})
	if !started {
		cancel()
	}
}

// withdrawQuestion takes back a question that was answered elsewhere, or that no one
// waits for any more.
func (s *session) withdrawQuestion(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.asked[id]; cancel != nil {
		cancel()
		delete(s.asked, id)
	}
	if s.question != nil && s.question.ID == id {
		s.question = nil
	}
}

// askPermission puts a yes-or-no question and passes the answer on.
func (s *session) askPermission(ctx context.Context, act *turnview.Action) {
	s.readBefore(ctx, act)
	t := s.translator("")
	p := act.ActionRequired
	title := titleOf(p.ToolName, p.SafeArgs)
	if p.ToolName == "" || p.ActionType == "sandbox_escape" || isPlan(act) {
		title = clipLine(p.Prompt)
	}
	shown := t.proposal(act.ToolCallID, p.ToolName, p.SafeArgs)
	if p.Reason != "" {
		shown = append(shown, textBlock("Why it is asked: "+p.Reason))
	}
	id := act.ToolCallID
	if id == "" {
		id = act.ID
	}
	req := &permissionRequest{SessionID: s.id, ToolCall: permissionCall{toolCall{
		ToolCallID: id, Title: title, Name: p.ToolName, Kind: kindOf(p.ToolName), Status: "pending",
		Locations: t.locations(p.ToolName, p.SafeArgs), RawInput: p.SafeArgs,
	}, shown}, Options: optionsFor(act)}
	var answer permissionAnswer
	if err := s.a.wire.ask(ctx, "session/request_permission", req, &answer); err != nil {
		s.handleUnanswered(ctx, act, err)
		return
	}
	if err := s.respondAction(ctx, decisionOf(act, answer.Outcome.Outcome, answer.Outcome.OptionID)); err != nil {
		s.handleUnanswered(ctx, act, err)
	}
}

// decisionOf turns the client's answer into ours. Whatever isn't a clear yes is
// none, and neither is an option that was not offered.
func decisionOf(act *turnview.Action, outcome, option string) *command.RespondAction {
	r := &command.RespondAction{ActionID: act.ID, Decision: "deny"}
	offered := slices.ContainsFunc(optionsFor(act), func(o permissionOption) bool { return o.OptionID == option })
	switch {
	case outcome == "cancelled" && slices.Contains(act.Decisions, "cancel"):
		r.Decision = "cancel"
	case outcome != "selected" || !offered:
	case option == optionOnce && isPlan(act):
		r.Decision = "allow"
	case option == optionAuto:
		r.Decision, r.Payload = "allow", jsonObject("permissionMode", modeAuto)
	case option == optionOnce:
		r.Decision, r.Scope = "allow", "once"
	case option == optionAlways:
		r.Decision, r.Scope = "allow", "session"
	case option == optionProject:
		r.Decision, r.Scope = "allow", "project"
	}
	return r
}

// readBefore asks the client for the content that a file has before it is
// replaced, so that the change can be shown; the client knows what isn't saved yet.
func (s *session) readBefore(ctx context.Context, act *turnview.Action) {
	a, _ := toolkind.ReadArguments(act.SafeArgs)
	client := s.a.capabilities()
	if toolkind.Of(act.ToolName) != toolkind.WriteFile || a.Path == "" || !client.FS.ReadTextFile {
		return
	}
	var file struct {
		Content string `json:"content"`
	}
	name := s.translator("").absolute(a.Path)
	err := s.a.wire.ask(ctx, "fs/read_text_file", map[string]string{"sessionId": s.id, "path": name}, &file)
	if err != nil {
		return // a new file, or one that the client can't read: then no change is shown
	}
	s.mu.Lock()
	s.before[act.ToolCallID] = file.Content
	s.mu.Unlock()
}

// handleUnanswered handles a question that the client didn't answer: withdrawn, or refused.
func (s *session) handleUnanswered(ctx context.Context, act *turnview.Action, err error) {
	if ctx.Err() != nil {
		return
	}
	s.a.opt.Logger.Warn("the client did not answer an action", "session", s.id, "action", act.ID, "error", err)
	s.sendText("The turn waits for the action " + act.ID + ", which this client did not answer. \"agentd approve " + act.ID + "\" and \"agentd deny " + act.ID + "\" do.")
}

// respondAction passes an answer on. It returns what is wrong with it, if it can be given
// anew: another client answered first, which is fine.
func (s *session) respondAction(ctx context.Context, r *command.RespondAction) error {
	_, err := runCommand[command.RespondActionResult](ctx, s.a, r)
	if err == nil || ctx.Err() != nil {
		return nil //nolint:nilerr // the answer is no longer needed
	}
	switch kind := fault.KindOf(err); {
	case kind == fault.InvalidParams:
		return err
	case kind != fault.Conflict && kind != fault.NotFound:
		s.a.opt.Logger.Error("an answer could not be recorded", "action", r.ActionID, "error", err)
		s.sendText("The answer could not be recorded: " + errorOf(err).Message)
	}
	return nil
}

// askForm puts a question as a form, again if the answer doesn't fit.
func (s *session) askForm(ctx context.Context, act *turnview.Action, f *form) {
	question := questionOf(act)
	message := question
	for ctx.Err() == nil {
		var answer formAnswer
		err := s.a.wire.ask(ctx, "elicitation/create", &formRequest{
			Mode: "form", SessionID: s.id, ToolCallID: act.ToolCallID, Message: message, RequestedSchema: f.schema,
		}, &answer)
		if err != nil {
			s.handleUnanswered(ctx, act, err)
			return
		}
		r := &command.RespondAction{ActionID: act.ID, Decision: "cancel"}
		if answer.Action == "accept" {
			r.Decision, r.Payload = "submit", f.payload(answer.Content)
		}
		wrong := s.respondAction(ctx, r)
		if wrong == nil {
			return
		}
		message = question + "\n" + errorOf(wrong).Message
	}
}

// question is what is asked, and why.
func questionOf(act *turnview.Action) string {
	words := act.Prompt
	if act.Reason != "" {
		words += "\n\nWhy it is asked: " + act.Reason
	}
	return words
}

// showQuestion shows a question in words and ends the prompt: the next one is its answer.
func (s *session) showQuestion(act *turnview.Action) {
	words := questionOf(act)
	if choices := choicesOf(act.Schema); len(choices) > 0 {
		words += "\n\nOne of: " + strings.Join(choices, ", ")
	}
	s.sendText(words + "\n")
	s.finishPrompt("end_turn", nil)
}

// answerAction gives the text of a prompt to the question that is open.
func (s *session) answerAction(ctx context.Context, act *turnview.Action, input event.Raw) error {
	var parts []command.Part
	if err := json.Unmarshal(input, &parts); err != nil {
		return fmt.Errorf("acp: input: %w", err)
	}
	var texts []string
	for i := range parts {
		if parts[i].Type == "text" {
			texts = append(texts, parts[i].Text)
		}
	}
	payload, err := valueOf(act.Schema, strings.Join(texts, "\n"))
	if err != nil {
		return err
	}
	_, err = runCommand[command.RespondActionResult](ctx, s.a, &command.RespondAction{ActionID: act.ID, Decision: "submit", Payload: payload})
	if err != nil && fault.KindOf(err) == fault.InvalidParams {
		s.mu.Lock()
		s.question = act // it can be answered again
		s.mu.Unlock()
	}
	return err
}
