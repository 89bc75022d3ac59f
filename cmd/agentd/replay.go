package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
	"agentd/evidence"
	"agentd/replay"
)

// replayResult is what a replay came to.
type replayResult struct {
	// Kind says what is compared: facts, policy (what would be decided otherwise) or live.
	Kind        string         `json:"kind"`
	EvidenceID  string         `json:"evidenceId"`
	Scope       evidence.Scope `json:"scope"`
	Turns       int            `json:"turns"`
	Facts       int            `json:"facts"`
	Decided     int            `json:"decided"`
	Determinism string         `json:"determinism"`
	Limits      []string       `json:"limits"`
	// Integrity says whether the case is as it was exported: verified, changed, or
	// unsigned; Finding names what was changed.
	Integrity string `json:"integrity"`
	Finding   string `json:"finding,omitempty"`
	// Edited says that the case was taken as a what-if.
	Edited     bool                       `json:"edited,omitempty"`
	Difference *replay.Difference         `json:"difference"`
	Decisions  []replay.Difference        `json:"decisions"`
	Outcomes   []replay.OutcomeDifference `json:"outcomes"`
}

func (a *app) replayCommand() *cobra.Command {
	var all string
	w := &whatIf{}
	cmd := &cobra.Command{
		Use:   "replay FILE | --all SESSION",
		Short: "Check the decisions of an exported case, or run it again for real",
		Long: `Folds the facts of a case ("agentd export replay") and, at each fact that
begins or ends a step, compares what was recorded with what this program
decides on the facts before it, under the configuration that the facts name:
which step is next, whether a call may run, which model is asked, whether an
input is valid. Nothing is asked and nothing is executed. The first difference
is reported with its sequence. With --all a session is exported as a case
first.

A case that was changed since its export exits with 1 and says what was
changed. --edited accepts it as a what-if: what would be decided if the
facts were these.

--with tries something else: policy=FILE and mode=MODE decide the recorded
calls again, steps=N and models=ID,ID,… try another limit or another list of
models, and every decision that would be different is listed;
model=PROVIDER/MODEL asks that model, and so needs --live.

--live submits the recorded inputs to the configured models and runs the tools,
in the sandbox and in a copy of the workspace that is removed afterwards (or in
--workspace DIR, which stays), and compares the outcomes of the turns. The
configuration's mode applies, and approvals are refused. With --trust the recorded
modes apply and recorded approvals are given again, for the same calls: use it for
your own cases only. Nothing is ever run outside of the sandbox.

Exit codes: 0 the decisions are the same (with --live: all turns ended the same
way; with --with or --edited: they could be made), 1 they are not (the
difference is printed), the case was changed or can't be read, 2 usage.`,
		Example: `  agentd replay case.json
  agentd replay --all sess_01
  agentd replay --with policy=stricter.yaml case.json
  agentd replay --live --with model=anthropic/claude-sonnet-4-5 case.json`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if (all == "") == (len(given) == 0) {
				return usagef("give a FILE, or --all with a SESSION")
			}
			if err := w.prepare(a, cmd); err != nil {
				return err
			}
			if all != "" {
				return a.withFacts(cmd, toAct, func(f facts.Source) error {
					data, err := exportedCase(cmd.Context(), f, command.ExportScope{SessionID: all})
					if err != nil {
						return err
					}
					return a.replay(cmd.Context(), data, w)
				})
			}
			data, err := readCase(given[0])
			if err != nil {
				return fmt.Errorf("replay: %w", err)
			}
			return a.replay(cmd.Context(), data, w)
		},
	}
	cmd.Flags().StringVar(&all, "all", "", "check this whole session")
	cmd.Flags().BoolVar(&w.edited, "edited", false, "accept a changed case as a what-if")
	cmd.Flags().BoolVar(&w.live, "live", false, "ask the models and run the tools for real")
	cmd.Flags().BoolVar(&w.trust, "trust", false, "with --live: use the recorded permission modes and approvals, for a case of your own")
	cmd.Flags().StringArrayVar(&w.changes, "with", nil, "try model=…, policy=FILE, mode=…, steps=N or models=…; can be repeated")
	cmd.Flags().StringVar(&w.workspace, "workspace", "", "with --live: run the tools here instead of in a copy")
	return a.withDataFlags(cmd)
}

