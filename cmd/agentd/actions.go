package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
	"agentd/event"
)

// action is what the program shows of an action's record.
type action struct {
	ActionID   string   `json:"actionId"`
	SessionID  string   `json:"sessionId"`
	Status     string   `json:"status"`
	ActionType string   `json:"actionType"`
	Prompt     string   `json:"prompt"`
	ToolName   string   `json:"toolName"`
	Decisions  []string `json:"decisions"`
	Decision   string   `json:"decision"`
	// KeepRules are what an answer for the project would keep, KeepFor is that project.
	KeepRules []event.PolicyRule `json:"keepRules"`
	KeepFor   string             `json:"keepFor"`
	CreatedAt time.Time          `json:"createdAt"`
	// SubagentID and SubagentRole are those of the child that asks, if one does.
	SubagentID   string `json:"subagentId"`
	SubagentRole string `json:"subagentRole"`

	Reason        string    `json:"reason"`
	RuleRefs      []string  `json:"ruleRefs"`
	Schema        event.Raw `json:"schema"`
	SafeArgs      event.Raw `json:"safeArgs"`
	InputRef      string    `json:"inputRef"`
	CredentialRef string    `json:"credentialRef"`
	ExpiresAt     time.Time `json:"expiresAt"`
}

// asks is what an action asks, and which subagent if one does.
func (x *action) asks() string {
	what := cmp.Or(x.Prompt, x.ToolName)
	if x.SubagentID != "" {
		what = strings.TrimSpace(x.SubagentRole+" "+x.SubagentID) + " asks: " + what
	}
	return what
}

