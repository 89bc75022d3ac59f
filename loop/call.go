package loop

import (
	"context"
	"errors"
	"time"

	"agentd/event"
	"agentd/model"
	"agentd/session"
	"agentd/state"
)

// call is a model call under way.
type call struct {
	l        *Loop
	k        key
	scope    event.Scope
	stepID   string
	provider model.Provider
	info     model.Info
	req      *model.Request
	// context and inventory are what the turn was prepared with.
	context   *state.ResolvedContext
	inventory *state.ToolInventory
	began     time.Time
	first     time.Time
	reserved  int64

	text, reasoning         redacted // gathered, not recorded yet
	allText, allReasoning   []byte
	textIndex, reasonsIndex int64
	// textRun counts the pieces of text in a row, without reasoning between them.
	textRun int
	tools   []event.ToolCallRequest
	// inlineArgs is the size of the arguments that stand in the answer's fact.
	inlineArgs int
	// blobs are what the answer refers to, stored with it.
	blobs []blob
}

// blob is content that a fact refers to.
type blob struct {
	content   []byte
	mediaType string
	ref       func(string)
}

// codeRepeats marks the warning that a model is going in circles.
const codeRepeats = "repeated_calls"

// warnRepeats is the number of repeats at which the model is warned.
const warnRepeats = 2

// callModel asks the model and records the answer as it comes. Decided is the
// effect that led here.
func (l *Loop) callModel(k key, decided Effect, e CallModel) error {
	c := &call{l: l, k: k, stepID: l.m.NewID(event.PrefixStep), req: &model.Request{RequestID: l.m.NewID(event.PrefixModelRequest), CacheKey: k.thread}}
	ctx, done := l.interruptible(l.ctx, k)
	defer done()
	err := c.wait(ctx, decided, e)
	if errors.Is(err, errNoModel) {
		return l.rerouteTurn(k, decided, e.TurnID)
	}
	if err != nil {
		return err
	}
	l.markOwnCall(c.req.RequestID, true)
	defer l.markOwnCall(c.req.RequestID, false)
	at, asked, err := c.request(decided, e)
	if err != nil || !asked {
		return err
	}
	conv, err := l.transcripts.conversationAt(ctx, k, at)
	if err == nil {
		err = l.fillRequest(ctx, c.req, conv, c.info, c.context, c.inventory)
	}
	if err != nil {
		return c.unsent(ctx, err)
	}
	return c.stream(ctx)
}

// unsent ends a call that was recorded and could not be made: what to ask can't be
// read. It is no failure of the model, so no other one is tried.
func (c *call) unsent(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return c.fail(ctx, err)
	}
	message := c.l.redactText("the request could not be put together: " + err.Error())
	return c.l.m.Emit(context.WithoutCancel(c.l.ctx), c.k.session, event.ByLoop, func(tx *session.Tx) error {
		t := tx.State.Thread(c.k.thread)
		if t == nil || t.Active == nil || t.Active.TurnID != c.scope.TurnID {
			return errMoved
		}
		c.l.emitTurnFailed(tx, t, FailTurn{t.Active.TurnID, "internal", message})
		return nil
	})
}

// wait holds a call back: after a failure, and while a limit of ours is used up.
func (c *call) wait(ctx context.Context, decided Effect, e CallModel) error {
	var delay time.Duration
	var tokens int64
	if err := c.l.m.Peek(ctx, c.k.session, func(s *state.Session) error {
		t := s.Thread(c.k.thread)
		if t == nil || t.Active == nil || t.Routing == nil || t.Routing.Decision == nil {
			return errMoved
		}
		if err := c.choose(t.Routing.Decision); err != nil {
			return err
		}
		tokens = t.ContextTokens
		if last := t.Active.Call; e.Attempt > 1 && last != nil && last.Status == state.CallFailed && last.ErrorCategory != model.Interrupted && last.Provider == c.info.Provider && last.Model == c.info.Model {
			delay = c.l.callBackoff(last)
		}
		return nil
	}); err != nil {
		return err
	}
	if delay > 0 {
		if err := c.announce(decided, delay, nil); err != nil {
			return err
		}
		if err := sleepContext(ctx, delay); err != nil {
			return err
		}
	}
	return c.reserve(ctx, decided, tokens)
}

