package evidence

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"agentd/event"
	"agentd/internal/clip"
)

// maxShown bounds what a review shows of one fact: the whole is in the evidence.
const maxShown = 1500

// Cited is a fact that a review rests on, so that a reader sees what a statement was
// made of.
type Cited struct {
	At       time.Time `json:"at"`
	EventID  string    `json:"eventId"`
	Sequence uint64    `json:"sequence"`
	// Text is the fact as it is stored, with white space for people, up to a bound.
	Text string     `json:"text"`
	Type event.Type `json:"type"`
}

// inStrings are signs of links and pictures. JSON has them within strings alone,
// where they can be written otherwise.
var inStrings = strings.NewReplacer("](", `]\u0028`, "![", `\u0021[`)

// cite shows a fact. Signs that mean something in pages are escaped as JSON allows.
func cite(e *event.Event, data []byte) Cited {
	var escaped, lines bytes.Buffer
	json.HTMLEscape(&escaped, data)
	text := escaped.String()
	if json.Indent(&lines, escaped.Bytes(), "", "  ") == nil {
		text = lines.String()
	}
	text = clip.Text(inStrings.Replace(text), maxShown)
	return Cited{At: e.Time, EventID: e.ID, Sequence: e.Sequence, Text: text, Type: e.Type}
}

// calls remembers what was called and by whom, for as long as it runs.
type calls struct {
	// args are the arguments of the calls that run, by their id.
	args map[string]event.Raw
	// agents are the roles of subagents, by their id.
	agents map[string]string
}

// recordCallFact learns what a fact says of calls and subagents.
func (c *calls) recordCallFact(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.ModelCompleted:
		if p.Message != nil {
			for i := range p.Message.ToolCalls {
				c.args[p.Message.ToolCalls[i].ToolCallID] = p.Message.ToolCalls[i].Arguments
			}
		}
	case *event.ToolStarted:
		if len(p.SafeArgs) > 0 { // in the facts of older versions a hook may have rewritten them
			c.args[e.ToolCallID] = p.SafeArgs
		}
	case *event.ToolArgs:
		if len(p.SafeArgs) > 0 {
			c.args[e.ToolCallID] = p.SafeArgs
		}
	case *event.SubagentSpawned:
		c.agents[e.SubagentID] = cmp.Or(p.Nickname, p.Role, e.SubagentID)
	}
}

// argumentsOf shows the arguments of a call in a few words: the command, the path, or all.
func (c *calls) argumentsOf(toolCallID string) string {
	args := c.args[toolCallID]
	if len(args) == 0 {
		return ""
	}
	var known struct {
		Command string `json:"command"`
		Pattern string `json:"pattern"`
		Path    string `json:"path"`
		Role    string `json:"role"`
	}
	if json.Unmarshal(args, &known) == nil {
		for _, s := range []string{known.Command, known.Pattern, known.Path, known.Role} {
			if s != "" {
				return clipText(s)
			}
		}
	}
	return clipText(string(args))
}

// appendCalled puts what was called at the end of a sentence.
func (c *calls) appendCalled(says string, e *event.Event) string {
	what := c.argumentsOf(e.ToolCallID)
	if says == "" || what == "" || strings.Contains(says, what) {
		return says
	}
	return strings.TrimSuffix(says, ".") + fmt.Sprintf("; the call was %q.", what)
}

// who begins a sentence about a subagent's work with its name.
func (c *calls) who(e *event.Event) string {
	switch e.Payload.(type) {
	case *event.SubagentSpawned, *event.SubagentEnded:
		return ""
	}
	if e.SubagentID == "" {
		return ""
	}
	return "[" + cmp.Or(c.agents[e.SubagentID], e.SubagentID) + "] "
}
