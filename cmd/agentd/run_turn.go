package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/charmbracelet/x/term"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// runner follows one turn to its end.
type runner struct {
	*app
	facts             facts
	view              *view
	sessionID, turnID string
	threadID          string
	flags             *runFlags
	ask               *dialogue
	questions         asked
	// asking is the question that was put; held are the facts that came since.
	asking *question
	held   []*event.Event
	// structured says that the answer is the JSON at the end.
	structured  bool
	interrupted bool
	// broken says that nobody reads the answer any more.
	broken  error
	lost    bool
	waiting map[string]bool
	// from is the first fact that is shown. What comes before it, and what the turn
	// before does, matters for its questions alone: if before is set nobody else is
	// there to answer them, and this turn can't begin until they are.
	from   uint64
	before bool
}

// turn submits a turn and follows it to its end. Seen is the last fact of the
// session that was looked at, if this process answers for the turn before.
func (a *app) turn(ctx context.Context, f facts, p *command.SubmitTurn, d *dialogue, o *runFlags, seen uint64) error {
	var res command.SubmitTurnResult
	if err := f.do(ctx, p, &res); err != nil {
		if fault.KindOf(err) == fault.InvalidParams { // no turn began: a flag names what isn't there
			return &exitError{exitUsage, err}
		}
		return err
	}
	r := &runner{
		app: a, facts: f, flags: o, ask: d, sessionID: res.SessionID, turnID: res.TurnID, threadID: res.ThreadID, waiting: map[string]bool{},
		structured: p.Options != nil && len(p.Options.OutputSchema) > 0,
	}
	r.view = a.turnView(o, r.structured)
	after := uint64(0)
	if p.SessionID != "" {
		after = res.Sequence - 1
		r.from = res.Sequence
	}
	if seen > 0 {
		after, r.before = min(after, seen), true
	}
	w := startFollowing(ctx, f, res.SessionID, after)
	defer w.stop()
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE) // a pipe that nobody reads is an error, not the end
	defer signal.Stop(pipe)
	err := r.loop(ctx, w)
	r.view.rest()
	r.view.refresh()
	return err
}

// turnView chooses what is shown where.
func (a *app) turnView(o *runFlags, structured bool) *view {
	v := &view{ink: a.ink(a.out), answer: a.out}
	if structured {
		v.answer = io.Discard
	}
	out, isFile := a.out.(*os.File)
	switch {
	case a.json:
		v.answer, v.stage = io.Discard, &lineStage{}
	case isTerminal(a.out) && isFile && a.env["TERM"] != "dumb":
		v.stage = newScreen(out)
		if !structured {
			v.answer = nil
		}
	case isTerminal(a.out):
		v.stage = &lineStage{a.out}
	case isTerminal(a.err) || o.verbose:
		v.ink, v.stage = a.ink(a.err), &lineStage{a.err}
	default:
		v.stage = &lineStage{}
	}
	return v
}

func newScreen(out *os.File) *screen {
	return &screen{w: out, asked: func() (int, int) {
		cols, rows, err := term.GetSize(out.Fd())
		if err != nil || cols == 0 {
			return 80, 24
		}
		return cols, rows
	}}
}

// spinEvery is how often what changes is painted anew.
const spinEvery = 120 * time.Millisecond

func (r *runner) loop(ctx context.Context, w *follower) error {
	tick := time.NewTicker(spinEvery)
	defer tick.Stop()
	stop := ctx.Done()
	for {
		var lines chan typed
		if r.asking != nil {
			lines = r.ask.lines
		}
		var done bool
		var err error
		select {
		case t := <-w.facts:
			done, err = r.told(t)
		case line := <-lines:
			r.ask.reading = false
			done, err = r.answered(ctx, line)
		case <-stop:
			stop = nil
			done, err = r.interrupt() //nolint:contextcheck // ctx has ended; the interrupt has its own time
		case <-tick.C:
			if r.asking == nil {
				r.view.tick()
			}
		}
		if r.view.writeErr != nil && r.broken == nil {
			done, err = r.unread(r.view.writeErr) //nolint:contextcheck // the interrupt has its own time
		}
		if done || err != nil {
			return errors.Join(err, r.broken)
		}
	}
}

