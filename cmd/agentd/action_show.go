package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
	"agentd/event"
	"agentd/tool/toolkind"
)

// maxShown bounds the arguments of a call that are shown.
const maxShown = 1 << 20

// showAction shows one action whole.
func (a *app) showAction(ctx context.Context, f facts.Source, id string) error {
	if !event.ValidID(id) {
		return usagef("%q is not an id", id)
	}
	raw, err := findAction(ctx, f, id)
	if err != nil {
		return err
	}
	var x action
	if err := json.Unmarshal(raw, &x); err != nil {
		return fmt.Errorf("action %s: %w", id, err)
	}
	whole := x.SafeArgs
	if x.InputRef != "" {
		if whole, err = facts.ReadContent(ctx, f, x.InputRef, maxShown); err != nil {
			return fmt.Errorf("arguments of action %s: %w", id, err)
		}
	}
	return a.print(raw, func(out *printer) {
		for _, line := range actionLines(&x, whole, a.ink(a.out)) {
			out.linef("%s", line)
		}
	})
}

// findAction looks for an action among all.
func findAction(ctx context.Context, f facts.Source, id string) (json.RawMessage, error) {
	p := &command.ListActions{Narrowing: command.Narrowing{Query: id}}
	for {
		var res command.ListActionsResult
		if err := f.Do(ctx, p, &res); err != nil {
			return nil, err
		}
		for _, raw := range res.Actions {
			var x action
			if json.Unmarshal(raw, &x) == nil && x.ActionID == id {
				return raw, nil
			}
		}
		if p.Cursor = res.NextCursor; p.Cursor == "" {
			return nil, fmt.Errorf("there is no action %s", id)
		}
	}
}

// actionLines are what a person needs for an answer.
func actionLines(x *action, whole event.Raw, k terminal.Ink) []string {
	status := x.Status
	if x.Decision != "" {
		status += " (" + x.Decision + ")"
	}
	out := []string{
		fmt.Sprintf("%s  %s  %s", k.Paint(terminal.Bold, x.ActionID), x.ActionType, status),
		fmt.Sprintf("session %s, asked %s", x.SessionID, x.CreatedAt.Local().Format(time.DateTime)),
	}
	if x.SubagentID != "" {
		out = append(out, "asked by "+strings.TrimSpace(terminal.Plain(x.SubagentRole)+" "+x.SubagentID))
	}
	q := &turntext.Question{ID: x.ActionID, Required: &event.ActionRequired{
		ActionType: x.ActionType, Prompt: x.Prompt, Schema: x.Schema, Decisions: x.Decisions, ToolName: x.ToolName, SafeArgs: whole,
		Reason: x.Reason, RuleRefs: x.RuleRefs, ExpiresAt: x.ExpiresAt, KeepRules: x.KeepRules, KeepFor: x.KeepFor,
	}}
	out = append(append(out, ""), q.Panel(k, turntext.MaxText)...)
	if toolkind.Of(x.ToolName) == toolkind.RequestInput {
		out = append(out, q.Reasons(k, turntext.MaxText)...)
	}
	if x.Status == "pending" {
		out = append(append(out, ""), answers(q)...)
	}
	return out
}

// answers says how an action can be answered from a shell.
func answers(q *turntext.Question) []string {
	approve, deny := "agentd approve "+q.ID, "agentd deny "+q.ID
	switch {
	case q.IsPlan():
		return []string{approve, approve + " --mode auto", deny + " --reason \"what to change\""}
	case q.Required.ActionType == "credential" && len(q.Choices()) > 0:
		return []string{approve + fmt.Sprintf(" --credential %v", q.Choices()[0]), deny + " --cancel"}
	case q.IsInput():
		return []string{approve + " --input VALUE", deny + " --cancel"}
	}
	out := []string{approve, approve + " --scope session"}
	if len(q.Required.KeepRules) > 0 {
		out = append(out, approve+" --scope project")
	}
	return append(out, deny+" --reason \"why\"")
}