// reserve takes a place within our own limits and waits for it.
func (c *call) reserve(ctx context.Context, decided Effect, tokens int64) error {
	for {
		r := c.l.limiter.Reserve(c.info.ID(), tokens)
		if r.Wait <= 0 {
			c.reserved = tokens
			return nil
		}
		ms := r.Wait.Milliseconds()
		err := c.announce(decided, r.Wait, &event.RateLimitHit{
			Provider: c.info.Provider, Model: c.info.Model, RetryAfterMs: &ms, ModelRequestID: c.req.RequestID, Source: "client", LimitName: r.Limit,
		})
		if err == nil {
			err = sleepContext(ctx, r.Wait)
		}
		if err != nil {
			c.l.limiter.Cancel(r)
			return err
		}
		if !r.Refused {
			c.reserved = tokens
			return nil
		}
	}
}

// choose finds the provider of the turn's model.
func (c *call) choose(d *state.RoutingDecision) error {
	info, p, err := c.l.findModel(d.SelectedProvider, d.SelectedModel)
	if err != nil {
		return err
	}
	c.info, c.provider = info, p
	c.req.Model, c.req.MaxOutputTokens = info.Model, info.MaxOutputTokens
	return nil
}

// callBackoff is how long to wait after a failed call.
func (l *Loop) callBackoff(last *state.ModelCall) time.Duration {
	var after time.Duration
	if last.RetryAfterMs != nil {
		after = time.Duration(*last.RetryAfterMs) * time.Millisecond
	}
	wait, _ := l.opt.Backoff.Delay(int(last.Tries), after, l.opt.Random)
	return wait
}

// announce records that a call waits, and why.
func (c *call) announce(decided Effect, delay time.Duration, hit *event.RateLimitHit) error {
	return c.l.emitIfNext(c.k, decided, func(tx *session.Tx, t *state.Thread) error {
		scope := scopeOf(t, t.Active)
		if hit != nil {
			hitScope := scope
			hitScope.ModelRequestID, hitScope.StepID = hit.ModelRequestID, c.stepID
			tx.Emit(event.Event{Type: event.TypeRateLimitHit, Scope: hitScope, Payload: hit})
		}
		tx.Emit(event.Event{Type: event.TypeRunStatus, Scope: scope, Payload: &event.RunStatus{
			Phase: "retrying", Title: "the model is asked again in " + delay.Round(time.Millisecond).String(), RetryAt: tx.Now().Add(delay),
		}})
		return nil
	})
}

// sleepContext waits, or returns why it didn't.
func sleepContext(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return errMoved // the thread is looked at again, or the loop is stopping
	}
}

// request records that the model is asked, unless a budget is spent.
func (c *call) request(decided Effect, e CallModel) (at position, asked bool, err error) {
	purpose := "turn"
	if e.Repair {
		purpose = "repair"
	}
	err = c.l.emitIfNext(c.k, decided, func(tx *session.Tx, t *state.Thread) error {
		c.scope = scopeOf(t, t.Active)
		c.scope.ModelRequestID, c.scope.StepID = c.req.RequestID, c.stepID
		if t.Routing == nil || t.Routing.Decision == nil || t.Routing.Decision.SelectedModel != c.info.Model {
			return errMoved
		}
		if p := c.l.Configuration().Spent(tx.State, t, c.req.RequestID); p != nil {
			tx.Emit(event.Event{Type: event.TypeQuotaBlocked, Scope: c.scope, Payload: p})
			return nil
		}
		tokens := max(t.ContextTokens, estimateOf(t))
		if p := exceeds(tx.State, t, c.info, c.req.RequestID, tokens); p != nil {
			tx.Emit(event.Event{Type: event.TypeQuotaBlocked, Scope: c.scope, Payload: p})
			return nil
		}
		asked = true
		if t.Active.Repeats == warnRepeats && e.Attempt == 1 {
			tx.Emit(event.Event{Type: event.TypeRuntimeWarning, Scope: scopeOf(t, t.Active), Payload: &event.RuntimeNotice{
				Code: codeRepeats, Message: "You have asked for the same tool calls several times and got the same results.",
				Advice: "Do something else, or say what keeps you from going on.",
			}})
		}
		tx.Emit(event.Event{Type: event.TypeCostEstimated, Scope: c.scope, Payload: model.CostEstimated(
			c.info, c.req.RequestID, tokens, model.ExpectedOutput(c.info, c.req.MaxOutputTokens, t.Active.Usage, t.Active.Step),
		)})
		tx.Emit(event.Event{Type: event.TypeModelRequested, Scope: c.scope, Payload: &event.ModelRequested{
			Provider: c.info.Provider, Model: c.info.Model, ModelRequestID: c.req.RequestID,
			Step: e.Step, Attempt: e.Attempt, EstimatedTokens: tokens, Purpose: purpose, ConfigurationRef: c.l.configurationRef(tx),
		}})
		c.req.Call, c.req.Failed = t.CallsEnded, t.Active.FailedCalls
		if t.Active.Steered > t.Active.SteeredSeen || (e.Repair && e.Attempt == 1) {
			c.req.Failed = 0 // as the fact will say
		}
		c.trace(t)
		if o := t.Active.Options; o != nil && c.info.Can(model.CapStructuredOutput) {
			c.req.OutputSchema = o.OutputSchema
		}
		if t.Context != nil {
			c.context = t.Context.Resolved
		}
		c.inventory = t.Inventory
		at = positionOf(tx.State, t)
		at.through = tx.Sequence() - 1
		at.last = at.through
		return nil
	})
	return at, asked, err
}

