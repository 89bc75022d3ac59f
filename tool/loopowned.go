package tool

import (
	"context"
	"encoding/json"
	"strings"

	"agentd/event"
	"agentd/tool/toolkind"
)

const requestInputSchema = `{
	"type": "object",
	"properties": {
		"prompt": {"type": "string", "minLength": 1, "description": "What to ask, in words the person understands without more context."},
		"schema": {"type": "object", "description": "JSON Schema that the answer must satisfy. Leave it out to get free text."}
	},
	"required": ["prompt"],
	"additionalProperties": false
}`

func newRequestInput() *builtin {
	return define(toolkind.RequestInput, event.ToolInfo{
		Description: "Asks the person you work for and waits for the answer. Use it only when you can't go on " +
			"without a decision or a fact that no file and no other tool can give. Ask one thing at a time. " +
			"With a schema the answer is JSON that satisfies it.",
		Capabilities:      []string{CapAsk},
		IsReadOnly:        true,
		InterruptBehavior: interruptCancel,
	}, requestInputSchema, loopOwned(toolkind.RequestInput))
}

const spawnAgentSchema = `{
	"type": "object",
	"properties": {
		"role": {"type": "string", "minLength": 1, "description": "What the agent is to be, such as reviewer or researcher."},
		"input": {"type": "string", "minLength": 1, "description": "The whole task: the agent doesn't see this conversation."},
		"wait": {"type": "boolean", "description": "true (the default): wait for the agent and get its answer. false: go on at once and get its id."}
	},
	"required": ["role", "input"],
	"additionalProperties": false
}`

// withPeers is spawnAgentSchema with a choice of other agents, if there are any. A
// model can name no other: where its words go is decided by the configuration.
func withPeers(peers []string) string {
	if len(peers) == 0 {
		return spawnAgentSchema
	}
	names, _ := json.Marshal(peers) //nolint:errchkjson // strings always encode
	return strings.Replace(spawnAgentSchema, `"properties": {`, `"properties": {
		"peer": {"type": "string", "enum": `+string(names)+`, "description": "Give the work to this other agent, which runs elsewhere and sees nothing but input. Without it: to an agent of this runtime."},`, 1)
}

func newSpawnAgent(peers []string) *builtin {
	return define(toolkind.SpawnAgent, event.ToolInfo{
		Description: "Starts another agent on a part of the work, in a thread of its own with an empty history. " +
			"Give it everything it needs in input. Good for work that can be described on its own; not for a " +
			"step that you can do with one tool call.",
		Capabilities:      []string{CapSubagent},
		IsConcurrencySafe: true,
		InterruptBehavior: interruptCancel,
	}, withPeers(peers), loopOwned(toolkind.SpawnAgent))
}

const presentPlanSchema = `{
	"type": "object",
	"properties": {
		"plan": {"type": "string", "minLength": 1, "maxLength": 100000, "description": "The whole plan as Markdown: what you would change, where, in which order, how it is checked, and what is still open."}
	},
	"required": ["plan"],
	"additionalProperties": false
}`

func newPresentPlan() *builtin {
	b := define(toolkind.PresentPlan, event.ToolInfo{
		Description: "You are in plan mode: only reading works, and nothing may be changed. Find out what you need, " +
			"then hand your plan over with this tool. The person approves it, and you carry it out in the same " +
			"turn; or sends it back with a comment, and you change it. Don't use it for a question that needs no " +
			"change of anything: answer that instead.",
		Capabilities:      []string{CapPlanHand},
		IsReadOnly:        true,
		InterruptBehavior: interruptCancel,
	}, presentPlanSchema, loopOwned(toolkind.PresentPlan))
	b.planning = true
	return b
}

// PlanText is the plan in the input of a call of present_plan.
func PlanText(input event.Raw) string {
	var in struct {
		Plan string `json:"plan"`
	}
	if json.Unmarshal(input, &in) != nil {
		return "" // it isn't shown then; the call itself is refused
	}
	return in.Plan
}

// loopOwned is the Run of a tool that must not get here.
func loopOwned(kind toolkind.Kind) func(context.Context, *Call) (*Result, error) {
	return func(context.Context, *Call) (*Result, error) {
		return nil, Errorf(Unavailable, "%s runs in the agent loop, which isn't available here", kind)
	}
}
