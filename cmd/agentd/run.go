package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agentd/command"
	"agentd/event"
)

func (a *app) runCommand() *cobra.Command {
	t := &turnFlags{}
	cmd := &cobra.Command{
		Use:   "run PROMPT",
		Short: "Run one turn and stream its answer",
		Long: `Runs one turn and streams its answer. At a terminal approvals and questions are
asked; elsewhere, and with --json, a turn that needs one blocks. With --json each
line on standard output is one event envelope. "-" reads the prompt from standard
input.

Exit codes: 0 the turn completed, 1 it failed, 2 usage, 3 it waits for an action
that nobody can answer here ("agentd actions" lists it).`,
		Example: `  agentd run "hello"
  agentd run --session sess_01 "and now shorter"
  agentd run --json --mode plan "what would you change?" | jq .type`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			text, err := a.textOrInput(given[0])
			if err != nil {
				return err
			}
			p, err := t.params(text)
			if err != nil {
				return err
			}
			ask, done := a.dialogue(given[0] == "-")
			return errors.Join(a.with(cmd, toRun, func(f facts) error { return a.turn(cmd.Context(), f, p, ask) }), done())
		},
	}
	t.add(cmd)
	return a.where(cmd)
}

// dialogue returns where questions are put, or nil if nobody is there to answer:
// standard error, or the terminal itself where that goes elsewhere.
func (a *app) dialogue(inputIsPrompt bool) (ask io.Writer, done func() error) {
	done = func() error { return nil }
	if a.json || inputIsPrompt || !isTerminal(a.in) {
		return nil, done
	}
	if isTerminal(a.err) {
		return a.err, done
	}
	tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		return nil, done
	}
	return tty, tty.Close
}

// turn submits a turn and follows it to its end. Questions are put to ask.
func (a *app) turn(ctx context.Context, f facts, p *command.SubmitTurn, ask io.Writer) error {
	var res command.SubmitTurnResult
	if err := f.do(ctx, p, &res); err != nil {
		return err
	}
	t := &turnView{app: a, facts: f, turnID: res.TurnID, sessionID: res.SessionID, out: a.printer(), ask: ask}
	after := uint64(0)
	if p.SessionID != "" {
		after = res.Sequence - 1
	}
	for e, err := range f.follow(ctx, res.SessionID, after, nil) {
		if ctx.Err() != nil {
			return t.interrupt() //nolint:contextcheck // ctx has ended; the interrupt has its own time
		}
		if err != nil {
			return err
		}
		done, err := t.show(ctx, e)
		if ctx.Err() != nil {
			return t.interrupt() //nolint:contextcheck // ctx has ended; the interrupt has its own time
		}
		if done || err != nil {
			return err
		}
	}
	return errors.New("the stream ended before the turn did")
}

// turnView shows one turn as it goes on.
type turnView struct {
	*app
	facts             facts
	sessionID, turnID string
	out               *printer
	// ask is where questions are put; nil if nobody is there to answer.
	ask io.Writer
	// streamed is the model request whose text was shown piece by piece; open says
	// that the last line has no end yet.
	streamed string
	open     bool
	answers  *bufio.Reader
}

// show shows one fact; done says that the turn has ended.
func (t *turnView) show(ctx context.Context, e fact) (done bool, err error) {
	if t.json {
		t.out.linef("%s", e.data)
		if err := t.out.flush(); err != nil {
			return true, err
		}
	}
	ev, err := event.Decode(e.data)
	if err != nil {
		return false, nil //nolint:nilerr // a fact of a newer server: not one that the turn's end hangs on
	}
	if ev.TurnID != t.turnID {
		return false, nil
	}
	switch p := ev.Payload.(type) {
	case *event.ModelDelta:
		t.streamed = ev.ModelRequestID
		return false, t.text(p.Text)
	case *event.ModelCompleted:
		if p.Message != nil && t.streamed != ev.ModelRequestID {
			return false, t.text(p.Message.Text)
		}
	case *event.ActionRequired:
		return t.action(ctx, ev.ActionID, p)
	case *event.TurnCompleted:
		return true, t.endLine()
	case *event.TurnFailed:
		return true, t.failed(p)
	}
	return false, nil
}

