package agui

import (
	"slices"

	"agentd/command"
	"agentd/event"
)

// ask takes actions that waited before the run began.
func (n *narrator) ask(list []command.ActionRecord) {
	for i := range list {
		n.waiting = append(n.waiting, interruptOf(&list[i]))
	}
	n.settle()
}

// settle ends the run if the turn waits for an answer. It is called when all facts
// that are there were taken, so that what is asked together is told together.
func (n *narrator) settle() {
	if !n.ended && n.blocked != "" {
		n.fail(n.blocked, "blocked")
	}
	if n.ended || len(n.waiting) == 0 {
		return
	}
	n.quiet()
	for _, id := range slices.Clone(n.children) {
		var asks []any
		for _, w := range n.waiting {
			if w["subagentRunId"] == n.childID(id) {
				asks = append(asks, w["id"])
			}
		}
		o := object{"type": "suspended"}
		if asks != nil {
			o["interruptIds"] = asks
		}
		n.emit(id, object{"type": "SUBAGENT_FINISHED", "outcome": o})
		n.forget(id)
	}
	n.out = append(n.out, n.finished(object{"type": "interrupt", "interrupts": n.waiting}))
}

// quiet ends everything that is open.
func (n *narrator) quiet() {
	for _, id := range n.children {
		n.hush(id)
	}
	n.hush("")
	n.endStep()
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

// close ends subagents that go on without the turn.
func (n *narrator) close() {
	n.quiet()
	for _, id := range slices.Clone(n.children) {
		n.emit(id, object{"type": "SUBAGENT_FINISHED", "outcome": object{"type": "suspended"}})
		n.forget(id)
	}
}

func (n *narrator) completed(p *event.TurnCompleted) {
	n.close()
	o := n.finished(object{"type": "success"})
	if len(p.StructuredOutput) > 0 {
		o["result"] = p.StructuredOutput
	}
	n.out = append(n.out, o)
}

func (n *narrator) failed(p *event.TurnFailed) {
	if p.FailureCategory == "interrupted" {
		n.close()
		n.out = append(n.out, n.finished(object{"type": "cancelled"}))
		return
	}
	why := p.Outcome
	if p.Error != nil {
		why = p.Error.Message
	}
	n.fail(why, p.FailureCategory)
}

func (n *narrator) fail(why, code string) {
	n.close()
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
	for _, p := range n.usage {
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
