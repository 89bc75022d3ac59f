package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"agentd/event"
	"agentd/internal/clip"
	"agentd/model"
	"agentd/session"
	"agentd/state"
)

// compactionPrompt asks for the summary that replaces a conversation.
const compactionPrompt = `The conversation has become too long and is about to be replaced by a summary that you write now. You will go on with nothing but that summary.

Write down, in this order and without any other text:
1. What the user wants, with every condition that was named.
2. What was done, with the paths, commands, results and decisions that matter.
3. What is open: the next steps, questions that were not answered, failures that were not mended.
4. Facts that must not be lost: names, ids, values, references.`

// compaction is one under way.
type compaction struct {
	l     *Loop
	k     key
	e     Compact
	id    string
	scope event.Scope
	at    position
	call  *call
	// turns are those that the summary will stand for.
	turns     []string
	before    int64
	preserved event.Preserved
	// blocked says that a budget is spent.
	blocked bool
}

// runCompaction replaces what was said so far by a summary. A failure leaves the thread
// as it was; [Policy.Next] bounds how often it is tried.
func (l *Loop) runCompaction(k key, e Compact) error {
	ctx, done := l.interruptible(l.ctx, k)
	defer done()
	c := &compaction{l: l, k: k, e: e, id: e.CompactionID}
	if err := c.readThread(ctx); err != nil {
		return err
	}
	conv, err := l.transcripts.conversationAt(ctx, k, c.at)
	if err != nil {
		return err
	}
	c.turns, c.before = conv.turnIDs(), max(c.before, conv.tokens)
	if err := c.start(); err != nil {
		return err
	}
	defer l.markOwnCall(c.id, false)
	if c.blocked {
		return nil
	}
	text, done2, err := c.summarise(ctx, conv)
	if err != nil {
		return c.fail(ctx, err)
	}
	return c.complete(text, done2)
}

// readThread reads what the compaction needs to know.
func (c *compaction) readThread(ctx context.Context) error {
	return c.l.m.View(ctx, c.k.session, func(s *state.Session) error {
		t := s.Thread(c.k.thread)
		if t == nil {
			return errMoved
		}
		c.at, c.before = positionOf(s, t), t.ContextTokens
		c.scope = compactionScope(t, c.e.TurnID)
		c.preserved = preservedOf(s, t)
		c.call = &call{l: c.l, k: c.k, stepID: c.l.m.NewID(event.PrefixStep), req: &model.Request{RequestID: c.l.m.NewID(event.PrefixModelRequest), CacheKey: c.k.thread, Call: t.CallsEnded}}
		if t.Active != nil && c.scope.TurnID == t.Active.TurnID {
			c.call.trace(t)
		}
		var d *state.RoutingDecision
		if t.Routing != nil {
			d = t.Routing.Decision
		}
		if d == nil {
			return nil
		}
		if err := c.call.choose(d); !errors.Is(err, errNoModel) {
			return err
		}
		return nil // said when the summary is asked for
	})
}

// compactionScope is that of a compaction's facts: of the turn that needs it, or of none.
// One that was asked for between two turns belongs to neither, nor to their tasks.
func compactionScope(t *state.Thread, turnID string) event.Scope {
	if t.Active != nil && t.Active.TurnID == turnID {
		return scopeOf(t, t.Active)
	}
	return outsideTurns(event.Scope{ThreadID: t.ThreadID, SubagentID: t.SubagentID})
}

// outsideTurns is a scope without its turn and without the attempt that the turn is.
func outsideTurns(scope event.Scope) event.Scope {
	scope.TurnID, scope.TaskID, scope.RunID = event.NotApplicable, event.NotApplicable, event.NotApplicable
	return scope
}

// preservedOf lists what a summary must not lose.
func preservedOf(s *state.Session, t *state.Thread) event.Preserved {
	p := event.Preserved{Actions: []string{}, Incidents: []string{}, EvidenceRefs: []string{}, ArtifactRefs: []string{}}
	for _, a := range s.Actions.Pending {
		if a.ThreadID == t.ThreadID {
			p.Actions = append(p.Actions, a.ActionID)
		}
	}
	for _, i := range s.Incidents {
		if i.Active && (i.ThreadID == "" || i.ThreadID == t.ThreadID) {
			p.Incidents = append(p.Incidents, i.EventID)
		}
	}
	for _, e := range s.Evidence.Recent {
		p.EvidenceRefs = append(p.EvidenceRefs, e.EvidenceID)
	}
	for _, a := range s.Artifacts.Recent {
		p.ArtifactRefs = append(p.ArtifactRefs, a.ArtifactID)
	}
	return p
}