// text writes a piece of the answer.
func (t *turnView) text(s string) error {
	if t.json || s == "" {
		return nil
	}
	t.open = !strings.HasSuffix(s, "\n")
	if _, err := t.out.w.WriteString(plainBlock(s)); err != nil {
		return err
	}
	return t.out.flush()
}

// plainBlock is plainText that keeps lines and tabs.
func plainBlock(s string) string {
	var b strings.Builder
	for piece := range strings.SplitAfterSeq(s, "\n") {
		body, end := strings.CutSuffix(piece, "\n")
		for i, field := range strings.Split(body, "\t") {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(plainText(field))
		}
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// endLine ends a line that is still open.
func (t *turnView) endLine() error {
	if t.open {
		t.open = false
		t.out.linef("")
	}
	return t.out.flush()
}

func (t *turnView) failed(p *event.TurnFailed) error {
	err := t.endLine()
	why := p.Outcome
	if p.Error != nil {
		why = p.Error.Message
	}
	return errors.Join(err, fmt.Errorf("the turn failed (%s): %s", p.FailureCategory, plainText(why)))
}

// action asks, if somebody is there, or ends with exit code 3.
func (t *turnView) action(ctx context.Context, id string, p *event.ActionRequired) (done bool, err error) {
	if err := t.endLine(); err != nil {
		return true, err
	}
	if t.ask == nil {
		t.sayf("agentd: the turn waits for action %s: %s", id, plainText(p.Prompt))
		t.sayf("Answer it with \"agentd approve %s\" or \"agentd deny %s\".", id, id)
		return true, silent(exitBlocked)
	}
	for {
		answer, err := t.question(ctx, id, p)
		if err != nil {
			return true, err
		}
		err = t.facts.do(ctx, answer, nil)
		if err == nil {
			return false, nil
		}
		t.sayf("agentd: %s", describe(err))
		if ctx.Err() != nil {
			return true, err
		}
	}
}

// question asks at the terminal until the answer makes sense.
func (t *turnView) question(ctx context.Context, id string, p *event.ActionRequired) (*command.RespondAction, error) {
	t.putf("%s\n", plainBlock(strings.TrimSpace(p.Prompt+"\n"+p.ToolName+" "+string(p.SafeArgs))))
	if slices.Contains(p.Decisions, "submit") {
		if len(p.Schema) > 0 && string(p.Schema) != "null" {
			t.putf("(JSON that fits %s)\n", p.Schema)
		}
		line, err := t.answer(ctx, "> ")
		return &command.RespondAction{ActionID: id, Decision: "submit", Payload: inputValue(line)}, err
	}
	for {
		line, err := t.answer(ctx, "Allow? [y]es, [a]lways in this session, [n]o: ")
		if err != nil {
			return nil, err
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return &command.RespondAction{ActionID: id, Decision: "allow"}, nil
		case "a", "always":
			return &command.RespondAction{ActionID: id, Decision: "allow", Scope: "session"}, nil
		case "n", "no":
			return &command.RespondAction{ActionID: id, Decision: "deny"}, nil
		}
	}
}

// putf writes to whoever answers. If that fails, so does reading the answer.
func (t *turnView) putf(format string, args ...any) { _, _ = fmt.Fprintf(t.ask, format, args...) }

// answer reads a line. A read of a terminal can't be ended, so the goroutine that
// reads is left to the end of the process when ctx ends.
func (t *turnView) answer(ctx context.Context, prompt string) (string, error) {
	t.putf("%s", prompt)
	if t.answers == nil {
		t.answers = bufio.NewReader(t.in)
	}
	type result struct {
		line string
		err  error
	}
	got := make(chan result, 1)
	go func() {
		line, err := t.answers.ReadString('\n')
		got <- result{line, err}
	}()
	select {
	case r := <-got:
		if r.err != nil && r.line == "" {
			t.putf("\n")
			return "", silent(exitBlocked) // the terminal is gone, nobody can answer
		}
		return strings.TrimRight(r.line, "\r\n"), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// interrupt stops a turn that the user doesn't want to wait for any more.
func (t *turnView) interrupt() error {
	_ = t.endLine()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var res json.RawMessage
	err := t.facts.do(ctx, &command.InterruptTurn{SessionID: t.sessionID, TurnID: t.turnID, Reason: "agentd run was stopped"}, &res)
	return errors.Join(errors.New("interrupted"), err)
}
