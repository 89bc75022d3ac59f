package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/session"
	"agentd/store"
)

// liveSession is the session that inputs are submitted to.
const liveSession = "sess_replay"

// Runtime is what inputs are submitted to.
type Runtime interface {
	Do(ctx context.Context, caller command.Caller, p command.Params) (any, error)
	Subscribe(ctx context.Context, caller command.Caller, sessionID string, after uint64) (*session.Subscription, error)
	Output(ctx context.Context, caller command.Caller, ref string) (store.Blob, string, error)
}

// LiveOptions say what the turns ask for instead; empty leaves it to the runtime.
type LiveOptions struct {
	Model string
	Mode  string
	// Trust takes the permission modes and approvals of the case over. Without it they
	// count for nothing: the maker of the file would decide what runs here.
	Trust bool
}

// Live submits the inputs of a case to a runtime, one after the other, and compares
// what the turns come to. Questions are answered as they were where they are the same,
// and refused otherwise, because there is no one to ask. An approval is given only
// with Trust, once, and for the same call; one to leave the sandbox never is.
func Live(ctx context.Context, r Runtime, c *evidence.Case, opt LiveOptions) ([]OutcomeDifference, error) {
	turns, err := c.Submitted()
	if err != nil {
		return nil, err
	}
	recorded, err := c.Events()
	if err != nil {
		return nil, err
	}
	recorded = slices.DeleteFunc(recorded, func(e *event.Event) bool { return !c.Scope.Has(e) })
	l := &live{r: r, answers: answersOf(recorded), trust: opt.Trust}
	if _, err := r.Do(ctx, command.Local(), &command.CreateSession{SessionID: liveSession}); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	sub, err := r.Subscribe(ctx, command.Local(), liveSession, 0)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	defer sub.Close()
	for _, t := range turns {
		res, err := r.Do(ctx, command.Local(), &command.SubmitTurn{SessionID: liveSession, Input: t.Input, Options: liveOptions(t, opt)})
		if err == nil {
			err = l.follow(ctx, sub, res.(*command.SubmitTurnResult).TurnID)
		}
		if err != nil {
			return nil, fmt.Errorf("replay: %w", err)
		}
	}
	return compareOutcomes(expectedOutcomes(c, recorded, turns), outcomes(l.facts, l.readContent(ctx))), nil
}

// expectedOutcomes are those of the recording; a case of the earlier format says
// nothing about them but that the turns ended.
func expectedOutcomes(c *evidence.Case, recorded []*event.Event, turns []*evidence.CaseTurn) []Outcome {
	if len(recorded) > 0 {
		return outcomes(recorded, c.Content)
	}
	out := make([]Outcome, len(turns))
	for i := range out {
		out[i] = Outcome{Turn: i + 1, Status: "completed", Calls: []string{}}
	}
	return out
}

// liveOptions are those of a recorded turn. The recorded model may not be known here,
// nor the folder be the same.
func liveOptions(t *evidence.CaseTurn, opt LiveOptions) *event.TurnOptions {
	o := event.TurnOptions{}
	if t.Options != nil {
		o = *t.Options
	}
	o.Model, o.Provider, o.Cwd, o.QueuePolicy, o.ExpectedTurnID = opt.Model, "", "", "", ""
	if opt.Mode != "" || !opt.Trust {
		o.PermissionMode = opt.Mode
	}
	return &o
}

// answer is a recorded answer to a question.
type answer struct {
	asked    *event.ActionRequired
	resolved *event.ActionResolved
}

// answersOf are the answers that people gave.
func answersOf(facts []*event.Event) []answer {
	var out []answer
	asked := map[string]*event.ActionRequired{}
	for _, e := range facts {
		switch p := e.Payload.(type) {
		case *event.ActionRequired:
			asked[e.ActionID] = p
		case *event.ActionResolved:
			if q := asked[e.ActionID]; q != nil && p.Status == "resolved" {
				out = append(out, answer{q, p})
			}
		}
	}
	return out
}

// fits reports whether a question is the one that was answered.
func (a *answer) fits(q *event.ActionRequired) bool {
	return a.asked.ActionType == q.ActionType && a.asked.ToolName == q.ToolName && bytes.Equal(a.asked.SafeArgs, q.SafeArgs) &&
		slices.Contains(q.Decisions, a.resolved.Decision) && q.ActionType != "sandbox_escape"
}

// consents reports whether an answer lets something happen, other than by its words.
func (a *answer) consents() bool {
	switch a.resolved.Decision {
	case "deny", "cancel":
		return false
	}
	return a.asked.ActionType != "structured_input"
}

// live is a run under way.
type live struct {
	r       Runtime
	answers []answer
	trust   bool
	facts   []*event.Event
}

// readContent returns what reads contents that facts refer to.
func (l *live) readContent(ctx context.Context) func(ref string) ([]byte, error) {
	return func(ref string) ([]byte, error) {
		b, _, err := l.r.Output(ctx, command.Local(), ref)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(b)
		return data, errors.Join(err, b.Close())
	}
}

// follow reads the facts of a turn until it has ended.
func (l *live) follow(ctx context.Context, sub *session.Subscription, turnID string) error {
	for {
		records, err := sub.Next(ctx)
		if err != nil {
			return err
		}
		for _, rec := range records {
			e, err := event.DecodeWhole(rec.Data, l.readContent(ctx))
			if err != nil {
				return err
			}
			l.facts = append(l.facts, e)
			if q, ok := e.Payload.(*event.ActionRequired); ok {
				if err := l.respond(ctx, e.ActionID, q); err != nil {
					return err
				}
			}
		}
		if slices.ContainsFunc(l.facts, func(e *event.Event) bool {
			return e.TurnID == turnID && (e.Type == event.TypeTurnCompleted || e.Type == event.TypeTurnFailed)
		}) {
			return nil
		}
	}
}

// respond answers a question as the same one was answered.
func (l *live) respond(ctx context.Context, actionID string, q *event.ActionRequired) error {
	out := &command.RespondAction{ActionID: actionID, Decision: "deny", Reason: "no recorded answer matches, and no one can be asked in a replay"}
	if !slices.Contains(q.Decisions, "deny") {
		out.Decision = "cancel"
	}
	i := slices.IndexFunc(l.answers, func(a answer) bool { return a.fits(q) && (l.trust || !a.consents()) })
	if i >= 0 {
		given := l.answers[i].resolved
		out.Decision, out.Reason, out.Payload = given.Decision, given.Reason, given.Payload
		l.answers = slices.Delete(l.answers, i, i+1)
	}
	_, err := l.r.Do(ctx, command.Local(), out)
	return err
}