// told takes what the follower delivers.
func (r *runner) told(t told) (done bool, err error) {
	switch {
	case t.err != nil:
		return true, t.err
	case t.lost != nil:
		if !r.lost {
			r.lost = true
			r.tellf("the connection to the server is lost, trying again (%s)", describe(t.lost))
		}
		return false, nil
	}
	r.lost = false
	if r.json && t.fact.sequence >= r.from {
		out := r.printer()
		out.linef("%s", t.fact.data)
		if err := out.flush(); err != nil && r.view.writeErr == nil {
			r.view.writeErr = err
		}
	}
	e, err := event.Decode(t.fact.data)
	if err != nil {
		return false, nil //nolint:nilerr // a fact of a newer server: not one that the turn's end hangs on
	}
	return r.fact(e)
}

// fact takes one fact; done says that nothing more is waited for.
func (r *runner) fact(e *event.Event) (done bool, err error) {
	if r.isBefore(e) {
		return r.asksBefore(e)
	}
	if !r.concerns(e) {
		return false, nil
	}
	if q := r.questions.fact(e); q != nil && q == r.asking {
		r.asking = nil
		_, _ = fmt.Fprintf(r.ask.out, "\n%s\n", howAnswered(e)) // nobody waits for it
		r.release()
	}
	if r.asking != nil {
		r.held = append(r.held, e)
	} else if e.SubagentID == "" || e.TurnID == r.turnID || isSubagentFact(e) {
		r.view.fact(e)
	}
	if e.TurnID == r.turnID && isTurnEnd(e) {
		r.release()
		return true, r.ended(e)
	}
	if p, ok := e.Payload.(*event.ThreadUpdated); ok && p.Status == "blocked" && len(p.ActionIDs) == 0 && e.ThreadID == r.threadID {
		r.view.stage.show(nil)
		return true, &exitError{exitBlocked, fmt.Errorf("the turn is blocked: %s\nLet it go on with: agentd call resume_thread '{\"sessionId\":%q,\"threadId\":%q}'",
			plainText(p.Reason), r.sessionID, r.threadID)}
	}
	return r.next()
}

// isBefore reports whether a fact is of a turn that this one waits for and answers
// for.
func (r *runner) isBefore(e *event.Event) bool {
	return r.before && e.ThreadID == r.threadID && e.TurnID != "" && e.TurnID != r.turnID
}

// asksBefore takes a fact of the turn before: its questions are asked here, as
// nobody else would, and nothing else of it is shown.
func (r *runner) asksBefore(e *event.Event) (done bool, err error) {
	if q := r.questions.fact(e); q != nil && q == r.asking {
		r.asking = nil
		r.release()
	}
	return r.next()
}

// concerns reports whether a fact is one of the turn, of its thread as a whole, or
// of a child that works for it.
func (r *runner) concerns(e *event.Event) bool {
	return e.TurnID == r.turnID || e.SubagentID != "" || (e.Type == event.TypeThreadUpdated && e.ThreadID == r.threadID)
}

// isSubagentFact tells what a child's begin and end are from what it does.
func isSubagentFact(e *event.Event) bool {
	return e.Type == event.TypeSubagentSpawned || e.Type == event.TypeSubagentCompleted || e.Type == event.TypeSubagentFailed
}

// release shows what was held back while a question was open.
func (r *runner) release() {
	for _, e := range r.held {
		r.view.fact(e)
	}
	r.held = nil
}

// next puts the question that is due, or gives up where nobody answers.
func (r *runner) next() (done bool, err error) {
	q := r.questions.first()
	if q == nil || r.asking != nil || r.interrupted || r.waiting[q.id] {
		return false, nil
	}
	r.view.flush()
	if r.ask == nil {
		return r.unanswered(q)
	}
	r.asking = q
	r.put(q)
	return false, nil
}

// put shows a question and asks for a line.
func (r *runner) put(q *question) {
	r.view.stage.show(nil)
	cols, _ := r.view.stage.size()
	r.view.gap(kindNote)
	panel := q.panel(r.app.ink(r.ask.out), cols)
	r.ask.read(strings.Join(panel, "\n") + "\n" + q.prompt())
}

