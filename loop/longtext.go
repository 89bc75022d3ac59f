package loop

import (
	"encoding/json"

	"agentd/event"
	"agentd/session"
	"agentd/tool"
)

// maxPiece is the most that a delta carries of a text, as JSON: an event has room for it
// and for its envelope.
const maxPiece = 16 << 10

// textPieces cuts a text into pieces of at most maxPiece bytes as JSON, between characters.
func textPieces(s string) []string {
	var out []string
	for s != "" {
		n := max(event.JSONPrefix(s, maxPiece), 1)
		out, s = append(out, s[:n]), s[n:]
	}
	return out
}

// putMessage puts an answer into its fact. The deltas have said what is long in it: the
// fact has a preview of that, and refers to the whole message.
func (l *Loop) putMessage(tx *session.Tx, p *event.ModelCompleted, m *event.ModelMessage) {
	shown, limit := *m, l.opt.Outputs.InlineBytes
	if len(m.Text) > limit {
		shown.Text, p.Preview = "", tool.Preview(m.Text, l.opt.Outputs.PreviewBytes)
	}
	if len(m.Reasoning) > limit {
		shown.Reasoning = ""
	}
	if len(m.Native) > limit {
		shown.Native = nil
	}
	if len(shown.Text) < len(m.Text) || len(shown.Reasoning) < len(m.Reasoning) || len(shown.Native) < len(m.Native) {
		whole, _ := json.Marshal(m) //nolint:errchkjson // texts, and JSON that was checked
		p.MessageRef = tx.Blob(whole, "application/json")
	}
	if p.MessageRef == "" || shown.Text != "" || shown.Reasoning != "" || len(shown.ToolCalls) > 0 || len(shown.Native) > 0 {
		p.Message = &shown
	}
}
