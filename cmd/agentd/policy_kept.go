package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
	"agentd/permission"
)

func (a *app) policyRulesCommand() *cobra.Command {
	p := &command.ListProjectRules{}
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "List the rules that were kept for projects",
		Long: `Lists the rules that were kept for projects: an approval that was answered
with "always for this project" keeps the rule that it showed. Such a rule holds
for your sessions in that folder, until "agentd policy forget". With --json the
answer is that of list_project_rules.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd policy rules\n  agentd policy rules --workspace .",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if p.Workspace != "" {
				abs, err := filepath.Abs(p.Workspace)
				if err != nil {
					return &exitError{exitUsage, fmt.Errorf("--workspace: %w", err)}
				}
				if resolved, err := filepath.EvalSymlinks(abs); err == nil {
					abs = resolved
				}
				p.Workspace = abs
			}
			return a.withFacts(cmd, toAct, func(f facts.Source) error {
				return showResult(cmd.Context(), a, f, p, func(out *printer, r *command.ListProjectRulesResult) {
					printProjectRules(out, r)
					a.sayMore(r.NextCursor)
				})
			})
		},
	}
	cmd.Flags().StringVar(&p.Workspace, "workspace", "", "only the rules of this folder")
	addPageFlags(cmd, &p.Page)
	return a.withDataFlags(cmd)
}

func printProjectRules(out *printer, r *command.ListProjectRulesResult) {
	if len(r.Rules) == 0 {
		out.linef("no rules were kept for a project")
		return
	}
	rows := [][]string{{"RULE", "ALLOWS", "IN", "KEPT"}}
	for i := range r.Rules {
		k := &r.Rules[i]
		rows = append(rows, []string{k.RuleID, terminal.Clip(terminal.Plain(k.Rule.Tool+" "+k.Rule.Match), 60), terminal.Plain(k.Workspace), k.KeptAt.Local().Format("2006-01-02 15:04")})
	}
	out.table(rows)
}

func (a *app) policyForgetCommand() *cobra.Command {
	p := &command.ForgetProjectRule{}
	cmd := &cobra.Command{
		Use:   "forget RULE",
		Short: "Remove a rule that was kept for a project",
		Long: `Removes a rule that "agentd policy rules" lists. RULE is its id, or the beginning
of one that no other rule has. The next call in the project is decided without it,
in all sessions. With --json the answer is that of forget_project_rule.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd policy forget rule_1f0c2b7d9a3e4c5d",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.withFacts(cmd, toAct, func(f facts.Source) error {
				id, err := projectRuleID(cmd.Context(), f, given[0])
				if err != nil {
					return err
				}
				p.RuleID = id
				return showResult(cmd.Context(), a, f, p, func(out *printer, r *command.ForgetProjectRuleResult) {
					out.linef("forgotten: %s, in %s", terminal.Plain(permission.SayRule(r.Forgotten.Rule)), terminal.Plain(r.Forgotten.Workspace))
				})
			})
		},
	}
	cmd.Flags().StringVar(&p.Reason, "reason", "", "why, for people")
	return a.withDataFlags(cmd)
}

// projectRuleID finds the one rule whose id begins with what was typed.
func projectRuleID(ctx context.Context, f facts.Source, typed string) (string, error) {
	var found []string
	p := &command.ListProjectRules{Page: command.Page{Limit: command.MaxPage}}
	for {
		res := &command.ListProjectRulesResult{}
		if err := f.Do(ctx, p, res); err != nil {
			return "", err
		}
		for i := range res.Rules {
			id := res.Rules[i].RuleID
			if id == typed {
				return id, nil
			}
			if strings.HasPrefix(id, typed) || strings.HasPrefix(strings.TrimPrefix(id, "rule_"), typed) {
				found = append(found, id)
			}
		}
		if p.Cursor = res.NextCursor; p.Cursor == "" {
			break
		}
	}
	switch len(found) {
	case 0:
		return typed, nil // the server says that there is none
	case 1:
		return found[0], nil
	}
	return "", &exitError{exitUsage, fmt.Errorf("%q is the beginning of %d rules: %s", typed, len(found), strings.Join(found[:min(len(found), 5)], ", "))}
}