// readCase reads a case; what is something else is said to be.
func readCase(path string) ([]byte, error) {
	kind, err := kindOf(path)
	if err != nil {
		return nil, err
	}
	if kind.name != kindCase {
		return nil, kind.isNot(path, "a replay case", "agentd export replay")
	}
	return os.ReadFile(path)
}

// exportedCase exports a scope as a case.
func exportedCase(ctx context.Context, f facts.Source, scope command.ExportScope) ([]byte, error) {
	var res command.ExportResult
	if err := f.Do(ctx, &command.ExportReplay{ExportScope: scope}, &res); err != nil {
		return nil, err
	}
	return facts.ReadContent(ctx, f, res.Ref, 0)
}

// replay decides again what a case says, or runs it, and prints what came out.
func (a *app) replay(ctx context.Context, data []byte, w *whatIf) error {
	var c evidence.Case
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("replay: not a replay case: %w", err)
	}
	r := &replayResult{
		Kind: w.kind(), EvidenceID: c.EvidenceID, Scope: c.Scope, Determinism: c.Determinism, Limits: c.Limits, Edited: w.edited,
		Decisions: []replay.Difference{}, Outcomes: []replay.OutcomeDifference{},
	}
	r.Integrity, r.Finding = evidence.CaseIntegrity(data, &c)
	var err error
	if w.live {
		r.Outcomes, err = a.replayLive(ctx, &c, w)
	} else {
		err = r.walk(&c, w)
	}
	if err != nil {
		return err
	}
	same := r.same()
	if err := a.print(map[string]any{"same": same, "cases": []*replayResult{r}}, func(p *printer) { printReplay(p, r) }); err != nil {
		return err
	}
	if !same {
		return silent(exitFailed)
	}
	return nil
}

// walk decides again.
func (r *replayResult) walk(c *evidence.Case, w *whatIf) error {
	rec, err := replay.OfCase(c)
	if err != nil {
		return err
	}
	report, err := replay.Walk(rec, w.options())
	if err != nil {
		return err
	}
	r.Turns, r.Facts, r.Decided = report.Turns, report.Facts, report.Decisions
	if r.Limits = append(r.Limits, report.Missing...); len(r.Limits) > 0 {
		r.Determinism = "approximate"
	}
	if len(report.Differences) > 0 {
		r.Difference = &report.Differences[0]
	}
	r.Decisions = report.Differences
	return nil
}

// same reports whether the replay came to what was asked for.
func (r *replayResult) same() bool {
	switch {
	case r.Integrity != "verified" && !r.Edited:
		return false
	case r.Kind == replayFacts:
		return r.Difference == nil
	}
	return r.Kind == replayPolicy || !slices.ContainsFunc(r.Outcomes, func(d replay.OutcomeDifference) bool { return !d.Same })
}

func printReplay(p *printer, r *replayResult) {
	of := terminal.Plain(r.Scope.SessionID)
	if r.Scope.TurnID != "" {
		of += " " + terminal.Plain(r.Scope.TurnID)
	}
	switch {
	case r.Kind == replayPolicy:
		printDecisions(p, of, r)
	case r.Kind == replayLive:
		printOutcomes(p, of, r)
	case r.Difference == nil:
		p.linef("%s %s: %s, %s", p.Paint(terminal.Green, "same"), of, terminal.Plural(int64(r.Turns), "turn"), terminal.Plural(int64(r.Facts), "fact"))
	default:
		p.linef("%s %s: %s", p.Paint(terminal.Red, "different"), of, terminal.Plain(r.Difference.Says))
	}
	switch {
	case r.Integrity == "verified":
	case r.Edited:
		p.linef("  the case was changed since its export (%s): this is what would be decided", terminal.Plain(r.Finding))
	default:
		p.linef("  the case was changed since its export: %s; --edited accepts it as a what-if", terminal.Plain(r.Finding))
	}
	for _, l := range r.Limits {
		p.linef("  not every decision could be checked: %s", terminal.Plain(l))
	}
}