func (a *app) actionsCommand() *cobra.Command {
	p := &command.ListActions{}
	var every bool
	cmd := &cobra.Command{
		Use:   "actions [ACTION]",
		Short: "List actions that wait for a decision or an input, or show one of them",
		Long: `Lists the pending actions, or with --all also those that were answered. With an
ACTION it shows that one in full: a plan as it was written, the arguments of a
call, why approval is needed, and how to answer. With --json the answer is that of
list_actions, or the action's record.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd actions\n  agentd actions action_01\n  agentd actions --session sess_01 --all\n  agentd approve action_01",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if len(given) == 1 {
				return a.withFacts(cmd, toLook, func(f facts.Source) error { return a.showAction(cmd.Context(), f, given[0]) })
			}
			if p.Status = "pending"; every {
				p.Status = ""
			}
			return a.withValid(cmd, toLook, p, func(f facts.Source) error { return a.listActions(cmd, f, p) })
		},
	}
	cmd.Flags().StringVar(&p.SessionID, "session", "", "only those of this session")
	cmd.Flags().BoolVar(&every, "all", false, "also those that were answered")
	cmd.Flags().StringVar(&p.Type, "type", "", "only those that ask for this kind of answer")
	cmd.Flags().StringVar(&p.Tool, "tool", "", "only those about calls of this tool")
	addNarrowFlags(cmd, &p.Narrowing, &p.Sort, "id, created or updated")
	addPageFlags(cmd, &p.Page)
	return a.withDataFlags(cmd)
}

func (a *app) listActions(cmd *cobra.Command, f facts.Source, p *command.ListActions) error {
	var res command.ListActionsResult
	if err := f.Do(cmd.Context(), p, &res); err != nil {
		return err
	}
	rows := [][]string{{"ACTION", "STATUS", "TYPE", "SESSION", "SINCE", "PROMPT"}}
	for _, raw := range res.Actions {
		var x action
		if err := json.Unmarshal(raw, &x); err != nil {
			return fmt.Errorf("an action: %w", err)
		}
		status := x.Status
		if x.Decision != "" {
			status += " (" + x.Decision + ")"
		}
		rows = append(rows, []string{x.ActionID, status, x.ActionType, x.SessionID, ago(x.CreatedAt), terminal.Plain(x.asks())})
	}
	return a.print(res, func(out *printer) {
		out.table(rows, "SESSION")
		a.sayMore(res.NextCursor)
	})
}

func (a *app) approveCommand() *cobra.Command {
	p := &command.RespondAction{}
	var input, mode, credential string
	var holds time.Duration
	cmd := &cobra.Command{
		Use:   "approve ACTION...",
		Short: "Answer actions: allow them, or give the input that one asks for",
		Long: `Answers an action. Without --input the answer is "allow"; with --input it is
"submit" with that value: JSON, or a text. A plan is approved with the permission
mode that it is carried out in (--mode). A credential is given as a reference
(--credential env:NAME or file:/path), never as the credential itself. Giving the
same answer twice is fine; a different one fails. Several actions are allowed one
by one: what fails is shown and doesn't keep the others from being answered.

Exit codes: 0 answered, 1 one or more failed, 2 usage.`,
		Example: `  agentd approve action_01
  agentd approve --scope session action_01
  agentd approve --scope session --for 30m action_01
  agentd approve --mode auto action_01
  agentd approve --credential env:GITHUB_TOKEN action_01
  agentd approve --input '{"colour":"blue"}' action_01`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			p.ActionID, p.Decision = given[0], "allow"
			flags := cmd.Flags()
			if several := countOf(flags.Changed("input"), flags.Changed("credential"), flags.Changed("mode")); several > 1 {
				return usagef("--input, --credential and --mode can't be used together; give one of them")
			}
			if err := grantFor(p, holds, flags.Changed("for")); err != nil {
				return err
			}
			if len(given) > 1 {
				if flags.Changed("input") || flags.Changed("credential") || flags.Changed("mode") {
					return usagef("--input, --credential and --mode answer one action; give one ACTION, or leave them out")
				}
				return a.respondAll(cmd, p, given)
			}
			switch {
			case flags.Changed("input"):
				p.Decision, p.Payload = "submit", turntext.InputValue(input)
			case flags.Changed("credential"):
				p.Decision, p.Payload = "submit", turntext.MarshalValue(credential)
			case flags.Changed("mode"):
				p.Payload = turntext.PlanChoice(mode)
			}
			return a.respond(cmd, p)
		},
	}
	cmd.Flags().StringVar(&mode, "mode", "", "the permission mode that a plan is carried out in")
	cmd.Flags().StringVar(&credential, "credential", "", "the reference of a credential: env:NAME or file:/path")
	cmd.Flags().StringVar(&input, "input", "", "the input that was asked for: JSON or a text")
	cmd.Flags().StringVar(&p.Scope, "scope", "", "how far an allow reaches: once, session, project")
	cmd.Flags().DurationVar(&holds, "for", 0, "how long an allow for the session lasts: 30m, 8h")
	cmd.Flags().StringVar(&p.Reason, "reason", "", "why, for the record")
	return a.withDataFlags(cmd)
}

// grantFor says how long an allow for the session holds.
func grantFor(p *command.RespondAction, holds time.Duration, given bool) error {
	switch {
	case !given:
		return nil
	case p.Scope != "session":
		return usagef("--for needs --scope session: without it, an allow is used at once")
	case holds < time.Millisecond:
		return usagef("--for: %s is not a duration greater than zero; use one such as 30m", holds)
	}
	p.ExpiresInMs = holds.Milliseconds()
	return nil
}

func (a *app) denyCommand() *cobra.Command {
	p := &command.RespondAction{}
	var cancel bool
	cmd := &cobra.Command{
		Use:     "deny ACTION...",
		Short:   "Answer actions: deny them",
		Long:    "Denies an action, or with --cancel gives no answer to a question. A plan goes back\nto the agent with the reason as the comment. The same answer twice is fine,\nanother one fails. Several actions are denied one by one: what fails is shown and\ndoesn't keep the others from being answered.\n\nExit codes: 0 answered, 1 one or more failed, 2 usage.",
		Example: "  agentd deny action_01\n  agentd deny --reason \"not on a Friday\" action_01\n  agentd deny --reason \"a test is missing\" action_02\n  agentd deny action_01 action_02",
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if p.ActionID, p.Decision = given[0], "deny"; cancel {
				p.Decision = "cancel"
			}
			if len(given) > 1 {
				return a.respondAll(cmd, p, given)
			}
			return a.respond(cmd, p)
		},
	}
	cmd.Flags().BoolVar(&cancel, "cancel", false, "cancel a question instead")
	cmd.Flags().StringVar(&p.Reason, "reason", "", "why, for the record")
	return a.withDataFlags(cmd)
}

// countOf counts what is true.
func countOf(set ...bool) int {
	n := 0
	for _, b := range set {
		if b {
			n++
		}
	}
	return n
}

// respond sends an answer.
func (a *app) respond(cmd *cobra.Command, p *command.RespondAction) error {
	return a.withValid(cmd, toLook, p, func(f facts.Source) error {
		var raw json.RawMessage
		if err := f.Do(cmd.Context(), p, &raw); err != nil {
			return err
		}
		if !f.Live() {
			a.sayf("No server holds the data: the work continues when \"agentd serve\" starts.")
		}
		return a.print(raw, func(out *printer) { out.linef("%s: %s", p.ActionID, p.Decision) })
	})
}
