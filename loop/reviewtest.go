package loop

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/model"
	"agentd/permission"
)

const (
	// reviewsAtOnce is how many questions a test asks the model about side by side.
	reviewsAtOnce = 4
	// maxDisagreed bounds the disagreements that a test lists.
	maxDisagreed = 100
)

// testReviewer asks a reviewer about recorded questions that people answered. Nothing is
// written.
func (l *Loop) testReviewer(ctx context.Context, caller command.Caller, p *command.TestReviewer) (*command.TestReviewerResult, error) {
	rv := Reviewer{}
	if configured := l.Configuration().Reviewer; configured != nil {
		rv = *configured
	}
	rv.Model = cmp.Or(p.Model, rv.Model)
	if rv.Model == "" {
		return nil, fault.Param("model", "is missing: no reviewer is configured (permissions.reviewer), so name a model, as provider/model")
	}
	provider, name, _ := strings.Cut(rv.Model, "/")
	if _, _, err := l.findModel(provider, name); err != nil {
		return nil, fault.Param("model", "%q is not a configured model; use one of %s", rv.Model, l.modelNames())
	}
	sessions, err := l.pastSessions(ctx, caller, p.SessionID)
	if err != nil {
		return nil, err
	}
	t := &reviewerTest{l: l, rv: rv, limit: p.Size(), res: &command.TestReviewerResult{Model: rv.Model, Disagreed: []command.ReviewDisagreement{}}}
	for _, id := range sessions {
		if t.res.Truncated {
			break
		}
		if err := t.collect(ctx, id); err != nil {
			return nil, err
		}
		t.res.Sessions++
	}
	if err := t.askAll(ctx); err != nil {
		return nil, err
	}
	t.compare()
	return t.res, nil
}

// answeredQuestion is a recorded question, with what the person said.
type answeredQuestion struct {
	command.ReviewDisagreement
	action  reviewedAction
	outcome *reviewOutcome
}

type reviewerTest struct {
	l         *Loop
	rv        Reviewer
	limit     int
	res       *command.TestReviewerResult
	questions []*answeredQuestion
}

// collect finds the questions of a session that a person answered and that a reviewer
// could have answered.
func (t *reviewerTest) collect(ctx context.Context, id string) error {
	r, err := t.l.pastDecisions(ctx, id)
	if err != nil {
		return err
	}
	open := map[string]*answeredQuestion{}
	r.enough = func() bool { return t.res.Truncated }
	r.decided = func(e *event.Event, p *event.PermissionEvaluated) {
		delete(open, e.ToolCallID)
		if p.Decision != permission.Ask {
			return
		}
		x := &answeredQuestion{ReviewDisagreement: command.ReviewDisagreement{
			SessionID: e.SessionID, Sequence: e.Sequence, ToolCallID: e.ToolCallID, ToolName: p.ToolName, Args: shownArgs(p.SafeArgs),
		}}
		open[e.ToolCallID] = x
		if len(p.SafeArgs) == 0 {
			return
		}
		q := r.question(e, p)
		q.Rules = append(slices.Clone(t.l.Configuration().Rules), r.ownRules()...)
		q.Reviewer, q.Grants = t.rv.ReviewBounds, nil
		if d := permission.Decide(q); d.Decision == permission.Ask && d.Reviewable {
			x.action = reviewedAction{UserSaid: r.wordsOf(e.ThreadID), Action: actionOfAgent{
				Tool: p.ToolName, Input: p.SafeArgs, Workspace: q.Root, Cwd: cmp.Or(q.Cwd, q.Root), Commands: p.Subcommands, Impact: p.Impact,
			}}
		}
	}
	r.answered = func(e *event.Event, p *event.PermissionResolved) {
		x := open[e.ToolCallID]
		if x == nil || p.DecisionSource != "human" || p.Decision != "allow" && p.Decision != "deny" {
			return
		}
		delete(open, e.ToolCallID)
		x.Person = p.Decision
		t.takeQuestion(x)
	}
	return r.walk(ctx, id)
}

// takeQuestion keeps a question to be asked again, or counts why it is not.
func (t *reviewerTest) takeQuestion(x *answeredQuestion) {
	t.res.Questions++
	switch {
	case len(x.Args) == 0 && x.action.Action.Tool == "":
		t.res.Unknown++
	case x.action.Action.Tool == "":
		t.res.NotReviewable++
	case len(t.questions) == t.limit:
		t.res.Questions--
		t.res.Truncated = true
	default:
		t.questions = append(t.questions, x)
	}
}

// askAll asks the model about all questions, some at a time.
func (t *reviewerTest) askAll(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(t.questions))
	slots := make(chan struct{}, reviewsAtOnce)
	for i, x := range t.questions {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			x.outcome, errs[i] = t.l.review(ctx, &t.rv, t.l.m.NewID(event.PrefixModelRequest), &x.action)
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the test was cut off")
	}
	return cmp.Or(errs...)
}

// compare counts what the verdicts come to.
func (t *reviewerTest) compare() {
	cost, priced := 0.0, true
	for _, x := range t.questions {
		f := &x.outcome.fact
		t.res.Reviewed++
		if d := x.outcome.done; d != nil {
			c := model.CostRecorded(x.outcome.info, f.ModelRequestID, d.Usage, d.Estimated, 0).CostUSD
			if priced = priced && c != nil; c != nil {
				cost += *c
			}
		}
		x.Reviewer, x.Reason = f.Verdict, f.Reason
		switch {
		case f.Verdict == verdictFailed:
			t.res.Failed++
			continue
		case f.Verdict == x.Person:
			t.res.Saved++
			continue
		case f.Verdict == verdictAsk && x.Person == "deny":
			continue // both would not have let it run
		}
		t.res.DisagreedCount++
		t.res.Disagreed = append(t.res.Disagreed, x.ReviewDisagreement)
	}
	slices.SortStableFunc(t.res.Disagreed, func(a, b command.ReviewDisagreement) int { return strings.Compare(b.Person, a.Person) }) // deny first
	t.res.Disagreed = t.res.Disagreed[:min(len(t.res.Disagreed), maxDisagreed)]
	if priced {
		t.res.CostUSD = &cost
	}
}