func (a *app) policySuggestCommand() *cobra.Command {
	p := &command.SuggestPolicy{}
	limit := 10
	cmd := &cobra.Command{
		Use:   "suggest",
		Short: "Suggest rules that would have saved questions",
		Long: `Looks at the questions that were asked in the past and suggests the rules that
would have saved most of them, with counts. None of them allows anything that
was denied. Nothing is changed: put what you want into the configuration, or
answer the next such question with "always for this project". With --json the
answer is that of suggest_policy.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd policy suggest\n  agentd policy suggest --limit 3 --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.Limit = &limit
			return a.withFacts(cmd, toAct, func(f facts.Source) error {
				return showResult(cmd.Context(), a, f, p, printSuggestions)
			})
		},
	}
	cmd.Flags().StringVar(&p.SessionID, "session", "", "only the questions of this session")
	cmd.Flags().StringVar(&p.Workspace, "workspace", "", "only the questions of sessions in this folder, as an absolute path")
	cmd.Flags().IntVar(&limit, "limit", limit, "how many rules to suggest")
	return a.withDataFlags(cmd)
}

func printSuggestions(out *printer, r *command.SuggestPolicyResult) {
	if len(r.Suggestions) > 0 {
		rows := [][]string{{"SAVES", "SESSIONS", "RULE", "SUCH AS"}}
		for _, s := range r.Suggestions {
			example := ""
			if len(s.Examples) > 0 {
				example = terminal.Clip(terminal.Plain(s.Examples[0]), 40)
			}
			rows = append(rows, []string{strconv.FormatInt(s.Saves, 10), strconv.FormatInt(s.Sessions, 10), terminal.Plain(permission.SayRule(s.Rule)), example})
		}
		out.table(rows)
		out.linef("")
	}
	out.linef("%s in %s: these rules would have saved %d, and allow none of the %s that were denied", terminal.Plural(r.Questions, "question"),
		terminal.Plural(r.Sessions, "session"), r.Saved, terminal.Plural(r.Denied, "call"))
	if r.Unknown > 0 {
		out.linef("%s can't be looked at: the facts don't have the arguments", terminal.Plural(r.Unknown, "question"))
	}
	if r.Truncated {
		out.linef("There are more decisions than were looked at; use --session")
	}
}

// testReviewer runs a reviewer over recorded questions.
func (a *app) testReviewer(ctx context.Context, f facts.Source, p *command.TestReviewer) error {
	return showResult(ctx, a, f, p, printReviewerTest)
}

func printReviewerTest(out *printer, r *command.TestReviewerResult) {
	if len(r.Disagreed) > 0 {
		rows := [][]string{{"SESSION", "SEQUENCE", "WHAT", "PERSON", "REVIEWER", "BECAUSE"}}
		for _, d := range r.Disagreed {
			rows = append(rows, []string{
				d.SessionID, strconv.FormatUint(d.Sequence, 10), terminal.Clip(terminal.Plain(d.ToolName)+" "+turntext.ShortArgs(d.ToolName, d.Args), 48), d.Person, d.Reviewer, terminal.Clip(terminal.Plain(d.Reason), 300),
			})
		}
		out.wrapped(rows)
		out.linef("")
	}
	allowed := 0
	for _, d := range r.Disagreed {
		if d.Person == "deny" {
			allowed++
		}
	}
	out.linef("%s was asked about %s of %s: it would have saved %d, %d stay with a person in any case, %d without a verdict", terminal.Plain(r.Model),
		strconv.FormatInt(r.Reviewed, 10), terminal.Plural(r.Questions, "question"), r.Saved, r.NotReviewable, r.Failed)
	out.linef("It disagrees with people about %d, and allows %d that a person denied", r.DisagreedCount, allowed)
	if r.CostUSD != nil {
		out.linef("The test cost $%.4f", *r.CostUSD)
	}
	if r.Truncated {
		out.linef("There are more questions; use --limit or --session")
	}
}
