package main

import (
	"context"
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
	"agentd/command"
	"agentd/event"
	"agentd/internal/yamlbound"
	"agentd/permission"
)

func (a *app) policyCommand() *cobra.Command {
	return parent("policy", "Look at the permission policy, and try another one",
		"Looks at the permission policy, and tries another one on what was decided before.\n\nExit codes: those of its commands.",
		"  agentd policy show\n  agentd policy test new-policy.yaml\n  agentd policy accept",
		a.policyShowCommand(), a.policyTestCommand(), a.policyAcceptCommand())
}

func (a *app) policyAcceptCommand() *cobra.Command {
	p := &command.SetPolicy{AcceptWorkspace: true}
	cmd := &cobra.Command{
		Use:   "accept",
		Short: "Take the rules of a workspace as its file has them now",
		Long: `Takes the rules of a workspace as .agentd-permissions.yaml has them now. A change
of that file that narrows what is allowed counts by itself; one that allows more
doesn't, because a program of an agent may have made it, until a person says so
with this command. It is the workspace of the configuration, or that of a session,
and holds for all sessions that work there. Look at the file before you do this.
With --json the answer is that of set_policy.

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
		Short: "Show the mode and the rules that hold",
		Long: `Shows the mode and the rules that hold, for the host or for a session. Without a
server and without data it is what the configuration says. With --json the answer
is that of get_policy.

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
	out.table(rows)
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
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Hold a new policy against the decisions of the past",
		Long: `Holds a policy against the decisions that were recorded, and shows which it would
make otherwise. Nothing runs and nothing is changed.

FILE is YAML with "mode" and "rules" as under "permissions" of the configuration,
or a whole configuration. Its rules take the place of the host's; those of a
session stay. Without a mode the recorded ones stay. Approvals hold as they did
then, and the sandbox is taken to hold unless the facts say that it didn't. Calls
whose arguments were too large to be kept in the fact can't be decided anew and
are counted.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd policy test new-policy.yaml\n  agentd policy test --session sess_01 --json new-policy.yaml",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			policy, err := readPolicy(given[0])
			if err != nil {
				return &exitError{exitUsage, err}
			}
			loaded, err := a.load(cmd)
			if err != nil {
				return err
			}
			return a.withFacts(cmd, toLook, func(f facts.Source) error {
				return a.testPolicy(cmd.Context(), f, session, policy, absolute(loaded.Config.Workspace.Root))
			})
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "only the decisions of one session")
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

// policyChange is a decision that the new policy makes otherwise.
type policyChange struct {
	SessionID    string `json:"sessionId"`
	EventID      string `json:"eventId"`
	Sequence     uint64 `json:"sequence"`
	ToolCallID   string `json:"toolCallId"`
	ToolName     string `json:"toolName"`
	What         string `json:"what"`
	Before       string `json:"before"`
	BeforeReason string `json:"beforeReason"`
	After        string `json:"after"`
	AfterReason  string `json:"afterReason"`
}

// policyReport is the answer of "agentd policy test".
type policyReport struct {
	Sessions int            `json:"sessions"`
	Same     int            `json:"same"`
	Changes  []policyChange `json:"changes"`
	// Skipped are decisions whose arguments the facts don't have.
	Skipped []string `json:"skipped"`
}

func (a *app) testPolicy(ctx context.Context, f facts.Source, session string, policy permission.Policy, root string) error {
	sessions := []string{session}
	if session == "" {
		var err error
		if sessions, err = allSessions(ctx, f); err != nil {
			return err
		}
	}
	report := &policyReport{Sessions: len(sessions), Changes: []policyChange{}, Skipped: []string{}}
	for _, s := range sessions {
		if err := replaySession(ctx, f, s, policy, root, report); err != nil {
			return err
		}
	}
	return a.print(report, func(out *printer) { report.print(out) })
}

// allSessions returns all sessions, newest first.
func allSessions(ctx context.Context, f facts.Source) ([]string, error) {
	var out []string
	p := &command.ListSessions{}
	for {
		var page command.ListSessionsResult
		if err := f.Do(ctx, p, &page); err != nil {
			return nil, err
		}
		for _, s := range page.Sessions {
			if s.SessionID != event.RuntimeSession {
				out = append(out, s.SessionID)
			}
		}
		if p.Cursor = page.NextCursor; p.Cursor == "" {
			return out, nil
		}
	}
}

func (r *policyReport) print(out *printer) {
	if len(r.Changes) > 0 {
		rows := [][]string{{"SESSION", "SEQUENCE", "TOOL", "WHAT", "BEFORE", "AFTER", "BECAUSE"}}
		for _, c := range r.Changes {
			rows = append(rows, []string{
				c.SessionID, strconv.FormatUint(c.Sequence, 10), c.ToolName, terminal.Clip(c.What, 48), c.Before, c.After, terminal.Clip(terminal.Plain(c.AfterReason), 80),
			})
		}
		out.table(rows)
		out.linef("")
	}
	out.linef("%s in %s: %d would change, %d stay, %d can't be told", terminal.Plural(int64(r.Same+len(r.Changes)+len(r.Skipped)), "decision"),
		terminal.Plural(int64(r.Sessions), "session"), len(r.Changes), r.Same, len(r.Skipped))
}
