package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
	"agentd/event"
	"agentd/internal/yamlbound"
	"agentd/permission"
)

func (a *app) policyCommand() *cobra.Command {
	return parent("policy", "Show the permission policy, and try another one",
		"Shows the permission policy, and tries another one on past decisions.\n\nExit codes: those of its commands.",
		"  agentd policy show\n  agentd policy test new-policy.yaml\n  agentd policy suggest",
		a.policyShowCommand(), a.policyTestCommand(), a.policySuggestCommand(), a.policyRulesCommand(), a.policyForgetCommand(), a.policyAcceptCommand())
}

func (a *app) policyAcceptCommand() *cobra.Command {
	p := &command.SetPolicy{AcceptWorkspace: true}
	cmd := &cobra.Command{
		Use:   "accept",
		Short: "Accept the rules in a workspace's file as they are now",
		Long: `Accepts the rules of a workspace as they are now in .agentd-permissions.yaml. A
change to that file that allows less takes effect by itself. One that allows more
doesn't until a person accepts it with this command, because a program run by an
agent may have made it. The workspace is that of the configuration, or of a
session, and the rules apply to all sessions that work there. Read the file before
you accept it. With --json the answer is that of set_policy.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd policy accept\n  agentd policy accept --session sess_01 --reason \"reviewed\"",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			res := &command.PolicyResult{}
			if err := a.withFacts(cmd, toAct, func(f facts.Source) error { return f.Do(cmd.Context(), p, res) }); err != nil {
				return err
			}
			return a.print(res, func(out *printer) { printPolicy(out, res) })
		},
	}
	cmd.Flags().StringVar(&p.SessionID, "session", "", "the session; default the workspace of the configuration")
	cmd.Flags().StringVar(&p.Reason, "reason", "", "why, for people")
	return a.withDataFlags(cmd)
}

func (a *app) policyShowCommand() *cobra.Command {
	p := &command.GetPolicy{}
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the mode and the rules in force",
		Long: `Shows the mode and the rules in force, for the host or for a session. Without a
server and without data it shows those of the configuration. With --json the
answer is that of get_policy.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd policy show\n  agentd policy show --session sess_01 --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			res, err := a.policy(cmd, p)
			if err != nil {
				return err
			}
			return a.print(res, func(out *printer) { printPolicy(out, res) })
		},
	}
	cmd.Flags().StringVar(&p.SessionID, "session", "", "the session; default the host's policy")
	return a.withDataFlags(cmd)
}

// policy returns the policy that holds, or would hold if there were a store.
func (a *app) policy(cmd *cobra.Command, p *command.GetPolicy) (*command.PolicyResult, error) {
	loaded, err := a.load(cmd)
	if err != nil {
		return nil, err
	}
	c := loaded.Config
	if p.SessionID == "" && a.server == "" && !c.Database() && !hasStore(c.Data) {
		rules, err := permission.ParseRules("host", configuredRules(c.Permissions.Rules))
		if err != nil {
			return nil, &exitError{exitUsage, fmt.Errorf("permissions.rules: %w", err)}
		}
		for i := range rules {
			rules[i].Origin = "configuration"
		}
		return &command.PolicyResult{Mode: c.Permissions.Mode, Rules: rules}, nil
	}
	res := &command.PolicyResult{}
	return res, a.withFacts(cmd, toAct, func(f facts.Source) error { return f.Do(cmd.Context(), p, res) })
}

func configuredRules(rules []config.Rule) []event.PolicyRule {
	out := make([]event.PolicyRule, len(rules))
	for i, r := range rules {
		out[i] = event.PolicyRule{Decision: r.Decision, Tool: r.Tool, Match: r.Match, Reason: r.Reason}
	}
	return out
}

func printPolicy(out *printer, res *command.PolicyResult) {
	out.linef("mode: %s", res.Mode)
	if len(res.Rules) == 0 {
		out.linef("no rules: the mode decides")
		return
	}
	rows := [][]string{{"DECISION", "TOOL", "MATCH", "ORIGIN", "REASON"}}
	for _, r := range res.Rules {
		match := r.Match
		if match == "" {
			match = "-"
		}
		rows = append(rows, []string{r.Decision, terminal.Plain(r.Tool), terminal.Plain(match), originOf(&r), terminal.Plain(r.Reason)})
	}
	out.wrapped(rows)
}

// originOf says where a rule comes from: the configuration, a command that stored it
// for the host, the workspace or the session.
func originOf(r *event.PolicyRule) string {
	if r.Origin == "" {
		return r.Source
	}
	return r.Origin
}

