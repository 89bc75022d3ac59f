package atif

import (
	"fmt"
	"slices"
	"strings"
)

func (c *checker) trajectory(path string, v any, depth int) {
	if depth > maxDepth {
		c.refusef(path, RuleShape, "trajectories are embedded more than %d deep", maxDepth)
		return
	}
	ids := map[string]bool{}
	if o, ok := v.(map[string]any); ok {
		ids = c.embedded(path, o["subagent_trajectories"])
	}
	c.object(path, v, members{
		"schema_version": need(checkVersion), "session_id": may(checkText), "trajectory_id": may(checkText),
		"agent": need(agent), "steps": need(func(c *checker, path string, v any) { c.steps(path, v, ids) }), "notes": may(checkText),
		"final_metrics": may(finalMetrics), "continued_trajectory_ref": may(checkText), "extra": may(anyObject),
		"subagent_trajectories": may(listOf(func(c *checker, path string, v any) { c.trajectory(path, v, depth+1) })),
	})
}

// embedded returns the ids of the embedded trajectories.
func (c *checker) embedded(path string, v any) map[string]bool {
	ids := map[string]bool{}
	l, _ := v.([]any)
	for i, x := range l {
		o, _ := x.(map[string]any)
		id, at := stringField(o, "trajectory_id"), fmt.Sprintf("%s.subagent_trajectories[%d].trajectory_id", path, i)
		switch {
		case blank(id):
			c.refusef(at, RuleEmbedded, "an embedded trajectory has an id")
		case ids[id]:
			c.refusef(at, RuleEmbedded, "%q is the id of another one", id)
		}
		ids[id] = true
	}
	return ids
}

func agent(c *checker, path string, v any) {
	c.object(path, v, members{
		"name": need(checkText), "version": need(checkText), "model_name": may(checkText), "tool_definitions": may(listOf(anyObject)), "extra": may(anyObject),
	})
}

func finalMetrics(c *checker, path string, v any) {
	c.object(path, v, members{
		"total_prompt_tokens": may(integer), "total_completion_tokens": may(integer), "total_cached_tokens": may(integer),
		"total_cost_usd": may(checkNumber), "total_steps": may(least(0, integer)), "extra": may(anyObject),
	})
}

func checkMetrics(c *checker, path string, v any) {
	c.object(path, v, members{
		"prompt_tokens": may(integer), "completion_tokens": may(integer), "cached_tokens": may(integer), "cost_usd": may(checkNumber),
		"prompt_token_ids": may(listOf(integer)), "completion_token_ids": may(listOf(integer)), "logprobs": may(listOf(checkNumber)), "extra": may(anyObject),
	})
}

func (c *checker) steps(path string, v any, embedded map[string]bool) {
	l, ok := v.([]any)
	if !ok || len(l) == 0 {
		c.refusef(path, RuleShape, "a list with at least one step is expected")
	}
	for i, x := range l {
		at := fmt.Sprintf("%s[%d]", path, i)
		if o, ok := x.(map[string]any); ok {
			if n, isNumber := floatOf(o["step_id"]); isNumber && n != float64(i+1) {
				c.refusef(at+".step_id", RuleStepIDs, "step %d has the number %v", i+1, o["step_id"])
			}
		}
		c.step(at, x, embedded)
	}
}

