package tool

import (
	"encoding/json"

	"agentd/event"
)

// CapEscalate says of a tool that a call may ask to run outside of the sandbox. An
// inventory lists it only where such a wish can lead to a question.
const CapEscalate = "sandbox.escalate"

// escalateSchema is the parameter by which a call asks for more.
const escalateSchema = `"escalate": {
			"type": "object",
			"description": "Ask a person to let this command run outside of the sandbox. Only for what can't work inside of it, such as a change outside of the workspace or the use of the network; try it inside first.",
			"properties": {"reason": {"type": "string", "minLength": 1, "maxLength": 500, "description": "What it needs and why, in one sentence for the person who decides."}},
			"required": ["reason"],
			"additionalProperties": false
		}`

// Escalation returns why a call asks to run outside of the sandbox, and whether it
// does.
func Escalation(input event.Raw) (reason string, asked bool) {
	var in struct {
		Escalate *struct {
			Reason string `json:"reason"`
		} `json:"escalate"`
	}
	if json.Unmarshal(input, &in) != nil || in.Escalate == nil {
		return "", false
	}
	return in.Escalate.Reason, true
}

// Offer returns the tool's description for a model. Escalates is what its inventory
// says: that calls may ask to run outside of the sandbox.
func (e *Entry) Offer(escalates bool) *event.ToolInfo {
	if e.more != nil && escalates {
		return &e.more.Info
	}
	return &e.Info
}
