package loop

import (
	"agentd/event"
	"agentd/internal/clip"
	"agentd/model"
	"agentd/session"
)

// changesKind reports whether a piece is text after reasoning or the other way round, with
// something before it that isn't recorded yet: pieces are recorded in the order in which
// they came. A second piece of text in a row says that the reasoning has ended, so that
// what redaction held back of it is given out. The first may stand amid reasoning, and a
// secret may go on behind it.
func (c *call) changesKind(chunk model.Chunk) bool {
	switch {
	case chunk.Reasoning != "":
		c.textRun = 0
		return chunk.Text == "" && c.text.ready(false) != ""
	case chunk.Text != "":
		c.textRun++
		return c.reasoning.ready(c.textRun > 1) != ""
	}
	return false
}

// textReady is the text that can be recorded; none while something of the reasoning before
// it is held back.
func (c *call) textReady(end bool) string {
	if !end && c.textRun == 1 && c.reasoning.held() > 0 {
		return ""
	}
	return c.text.ready(end)
}

// maxInlineSummary bounds the summary of a model's reasoning within a fact.
const maxInlineSummary = 4 << 10

// reasoningSummary is the summary that the provider made of the model's reasoning; a long
// one is behind a reference.
func (c *call) reasoningSummary(tx *session.Tx) *event.ReasoningSummary {
	p := &event.ReasoningSummary{Text: clip.Text(string(c.allReasoning), maxInlineSummary)}
	if len(c.allReasoning) > maxInlineSummary {
		p.SummaryRef = tx.Blob(c.allReasoning, "text/plain; charset=utf-8")
	}
	return p
}
