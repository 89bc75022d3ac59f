package event

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ModelRequested says that a provider was asked.
type ModelRequested struct {
	// Provider is the provider that was asked.
	Provider string `json:"provider" check:"nonempty"`
	// Model is the model that was asked.
	Model string `json:"model" check:"nonempty"`
	// ModelRequestID is the id of this request.
	ModelRequestID string `json:"modelRequestId" check:"nonempty"`
	// Step is the ordinal of the model call within the turn, from 1.
	Step int64 `json:"step"`
	// Attempt counts tries of this step, from 1.
	Attempt int64 `json:"attempt"`
	// EstimatedTokens is how large the input is likely to be, in tokens.
	EstimatedTokens int64 `json:"estimatedTokens,omitempty"`
	// RequestRef is where the request is as it was sent, without secrets.
	RequestRef string `json:"requestRef,omitempty"`
	// Purpose tells a turn's own call from a compaction or a classification.
	Purpose string `json:"purpose,omitempty" enum:"@modelPurpose"`
	// ConfigurationRef is the configuration that decisions are made under from here on;
	// empty if it is the one that the session named before.
	ConfigurationRef string `json:"configurationRef,omitempty"`
}

// ModelDelta is a piece of the answer's text.
type ModelDelta struct {
	// Text is the piece.
	Text string `json:"text"`
	// Index is the ordinal of the piece within the request, from 0.
	Index int64 `json:"index"`
}

// ToolCallRequest is a tool call that the model asked for.
type ToolCallRequest struct {
	// ToolCallID is the id of the call.
	ToolCallID string `json:"toolCallId" check:"nonempty"`
	// ProviderCallID is the provider's own name of the call.
	ProviderCallID string `json:"providerCallId,omitempty"`
	// ToolName is the tool that is called.
	ToolName string `json:"toolName" check:"nonempty"`
	// Arguments are the arguments as the model gave them, without secrets.
	Arguments Raw `json:"arguments,omitempty"`
	// ArgumentsRef is where large arguments are.
	ArgumentsRef string `json:"argumentsRef,omitempty"`
}

// ModelMessage is a whole answer of a model.
type ModelMessage struct {
	// Text is what the model said.
	Text string `json:"text"`
	// Reasoning is what the model thought, where it shows that.
	Reasoning string `json:"reasoning,omitempty"`
	// ToolCalls are the calls that the model asked for.
	ToolCalls []ToolCallRequest `json:"toolCalls,omitempty"`
	// Native carries what the provider wants back unchanged, such as signatures.
	Native Raw `json:"native,omitempty"`
}

// ModelCompleted ends a model call with a whole answer.
type ModelCompleted struct {
	// ModelRequestID is the request to the model.
	ModelRequestID string `json:"modelRequestId" check:"nonempty"`
	// Provider is the provider that answered.
	Provider string `json:"provider,omitempty"`
	// Model is the model that answered.
	Model string `json:"model,omitempty"`
	// Purpose tells a turn's own call from a compaction; empty is the turn's own.
	Purpose string `json:"purpose,omitempty" enum:"@modelPurpose"`
	// StopReason says why the model ended its answer.
	StopReason string `json:"stopReason" enum:"@modelStop"`
	// Usage counts the tokens that were used.
	Usage Usage `json:"usage"`
	// UsageSource says who counted the tokens.
	UsageSource string `json:"usageSource,omitempty" enum:"provider estimated"`
	// Message is the answer, without what is long in it: that is in the whole message,
	// which is at MessageRef then.
	Message *ModelMessage `json:"message,omitempty"`
	// MessageRef is where the whole message is, if it is long.
	MessageRef string `json:"messageRef,omitempty"`
	// Preview is the beginning of a text that is only at MessageRef.
	Preview string `json:"preview,omitempty"`
	// RawRef is where the provider's answer is in its own form.
	RawRef string `json:"rawRef,omitempty"`
	// ResponseID is the provider's own id of the answer.
	ResponseID string `json:"responseId,omitempty"`
	// DurationMs is how long the call took, in milliseconds.
	DurationMs int64 `json:"durationMs,omitempty"`
	// TimeToFirstTokenMs is how long the first piece of the answer took, in milliseconds.
	TimeToFirstTokenMs int64 `json:"timeToFirstTokenMs,omitempty"`
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
	// ModelRequestID is the request to the model.
	ModelRequestID string `json:"modelRequestId" check:"nonempty"`
	// Provider is the provider that was asked.
	Provider string `json:"provider,omitempty"`
	// Model is the model that was asked.
	Model string `json:"model,omitempty"`
	// ErrorCategory says of what kind the failure is, for programs.
	ErrorCategory string `json:"errorCategory" enum:"@modelFailure"`
	// Message says what went wrong, for people.
	Message string `json:"message" check:"nonempty"`
	// Retryable says that another attempt may succeed.
	Retryable bool `json:"retryable"`
	// RetryAfterMs is how long the provider asks to wait, in milliseconds.
	RetryAfterMs *int64 `json:"retryAfterMs,omitempty"`
	// HTTPStatus is the status of the provider's answer.
	HTTPStatus int64 `json:"httpStatus,omitempty"`
	// RawRef is where the provider's answer is in its own form.
	RawRef string `json:"rawRef,omitempty"`
	// PartialText is what had arrived of the answer.
	PartialText string `json:"partialText,omitempty"`
}

// ReasoningDelta is a piece of the model's reasoning.
type ReasoningDelta struct {
	// Text is the piece.
	Text string `json:"text"`
	// Index is the ordinal of the piece within the request, from 0.
	Index int64 `json:"index"`
}

// ReasoningSummary is the model's reasoning in short, where it gives one.
type ReasoningSummary struct {
	// Text is the summary, or its beginning.
	Text string `json:"text"`
	// SummaryRef is where a long summary is.
	SummaryRef string `json:"summaryRef,omitempty"`
}