func estimateOf(t *state.Thread) int64 {
	if t.Context != nil && t.Context.Resolved != nil {
		return t.Context.Resolved.EstimatedTokens
	}
	return 0
}

// stream takes the answer as it comes: the first piece is recorded at once, the
// others are gathered for some milliseconds.
func (c *call) stream(ctx context.Context) error {
	c.began = time.Now()
	chunks, stop := pull(ctx, c.provider, c.req)
	defer stop()
	tick := time.NewTicker(c.l.opt.FlushEvery)
	defer tick.Stop()
	for {
		select {
		case r := <-chunks:
			if r.err != nil {
				return c.fail(ctx, r.err)
			}
			if c.changesKind(r.chunk) {
				if err := c.flush(); err != nil {
					return err
				}
			}
			if done := c.addChunk(r.chunk); done != nil {
				return c.complete(done)
			}
			if c.textIndex == 0 && c.reasonsIndex == 0 && len(chunks) == 0 {
				if err := c.flush(); err != nil {
					return err
				}
				tick.Reset(c.l.opt.FlushEvery)
			}
		case <-tick.C:
			if err := c.flush(); err != nil {
				return err
			}
			tick.Reset(c.l.opt.FlushEvery)
		case <-ctx.Done():
			return c.fail(ctx, context.Cause(ctx))
		}
	}
}

type pulled struct {
	chunk model.Chunk
	err   error
}

// pull runs the provider's stream beside the caller, so that a provider which
// stalls doesn't hold up what it sent before. stop ends it and waits.
func pull(ctx context.Context, p model.Provider, r *model.Request) (<-chan pulled, func()) {
	ctx, cancel := context.WithCancel(ctx)
	out := make(chan pulled, 4)
	done := make(chan struct{})
	go func() {
		defer close(done)
		roomy(false)
		send := func(v pulled) bool {
			select {
			case out <- v:
				return true
			case <-ctx.Done():
				return false
			}
		}
		ended := false
		for chunk, err := range p.Stream(ctx, r) {
			if !send(pulled{chunk, err}) {
				return
			}
			ended = ended || err != nil || chunk.Done != nil
		}
		if !ended {
			send(pulled{err: &model.Error{Category: model.Malformed, Message: "the answer ended without an end", Retryable: true}})
		}
	}()
	return out, func() {
		cancel()
		<-done
	}
}

// addChunk adds a piece to what is gathered; it returns the answer's end.
func (c *call) addChunk(chunk model.Chunk) *model.Done {
	if c.first.IsZero() && (chunk.Text != "" || chunk.Reasoning != "" || chunk.ToolCall != nil) {
		c.first = time.Now()
	}
	c.text.add(c.l, chunk.Text)
	c.reasoning.add(c.l, chunk.Reasoning)
	if t := chunk.ToolCall; t != nil {
		c.takeCall(t)
	}
	return chunk.Done
}

// maxInlineArgs bounds the arguments of all tool calls of an answer within a fact.
const maxInlineArgs = 16 << 10

func (c *call) takeCall(t *model.ToolCall) {
	args, _ := c.l.redactJSON(t.Arguments)
	c.tools = append(c.tools, event.ToolCallRequest{
		ToolCallID: c.l.m.NewID(event.PrefixToolCall), ProviderCallID: t.ProviderID, ToolName: t.Name, Arguments: args,
	})
	i := len(c.tools) - 1
	switch {
	case t.Malformed != "":
		text := c.l.redactText(t.Malformed)
		c.tools[i].Arguments = nil
		c.storeContent([]byte(text), "text/plain", func(ref string) { c.tools[i].ArgumentsRef = ref })
	case len(args) > maxInlineArgs-c.inlineArgs:
		c.tools[i].Arguments = nil
		c.storeContent(args, "application/json", func(ref string) { c.tools[i].ArgumentsRef = ref })
	default:
		c.inlineArgs += len(args)
	}
}