// start records that the compaction began, unless compact_thread already did.
// A spent budget keeps it from the model as it keeps any other call.
func (c *compaction) start() error {
	return c.l.emitIfNext(c.k, c.e, func(tx *session.Tx, t *state.Thread) error {
		if p := c.l.Configuration().Spent(tx.State, t, c.call.req.RequestID); p != nil && c.call.provider != nil {
			c.block(tx, p)
			return nil
		}
		if c.id == "" {
			c.id = tx.NewID(event.PrefixCompaction)
			c.l.markOwnCall(c.id, true)
			tx.Emit(event.Event{Type: event.TypeContextCompactionStarted, Scope: c.scope, Payload: &event.CompactionStarted{
				CompactionID: c.id, Trigger: c.e.Trigger, AffectedTurns: c.turns, TokensBefore: c.before, Attempt: c.e.Attempt,
			}})
			emitRunStatus(tx, c.scope, "preparing", "earlier turns are summarised", "the conversation has become too long for the model")
		}
		if c.call.provider != nil {
			scope := c.requestScope()
			tx.Emit(event.Event{Type: event.TypeCostEstimated, Scope: scope, Payload: model.CostEstimated(
				c.call.info, scope.ModelRequestID, c.before, model.ExpectedOutput(c.call.info, c.call.req.MaxOutputTokens, event.Usage{}, 0),
			)})
			tx.Emit(event.Event{Type: event.TypeModelRequested, Scope: scope, Payload: &event.ModelRequested{
				Provider: c.call.info.Provider, Model: c.call.info.Model, ModelRequestID: scope.ModelRequestID,
				Step: 1, Attempt: c.e.Attempt, EstimatedTokens: c.before, Purpose: "compaction",
				ConfigurationRef: c.l.configurationRef(tx),
			}})
		}
		return nil
	})
}

// block records that there is no money for a summary. The turn that needs it ends
// with that; a requested compaction just fails.
func (c *compaction) block(tx *session.Tx, p *event.QuotaState) {
	c.blocked = true
	scope := c.requestScope()
	if c.id != "" {
		scope = outsideTurns(scope)
	}
	tx.Emit(event.Event{Type: event.TypeQuotaBlocked, Scope: scope, Payload: p})
	if c.id != "" {
		tx.Emit(c.failedFact(event.Failure{Message: p.QuotaName + ": " + p.Reason, Category: "quota_blocked"}))
	}
}

// requestScope is the scope of the request for the summary.
func (c *compaction) requestScope() event.Scope {
	scope := c.scope
	scope.ModelRequestID, scope.StepID = c.call.req.RequestID, c.call.stepID
	return scope
}

// summarise asks the thread's model for the summary.
func (c *compaction) summarise(ctx context.Context, conv *conversation) (string, *model.Done, error) {
	if len(conv.messages) == 0 {
		return "", nil, errors.New("the thread has no messages yet")
	}
	if c.call.provider == nil {
		return "", nil, errors.New("the thread has no model yet")
	}
	r := c.call.req
	r.System = c.l.opt.Instructions
	r.Messages = append(conv.soFar(), &model.Message{Role: model.RoleUser, Text: compactionPrompt})
	var text strings.Builder
	chunks, stop := pull(ctx, c.call.provider, r)
	defer stop()
	for {
		select {
		case p := <-chunks:
			if p.err != nil {
				return "", nil, p.err
			}
			text.WriteString(p.chunk.Text)
			if p.chunk.Done == nil {
				continue
			}
			if strings.TrimSpace(text.String()) == "" {
				return "", nil, &model.Error{Category: model.Malformed, Message: "the model gave an empty summary", Retryable: true}
			}
			clean := c.l.redactText(text.String())
			return clean, p.chunk.Done, nil
		case <-ctx.Done():
			return "", nil, context.Cause(ctx)
		}
	}
}

