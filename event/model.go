package event

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ModelRequested says that a provider was asked.
type ModelRequested struct {
	Provider       string `json:"provider" check:"nonempty"`
	Model          string `json:"model" check:"nonempty"`
	ModelRequestID string `json:"modelRequestId" check:"nonempty"`
	// Step is the ordinal of the model call within the turn, from 1.
	Step int64 `json:"step"`
	// Attempt counts tries of this step, from 1.
	Attempt         int64  `json:"attempt"`
	EstimatedTokens int64  `json:"estimatedTokens,omitempty"`
	RequestRef      string `json:"requestRef,omitempty"`
	// Purpose tells a turn's own call from a compaction or a classification.
	Purpose string `json:"purpose,omitempty" enum:"@modelPurpose"`
	// ConfigurationRef is the configuration that decisions are made under from here on;
	// empty if it is the one that the session named before.
	ConfigurationRef string `json:"configurationRef,omitempty"`
}

// ModelDelta is a piece of the answer's text.
type ModelDelta struct {
	Text string `json:"text"`
	// Index is the ordinal of the piece within the request, from 0.
	Index int64 `json:"index"`
}

// ToolCallRequest is a tool call that the model asked for.
type ToolCallRequest struct {
	ToolCallID string `json:"toolCallId" check:"nonempty"`
	// ProviderCallID is the provider's own name of the call.
	ProviderCallID string `json:"providerCallId,omitempty"`
	ToolName       string `json:"toolName" check:"nonempty"`
	Arguments      Raw    `json:"arguments,omitempty"`
	ArgumentsRef   string `json:"argumentsRef,omitempty"`
}

// ModelMessage is a whole answer of a model.
type ModelMessage struct {
	Text      string            `json:"text"`
	Reasoning string            `json:"reasoning,omitempty"`
	ToolCalls []ToolCallRequest `json:"toolCalls,omitempty"`
	// Native carries what the provider wants back unchanged, such as signatures.
	Native Raw `json:"native,omitempty"`
}

// ModelCompleted ends a model call with a whole answer.
type ModelCompleted struct {
	ModelRequestID string `json:"modelRequestId" check:"nonempty"`
	Provider       string `json:"provider,omitempty"`
	Model          string `json:"model,omitempty"`
	// Purpose tells a turn's own call from a compaction; empty is the turn's own.
	Purpose     string `json:"purpose,omitempty" enum:"@modelPurpose"`
	StopReason  string `json:"stopReason" enum:"@modelStop"`
	Usage       Usage  `json:"usage"`
	UsageSource string `json:"usageSource,omitempty" enum:"provider estimated"`
	// Message is the answer, without what is long in it: that is in the whole message,
	// which is at MessageRef then.
	Message    *ModelMessage `json:"message,omitempty"`
	MessageRef string        `json:"messageRef,omitempty"`
	// Preview is the beginning of a text that is only at MessageRef.
	Preview            string `json:"preview,omitempty"`
	RawRef             string `json:"rawRef,omitempty"`
	ResponseID         string `json:"responseId,omitempty"`
	DurationMs         int64  `json:"durationMs,omitempty"`
	TimeToFirstTokenMs int64  `json:"timeToFirstTokenMs,omitempty"`
}

// Whole returns the whole answer, which is read where the event refers to it; nil if there
// is none. The content is a message as JSON, or its text alone.
func (p *ModelCompleted) Whole(read func(ref string) ([]byte, error)) (*ModelMessage, error) {
	if p.MessageRef == "" {
		return p.Message, nil
	}
	b, err := read(p.MessageRef)
	if err != nil {
		return nil, fmt.Errorf("event: the answer at %s: %w", p.MessageRef, err)
	}
	m := &ModelMessage{}
	if json.Unmarshal(b, m) != nil {
		m = &ModelMessage{Text: strings.ToValidUTF8(string(b), "\uFFFD")}
	}
	return m, nil
}

// ModelFailed ends a model call without an answer.
type ModelFailed struct {
	ModelRequestID string `json:"modelRequestId" check:"nonempty"`
	Provider       string `json:"provider,omitempty"`
	Model          string `json:"model,omitempty"`
	ErrorCategory  string `json:"errorCategory" enum:"@modelFailure"`
	Message        string `json:"message" check:"nonempty"`
	Retryable      bool   `json:"retryable"`
	RetryAfterMs   *int64 `json:"retryAfterMs,omitempty"`
	HTTPStatus     int64  `json:"httpStatus,omitempty"`
	RawRef         string `json:"rawRef,omitempty"`
	// PartialText is what had arrived of the answer.
	PartialText string `json:"partialText,omitempty"`
}

// ReasoningDelta is a piece of the model's reasoning.
type ReasoningDelta struct {
	Text  string `json:"text"`
	Index int64  `json:"index"`
}

// ReasoningSummary is the model's reasoning in short, where it gives one.
type ReasoningSummary struct {
	Text       string `json:"text"`
	SummaryRef string `json:"summaryRef,omitempty"`
}
