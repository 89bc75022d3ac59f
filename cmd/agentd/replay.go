package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"agentd/command"
	"agentd/evidence"
	"agentd/store/pebble"
)

// replayResult is what a replay came to.
type replayResult struct {
	// Kind says what is compared: facts, policy or live.
	Kind        string         `json:"kind"`
	EvidenceID  string         `json:"evidenceId"`
	Scope       evidence.Scope `json:"scope"`
	Turns       int            `json:"turns"`
	Facts       int            `json:"facts"`
	Determinism string         `json:"determinism"`
	Limits      []string       `json:"limits"`
	// Integrity says whether the case is as it was exported: verified, changed, or
	// unsigned. It is run again either way: who changes a case tries something out.
	Integrity  string                       `json:"integrity"`
	Difference *evidence.Difference         `json:"difference"`
	Decisions  []evidence.Difference        `json:"decisions"`
	Outcomes   []evidence.OutcomeDifference `json:"outcomes"`
}

func (a *app) replayCommand() *cobra.Command {
	var all string
	w := &whatIf{}
	cmd := &cobra.Command{
		Use:   "replay FILE | --all SESSION",
		Short: "Run an exported case again, on its recordings or for real",
		Long: `Runs the turns of a case ("agentd export replay") again through the loop and the
permission decisions of this program, with models, tools and people that answer as
they did, and compares the facts. Nothing is asked and nothing is executed. With
--all every turn of a session is exported and run again, each on its own; turns
with subagents, and others that lack something on their own, are run in one case
of the whole session.

Compared are what was asked, answered, decided and reached; ids, times, pieces of
answers, costs and processes are not. A case that was changed after its export is
run all the same, and said to be changed.

--with tries something else: policy=FILE and mode=MODE decide the recorded calls
again and list every decision that would be another one; model=PROVIDER/MODEL asks
that model, and so needs --live.

--live asks the configured models and runs the tools, in the sandbox and in a copy
of the workspace that is removed afterwards (or in --workspace DIR, which stays),
and compares what the turns came to instead of every fact. Approvals are answered
as they were, and refused where nothing was recorded.

Exit codes: 0 the facts are the same (with --live: all turns ended the same way;
with --with: it could be run), 1 they are not (the difference is printed) or the
case can't be run, 2 usage.`,
		Example: `  agentd replay case.json
  agentd replay --all sess_01
  agentd replay --with policy=stricter.yaml case.json
  agentd replay --live --with model=anthropic/claude-sonnet-4-5 case.json`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if (all == "") == (len(given) == 0) {
				return usagef("either a file or --all SESSION is needed")
			}
			if err := w.prepare(a, cmd); err != nil {
				return err
			}
			if all != "" {
				return a.with(cmd, toAct, func(f facts) error { return a.replayAll(cmd.Context(), f, all, w) })
			}
			data, err := readCase(given[0])
			if err != nil {
				return fmt.Errorf("replay: %w", err)
			}
			return a.replay(cmd.Context(), [][]byte{data}, w)
		},
	}
	cmd.Flags().StringVar(&all, "all", "", "run every turn of this session again")
	cmd.Flags().BoolVar(&w.live, "live", false, "ask the models and run the tools for real")
	cmd.Flags().StringArrayVar(&w.changes, "with", nil, "try model=…, policy=FILE or mode=…; can be repeated")
	cmd.Flags().StringVar(&w.workspace, "workspace", "", "with --live: run the tools here instead of in a copy")
	return a.where(cmd)
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

// deterministic is how a case says that it brings everything back.
const deterministic = "deterministic"

// replayAll exports each turn of a session and runs it again. What a turn on its own
// can't bring back, such as the work of its subagents, is run in the case of the
// whole session, if that one can.
func (a *app) replayAll(ctx context.Context, f facts, sessionID string, w *whatIf) error {
	data, whole, err := exportedCase(ctx, f, command.ExportScope{SessionID: sessionID})
	if err != nil {
		return err
	}
	exact := w.kind() == replayFacts && whole.Determinism == deterministic
	var cases [][]byte
	left := false
	for _, t := range whole.Turns {
		one, c, err := exportedCase(ctx, f, command.ExportScope{SessionID: sessionID, TurnID: t.TurnID})
		if err != nil {
			return err
		}
		if exact && c.Determinism != deterministic {
			left = true
			continue
		}
		cases = append(cases, one)
	}
	if left || len(whole.Turns) == 0 { // of a session without turns of its own others did something
		cases = append(cases, data)
	}
	return a.replay(ctx, cases, w)
}

