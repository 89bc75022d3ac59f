package main

import (
	"cmp"
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

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// runner follows one turn to its end.
type runner struct {
	*app
	source            facts.Source
	view              *turntext.View
	sessionID, turnID string
	threadID          string
	flags             *runFlags
	ask               *dialogue
	questions         turntext.Questions
	// asking is the question that was put; held are the facts that came since.
	asking *turntext.Question
	held   []*event.Event
	// structured says that the answer is the JSON at the end.
	structured  bool
	interrupted bool
	// writeErr is why a fact could not be written.
	writeErr error
	// broken says that the answer isn't read any more.
	broken error
	lost   bool
	// filesAway says that the turn waits for files that no live node reaches.
	filesAway bool
	waiting   map[string]bool
	// from is the first fact that is shown. What comes before it, and what the turn
	// before does, matters for its questions alone: if before is set no one else is
	// there to answer them, and this turn can't begin until they are.
	from   uint64
	before bool
}

// runTurn submits a turn and follows it to its end. Seen is the last fact of the
// session that was looked at, if this process answers for the turn before.
func (a *app) runTurn(ctx context.Context, f facts.Source, p *command.SubmitTurn, d *dialogue, o *runFlags, seen uint64) error {
	var res command.SubmitTurnResult
	if err := f.Do(ctx, p, &res); err != nil {
		return refusedTurn(err)
	}
	r := &runner{
		app: a, source: f, flags: o, ask: d, sessionID: res.SessionID, turnID: res.TurnID, threadID: res.ThreadID, waiting: map[string]bool{},
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
	w := facts.StartFollower(ctx, f, res.SessionID, after)
	defer w.Stop()
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE) // a pipe without a reader is an error, not the end
	defer signal.Stop(pipe)
	err := r.loop(ctx, w)
	r.view.Rest()
	r.view.Refresh()
	return err
}

// turnView chooses what is shown where.
func (a *app) turnView(o *runFlags, structured bool) *turntext.View {
	v := &turntext.View{Ink: a.ink(a.out), Answer: a.out}
	if structured {
		v.Answer = io.Discard
	}
	out, isFile := a.out.(*os.File)
	switch {
	case a.json:
		v.Answer, v.Stage = io.Discard, &turntext.LineStage{}
	case terminal.IsTerminal(a.out) && isFile && a.env["TERM"] != "dumb":
		v.Stage = turntext.NewScreen(out)
		if !structured {
			v.Answer = nil
		}
	case terminal.IsTerminal(a.out):
		v.Stage = &turntext.LineStage{W: a.out}
	case terminal.IsTerminal(a.err) || o.verbose:
		v.Ink, v.Stage = a.ink(a.err), &turntext.LineStage{W: a.err}
	default:
		v.Stage = &turntext.LineStage{}
	}
	return v
}

func (r *runner) loop(ctx context.Context, w *facts.Follower) error {
	tick := time.NewTicker(turntext.SpinEvery)
	defer tick.Stop()
	stop := ctx.Done()
	for {
		var lines chan terminal.Typed
		if r.asking != nil {
			lines = r.ask.lines
		}
		var done bool
		var err error
		select {
		case n := <-w.News:
			done, err = r.takeNews(n)
		case line := <-lines:
			r.ask.reading = false
			done, err = r.takeAnswer(ctx, line)
		case <-stop:
			stop = nil
			done, err = r.interruptTurn() //nolint:contextcheck // ctx has ended; the interrupt has its own time
		case <-tick.C:
			if r.asking == nil {
				r.view.Tick()
				r.view.Refresh()
			}
		}
		if broken := cmp.Or(r.view.WriteErr(), r.writeErr); broken != nil && r.broken == nil {
			done, err = r.stopUnread(broken) //nolint:contextcheck // the interrupt has its own time
		}
		if done || err != nil {
			return errors.Join(err, r.broken)
		}
	}
}

// takeNews takes what the follower delivers.
func (r *runner) takeNews(n facts.News) (done bool, err error) {
	switch {
	case n.Err != nil:
		return true, n.Err
	case n.Lost != nil:
		if !r.lost {
			r.lost = true
			r.tellf("the connection to the server is lost, trying again (%s)", describe(n.Lost))
		}
		return false, nil
	case n.Connected:
		r.lost = false
		return false, nil
	}
	r.lost = false
	if r.json && n.Fact.Sequence >= r.from {
		out := r.printer()
		out.linef("%s", n.Fact.Data)
		if err := out.flush(); err != nil && r.writeErr == nil {
			r.writeErr = err
		}
	}
	e, err := event.Decode(n.Fact.Data)
	if err != nil {
		return false, nil //nolint:nilerr // a fact of a newer server: not one that the turn's end hangs on
	}
	return r.takeFact(e)
}

// takeFact takes one fact; done says that nothing more is waited for.
func (r *runner) takeFact(e *event.Event) (done bool, err error) {
	if r.isEarlierTurn(e) {
		return r.trackEarlierTurn(e)
	}
	if !r.concerns(e) {
		return false, nil
	}
	if q := r.questions.Track(e); q != nil && q == r.asking {
		r.asking = nil
		_, _ = fmt.Fprintf(r.ask.out, "\n%s\n", turntext.HowAnswered(e)) // nothing depends on it
		r.showHeld()
	}
	if r.asking != nil {
		r.held = append(r.held, e)
	} else if e.SubagentID == "" || e.TurnID == r.turnID || facts.IsSubagentFact(e) {
		r.view.ShowFact(e)
	}
	if e.TurnID == r.turnID && facts.IsTurnEnd(e) {
		r.showHeld()
		return true, r.turnEnded(e)
	}
	if p, ok := e.Payload.(*event.ThreadUpdated); ok && e.ThreadID == r.threadID && len(p.ActionIDs) == 0 {
		if err := r.threadUpdated(p); err != nil {
			return true, err
		}
	}
	return r.askDue()
}

// threadUpdated ends the program when the turn is blocked, but for a block that ends by
// itself: a node with the session's files may only be restarting.
func (r *runner) threadUpdated(p *event.ThreadUpdated) error {
	switch {
	case turntext.WaitsForFiles(p):
		r.filesAway = true
		if r.unseen() {
			r.sayf("agentd: the turn waits: %s", terminal.Plain(p.Reason))
		}
	case p.Status == "blocked":
		r.view.Stage.Show(nil)
		return &exitError{exitBlocked, fmt.Errorf("the turn is blocked: %s\nLet it go on with: agentd call resume_thread '{\"sessionId\":%q,\"threadId\":%q}'",
			terminal.Plain(p.Reason), r.sessionID, r.threadID)}
	case r.filesAway:
		r.filesAway = false
		if r.unseen() {
			r.sayf("agentd: the turn goes on: %s", terminal.Plain(p.Reason))
		}
	}
	return nil
}

// isEarlierTurn reports whether a fact is of a turn that this one waits for and answers
// for.
func (r *runner) isEarlierTurn(e *event.Event) bool {
	return r.before && e.ThreadID == r.threadID && e.TurnID != "" && e.TurnID != r.turnID
}

// trackEarlierTurn takes a fact of the turn before: its questions are asked here, as
// nothing else would, and nothing else of it is shown.
func (r *runner) trackEarlierTurn(e *event.Event) (done bool, err error) {
	if q := r.questions.Track(e); q != nil && q == r.asking {
		r.asking = nil
		r.showHeld()
	}
	return r.askDue()
}

// concerns reports whether a fact is one of the turn, of its thread as a whole, or
// of a child that works for it.
func (r *runner) concerns(e *event.Event) bool {
	return e.TurnID == r.turnID || e.SubagentID != "" || (e.Type == event.TypeThreadUpdated && e.ThreadID == r.threadID)
}

// showHeld shows what was held back while a question was open.
func (r *runner) showHeld() {
	for _, e := range r.held {
		r.view.ShowFact(e)
	}
	r.held = nil
}

// askDue puts the question that is due, or gives up where no one answers.
func (r *runner) askDue() (done bool, err error) {
	q := r.questions.Due()
	if q == nil || r.asking != nil || r.interrupted || r.waiting[q.ID] {
		return false, nil
	}
	r.view.Flush()
	if r.ask == nil {
		return r.reportUnanswered(q)
	}
	r.asking = q
	r.showQuestion(q)
	return false, nil
}

// showQuestion shows a question and asks for a line.
func (r *runner) showQuestion(q *turntext.Question) {
	r.view.Stage.Show(nil)
	cols, _ := r.view.Stage.Size()
	r.view.Separate()
	panel := q.Lines(r.app.ink(r.ask.out), cols)
	r.ask.read(strings.Join(panel, "\n")+"\n"+q.Prompt(), decides(q))
}

// reportUnanswered says who could answer instead.
func (r *runner) reportUnanswered(q *turntext.Question) (done bool, err error) {
	what := q.Required.Prompt
	if what == "" {
		what = q.Required.ToolName
	}
	r.view.Stage.Show(nil)
	if what = terminal.Plain(what); q.IsPlan() {
		what = "a plan waits for approval\n\n" + terminal.PlainBlock(turntext.PlanText(q.Required.Prompt, q.Required.SafeArgs)) + "\n"
	}
	text := fmt.Sprintf("the turn waits for action %s: %s\n", q.ID, what)
	if q.Required.Reason != "" {
		text += "Why: " + terminal.Plain(q.Required.Reason) + "\n"
	}
	if q.IsInput() {
		text += fmt.Sprintf("Answer it with \"agentd approve %s --input VALUE\".", q.ID)
	} else {
		text += fmt.Sprintf("Answer it with \"agentd approve %s\" or \"agentd deny %s\".", q.ID, q.ID)
	}
	if r.flags.wait {
		r.sayf("agentd: %s", text)
		r.waiting[q.ID] = true
		return false, nil
	}
	return true, &exitError{exitBlocked, errors.New(text)}
}

// takeAnswer takes a line that was typed.
func (r *runner) takeAnswer(ctx context.Context, t terminal.Typed) (done bool, err error) {
	if t.Ended {
		_, _ = fmt.Fprintln(r.ask.out)
		return true, silent(exitBlocked) // the terminal is gone, no one can answer
	}
	q := r.asking
	answer, wrong := r.ask.parse(q, t)
	if wrong == "" && answer != nil {
		wrong = r.sendAnswer(ctx, answer)
	}
	switch {
	case wrong != "":
		r.ask.read(wrong+"\n"+q.Prompt(), decides(q))
		return false, nil
	case answer == nil: // another line belongs to it
		r.ask.read(q.Prompt(), decides(q))
		return false, nil
	}
	r.asking = nil
	r.waiting[q.ID] = true // until its answer comes back as a fact
	r.showHeld()
	return r.askDue()
}

// sendAnswer sends an answer. It returns what is wrong with it, if it can be given
// anew.
func (r *runner) sendAnswer(ctx context.Context, answer *command.RespondAction) (wrong string) {
	err := r.source.Do(ctx, answer, nil)
	if err == nil {
		return ""
	}
	if k := fault.KindOf(err); k == fault.Conflict || k == fault.NotFound {
		r.tellf("%s", describe(err)) // another answer was quicker
		return ""
	}
	return describe(err)
}

// tellf says something about the run itself, between what is shown.
func (r *runner) tellf(format string, args ...any) {
	if _, shown := r.view.Stage.(*turntext.Screen); shown {
		r.view.Warn(fmt.Sprintf(format, args...))
		r.view.Refresh()
		return
	}
	r.sayf("agentd: "+format, args...)
}

// interruptTurn stops a turn that the user doesn't want to wait for any more; the
// loop goes on to its end.
func (r *runner) interruptTurn() (done bool, err error) {
	if r.asking != nil {
		_, _ = fmt.Fprintln(r.ask.out)
		r.asking = nil
		r.showHeld()
	}
	r.interrupted = true
	// A user who doesn't want to wait for a busy machine interrupts again.
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	var res command.InterruptTurnResult
	err = r.source.Do(ctx, &command.InterruptTurn{SessionID: r.sessionID, TurnID: r.turnID, Reason: "agentd run was stopped"}, &res)
	if err != nil {
		return true, fmt.Errorf("the turn could not be interrupted: %w", err)
	}
	r.view.SetStatus("stopping", time.Now())
	r.view.Refresh()
	return false, nil
}

// stopUnread interrupts a turn whose answer isn't read any more, as "| head" does.
func (r *runner) stopUnread(err error) (done bool, stopped error) {
	r.broken = fmt.Errorf("write the answer: %w", err)
	r.view.Answer = io.Discard
	r.json = false
	if r.interrupted {
		return false, nil
	}
	return r.interruptTurn()
}

// turnEnded turns the end of the turn into that of the program.
func (r *runner) turnEnded(e *event.Event) error {
	switch p := e.Payload.(type) {
	case *event.TurnCompleted:
		if note := turntext.UnusualEnd(p, r.view.Spoke()); note != "" && r.unseen() {
			r.sayf("agentd: %s", note)
		}
		if r.structured && !r.json {
			return r.printStructured(p.StructuredOutput)
		}
	case *event.TurnFailed:
		if r.interrupted && p.FailureCategory == "interrupted" {
			return errInterrupted
		}
		return fmt.Errorf("the turn failed (%s): %s", p.FailureCategory, terminal.Plain(turntext.WhyFailed(p)))
	}
	return nil
}

// unseen reports whether no one sees notes: the answer goes into a pipe or
// a file, and who reads it must not take a part for the whole.
func (r *runner) unseen() bool {
	lines, ok := r.view.Stage.(*turntext.LineStage)
	return ok && lines.W == nil && !r.json
}

func (r *runner) printStructured(value event.Raw) error {
	if terminal.IsTerminal(r.out) {
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
