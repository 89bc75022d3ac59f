package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"agentd"
	"agentd/command"
	"agentd/evidence"
	"agentd/store/pebble"
)

// replayResult is what a replay came to.
type replayResult struct {
	EvidenceID  string               `json:"evidenceId"`
	Scope       evidence.Scope       `json:"scope"`
	Turns       int                  `json:"turns"`
	Facts       int                  `json:"facts"`
	Determinism string               `json:"determinism"`
	Limits      []string             `json:"limits"`
	Difference  *evidence.Difference `json:"difference"`
}

func (a *app) replayCommand() *cobra.Command {
	var all string
	cmd := &cobra.Command{
		Use:   "replay FILE | --all SESSION",
		Short: "Run an exported case again on its recordings",
		Long: `Runs the turns of a case ("agentd export replay") again through the loop and the
permission decisions of this program, with models, tools and people that answer as
they did, and compares the facts. Nothing is asked and nothing is executed. With
--all every turn of a session is exported and run again, each on its own.

Compared are what was asked, answered, decided and reached; ids, times, pieces of
answers, costs and processes are not.

Exit codes: 0 the facts are the same, 1 they are not (the first difference is
printed) or the case can't be run, 2 usage.`,
		Example: "  agentd replay case.json\n  agentd replay --all sess_01",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			switch {
			case (all == "") == (len(given) == 0):
				return usagef("either a file or --all SESSION is needed")
			case all != "":
				return a.with(cmd, toAct, func(f facts) error { return a.replayAll(cmd.Context(), f, all) })
			}
			data, err := os.ReadFile(given[0])
			if err != nil {
				return fmt.Errorf("replay: %w", err)
			}
			return a.replay(cmd.Context(), [][]byte{data})
		},
	}
	cmd.Flags().StringVar(&all, "all", "", "run every turn of this session again")
	return a.where(cmd)
}

// replayAll exports each turn of a session and runs it again.
func (a *app) replayAll(ctx context.Context, f facts, sessionID string) error {
	var whole command.ExportResult
	if err := f.do(ctx, &command.ExportReplay{ExportScope: command.ExportScope{SessionID: sessionID}}, &whole); err != nil {
		return err
	}
	data, err := outputOf(ctx, f, whole.Ref)
	if err != nil {
		return err
	}
	var c evidence.Case
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	var cases [][]byte
	for _, t := range c.Turns {
		var one command.ExportResult
		if err := f.do(ctx, &command.ExportReplay{ExportScope: command.ExportScope{SessionID: sessionID, TurnID: t.TurnID}}, &one); err != nil {
			return err
		}
		if data, err = outputOf(ctx, f, one.Ref); err != nil {
			return err
		}
		cases = append(cases, data)
	}
	return a.replay(ctx, cases)
}

func outputOf(ctx context.Context, f facts, ref string) ([]byte, error) {
	var b bytes.Buffer
	err := copyOutput(ctx, f, ref, &b)
	return b.Bytes(), err
}

// replay runs cases again and prints what came out.
func (a *app) replay(ctx context.Context, cases [][]byte) error {
	results := []*replayResult{}
	same := true
	for _, data := range cases {
		r, err := replayOne(ctx, data)
		if err != nil {
			return err
		}
		results = append(results, r)
		same = same && r.Difference == nil
	}
	if err := a.print(map[string]any{"same": same, "cases": results}, func(p *printer) { printReplays(p, results) }); err != nil {
		return err
	}
	if !same {
		return silent(exitFailed)
	}
	return nil
}

// replayOne runs a case in a store of its own.
func replayOne(ctx context.Context, data []byte) (_ *replayResult, err error) {
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
	d, err := agentd.Replay(ctx, s, &c)
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	return &replayResult{
		EvidenceID: c.EvidenceID, Scope: c.Scope, Turns: len(c.Turns), Facts: len(c.Expected), Determinism: c.Determinism, Limits: c.Limits, Difference: d,
	}, nil
}

func printReplays(p *printer, results []*replayResult) {
	for _, r := range results {
		of := plainText(r.Scope.SessionID)
		if r.Scope.TurnID != "" {
			of += " " + plainText(r.Scope.TurnID)
		}
		if r.Difference == nil {
			p.linef("%s %s: %s, %s", p.paint(green, "same"), of, plural(int64(r.Turns), "turn"), plural(int64(r.Facts), "fact"))
		} else {
			p.linef("%s %s: %s", p.paint(red, "different"), of, plainText(r.Difference.Says))
		}
		for _, l := range r.Limits {
			p.linef("  the replay is approximate: %s", plainText(l))
		}
	}
}
