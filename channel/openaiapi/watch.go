package openaiapi

import (
	"context"
	"net/http"
	"time"

	"agentd/channel"
	"agentd/channel/turnview"
	"agentd/command"
	"agentd/event"
)

// outcome is what is known of a turn: what was said, and how it ended.
type outcome struct{ turnview.View }

// text is everything that was said, or the answer that satisfies the request's schema.
func (o *outcome) text() string {
	if structured := o.structured(); len(structured) > 0 {
		return string(structured)
	}
	return o.Text()
}

func (o *outcome) structured() event.Raw {
	if o.End == nil || o.End.Completed == nil {
		return nil
	}
	return o.End.Completed.StructuredOutput
}

// listener hears a turn while it runs. Its errors end the watching.
type listener interface {
	// show tells what changed.
	showChange(c turnview.Change) error
	// Beat is called when nothing was heard for a while.
	Beat() error
}

// deaf hears nothing.
type deaf struct{}

func (deaf) showChange(turnview.Change) error { return nil }
func (deaf) Beat() error                      { return nil }

// watch follows a turn to its end. A turn that waits for an action is waited for a
// bounded time.
func (a *API) watch(ctx context.Context, c command.Caller, t *command.SubmitTurnResult, l listener) (*outcome, error) {
	stream, err := a.opt.Runtime.Subscribe(ctx, c, t.SessionID, t.Sequence-1)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	o := &outcome{turnview.View{TurnID: t.TurnID}}
	var patience time.Time
	looked := false
	for o.End == nil {
		wait, err := a.howLong(o, &patience)
		if err != nil {
			return o, err
		}
		facts, err := channel.NextWithin(ctx, stream, wait)
		if err != nil {
			return o, err
		}
		if len(facts) == 0 {
			if o.Blocked != nil {
				return o, blocked(o.Blocked)
			}
			if err := l.Beat(); err != nil {
				return o, err
			}
			if !looked { // the thread may have been blocked before the turn came
				if o.Blocked, err = a.lookForBlock(ctx, c, t); err != nil {
					return o, err
				}
				looked = true
			}
		}
		for i := range facts {
			for _, c := range o.Read(facts[i].Data) {
				if err := l.showChange(c); err != nil {
					return o, err
				}
			}
		}
	}
	return o, nil
}

// howLong is for how long the next facts are waited for. While an action waits, patience is
// until when that is, and after it an error.
func (a *API) howLong(o *outcome, patience *time.Time) (time.Duration, error) {
	wait := a.opt.Heartbeat
	if o.Blocked != nil {
		wait = min(wait, blockedFor)
	}
	if len(o.Actions) == 0 {
		*patience = time.Time{}
		return wait, nil
	}
	if patience.IsZero() {
		*patience = time.Now().Add(a.opt.ActionWait)
	}
	if wait = min(wait, time.Until(*patience)); wait <= 0 {
		return 0, actionRequired(o.Actions[0].ID)
	}
	return wait, nil
}

// lookForBlock returns why a turn's thread doesn't go on; nil if it does.
func (a *API) lookForBlock(ctx context.Context, c command.Caller, t *command.SubmitTurnResult) (*turnview.Blocked, error) {
	if t.ThreadID == "" {
		return nil, nil
	}
	v, err := a.sessionView(ctx, c, t.SessionID)
	if err != nil {
		return nil, err
	}
	return v.blockOf(t.ThreadID), nil
}

// blockedFor is how long facts are waited for after which a blocked turn goes on:
// they may be there already.
const blockedFor = 200 * time.Millisecond

func blocked(b *turnview.Blocked) *apiError {
	return newError(http.StatusServiceUnavailable, "server_error", b.Kind(), b.Explain("resume_thread"))
}

// actionRequired says that an action must be answered first.
func actionRequired(id string) *apiError {
	return newError(http.StatusForbidden, "action_required", "action_required",
		"the turn waits for the action "+id+"; it continues once that is answered, with respond_action or \"agentd approve "+id+"\"")
}

// failed describes how a turn failed; nil if it didn't, or only ran into a bound.
func (o *outcome) failed() *apiError {
	if o.End == nil || o.End.Failed == nil || o.End.Category() == "step_limit" {
		return nil
	}
	status, kind := http.StatusInternalServerError, "server_error"
	switch o.End.Category() {
	case "quota_blocked":
		status, kind = http.StatusTooManyRequests, "insufficient_quota"
	case "routing_not_possible":
		status, kind = http.StatusServiceUnavailable, "server_error"
	case "model_failed":
		status = http.StatusBadGateway
	case "timed_out":
		status = http.StatusGatewayTimeout
	case "hook_blocked":
		status, kind = http.StatusForbidden, "permission_error"
	case "interrupted":
		status, kind = http.StatusConflict, "interrupted"
	}
	return newError(status, kind, o.End.Category(), "the turn failed: "+o.End.Reason())
}
