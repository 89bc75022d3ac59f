package replay

import (
	"bytes"
	"fmt"
	"strings"

	"agentd/event"
	"agentd/loop"
	"agentd/state"
)

// nextEffect is what a thread does next, as it is decided now.
func (w *walk) nextEffect(e *event.Event) loop.Effect {
	return w.decide.Next(&w.configuration.Limits, w.s, e.ThreadID, e.Time)
}

// expectEffect compares the effect that a fact begins with the one that is next.
func (w *walk) expectEffect(e *event.Event, found loop.Effect) {
	if !w.hasConfiguration() {
		return
	}
	if next := w.nextEffect(e); next != found {
		w.reportDifference(e, describeEffect(next), describeEffect(found))
	}
}

// checkStarted checks the start of a turn against what is next, or against what the
// queue said just before.
func (w *walk) checkStarted(e *event.Event, t *state.Thread) {
	if t.Active != nil {
		w.expectEffect(e, loop.StartTurn{TurnID: e.TurnID})
		return
	}
	if taken := w.taken[e.ThreadID]; taken != e.TurnID {
		w.reportDifference(e, describeEffect(loop.StartTurn{TurnID: taken}), describeEffect(loop.StartTurn{TurnID: e.TurnID}))
	}
	delete(w.taken, e.ThreadID)
}

// describeEffect names an effect with its values.
func describeEffect(e loop.Effect) string {
	return strings.TrimPrefix(fmt.Sprintf("%T%+v", e, e), "loop.")
}

// checkRequest checks a request for an answer against what is next, and against the
// budget.
func (w *walk) checkRequest(e *event.Event, t *state.Thread, p *event.ModelRequested) {
	if !w.hasConfiguration() {
		return
	}
	if q := w.configuration.Spent(w.s, t, p.ModelRequestID); q != nil {
		w.reportDifference(e, "no request: "+q.Reason, "a request")
		return
	}
	next := w.nextEffect(e)
	switch n := next.(type) {
	case loop.CheckOutput:
		value, complaint := w.checkOutput(t)
		if p.Purpose != "repair" || n.Repaired || complaint == "" {
			w.reportDifference(e, describeEffect(next)+" "+string(value), "a request of purpose "+p.Purpose)
		}
	case loop.Compact:
		if p.Purpose != "compaction" {
			w.reportDifference(e, describeEffect(next), "a request of purpose "+p.Purpose)
		}
	default:
		found := loop.CallModel{TurnID: e.TurnID, Step: p.Step, Attempt: p.Attempt, Repair: p.Purpose == "repair"}
		if next != found || p.Purpose == "compaction" {
			w.reportDifference(e, describeEffect(next), describeEffect(found)+" of purpose "+p.Purpose)
		}
	}
	if d := t.Routing; d != nil && d.Decision != nil && (d.Decision.SelectedProvider != p.Provider || d.Decision.SelectedModel != p.Model) {
		w.reportDifference(e, d.Decision.SelectedProvider+"/"+d.Decision.SelectedModel, p.Provider+"/"+p.Model)
	}
}

// checkOutput checks the last answer of a thread's turn against its schema.
func (w *walk) checkOutput(t *state.Thread) (value event.Raw, complaint string) {
	return loop.CheckAnswer(t.Active.Options.OutputSchema, w.answers[t.Active.TurnID])
}

// checkCompleted checks the good end of a turn against what is next.
func (w *walk) checkCompleted(e *event.Event, t *state.Thread, p *event.TurnCompleted) {
	if !w.hasConfiguration() {
		return
	}
	next := w.nextEffect(e)
	if _, ok := next.(loop.CheckOutput); !ok {
		if found := (loop.CompleteTurn{TurnID: e.TurnID, Outcome: p.Outcome}); next != found {
			w.reportDifference(e, describeEffect(next), describeEffect(found))
		}
		return
	}
	value, complaint := w.checkOutput(t)
	if complaint != "" {
		w.reportDifference(e, "an answer that satisfies the schema", "the end of the turn")
	} else if !bytes.Equal(compactJSON(value), compactJSON(p.StructuredOutput)) {
		w.reportDifference(e, string(value), string(p.StructuredOutput))
	}
}

// checkFailed checks another end of a turn against what is next. A failure of the
// runtime itself, and the end of a turn that only waited, aren't decisions.
func (w *walk) checkFailed(e *event.Event, t *state.Thread, p *event.TurnFailed) {
	if p.FailureCategory == "internal" || t.Active == nil || t.Active.TurnID != e.TurnID || !w.hasConfiguration() {
		return
	}
	message := ""
	if p.Error != nil {
		message = p.Error.Message
	}
	found := loop.FailTurn{TurnID: e.TurnID, Category: p.FailureCategory, Message: message}
	next := w.nextEffect(e)
	ok := false
	switch n := next.(type) {
	case loop.FailTurn:
		ok = n == found
	case loop.CancelTurn:
		ok = found.Category == "interrupted"
	case loop.Fallback:
		_, other := w.configuration.FallbackFor(w.s, t, n.Cause, nil, e.Time)
		ok = !other && found.Category == "model_failed"
	case loop.CheckOutput:
		_, complaint := w.checkOutput(t)
		ok = complaint != "" && (found.Category == "model_failed" || found.Category == "step_limit")
	}
	if !ok {
		w.reportDifference(e, describeEffect(next), describeEffect(found))
	}
}