func (c *call) storeContent(content []byte, mediaType string, ref func(string)) {
	if len(content) > 0 {
		c.blobs = append(c.blobs, blob{content, mediaType, ref})
	}
}

// deltas emits what is gathered; all of it at the answer's end.
func (c *call) deltas(tx *session.Tx, end bool) {
	for i, s := range textPieces(c.reasoning.ready(end)) {
		tx.Emit(event.Event{Type: event.TypeReasoningDelta, Scope: c.scope, Payload: &event.ReasoningDelta{Text: s, Index: c.reasonsIndex + int64(i)}})
	}
	for i, s := range textPieces(c.textReady(end)) {
		tx.Emit(event.Event{Type: event.TypeModelDelta, Scope: c.scope, Payload: &event.ModelDelta{Text: s, Index: c.textIndex + int64(i)}})
	}
}

// flushed moves what was gathered to what is recorded.
func (c *call) flushed(end bool) {
	if s := c.reasoning.drainText(end); s != "" {
		c.reasonsIndex += int64(len(textPieces(s)))
		c.allReasoning = append(c.allReasoning, s...)
	}
	if s := c.textReady(end); s != "" {
		c.text.drainText(end)
		c.textIndex += int64(len(textPieces(s)))
		c.allText = append(c.allText, s...)
	}
}

func (c *call) flush() error {
	if c.textReady(false) == "" && c.reasoning.ready(false) == "" {
		return nil
	}
	if err := c.emit(func(tx *session.Tx) { c.deltas(tx, false) }); err != nil {
		return err
	}
	c.flushed(false)
	return nil
}

// emit records facts of the call, which ends with the turn at the latest. It is
// not tied to the call's own context: what happened is recorded even when the
// runtime stops.
func (c *call) emit(facts func(*session.Tx)) error {
	return c.l.m.Emit(context.WithoutCancel(c.l.ctx), c.k.session, event.ByLoop, c.running(facts))
}

// running is a decision that holds only while the call runs.
func (c *call) running(facts func(*session.Tx)) func(*session.Tx) error {
	return func(tx *session.Tx) error {
		t := tx.State.Thread(c.k.thread)
		if t == nil || t.Active == nil || t.Active.Call == nil || t.Active.Call.ModelRequestID != c.req.RequestID || t.Active.Call.Status != state.CallRunning {
			return errMoved
		}
		facts(tx)
		return nil
	}
}

func (c *call) complete(done *model.Done) error {
	c.l.limiter.Settle(c.info.ID(), c.reserved, done.Usage.InputTokens+done.Usage.OutputTokens)
	c.l.limiter.Answered(c.info.ID(), done.Standing)
	if len(c.tools) > 0 && done.StopReason == "end_turn" {
		done.StopReason = "tool_use" // some providers don't say so
	}
	err := c.l.decideSoon(context.WithoutCancel(c.l.ctx), c.k, c.running(func(tx *session.Tx) {
		c.deltas(tx, true)
		c.flushed(true)
		p := &event.ModelCompleted{
			ModelRequestID: c.req.RequestID, Provider: c.info.Provider, Model: c.info.Model,
			StopReason: done.StopReason, Usage: done.Usage, UsageSource: "provider", ResponseID: done.ResponseID,
			DurationMs: time.Since(c.began).Milliseconds(),
		}
		if done.Estimated {
			p.UsageSource = "estimated"
		}
		if !c.first.IsZero() {
			p.TimeToFirstTokenMs = c.first.Sub(c.began).Milliseconds()
		}
		c.storeContent(c.l.redactRaw(done.Raw), "application/octet-stream", func(ref string) { p.RawRef = ref })
		for _, b := range c.blobs {
			b.ref(tx.Blob(b.content, b.mediaType))
		}
		if done.ReasoningSummarised && len(c.allReasoning) > 0 {
			tx.Emit(event.Event{Type: event.TypeReasoningSummary, Scope: c.scope, Payload: c.reasoningSummary(tx)})
		}
		c.l.putMessage(tx, p, &event.ModelMessage{
			Text: string(c.allText), Reasoning: string(c.allReasoning), ToolCalls: c.tools, Native: c.l.redactNative(done.Native),
		})
		tx.Emit(event.Event{Type: event.TypeModelCompleted, Scope: c.scope, Payload: p})
		c.emitAsked(tx)
		c.account(tx, done)
		c.tellProgress(tx)
	}))
	if err == nil {
		c.l.keepAnswer(c.k, keptAnswer{c.req.RequestID, string(c.allText), c.tools})
	}
	return err
}

