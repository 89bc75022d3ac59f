package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/model"
	"agentd/permission"
	"agentd/session"
	"agentd/state"
	"agentd/store"
)

// defaultReviewTimeout bounds a review.
const defaultReviewTimeout = 30 * time.Second

// Kinds of failures of a review.
const (
	reviewTimeout     = "timeout"
	reviewBudget      = "budget"
	reviewMalformed   = "malformed"
	reviewModel       = "model"
	reviewUnavailable = "unavailable"
	reviewTooLarge    = "too_large"
)

// reviewOutcome is what came of a review.
type reviewOutcome struct {
	fact event.PermissionReviewed
	info model.Info
	done *model.Done
}

// failReview is a review without a verdict: the person is asked.
func (o *reviewOutcome) failReview(category, reason string) {
	o.fact.Verdict, o.fact.ErrorCategory, o.fact.Reason = verdictFailed, category, reason
}

// review asks a model about an action. It never fails: what goes wrong is a verdict that
// allows nothing. Only the end of ctx is an error.
func (l *Loop) review(ctx context.Context, rv *Reviewer, requestID string, a *reviewedAction) (*reviewOutcome, error) {
	o := &reviewOutcome{fact: event.PermissionReviewed{ToolName: a.Action.Tool, ModelRequestID: requestID, InputHash: inputHash(a.Action.Input)}}
	provider, name, _ := strings.Cut(rv.Model, "/")
	o.fact.Provider, o.fact.Model = provider, name
	a.Action.Input, _ = l.redactJSON(a.Action.Input)
	a.UserSaid = newestWords(a.UserSaid)
	info, p, err := l.findModel(provider, name)
	switch {
	case err != nil:
		o.failReview(reviewUnavailable, "the reviewer's model "+rv.Model+" is not configured")
		return o, nil
	case len(a.Action.Input) > maxReviewed:
		o.failReview(reviewTooLarge, "the call is too large for a review")
		return o, nil
	case len(a.UserSaid) == 0:
		o.failReview(reviewUnavailable, "it is not known what the user asked for")
		return o, nil
	}
	message, err := reviewMessage(a)
	if err != nil {
		o.failReview(reviewMalformed, err.Error())
		return o, nil
	}
	o.info = info
	r := &model.Request{
		Model: info.Model, RequestID: requestID, CacheKey: "reviewer", System: reviewInstructions, MaxOutputTokens: info.MaxOutputTokens,
		Messages: []*model.Message{{Role: model.RoleUser, Text: message}},
	}
	if info.Can(model.CapStructuredOutput) {
		r.OutputSchema = event.Raw(reviewSchema)
	}
	limited := l.limiter.Reserve(info.ID(), model.EstimateText(message))
	if limited.Wait > 0 {
		l.limiter.Cancel(limited)
		o.failReview(reviewUnavailable, "the limit "+limited.Limit+" of the reviewer's model is used up")
		return o, nil
	}
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, cmp.Or(rv.Timeout, defaultReviewTimeout))
	defer cancel()
	text, err := o.read(within, p, r)
	o.fact.DurationMs = time.Since(began).Milliseconds()
	if ctx.Err() != nil {
		return nil, errMoved
	}
	var failed *model.Error
	switch {
	case within.Err() != nil:
		o.failReview(reviewTimeout, "the reviewer did not answer in time")
	case errors.As(err, &failed):
		l.limiter.Failed(info.ID(), failed)
		o.failReview(reviewModel, l.redactText("the reviewer's model failed: "+failed.Category))
	case err != nil:
		o.failReview(reviewModel, "the reviewer's model failed")
	default:
		l.limiter.Answered(info.ID(), o.done.Standing)
		o.takeVerdict(l, text)
	}
	return o, nil
}

// takeVerdict makes the answer the verdict, if it is one.
func (o *reviewOutcome) takeVerdict(l *Loop, text string) {
	if o.done.StopReason != "end_turn" && o.done.StopReason != "stop_sequence" {
		o.failReview(reviewMalformed, "the reviewer's answer ended with "+o.done.StopReason)
		return
	}
	v, err := parseVerdict(text)
	if err != nil {
		o.failReview(reviewMalformed, "the reviewer gave no verdict: "+err.Error())
		return
	}
	o.fact.Verdict, o.fact.Reason = verdictAsk, l.redactText(v.reason)
	if v.allow {
		o.fact.Verdict = verdictAllow
	}
}

