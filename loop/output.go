package loop

import (
	"bytes"
	"strings"

	"agentd/event"
	"agentd/session"
	"agentd/state"
	"agentd/tool"
)

// checkOutput checks the final answer against the turn's schema: it completes the
// turn, asks the model once more, or fails the turn.
func (l *Loop) checkOutput(k key, e CheckOutput) error {
	var at position
	var step int64
	last := false // no call is left
	if err := l.viewIfNext(l.ctx, k, e, func(s *state.Session, t *state.Thread) {
		at, step = positionOf(s, t), t.Active.Step
		last = step >= l.opt.Policy.maxSteps(t.Active)
	}); err != nil {
		return err
	}
	conv, err := l.transcripts.conversationAt(l.ctx, k, at)
	if err != nil {
		return err
	}
	answer := conv.answer
	value, complaint := CheckAnswer(conv.schema, answer)
	if complaint != "" && !e.Repaired && !last {
		return l.callModel(k, e, CallModel{TurnID: e.TurnID, Step: step + 1, Attempt: 1, Repair: true})
	}
	if complaint == "" {
		if err := l.beforeEnd(k, e, "end_turn"); err != nil {
			return err
		}
	}
	return l.emitIfNext(k, e, func(tx *session.Tx, t *state.Thread) error {
		switch {
		case complaint == "":
			l.emitTurnCompleted(tx, t, "end_turn", answer, value)
		case e.Repaired:
			l.emitTurnFailed(tx, t, FailTurn{e.TurnID, "model_failed", "the answer does not satisfy the output schema, also after it was asked for again"})
		default:
			l.emitTurnFailed(tx, t, FailTurn{e.TurnID, "step_limit", "the answer does not satisfy the output schema, and the turn has used its model calls"})
		}
		return nil
	})
}

// CheckAnswer checks an answer against the schema of a turn. It returns the answer as JSON, or
// what to tell the model.
func CheckAnswer(schema event.Raw, answer string) (value event.Raw, complaint string) {
	text := bytes.TrimSpace([]byte(unfence(answer)))
	err := tool.ValidateOutput(schema, text)
	if err == nil {
		return text, ""
	}
	return nil, "Your answer does not satisfy the JSON Schema that was asked for: " + err.Error() +
		"\nAnswer again with one JSON value that does, and nothing else."
}

// unfence takes a JSON answer out of a Markdown code block.
func unfence(s string) string {
	t := strings.TrimSpace(s)
	if !strings.HasPrefix(t, "```") || !strings.HasSuffix(t, "```") || len(t) < 6 {
		return s
	}
	t = strings.TrimSuffix(t, "```")
	if i := strings.IndexByte(t, '\n'); i >= 0 {
		return t[i+1:]
	}
	return s
}