// record appends facts of the compaction while it is the one under way.
func (c *compaction) record(facts func(*session.Tx, *state.Thread)) error {
	return c.l.m.Emit(context.WithoutCancel(c.l.ctx), c.k.session, event.ByLoop, func(tx *session.Tx) error {
		t := tx.State.Thread(c.k.thread)
		if t == nil || t.Context == nil || t.Context.Running == nil || t.Context.Running.CompactionID != c.id {
			return errMoved
		}
		facts(tx, t)
		return nil
	})
}

func (c *compaction) complete(text string, done *model.Done) error {
	return c.record(func(tx *session.Tx, t *state.Thread) {
		scope := c.requestScope()
		p := preservedOf(tx.State, t)
		summary := text + openPoints(p)
		const media = "text/plain; charset=utf-8"
		tx.Emit(event.Event{Type: event.TypeModelCompleted, Scope: scope, Payload: &event.ModelCompleted{
			ModelRequestID: scope.ModelRequestID, Provider: c.call.info.Provider, Model: c.call.info.Model, Purpose: "compaction",
			StopReason: done.StopReason, Usage: done.Usage, UsageSource: usageSource(done), MessageRef: tx.Blob([]byte(text), media),
		}})
		c.call.scope = scope
		c.call.account(tx, done)
		ref := tx.Blob([]byte(summary), media)
		tx.Emit(event.Event{Type: event.TypeContextCompactionCompleted, Scope: c.scope, Payload: &event.CompactionCompleted{
			CompactionID: c.id, Trigger: c.e.Trigger, AffectedTurns: c.turns, SummaryRef: ref, SummaryPreview: clip.Text(summary, 500),
			ContinuationRef: ref, TokensBefore: c.before, TokensAfter: model.EstimateText(summary), Preserved: p, ThroughSequence: c.at.through,
		}})
	})
}

func usageSource(done *model.Done) string {
	if done.Estimated {
		return "estimated"
	}
	return "provider"
}

// openPoints repeats what must survive, whatever the model wrote.
func openPoints(p event.Preserved) string {
	var b strings.Builder
	for _, x := range []struct {
		what string
		ids  []string
	}{{"Unanswered actions", p.Actions}, {"Open incidents", p.Incidents}, {"Evidence", p.EvidenceRefs}, {"Artifacts", p.ArtifactRefs}} {
		if len(x.ids) > 0 {
			fmt.Fprintf(&b, "\n%s: %s", x.what, strings.Join(x.ids, ", "))
		}
	}
	return b.String()
}

// fail records why there is no summary.
func (c *compaction) fail(ctx context.Context, err error) error {
	why := event.Failure{Message: err.Error(), Category: "internal"}
	category := model.InvalidRequest
	var failed *model.Error
	switch {
	case ctx.Err() != nil:
		category = model.Interrupted
		why.Message, why.Category, why.Retryable = context.Cause(ctx).Error(), category, true
	case errors.As(err, &failed):
		category = failed.Category
		why.Message, why.Category, why.Retryable = failed.Message, category, failed.Retryable
	}
	why.Message = c.l.redactText(why.Message)
	return c.record(func(tx *session.Tx, _ *state.Thread) {
		if c.call.provider != nil { // it was asked
			scope := c.requestScope()
			tx.Emit(event.Event{Type: event.TypeModelFailed, Scope: scope, Payload: &event.ModelFailed{
				ModelRequestID: scope.ModelRequestID, Provider: c.call.info.Provider, Model: c.call.info.Model,
				ErrorCategory: category, Message: why.Message, Retryable: why.Retryable,
			}})
		}
		tx.Emit(c.failedFact(why))
	})
}

func (c *compaction) failedFact(why event.Failure) event.Event {
	return event.Event{Type: event.TypeContextCompactionFailed, Scope: c.scope, Payload: &event.CompactionFailed{
		CompactionID: c.id, Trigger: c.e.Trigger, Error: why, Attempt: c.e.Attempt,
		WillRetry: c.e.Trigger != "requested" && c.e.Attempt < c.l.opt.Policy.MaxCompactions, // as Next does, whatever failed
	}}
}
