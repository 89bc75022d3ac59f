package gemini

import (
	"bytes"
	"encoding/json"

	"agentd/event"
	"agentd/model/provider/httpstream"
)

// native gathers the parts of an answer as they have to come back. A part with a
// signature stays as it is and where it is; plain text around it is joined.
type native struct {
	parts  [][]byte
	plain  []byte
	joiner httpstream.Joiner
	signed bool
}

// keepSignedPart adds a part with a signature.
func (n *native) keepSignedPart(raw json.RawMessage) {
	n.flush()
	n.parts = append(n.parts, bytes.Clone(raw))
	n.signed = true
}

// call adds a function call, which has its place also without a signature.
func (n *native) call(raw json.RawMessage, signed bool) {
	n.flush()
	n.parts = append(n.parts, bytes.Clone(raw))
	n.signed = n.signed || signed
}

// text adds a piece of text.
func (n *native) text(p *part, raw json.RawMessage) {
	if p.Signature != "" {
		n.keepSignedPart(raw)
		return
	}
	n.plain = append(n.plain, n.joiner.Add(p.Text)...)
}

func (n *native) flush() {
	n.plain = append(n.plain, n.joiner.Flush()...)
	if len(n.plain) > 0 {
		n.parts = append(n.parts, appendText(nil, string(n.plain)))
		n.plain = nil
	}
}

// raw is a list of parts; nil if the answer has no signature.
func (n *native) raw() event.Raw {
	if !n.signed {
		return nil
	}
	n.flush()
	return append(append([]byte{'['}, bytes.Join(n.parts, []byte{','})...), ']')
}
