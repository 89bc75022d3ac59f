package openaiapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"agentd/channel"
	"agentd/command"
	"agentd/event"
)

// step is what one model call of a turn said.
type step struct {
	id, text, reasoning string
	silent, over        bool
}

// outcome is what is known of a turn: what was said, and how it ended.
type outcome struct {
	steps []*step
	stop  string
	usage event.Usage
	// model that answered last, as "provider/model".
	model string
	// structured is the answer that satisfies the request's schema.
	structured event.Raw
	ended      bool
	failure    *event.TurnFailed
	// waiting are the actions that the turn waits for.
	waiting []string
	// thread is the turn's, blocked why it doesn't go on, nothing if it does.
	thread, blocked string
}

// text is everything that was said, one model call after the other.
func (o *outcome) text() string {
	if len(o.structured) > 0 {
		return string(o.structured)
	}
	var out []string
	for _, s := range o.steps {
		if s.text != "" {
			out = append(out, s.text)
		}
	}
	return strings.Join(out, "\n\n")
}

// listener hears a turn while it runs. Its errors end the watching.
type listener interface {
	// said tells a piece of the answer's text, reasoned one of the reasoning before
	// it.
	said(s *step, text string) error
	reasoned(s *step, text string) error
	// stepped says that a model call is over.
	stepped(s *step) error
	// alive is called when nothing was heard for a while.
	alive() error
}

// deaf hears nothing.
type deaf struct{}

func (deaf) said(*step, string) error     { return nil }
func (deaf) reasoned(*step, string) error { return nil }
func (deaf) stepped(*step) error          { return nil }
func (deaf) alive() error                 { return nil }

// fact takes one fact of the turn.
func (o *outcome) fact(e *event.Event, l listener) error {
	switch p := e.Payload.(type) {
	case *event.ModelRequested:
		o.steps = append(o.steps, &step{id: p.ModelRequestID, silent: p.Purpose == "compaction" || p.Purpose == "classification"})
	case *event.ModelDelta:
		if s := o.step(e.ModelRequestID); s != nil {
			s.text += p.Text
			return l.said(s, p.Text)
		}
	case *event.ReasoningDelta:
		if s := o.step(e.ModelRequestID); s != nil {
			s.reasoning += p.Text
			return l.reasoned(s, p.Text)
		}
	case *event.ModelCompleted:
		return o.completed(p, l)
	case *event.ModelFailed:
		if s := o.step(p.ModelRequestID); s != nil {
			s.text, s.reasoning = "", "" // it is asked again
			return l.stepped(s)
		}
	case *event.TurnCompleted:
		o.ended, o.structured = true, p.StructuredOutput
		o.use(p.Usage)
	case *event.TurnFailed:
		o.ended, o.failure = true, p
		o.use(p.Usage)
	}
	return nil
}

func (o *outcome) use(u *event.Usage) {
	if u != nil {
		o.usage = *u
	}
}

// completed takes the end of a model call; one that wasn't streamed is told whole.
func (o *outcome) completed(p *event.ModelCompleted, l listener) error {
	s := o.step(p.ModelRequestID)
	if s == nil {
		return nil
	}
	o.stop, o.model, s.over = p.StopReason, p.Provider+"/"+p.Model, true
	if p.Message != nil && s.text == "" && p.Message.Text != "" {
		s.text = p.Message.Text
		if err := l.said(s, s.text); err != nil {
			return err
		}
	}
	return l.stepped(s)
}

// step finds a model call that is the turn's own.
func (o *outcome) step(id string) *step {
	for _, s := range o.steps {
		if s.id == id && !s.silent {
			return s
		}
	}
	return nil
}

// action keeps account of what the session waits for. A subagent's question holds
// up the turn as well.
func (o *outcome) action(e *event.Event) {
	switch e.Type { //nolint:exhaustive // the others are no actions
	case event.TypeActionRequired:
		o.waiting = append(o.waiting, e.ActionID)
	case event.TypeActionResolved:
		for i, id := range o.waiting {
			if id == e.ActionID {
				o.waiting = append(o.waiting[:i], o.waiting[i+1:]...)
				break
			}
		}
	}
}

// watch follows a turn to its end. A turn that waits for an action is waited for a
// bounded time.
func (a *API) watch(ctx context.Context, c command.Caller, t *command.SubmitTurnResult, l listener) (*outcome, error) {
	stream, err := a.opt.Runtime.Subscribe(ctx, c, t.SessionID, t.Sequence-1)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	o := &outcome{}
	var patience time.Time
	for !o.ended {
		wait := a.opt.Heartbeat
		if o.blocked != "" {
			wait = min(wait, blockedFor)
		}
		if len(o.waiting) == 0 {
			patience = time.Time{}
		} else {
			if patience.IsZero() {
				patience = time.Now().Add(a.opt.ActionWait)
			}
			if wait = min(wait, time.Until(patience)); wait <= 0 {
				return o, actionRequired(o.waiting[0])
			}
		}
		facts, err := channel.NextWithin(ctx, stream, wait)
		if err != nil {
			return o, err
		}
		if len(facts) == 0 {
			if o.blocked != "" {
				return o, blocked(o.blocked)
			}
			if err := l.alive(); err != nil {
				return o, err
			}
		}
		for i := range facts {
			if err := o.take(&facts[i], t.TurnID, l); err != nil {
				return o, err
			}
		}
	}
	return o, nil
}

// take decodes a fact; one of a newer release is passed over.
func (o *outcome) take(d *command.Delivered, turnID string, l listener) error {
	e, err := event.Decode(d.Data)
	if err != nil {
		return nil //nolint:nilerr // not one that the turn's end hangs on
	}
	if e.TurnID == turnID || e.SubagentID != "" {
		o.action(e)
	}
	o.place(e, turnID)
	if e.TurnID != turnID {
		return nil
	}
	return o.fact(e, l)
}

// place keeps account of whether the turn's thread goes on. One that was blocked
// may have gone on since: only what comes last counts.
func (o *outcome) place(e *event.Event, turnID string) {
	if e.Type == event.TypeTurnSubmitted && e.TurnID == turnID {
		o.thread = e.ThreadID
	}
	p, ok := e.Payload.(*event.ThreadUpdated)
	if !ok || e.ThreadID != o.thread || e.SubagentID != "" {
		return
	}
	switch {
	case p.Status == "blocked" && len(p.ActionIDs) == 0:
		o.blocked = p.Reason
		if o.blocked == "" {
			o.blocked = "it waits"
		}
	case p.Status != "blocked":
		o.blocked = ""
	}
}

// blockedFor is how long facts are waited for after which a blocked turn goes on:
// they may be there already.
const blockedFor = 200 * time.Millisecond

func blocked(why string) *apiError {
	return newError(http.StatusServiceUnavailable, "server_error", "blocked", "the turn is blocked: "+why+"; resume_thread lets it go on")
}

// actionRequired says that somebody has to answer first.
func actionRequired(id string) *apiError {
	return newError(http.StatusForbidden, "action_required", "action_required",
		"the turn waits for the action "+id+"; it goes on when that is answered, with respond_action or \"agentd approve "+id+"\"")
}

// failed describes how a turn failed; nil if it didn't, or only ran into a bound.
func (o *outcome) failed() *apiError {
	p := o.failure
	if p == nil || p.FailureCategory == "step_limit" {
		return nil
	}
	status, kind := http.StatusInternalServerError, "server_error"
	switch p.FailureCategory {
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
	why := p.Outcome
	if p.Error != nil {
		why = p.Error.Message
	}
	return newError(status, kind, p.FailureCategory, "the turn failed: "+why)
}