// read reads the whole answer of a model.
func (o *reviewOutcome) read(ctx context.Context, p model.Provider, r *model.Request) (string, error) {
	var text strings.Builder
	chunks, stop := pull(ctx, p, r)
	defer stop()
	for {
		select {
		case c := <-chunks:
			if c.err != nil {
				return "", c.err
			}
			if text.Len() <= maxVerdict {
				text.WriteString(c.chunk.Text)
			}
			if c.chunk.Done != nil {
				o.done = c.chunk.Done
				usage := o.done.Usage
				o.fact.Usage = &usage
				return text.String(), nil
			}
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// consultReviewer asks the reviewer about a call that would ask a person, and records
// the verdict. A call that a verdict is known of, also from before a restart, isn't
// reviewed again.
func (r *toolRun) consultReviewer(ctx context.Context) error {
	rv := r.l.Configuration().Reviewer
	known := r.call.Review != nil && r.call.Review.InputHash == inputHash(r.input)
	if rv == nil || r.refused != nil || r.call.Decision != "" || known {
		return nil //nolint:nilerr // why the call is refused is recorded, not returned
	}
	var d permission.Decision
	var spent *event.QuotaState
	var words *wordsSource
	requestID := r.l.m.NewID(event.PrefixModelRequest)
	if err := r.l.m.View(ctx, r.k.session, func(s *state.Session) error {
		t := s.Thread(r.k.thread)
		if t == nil || t.Active == nil {
			return errMoved
		}
		d = permission.Decide(r.questionOf(s, t, r.l.opt.Clock()))
		spent = r.l.Configuration().Spent(s, t, requestID)
		if rv.SessionCostUSD > 0 && s.Permission.ReviewCostUSD >= rv.SessionCostUSD {
			spent = &event.QuotaState{QuotaName: "the reviewer's budget"}
		}
		words = wordsOf(s, t)
		return nil
	}); err != nil || d.Decision != permission.Ask || !d.Reviewable {
		return err
	}
	a := &reviewedAction{Action: actionOfAgent{
		Tool: r.request.ToolName, Input: r.input, Workspace: r.place.root, Cwd: r.place.cwd, Commands: r.l.redactDecision(d.PermissionEvaluated).Subcommands, Impact: r.l.redactText(d.Impact),
	}}
	if spent != nil {
		o := &reviewOutcome{fact: event.PermissionReviewed{ToolName: r.request.ToolName, InputHash: inputHash(r.input)}}
		o.failReview(reviewBudget, "the budget for reviews is spent: "+spent.QuotaName)
		return r.recordReview(o)
	}
	var err error
	if a.UserSaid, err = words.read(ctx, r.l.opt.Store); err != nil {
		return err
	}
	o, err := r.l.review(ctx, rv, requestID, a)
	if err != nil {
		return err
	}
	o.fact.InputHash = inputHash(r.input)
	return r.recordReview(o)
}

// recordReview records a verdict, and what it cost.
func (r *toolRun) recordReview(o *reviewOutcome) error {
	return r.l.m.Emit(context.WithoutCancel(r.l.ctx), r.k.session, event.ByLoop, func(tx *session.Tx) error {
		t := tx.State.Thread(r.k.thread)
		if t == nil || t.Active == nil || t.Active.TurnID != r.scope.TurnID {
			return errMoved
		}
		scope := r.scope
		if o.done == nil {
			tx.Emit(event.Event{Type: event.TypePermissionReviewed, Scope: scope, Payload: &o.fact})
			return nil
		}
		scope.ModelRequestID = o.fact.ModelRequestID
		cost := model.CostRecorded(o.info, o.fact.ModelRequestID, o.done.Usage, o.done.Estimated, tx.State.Routing.Cost.TotalUSD)
		o.fact.CostUSD = cost.CostUSD
		tx.Emit(event.Event{Type: event.TypePermissionReviewed, Scope: scope, Payload: &o.fact})
		c := &call{l: r.l, k: r.k, scope: scope, info: o.info, req: &model.Request{RequestID: o.fact.ModelRequestID}}
		c.account(tx, o.done)
		return nil
	})
}

// wordsSource says where the user's words are that a call goes back to.
type wordsSource struct {
	sessionID string
	// turns are where earlier turns were submitted, active where the running one was,
	// through where the facts of the session end.
	turns           []uint64
	active, through uint64
	threadID        string
}

// maxEarlierTurns is how many turns before the running one a reviewer hears of.
const maxEarlierTurns = 4

// wordsOf finds the user's words. The words of a child are its parent's model's, so its
// calls go back to what the user said to the parent.
func wordsOf(s *state.Session, t *state.Thread) *wordsSource {
	for t.SubagentID != "" {
		parent := s.Thread(t.ParentThreadID)
		if parent == nil || parent == t {
			return &wordsSource{sessionID: s.SessionID}
		}
		t = parent
	}
	w := &wordsSource{sessionID: s.SessionID, threadID: t.ThreadID, through: s.Sequence}
	recent := t.Recent[max(0, len(t.Recent)-maxEarlierTurns):]
	for _, turn := range recent {
		if saysUser(turn.Source) {
			w.turns = append(w.turns, turn.SubmittedSequence)
		}
	}
	if t.Active != nil && saysUser(t.Active.Source) {
		w.active = t.Active.SubmittedSequence
	}
	return w
}

// saysUser tells whether the input of a turn is someone's who gives the agent work. What
// an agent says to its child is not.
func saysUser(source string) bool { return source != "subagent" && source != "system" }

// maxScanned bounds the facts that are looked through for what was added to a turn.
const maxScanned = 50_000

// read reads the words: the inputs of turns, and what was added to the running one.
func (w *wordsSource) read(ctx context.Context, s store.Store) ([]string, error) {
	var out []string
	for _, at := range w.turns {
		if at == 0 {
			continue
		}
		if err := w.scan(ctx, s, store.Range{After: at - 1, Limit: 1}, &out); err != nil {
			return nil, err
		}
	}
	if w.active > 0 {
		err := w.scan(ctx, s, store.Range{After: w.active - 1, Limit: maxScanned}, &out)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (w *wordsSource) scan(ctx context.Context, s store.Store, from store.Range, out *[]string) error {
	for rec, err := range s.Read(ctx, w.sessionID, from) {
		if err != nil {
			return err
		}
		e := &event.Event{}
		payload, err := event.DecodeHeader(rec.Data, e)
		if err != nil {
			return err
		}
		if e.Sequence > w.through {
			return nil
		}
		if e.ThreadID != w.threadID || e.Type != event.TypeTurnSubmitted && e.Type != event.TypeTurnSteered {
			continue
		}
		if err := store.DecodeFactPayload(ctx, s, e, payload); err != nil {
			return err
		}
		text, err := wordsIn(ctx, s, e.Payload)
		if err != nil {
			return err
		}
		if text != "" {
			*out = append(*out, text)
		}
	}
	return nil
}

// wordsIn is the text of an input: what was written, not what files hold.
func wordsIn(ctx context.Context, s store.Store, p event.Payload) (string, error) {
	var raw event.Raw
	var ref string
	switch p := p.(type) {
	case *event.TurnSubmitted:
		if !saysUser(p.Source) {
			return "", nil
		}
		raw, ref = p.Input, p.InputRef
	case *event.TurnSteered:
		raw, ref = p.Input, p.InputRef
	}
	if ref != "" {
		text, err := readBlob(ctx, s, ref, 1<<20)
		if err != nil {
			return "", err
		}
		raw = event.Raw(text)
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []command.Part
	if json.Unmarshal(raw, &parts) != nil {
		return "", nil //nolint:nilerr // too long to be shown whole
	}
	var texts []string
	for i := range parts {
		if parts[i].Type == "text" {
			texts = append(texts, parts[i].Text)
		}
	}
	return strings.Join(texts, "\n"), nil
}
