// Package model is the port to what answers, a provider of language models, and
// what decides between providers: the catalogue of models, routing, limits, cost.
//
// # Contract
//
// A [Provider] turns one [Request] into a stream of [Chunk]s and ends it with
// exactly one chunk whose Done is set, or with an error. Errors are [*Error]s: the
// category says what went wrong and whether asking again is safe. A provider
// stops soon after its context ends, retries nothing by itself and keeps no
// memory between requests, so that every try is a fact that the loop records.
package model

import (
	"context"
	"fmt"
	"iter"
	"time"

	"agentd/event"
)

// Request is one question to a model.
type Request struct {
	// Model is the provider's name of the model.
	Model string
	// RequestID is the modelRequestId of the facts.
	RequestID string
	// CacheKey is the same for all requests of a thread, so that a provider finds
	// the prefix that it has seen.
	CacheKey string
	// Call is the ordinal of the call within its thread, from 0, counting the
	// calls that ended with an answer or with an error of the provider's.
	Call int64
	// Failed counts the calls that ended with an error of the provider's since
	// the last input.
	Failed int64
	// System are the instructions that stand above the conversation.
	System string
	// Messages is the conversation, oldest first. A message that was given once is
	// the same pointer in later requests and never changes.
	Messages []*Message
	// Tools that the model may ask for.
	Tools []ToolSpec
	// OutputSchema is the JSON Schema that the answer must satisfy, if any.
	OutputSchema event.Raw
	// MaxOutputTokens bounds the answer; 0 leaves it to the provider.
	MaxOutputTokens int64
	// TraceParent and TraceState are the W3C trace context of the call, if it has one.
	TraceParent, TraceState string
}

// Roles of a message.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

// Message is one part of a conversation. It must not be changed once it was part
// of a request: the encoded form of a conversation is kept with its first message.
type Message struct {
	// Role is user, assistant or tool.
	Role string
	// Text of the message; of a tool's result, what the model is shown of it.
	Text string
	// Media are pictures and files of a user's message or a tool's result.
	Media []Media
	// Reasoning is what an assistant said to itself before Text.
	Reasoning string
	// ToolCalls that an assistant asked for.
	ToolCalls []ToolCall
	// Native is what the provider NativeBy wants back unchanged with an
	// assistant's message; others ignore it.
	Native   event.Raw
	NativeBy string
	// ToolCallID, ToolName and IsError are set on a tool's result.
	ToolCallID string
	ToolName   string
	IsError    bool

	joined joined
}

// Media is a picture or a file.
type Media struct {
	// MediaType such as image/png.
	MediaType string
	// Name of a file.
	Name string
	// Data is the content; URL says where it is if Data is nil.
	Data []byte
	URL  string
}

// ToolSpec is a tool's description for a model.
type ToolSpec struct {
	Name        string
	Description string
	// Schema of the arguments, a JSON Schema of an object.
	Schema event.Raw
}

// Chunk is a piece of an answer. Any of its fields may be set.
type Chunk struct {
	Text      string
	Reasoning string
	// ToolCall is given whole, once all its pieces have arrived.
	ToolCall *ToolCall
	// Done ends the answer.
	Done *Done
}

// ToolCall is a tool call that the model asks for.
type ToolCall struct {
	// ProviderID is the provider's own name of the call.
	ProviderID string
	Name       string
	// Arguments is a JSON object. What a model sent instead of one is in Malformed,
	// and Arguments is then empty.
	Arguments event.Raw
	Malformed string
}

// Done is the end of an answer.
type Done struct {
	// StopReason is one of model.completed's stop reasons.
	StopReason string
	Usage      event.Usage
	// Estimated says that the provider didn't tell the usage.
	Estimated bool
	// ReasoningSummarised says that the reasoning is a summary that the provider made.
	ReasoningSummarised bool
	// ResponseID is the provider's name of the answer.
	ResponseID string
	// Native is what the provider wants back unchanged with this answer.
	Native event.Raw
	// Raw is what the provider sent, in its own form, up to a bound.
	Raw []byte
	// Standing is what the provider said about the caller's limits.
	Standing *Standing
}

// Standing is what a provider says about how much is left. Negative is unknown.
type Standing struct {
	RequestsLeft, RequestsLimit int64
	TokensLeft, TokensLimit     int64
}

// Provider answers requests. Its methods may be called by many goroutines.
type Provider interface {
	// Name is the provider's id in facts and configuration.
	Name() string
	// Stream asks the model. See the package comment for its obligations.
	Stream(ctx context.Context, r *Request) iter.Seq2[Chunk, error]
}

// Categories of a failed request; those of model.failed.
const (
	RateLimited     = "rate_limited"
	Overloaded      = "overloaded"
	ServerError     = "server_error"
	Timeout         = "timeout"
	Network         = "network"
	Auth            = "auth"
	InvalidRequest  = "invalid_request"
	ContextOverflow = "context_overflow"
	ContentFilter   = "content_filter"
	Interrupted     = "interrupted"
	Malformed       = "malformed"
)

// Error is a failed request.
type Error struct {
	// Category is one of model.failed's error categories.
	Category string
	Message  string
	// Retryable says that asking again is safe and may help.
	Retryable bool
	// RetryAfter is how long the provider wants to be left alone; 0 if it didn't say.
	RetryAfter time.Duration
	// HTTPStatus that the provider answered with; 0 if it didn't.
	HTTPStatus int
	// Raw is what the provider sent, up to a bound.
	Raw []byte
	// Standing is what the provider said about the caller's limits.
	Standing *Standing
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("model: %s: %s", e.Category, e.Message) }