// account records what the answer cost and what is left.
func (c *call) account(tx *session.Tx, done *model.Done) {
	cost := &tx.State.Routing.Cost
	p := model.CostRecorded(c.info, c.req.RequestID, done.Usage, done.Estimated, cost.TotalUSD)
	tx.Emit(event.Event{Type: event.TypeCostRecorded, Scope: c.scope, Payload: p})
	unpriced := cost.Unpriced
	if p.CostUSD == nil {
		unpriced++
	}
	before := c.l.opt.Budget.Standing(cost.TotalUSD, cost.Unpriced)
	after := c.l.opt.Budget.Standing(p.SessionCostUSD, unpriced)
	if after.Status == model.BudgetLow || (after.Status == model.BudgetBlocked && before.Status == model.BudgetOK) {
		// A spent budget blocks the next request, not this one; low is said first.
		if before.Status == model.BudgetOK {
			tx.Emit(event.Event{Type: event.TypeQuotaLow, Scope: c.scope, Payload: after.Blocked(c.req.RequestID)})
		}
	}
	c.tellTaskBudgets(tx, p.CostUSD)
	if q := model.QuotaTold(c.info.Provider, c.req.RequestID, done.Standing); q != nil {
		tx.Emit(event.Event{Type: event.TypeQuotaLow, Scope: c.scope, Payload: q})
	}
}

// fail records why there is no answer.
func (c *call) fail(ctx context.Context, err error) error {
	p := &event.ModelFailed{
		ModelRequestID: c.req.RequestID, Provider: c.info.Provider, Model: c.info.Model,
		ErrorCategory: model.ServerError, Message: err.Error(), Retryable: false,
	}
	var failed *model.Error
	switch {
	case ctx.Err() != nil:
		p.ErrorCategory, p.Message, p.Retryable = model.Interrupted, context.Cause(ctx).Error(), true
	case errors.As(err, &failed):
		c.failedBy(p, failed)
	}
	p.Message = c.l.redactText(p.Message)
	return c.l.emitKnown(c.k.session, c.running(func(tx *session.Tx) {
		c.deltas(tx, true)
		c.flushed(true)
		p.PartialText = string(c.allText)
		if failed != nil && len(failed.Raw) > 0 {
			p.RawRef = tx.Blob(c.l.redactRaw(failed.Raw), "application/octet-stream")
		}
		if p.ErrorCategory == model.RateLimited {
			tx.Emit(event.Event{Type: event.TypeRateLimitHit, Scope: c.scope, Payload: &event.RateLimitHit{
				Provider: c.info.Provider, Model: c.info.Model, RetryAfterMs: p.RetryAfterMs, ModelRequestID: c.req.RequestID, Source: "provider",
			}})
		}
		if p.ErrorCategory == model.RateLimited && !p.Retryable {
			// Waiting doesn't help: the account is used up. How much it held isn't told.
			tx.Emit(event.Event{Type: event.TypeQuotaBlocked, Scope: c.scope, Payload: &event.QuotaState{
				QuotaName: "provider_account", Provider: c.info.Provider, ModelRequestID: c.req.RequestID, Reason: p.Message,
			}})
		}
		tx.Emit(event.Event{Type: event.TypeModelFailed, Scope: c.scope, Payload: p})
	}))
}

// failedBy fills in what the provider said.
func (c *call) failedBy(p *event.ModelFailed, failed *model.Error) {
	p.ErrorCategory, p.Message, p.Retryable, p.HTTPStatus = failed.Category, failed.Message, failed.Retryable, int64(failed.HTTPStatus)
	if p.Message == "" {
		p.Message = "the provider gave no reason"
	}
	c.l.limiter.Failed(c.info.ID(), failed)
	if failed.RetryAfter > 0 {
		ms := failed.RetryAfter.Milliseconds()
		p.RetryAfterMs = &ms
	}
}

// interruptedCall is the end of a model call that nothing waits for any longer.
func interruptedCall(c *state.ModelCall, reason string) *event.ModelFailed {
	return &event.ModelFailed{
		ModelRequestID: c.ModelRequestID, Provider: c.Provider, Model: c.Model,
		ErrorCategory: model.Interrupted, Message: reason, Retryable: true,
	}
}
