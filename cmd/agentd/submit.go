package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/permission"
)

// turnFlags are what "run" and "submit" have in common.
type turnFlags struct {
	session, model, mode, policy string
	maxSteps                     int64
	// projectMode is the mode if the file of the project chose it.
	projectMode string
}

// modelUsage is what the help says of a flag that chooses the model of a turn.
const modelUsage = "the model that answers, as provider/model"

func (t *turnFlags) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.session, "session", "", "the session to continue; default: a new one")
	f.StringVar(&t.model, "model", "", modelUsage)
	f.StringVar(&t.mode, "mode", "", "permission mode: "+strings.Join(permission.Modes(), ", "))
	f.Int64Var(&t.maxSteps, "max-steps", 0, "maximum number of model calls")
}

// params returns the command that submits a text.
func (t *turnFlags) params(text string) (*command.SubmitTurn, error) {
	input, err := json.Marshal(text)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	p := &command.SubmitTurn{SessionID: t.session, Input: input}
	if o := (event.TurnOptions{Model: t.model, PermissionMode: t.mode, QueuePolicy: t.policy, MaxSteps: t.maxSteps}); t.model+t.mode+t.policy != "" || t.maxSteps != 0 {
		p.Options = &o
	}
	if err := p.Validate(); err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return p, nil
}

// textOrInput returns an argument, or what standard input holds if it is "-".
func (a *app) textOrInput(ctx context.Context, arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	data, err := io.ReadAll(io.LimitReader(a.input(ctx), 32<<20))
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	return strings.TrimRight(string(data), "\n"), nil
}

// errInterrupted ends a read of standard input.
var errInterrupted = errors.New("interrupted")

// input is standard input until ctx ends. A read of it can't be ended: a person who stops a
// command that waits for input is answered at once, and what reads is left to the end of
// the process.
func (a *app) input(ctx context.Context) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, a.in)
		_ = w.CloseWithError(err) // it never fails; nil is the end of the input
	}()
	context.AfterFunc(ctx, func() { _ = w.CloseWithError(errInterrupted) })
	return r
}

func (a *app) submitCommand() *cobra.Command {
	t := &turnFlags{}
	cmd := &cobra.Command{
		Use:   "submit PROMPT",
		Short: "Submit a turn and return at once",
		Long: `Submits a turn and returns when it is durable, without waiting for its answer. A
server carries it out; if none holds the data, the next one does when it starts.
"-" reads the prompt from standard input.

Exit codes: 0 accepted or queued, 1 failed, 2 usage.`,
		Example: `  agentd submit "write the report"
  agentd submit --session sess_01 --queue-policy steer "shorter"`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			text, err := a.textOrInput(cmd.Context(), given[0])
			if err != nil {
				return err
			}
			if err := t.useProject(a, cmd); err != nil {
				return err
			}
			p, err := t.params(text)
			if err != nil {
				return err
			}
			return a.withFacts(cmd, toLook, func(f facts.Source) error {
				if err := t.keepMode(cmd.Context(), f, p.SessionID); err != nil {
					return err
				}
				if p.Options != nil {
					p.Options.PermissionMode = t.mode
				}
				return a.submit(cmd, f, p)
			})
		},
	}
	t.addFlags(cmd)
	cmd.Flags().StringVar(&t.policy, "queue-policy", "", "if the thread is busy: queue, reject, interrupt, steer")
	return a.withDataFlags(cmd)
}

// refusedTurn is why no turn began: a mistake on the command line if a flag names what isn't
// there.
func refusedTurn(err error) error {
	if fault.KindOf(err) == fault.InvalidParams {
		return &exitError{exitUsage, err}
	}
	return err
}

func (a *app) submit(cmd *cobra.Command, f facts.Source, p *command.SubmitTurn) error {
	var raw json.RawMessage
	if err := f.Do(cmd.Context(), p, &raw); err != nil {
		return refusedTurn(err)
	}
	var res command.SubmitTurnResult
	if err := json.Unmarshal(raw, &res); err != nil {
		return fmt.Errorf("result of submit_turn: %w", err)
	}
	if !f.Live() {
		a.sayf("No server holds the data: the turn runs when \"agentd serve\" starts.")
	}
	return a.print(raw, func(out *printer) {
		out.linef("%s: session %s, turn %s", res.Status, res.SessionID, res.TurnID)
	})
}
