package atif

import (
	"encoding/json"
	"fmt"
)

// Version is what trajectories are written as.
const Version = "ATIF-v1.8"

// Level14 is the oldest version that trajectories can be written as; see [Options].
const Level14 = "ATIF-v1.4"

// versions are those that a document may declare.
var versions = map[string]bool{
	"ATIF-v1.0": true, "ATIF-v1.1": true, "ATIF-v1.2": true, "ATIF-v1.3": true, Level14: true,
	"ATIF-v1.5": true, "ATIF-v1.6": true, "ATIF-v1.7": true, Version: true,
}

// Sources of a step.
const (
	SourceSystem = "system"
	SourceUser   = "user"
	SourceAgent  = "agent"
)

// Extra holds what the format has no member for.
type Extra map[string]any

// Trajectory is a whole document, or one that is embedded in another.
type Trajectory struct {
	SchemaVersion string        `json:"schema_version"`
	SessionID     string        `json:"session_id,omitempty"`
	TrajectoryID  string        `json:"trajectory_id,omitempty"`
	Agent         Agent         `json:"agent"`
	Steps         []*Step       `json:"steps"`
	Notes         string        `json:"notes,omitempty"`
	FinalMetrics  *FinalMetrics `json:"final_metrics,omitempty"`
	ContinuedRef  string        `json:"continued_trajectory_ref,omitempty"`
	Extra         Extra         `json:"extra,omitempty"`
	Subagents     []*Trajectory `json:"subagent_trajectories,omitempty"`
}

// Agent says who acted.
type Agent struct {
	Name            string           `json:"name"`
	Version         string           `json:"version"`
	ModelName       string           `json:"model_name,omitempty"`
	ToolDefinitions []ToolDefinition `json:"tool_definitions,omitempty"`
	Extra           Extra            `json:"extra,omitempty"`
}

// ToolDefinition is a tool as the model was offered it.
type ToolDefinition struct {
	// Type is "function".
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function describes a tool.
type Function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// Step is something that was said or done.
type Step struct {
	// StepID counts from 1; [Writer] sets it.
	StepID           int64        `json:"step_id"`
	Timestamp        string       `json:"timestamp,omitempty"`
	Source           string       `json:"source"`
	ModelName        string       `json:"model_name,omitempty"`
	Message          Content      `json:"message"`
	ReasoningContent string       `json:"reasoning_content,omitempty"`
	ToolCalls        []*ToolCall  `json:"tool_calls,omitempty"`
	Observation      *Observation `json:"observation,omitempty"`
	Metrics          *Metrics     `json:"metrics,omitempty"`
	LLMCallCount     *int64       `json:"llm_call_count,omitempty"`
	Extra            Extra        `json:"extra,omitempty"`
}

// ToolCall is a call that a model asked for.
type ToolCall struct {
	ToolCallID   string `json:"tool_call_id"`
	FunctionName string `json:"function_name"`
	// Arguments is always an object.
	Arguments json.RawMessage `json:"arguments"`
	Extra     Extra           `json:"extra,omitempty"`
}

// Observation is what came of a step.
type Observation struct {
	Results []*Result `json:"results"`
}

// Result is what came of one call, or of something that wasn't called.
type Result struct {
	SourceCallID string        `json:"source_call_id,omitempty"`
	Content      *Content      `json:"content,omitempty"`
	SubagentRefs []SubagentRef `json:"subagent_trajectory_ref,omitempty"`
	Extra        Extra         `json:"extra,omitempty"`
}

// SubagentRef points to the trajectory of a subagent, by its id if it is embedded.
type SubagentRef struct {
	TrajectoryID   string `json:"trajectory_id,omitempty"`
	TrajectoryPath string `json:"trajectory_path,omitempty"`
	SessionID      string `json:"session_id,omitempty"`
	Extra          Extra  `json:"extra,omitempty"`
}

// Metrics are those of one call of a model.
type Metrics struct {
	// PromptTokens counts all of the prompt, CachedTokens the part of it that was
	// cached.
	PromptTokens     int64    `json:"prompt_tokens"`
	CompletionTokens int64    `json:"completion_tokens"`
	CachedTokens     int64    `json:"cached_tokens"`
	CostUSD          *float64 `json:"cost_usd,omitempty"`
	Extra            Extra    `json:"extra,omitempty"`
}

// FinalMetrics are those of a trajectory.
type FinalMetrics struct {
	PromptTokens     int64 `json:"total_prompt_tokens"`
	CompletionTokens int64 `json:"total_completion_tokens"`
	CachedTokens     int64 `json:"total_cached_tokens"`
	// CostUSD is absent where no price is known.
	CostUSD *float64 `json:"total_cost_usd,omitempty"`
	Steps   int64    `json:"total_steps"`
	Extra   Extra    `json:"extra,omitempty"`
}

// Content is a text, or a list of parts.
type Content struct {
	Text  string
	Parts []Part
}

// Text returns content that is a text.
func Text(s string) *Content { return &Content{Text: s} }

// MarshalJSON implements [json.Marshaler].
func (c Content) MarshalJSON() ([]byte, error) {
	if c.Parts != nil {
		return json.Marshal(c.Parts)
	}
	return json.Marshal(c.Text)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *Content) UnmarshalJSON(data []byte) error {
	*c = Content{}
	into := any(&c.Text)
	if len(data) > 0 && data[0] == '[' {
		into = &c.Parts
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("atif: content: %w", err)
	}
	return nil
}

// Part is a piece of content.
type Part struct {
	// Type is text, image or audio.
	Type   string  `json:"type"`
	Text   string  `json:"text,omitempty"`
	Source *Source `json:"source,omitempty"`
}

// Source is where a picture or a sound is.
type Source struct {
	MediaType   string   `json:"media_type"`
	Path        string   `json:"path"`
	DurationSec *float64 `json:"duration_sec,omitempty"`
}