func (a *app) policyTestCommand() *cobra.Command {
	var session string
	var reviewer bool
	review := &command.TestReviewer{}
	limit := 100
	cmd := &cobra.Command{
		Use:   "test [FILE]",
		Short: "Try a new policy, or a reviewer, on past decisions",
		Long: `Applies a policy to the recorded decisions and shows which would be
different. Nothing runs and nothing is changed.

FILE is YAML with "mode" and "rules" as under "permissions" of the configuration,
or a whole configuration. Its rules take the place of the host's; those of a
session stay. Without a mode the recorded ones stay. Approvals count as they did
then, and the sandbox is assumed to have been in force unless the facts say
otherwise. Calls whose arguments were too large to be kept in the fact can't be
decided again and are counted. With --json the answer is that of test_policy.

With --reviewer a model is tried as a reviewer instead: it is asked about the
recorded questions that people answered, and you see how many it would have
saved and where it disagrees with them. That costs as much as the requests do.
The model is the one of permissions.reviewer, or that of --model. With --json
the answer is that of test_reviewer.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd policy test new-policy.yaml\n  agentd policy test --session sess_01 --json new-policy.yaml\n  agentd policy test --reviewer --model local/small --limit 20",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if reviewer {
				if len(given) > 0 {
					return &exitError{exitUsage, fmt.Errorf("--reviewer tries a model on past decisions and takes no file, but %q was given", given[0])}
				}
				review.SessionID, review.Limit = session, &limit
				return a.withFacts(cmd, toAct, func(f facts.Source) error { return a.testReviewer(cmd.Context(), f, review) })
			}
			if len(given) == 0 {
				return &exitError{exitUsage, errors.New("name the file with the policy, or use --reviewer to try a reviewer")}
			}
			policy, err := readPolicy(given[0])
			if err != nil {
				return &exitError{exitUsage, err}
			}
			return a.withFacts(cmd, toAct, func(f facts.Source) error { return a.testPolicy(cmd.Context(), f, session, policy) })
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "only the decisions of this session")
	cmd.Flags().BoolVar(&reviewer, "reviewer", false, "try a reviewer instead of a policy; this asks a model")
	cmd.Flags().StringVar(&review.Model, "model", "", "with --reviewer: the model, as provider/model; default that of permissions.reviewer")
	cmd.Flags().IntVar(&limit, "limit", limit, "with --reviewer: how many questions the model is asked about")
	return a.withDataFlags(cmd)
}

// policyFile is a mode and rules as the configuration has them.
type policyFile struct {
	Mode  string        `yaml:"mode"`
	Rules []config.Rule `yaml:"rules"`
}

// readPolicy reads a policy from a file. An unknown key is an error.
func readPolicy(path string) (permission.Policy, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return permission.Policy{}, err
	}
	if err := yamlbound.Check(data, yamlbound.Limits{Bytes: 4 << 20, Collections: 64 << 10}); err != nil {
		return permission.Policy{}, fmt.Errorf("%s: %w", path, err)
	}
	var whole struct {
		Permissions *yaml.MapSlice `yaml:"permissions"`
	}
	if err := yaml.Unmarshal(data, &whole); err == nil && whole.Permissions != nil {
		if data, err = yaml.Marshal(*whole.Permissions); err != nil {
			return permission.Policy{}, fmt.Errorf("%s: %w", path, err)
		}
	}
	var file policyFile
	if err := yaml.UnmarshalWithOptions(data, &file, yaml.Strict()); err != nil {
		return permission.Policy{}, fmt.Errorf("%s: %s", path, yaml.FormatError(err, false, false))
	}
	rules, err := permission.ParseRules("host", configuredRules(file.Rules))
	if err != nil {
		return permission.Policy{}, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	if err := checkMode(file.Mode); err != nil {
		return permission.Policy{}, fmt.Errorf("%s: %w", path, err)
	}
	return permission.Policy{Mode: file.Mode, Rules: rules}, nil
}

func checkMode(mode string) error {
	if mode == "" || slices.Contains(permission.Modes(), mode) {
		return nil
	}
	return fmt.Errorf("unknown mode %q; use one of %s", mode, strings.Join(permission.Modes(), ", "))
}

func (a *app) testPolicy(ctx context.Context, f facts.Source, session string, policy permission.Policy) error {
	limit := command.MaxPage
	p := &command.TestPolicy{SessionID: session, Mode: policy.Mode, Rules: append([]event.PolicyRule{}, policy.Rules...), Limit: &limit}
	return showResult(ctx, a, f, p, printPolicyTest)
}

func printPolicyTest(out *printer, r *command.TestPolicyResult) {
	if len(r.Changed) > 0 {
		rows := [][]string{{"SESSION", "SEQUENCE", "TOOL", "WHAT", "BEFORE", "AFTER", "BECAUSE"}}
		for _, c := range r.Changed {
			rows = append(rows, []string{
				c.SessionID, strconv.FormatUint(c.Sequence, 10), terminal.Plain(c.ToolName), terminal.Clip(turntext.ShortArgs(c.ToolName, c.Args), 48), c.Before, c.After, terminal.Clip(terminal.Plain(c.Reason), 300),
			})
		}
		out.wrapped(rows)
		out.linef("")
	}
	out.linef("%s in %s: %d would change, %d stay, %d can't be decided", terminal.Plural(r.Total, "decision"),
		terminal.Plural(r.Sessions, "session"), r.ChangedCount, r.Total-r.ChangedCount-r.Unknown, r.Unknown)
	if more := r.ChangedCount - int64(len(r.Changed)); more > 0 {
		out.linef("%s more are not listed; use --session", terminal.Plural(more, "change"))
	}
	if r.Truncated {
		out.linef("There are more decisions than one test looks at; use --session")
	}
}
