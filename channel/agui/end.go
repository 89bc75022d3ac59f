package agui

import (
	"slices"

	"agentd/channel/turnview"
)

// settle ends the run if the turn waits for an answer. It is called when all facts
// that are there were taken, so that what is asked together is told together.
func (n *narrator) settle() {
	if n.ended {
		return
	}
	if b := n.view.Blocked; b != nil {
		n.fail(b.Explain("resume_thread"), b.Kind())
		return
	}
	var waiting []object
	asks := map[string][]string{}
	for i := range n.view.Actions {
		a := &n.view.Actions[i]
		waiting = append(waiting, n.interrupt(a))
		asks[a.Agent] = append(asks[a.Agent], a.ID)
	}
	if waiting != nil {
		n.suspend(asks)
		n.out = append(n.out, n.finished(object{"type": "interrupt", "interrupts": waiting}))
	}
}

// suspend ends everything that is open. Subagents go on without the run, or when what
// they ask is answered.
func (n *narrator) suspend(asks map[string][]string) {
	for _, c := range n.view.CloseOpen() {
		n.narrateChange(c)
	}
	n.endStep()
	for _, s := range n.view.Subagents {
		if !s.Open {
			continue
		}
		o := object{"type": "suspended"}
		if asks[s.ID] != nil {
			o["interruptIds"] = asks[s.ID]
		}
		n.emit(s.ID, object{"type": "SUBAGENT_FINISHED", "outcome": o})
	}
}

// finished is the end of a run that didn't fail.
func (n *narrator) finished(outcome object) object {
	n.ended = true
	o := object{"type": "RUN_FINISHED", "threadId": n.threadID, "runId": n.runID, "outcome": outcome}
	if usage := n.used(); usage != nil {
		o["usage"] = usage
	}
	return o
}

// turnEnded ends the run with its turn.
func (n *narrator) turnEnded(end *turnview.Ended) {
	switch {
	case end.Completed != nil:
		n.suspend(nil)
		o := n.finished(object{"type": "success"})
		if len(end.Completed.StructuredOutput) > 0 {
			o["result"] = end.Completed.StructuredOutput
		}
		n.out = append(n.out, o)
	case end.Category() == "interrupted":
		n.suspend(nil)
		n.out = append(n.out, n.finished(object{"type": "cancelled"}))
	default:
		n.fail(end.Reason(), end.Category())
	}
}

func (n *narrator) fail(why, code string) {
	n.suspend(nil)
	n.ended = true
	o := object{"type": "RUN_ERROR", "message": why, "code": code}
	if usage := n.used(); usage != nil {
		o["usage"] = usage
	}
	n.out = append(n.out, o)
}

// used sums up the tokens of each model.
func (n *narrator) used() []object {
	var out []object
	for i := range n.view.Calls {
		p := n.view.Calls[i].Answer
		if p == nil {
			continue
		}
		at := slices.IndexFunc(out, func(o object) bool { return o["provider"] == p.Provider && o["model"] == p.Model })
		if at < 0 {
			at = len(out)
			out = append(out, object{"provider": p.Provider, "model": p.Model})
		}
		for name, value := range map[string]int64{
			"inputTokens": p.Usage.InputTokens, "outputTokens": p.Usage.OutputTokens, "totalTokens": p.Usage.InputTokens + p.Usage.OutputTokens,
			"reasoningTokens": p.Usage.ReasoningTokens, "cachedInputTokens": p.Usage.CachedInputTokens,
		} {
			before, _ := out[at][name].(int64)
			out[at][name] = before + value
		}
	}
	return out
}