// agentOnly are the members that only steps of agents have.
var agentOnly = []string{"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}

func (c *checker) step(path string, v any, embedded map[string]bool) {
	o := c.object(path, v, members{
		"step_id": need(least(1, integer)), "timestamp": may(timestamp), "source": need(oneOf(SourceSystem, SourceUser, SourceAgent)),
		"message": need(checkContent), "model_name": may(checkText), "reasoning_effort": may(effort), "reasoning_content": may(checkText),
		"tool_calls": may(listOf(toolCall)), "metrics": may(checkMetrics), "observation": may(observation(embedded)),
		"is_copied_context": may(boolean), "llm_call_count": may(least(0, integer)), "extra": may(anyObject),
	})
	if o == nil {
		return
	}
	for _, name := range agentOnly {
		if source := stringField(o, "source"); source != SourceAgent && o[name] != nil {
			c.refusef(path+"."+name, RuleAgentOnly, "a step of the %s has none", source)
		}
	}
	if n, ok := floatOf(o["llm_call_count"]); ok && n == 0 && stringField(o, "source") == SourceAgent {
		for _, name := range []string{"metrics", "reasoning_content"} {
			if o[name] != nil {
				c.refusef(path+"."+name, RuleNoCall, "a step without a call of a model has none")
			}
		}
	}
	c.calls(path, o)
}

// calls checks the calls of a step and the results against each other.
func (c *checker) calls(path string, step map[string]any) {
	ids := map[string]bool{}
	calls, _ := step["tool_calls"].([]any)
	for i, x := range calls {
		o, _ := x.(map[string]any)
		id := stringField(o, "tool_call_id")
		if ids[id] {
			c.refusef(fmt.Sprintf("%s.tool_calls[%d].tool_call_id", path, i), RuleDuplicateCall, "%q is the id of another call of the step", id)
		}
		ids[id] = true
	}
	observed, _ := step["observation"].(map[string]any)
	results, _ := observed["results"].([]any)
	for i, x := range results {
		o, _ := x.(map[string]any)
		if id, ok := o["source_call_id"].(string); ok && !ids[id] {
			c.refusef(fmt.Sprintf("%s.observation.results[%d].source_call_id", path, i), RuleSourceCall, "the step has no call %q", id)
		}
	}
}

func oneOf(values ...string) check {
	return func(c *checker, path string, v any) {
		if s, ok := v.(string); !ok || !slices.Contains(values, s) {
			c.refusef(path, RuleShape, "one of %s is expected", strings.Join(values, ", "))
		}
	}
}

func toolCall(c *checker, path string, v any) {
	c.object(path, v, members{
		"tool_call_id": need(checkText), "function_name": need(checkText), "arguments": need(anyObject), "extra": may(anyObject),
	})
}

func observation(embedded map[string]bool) check {
	return func(c *checker, path string, v any) {
		c.object(path, v, members{"results": need(listOf(func(c *checker, path string, v any) {
			c.object(path, v, members{
				"source_call_id": may(checkText), "content": may(checkContent), "subagent_trajectory_ref": may(listOf(subagentRef(embedded))), "extra": may(anyObject),
			})
		}))})
	}
}

func subagentRef(embedded map[string]bool) check {
	return func(c *checker, path string, v any) {
		o := c.object(path, v, members{
			"trajectory_id": may(checkText), "trajectory_path": may(checkText), "session_id": may(checkText), "extra": may(anyObject),
		})
		if o == nil {
			return
		}
		id, file := stringField(o, "trajectory_id"), stringField(o, "trajectory_path")
		switch {
		case blank(id) && blank(file):
			c.refusef(path, RuleEmptyRef, "it has neither an id nor a path")
		case blank(file) && !embedded[id]:
			c.refusef(path+".trajectory_id", RuleDangling, "%q is not embedded", id)
		}
	}
}

// checkContent checks a text or a list of parts.
func checkContent(c *checker, path string, v any) {
	switch v := v.(type) {
	case string:
	case []any:
		listOf(checkPart)(c, path, v)
	default:
		c.refusef(path, RuleShape, "a text or a list of parts is expected")
	}
}

// mediaTypes are those of pictures and sounds, with other names of the same.
var mediaTypes = map[string][]string{
	"image": {"image/jpeg", "image/png", "image/gif", "image/webp"},
	"audio": {
		"audio/wav", "audio/mpeg", "audio/mp4", "audio/aac", "audio/ogg", "audio/flac", "audio/webm", "audio/aiff",
		"audio/x-wav", "audio/wave", "audio/mp3", "audio/m4a", "audio/x-m4a", "audio/x-aiff", "audio/x-flac",
	},
}

func checkPart(c *checker, path string, v any) {
	o := c.object(path, v, members{"type": need(checkText), "text": may(checkText), "source": may(anyObject)})
	if o == nil {
		return
	}
	kind := stringField(o, "type")
	switch {
	case kind != "text" && mediaTypes[kind] == nil:
		c.refusef(path+".type", RulePart, "%q is not a content type", kind)
	case kind == "text" && (o["text"] == nil || o["source"] != nil):
		c.refusef(path, RulePart, "a text has a text and no source")
	case kind != "text" && (o["text"] != nil || o["source"] == nil):
		c.refusef(path, RulePart, "%s has a source and no text", kind)
	case kind != "text":
		c.source(path+".source", o["source"], kind)
	}
}

func (c *checker) source(path string, v any, kind string) {
	ms := members{"media_type": need(checkText), "path": need(checkText)}
	if kind == "audio" {
		ms["duration_sec"] = may(least(0, checkNumber))
	}
	o := c.object(path, v, ms)
	if t := stringField(o, "media_type"); o != nil && !slices.Contains(mediaTypes[kind], t) {
		c.refusef(path+".media_type", RulePart, "%q is not a media type of %s", t, kind)
	}
}