// unanswered says who could answer instead.
func (r *runner) unanswered(q *question) (done bool, err error) {
	what := q.required.Prompt
	if what == "" {
		what = q.required.ToolName
	}
	r.view.stage.show(nil)
	if what = plainText(what); q.isPlan() {
		what = "a plan waits to be approved\n\n" + plainBlock(planOf(q.required.Prompt, q.required.SafeArgs)) + "\n"
	}
	text := fmt.Sprintf("the turn waits for action %s: %s\n", q.id, what)
	if q.required.Reason != "" {
		text += "Why: " + plainText(q.required.Reason) + "\n"
	}
	if q.isInput() {
		text += fmt.Sprintf("Answer it with \"agentd approve %s --input VALUE\".", q.id)
	} else {
		text += fmt.Sprintf("Answer it with \"agentd approve %s\" or \"agentd deny %s\".", q.id, q.id)
	}
	if r.flags.wait {
		r.sayf("agentd: %s", text)
		r.waiting[q.id] = true
		return false, nil
	}
	return true, &exitError{exitBlocked, errors.New(text)}
}

// answered takes a line that was typed.
func (r *runner) answered(ctx context.Context, t typed) (done bool, err error) {
	if t.err != nil {
		_, _ = fmt.Fprintln(r.ask.out)
		return true, silent(exitBlocked) // the terminal is gone, nobody can answer
	}
	q := r.asking
	answer, wrong := q.parse(t.line)
	if wrong == "" {
		wrong = r.respond(ctx, answer)
	}
	if wrong != "" {
		r.ask.read(wrong + "\n" + q.prompt())
		return false, nil
	}
	r.asking = nil
	r.waiting[q.id] = true // until its answer comes back as a fact
	r.release()
	return r.next()
}

// respond sends an answer. It returns what is wrong with it, if it can be given
// anew.
func (r *runner) respond(ctx context.Context, answer *command.RespondAction) (wrong string) {
	err := r.facts.do(ctx, answer, nil)
	if err == nil {
		return ""
	}
	if k := fault.KindOf(err); k == fault.Conflict || k == fault.NotFound {
		r.tellf("%s", describe(err)) // somebody was quicker
		return ""
	}
	return describe(err)
}

// tellf says something about the run itself, between what is shown.
func (r *runner) tellf(format string, args ...any) {
	if _, shown := r.view.stage.(*screen); shown {
		r.view.note(yellow, markWarn, fmt.Sprintf(format, args...))
		r.view.refresh()
		return
	}
	r.sayf("agentd: "+format, args...)
}

// interrupt stops a turn that the user doesn't want to wait for any more; the
// loop goes on to its end.
func (r *runner) interrupt() (done bool, err error) {
	if r.asking != nil {
		_, _ = fmt.Fprintln(r.ask.out)
		r.asking = nil
		r.release()
	}
	r.interrupted = true
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var res command.InterruptTurnResult
	err = r.facts.do(ctx, &command.InterruptTurn{SessionID: r.sessionID, TurnID: r.turnID, Reason: "agentd run was stopped"}, &res)
	if err != nil {
		return true, fmt.Errorf("interrupted, but the turn can't be told: %w", err)
	}
	r.view.work("stopping", time.Now())
	r.view.refresh()
	return false, nil
}

// unread interrupts a turn whose answer nobody reads any more, as "| head" does.
func (r *runner) unread(err error) (done bool, stopped error) {
	r.broken = fmt.Errorf("write the answer: %w", err)
	r.view.answer = io.Discard
	r.json = false
	if r.interrupted {
		return false, nil
	}
	return r.interrupt()
}

// ended turns the end of the turn into that of the program.
func (r *runner) ended(e *event.Event) error {
	switch p := e.Payload.(type) {
	case *event.TurnCompleted:
		if note := unusualEnd(p, r.view.spoke); note != "" && r.unseen() {
			r.sayf("agentd: %s", note)
		}
		if r.structured && !r.json {
			return r.printStructured(p.StructuredOutput)
		}
	case *event.TurnFailed:
		if r.interrupted && p.FailureCategory == "interrupted" {
			return errInterrupted
		}
		why := p.Outcome
		if p.Error != nil {
			why = p.Error.Message
			if p.Error.Advice != "" {
				why += "; " + p.Error.Advice
			}
		}
		return fmt.Errorf("the turn failed (%s): %s", p.FailureCategory, plainText(why))
	}
	return nil
}

// unseen reports whether notes are shown to nobody: the answer goes into a pipe or
// a file, and who reads it must not take a part for the whole.
func (r *runner) unseen() bool {
	lines, ok := r.view.stage.(*lineStage)
	return ok && lines.w == nil && !r.json
}

func (r *runner) printStructured(value event.Raw) error {
	if isTerminal(r.out) {
		indented, err := json.MarshalIndent(value, "", "  ")
		if err == nil {
			value = indented
		}
	}
	if _, err := fmt.Fprintf(r.out, "%s\n", value); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}
