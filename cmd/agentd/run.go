package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
	"agentd/event"
)

// runFlags are what "run" takes beside what every turn does.
type runFlags struct {
	turnFlags
	last, wait, verbose bool
	cwd, schema         string
}

func (a *app) runCommand() *cobra.Command {
	o := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [PROMPT]",
		Short: "Run one turn and stream its answer",
		Long: `Runs one turn and streams its answer. Piped standard input is added to the
prompt, or is the prompt if none is given. "-" waits for it as long as it takes;
otherwise a pipe that stays silent is ignored after 3 s.

At a terminal the answer is shown as it comes, with the tools that run, and
approvals and questions are asked; the first Ctrl-C interrupts the turn, the
second one leaves. In a pipe, standard output has only the answer, and a turn that
needs an approval ends with exit code 3, unless --wait lets others answer it. A
turn whose files only one node has waits while that node is restarted, and says
so. With --json each line on standard output is one event envelope.

Exit codes: 0 the turn completed, 1 it failed, 2 usage, 3 it waits for an
action that can't be answered here ("agentd actions" lists it).`,
		Example: `  agentd run "what does this repository do?"
  git diff | agentd run "review this"
  agentd run --continue "and now shorter"
  agentd run --mode auto --max-steps 20 "fix the failing test"
  agentd run --schema answer.schema.json "list the licences" | agentd run "check this"
  agentd run --json --mode plan "what would you change?" | jq .type`,
		Args: args(cobra.MaximumNArgs(2)),
		RunE: func(cmd *cobra.Command, given []string) error { return a.run(cmd, given, o) },
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.last, "continue", false, "continue the last session")
	f.StringVar(&o.cwd, "cwd", "", "the folder to work in, within the workspace")
	f.StringVar(&o.schema, "schema", "", "file with a JSON Schema that the final answer must satisfy; standard output is then that JSON")
	f.BoolVar(&o.wait, "wait", false, "wait for others to answer questions that can't be asked here")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "report progress on standard error even if that isn't a terminal")
	return a.withDataFlags(cmd)
}

func (a *app) run(cmd *cobra.Command, given []string, o *runFlags) error {
	text, used, err := a.promptText(cmd.Context(), given)
	if err != nil {
		return err
	}
	if err := o.useProject(a, cmd); err != nil {
		return err
	}
	p, err := o.params(text)
	if err != nil {
		return err
	}
	d := a.dialogue(used)
	err = a.withFacts(cmd, toRun, func(f facts.Source) error {
		if o.last {
			if p.SessionID, err = facts.LastSession(cmd.Context(), f); err != nil {
				return err
			}
		}
		if err := o.keepMode(cmd.Context(), f, p.SessionID); err != nil {
			return err
		}
		if p.Options != nil {
			p.Options.PermissionMode = o.mode
		}
		if here := currentFolder(f); here != "" && o.session == "" && o.cwd == "" {
			if p.Options == nil {
				p.Options = &event.TurnOptions{}
			}
			p.Options.Cwd = here
		}
		seen, err := unfinished(cmd.Context(), f, p.SessionID)
		if err != nil {
			return err
		}
		return a.runTurn(cmd.Context(), f, p, d, o, seen)
	})
	return errors.Join(err, d.close())
}

// params returns the turn that the flags describe.
func (o *runFlags) params(text string) (*command.SubmitTurn, error) {
	if o.last && o.session != "" {
		return nil, usagef("--continue and --session can't be used together")
	}
	p, err := o.turnFlags.params(text)
	if err != nil || o.cwd+o.schema == "" {
		return p, err
	}
	if p.Options == nil {
		p.Options = &event.TurnOptions{}
	}
	p.Options.Cwd = o.cwd
	if o.schema != "" {
		data, err := os.ReadFile(o.schema)
		if err != nil {
			return nil, usagef("--schema: %w", err)
		}
		if !json.Valid(data) {
			return nil, usagef("--schema: %s is not JSON", o.schema)
		}
		p.Options.OutputSchema = data
	}
	if err := p.Validate(); err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return p, nil
}

// silence is how long a pipe may be silent before a prompt goes without it: many
// programs start others with a pipe that they never write to.
var silence = 3 * time.Second

// promptText returns the prompt, and whether standard input was read for it.
func (a *app) promptText(ctx context.Context, given []string) (text string, used bool, err error) {
	var words []string
	wait := false
	for _, g := range given {
		if g == "-" {
			wait = true
			continue
		}
		words = append(words, g)
	}
	if len(words) > 1 {
		return "", false, usagef("there are %d arguments, but only one PROMPT; put it in quotes", len(words))
	}
	if len(words) == 0 && !wait && (a.in == nil || terminal.IsTerminal(a.in)) {
		return "", false, usagef("PROMPT is missing; give it as an argument or on standard input")
	}
	piped := ""
	if wait || !terminal.IsTerminal(a.in) {
		if piped, err = a.piped(ctx, wait || len(words) == 0); err != nil {
			return "", false, err
		}
		used = true
	}
	piped = strings.TrimRight(piped, "\n")
	if len(words) == 0 {
		if piped == "" {
			return "", false, usagef("PROMPT is missing; give it as an argument or on standard input")
		}
		return piped, true, nil
	}
	if piped == "" {
		return words[0], used, nil
	}
	return words[0] + "\n\n" + piped, true, nil
}

// maxPiped is the largest input that is read.
const maxPiped = 32 << 20

// piped returns what standard input holds.
func (a *app) piped(ctx context.Context, patient bool) (string, error) {
	if a.in == nil {
		return "", nil
	}
	f, isFile := a.in.(*os.File)
	if patient || !isFile || !isPipe(f) {
		data, err := io.ReadAll(io.LimitReader(a.input(ctx), maxPiped))
		if err != nil {
			return "", fmt.Errorf("read standard input: %w", err)
		}
		return string(data), nil
	}
	return a.pipedSoon(a.input(ctx))
}

func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}

// pipedSoon reads a pipe to its end, if anything comes in time. A read of a pipe
// can't always be ended, so the goroutine that reads a silent one is left to the
// end of the process.
func (a *app) pipedSoon(f io.Reader) (string, error) {
	type result struct {
		data []byte
		err  error
	}
	began, got := make(chan struct{}), make(chan result, 1)
	go func() {
		first := make([]byte, 1)
		n, err := io.ReadFull(f, first)
		close(began)
		data := first[:n]
		if err == nil {
			var rest []byte
			rest, err = io.ReadAll(io.LimitReader(f, maxPiped))
			data = append(data, rest...)
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		got <- result{data, err}
	}()
	timer := time.NewTimer(silence)
	defer timer.Stop()
	select {
	case <-began:
	case <-timer.C:
		a.sayf("agentd: no input on standard input within %s, continuing without it; \"-\" waits for it", silence)
		return "", nil
	}
	r := <-got
	if r.err != nil {
		return "", fmt.Errorf("read standard input: %w", r.err)
	}
	return string(r.data), nil
}