// exportedCase exports a scope as a case.
func exportedCase(ctx context.Context, f facts, scope command.ExportScope) ([]byte, *evidence.Case, error) {
	var res command.ExportResult
	if err := f.do(ctx, &command.ExportReplay{ExportScope: scope}, &res); err != nil {
		return nil, nil, err
	}
	data, err := outputOf(ctx, f, res.Ref)
	if err != nil {
		return nil, nil, err
	}
	c := &evidence.Case{}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, nil, fmt.Errorf("replay: %w", err)
	}
	return data, c, nil
}

func outputOf(ctx context.Context, f facts, ref string) ([]byte, error) {
	var b bytes.Buffer
	err := copyOutput(ctx, f, ref, &b)
	return b.Bytes(), err
}

// replay runs cases again and prints what came out.
func (a *app) replay(ctx context.Context, cases [][]byte, w *whatIf) error {
	results := []*replayResult{}
	same := true
	for _, data := range cases {
		r, err := a.replayOne(ctx, data, w)
		if err != nil {
			return err
		}
		results = append(results, r)
		same = same && r.same()
	}
	if err := a.print(map[string]any{"same": same, "cases": results}, func(p *printer) { printReplays(p, results) }); err != nil {
		return err
	}
	if !same {
		return silent(exitFailed)
	}
	return nil
}

// same reports whether the replay came to what was asked for.
func (r *replayResult) same() bool {
	if r.Kind == replayFacts {
		return r.Difference == nil
	}
	return r.Kind == replayPolicy || !slices.ContainsFunc(r.Outcomes, func(d evidence.OutcomeDifference) bool { return !d.Same })
}

// replayOne runs a case in a store of its own.
func (a *app) replayOne(ctx context.Context, data []byte, w *whatIf) (_ *replayResult, err error) {
	var c evidence.Case
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("replay: it is not a case: %w", err)
	}
	dir, err := os.MkdirTemp("", "agentd-replay-*")
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := pebble.Open(filepath.Join(dir, "data"), nil)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	report, err := a.replayWith(ctx, s, &c, w, dir)
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	return &replayResult{
		Kind: w.kind(), EvidenceID: c.EvidenceID, Scope: c.Scope, Turns: len(c.Turns), Facts: len(c.Expected), Determinism: c.Determinism, Limits: c.Limits,
		Integrity:  caseIntegrity(data, &c),
		Difference: report.Difference, Decisions: report.Decisions, Outcomes: report.Outcomes,
	}, nil
}

// caseIntegrity says whether a case is as it was exported.
func caseIntegrity(data []byte, c *evidence.Case) string {
	if len(c.Integrity) == 0 {
		return "unsigned"
	}
	v, err := evidence.Verify(bytes.NewReader(data), evidence.VerifyOptions{})
	if err != nil || v.Finding != nil {
		return "changed"
	}
	return "verified"
}

func printReplays(p *printer, results []*replayResult) {
	for _, r := range results {
		of := plainText(r.Scope.SessionID)
		if r.Scope.TurnID != "" {
			of += " " + plainText(r.Scope.TurnID)
		}
		switch {
		case r.Kind == replayPolicy:
			printDecisions(p, of, r)
		case r.Kind == replayLive:
			printOutcomes(p, of, r)
		case r.Difference == nil:
			p.linef("%s %s: %s, %s", p.paint(green, "same"), of, plural(int64(r.Turns), "turn"), plural(int64(r.Facts), "fact"))
		default:
			p.linef("%s %s: %s", p.paint(red, "different"), of, plainText(r.Difference.Says))
		}
		if r.Integrity == "changed" {
			p.linef("  the case is not as it was exported: see agentd evidence verify")
		}
		for _, l := range r.Limits {
			p.linef("  the replay is approximate: %s", plainText(l))
		}
	}
}
