// Package model is the port to what answers: a provider of language models.
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
	// Call is the ordinal of the call within its thread, from 0, counting the
	// calls that ended with an answer.
	Call int64
	// Messages is the conversation, oldest first.
	Messages []Message
}

// Message is one part of a conversation.
type Message struct {
	// Role is user, assistant or tool.
	Role string
	Text string
	// ToolCallID is set on a tool's result.
	ToolCallID string
}

// Chunk is a piece of an answer. Any of its fields may be set.
type Chunk struct {
	Text      string
	Reasoning string
	ToolCall  *ToolCall
	// Done ends the answer.
	Done *Done
}

// ToolCall is a tool call that the model asks for.
type ToolCall struct {
	// ProviderID is the provider's own name of the call.
	ProviderID string
	Name       string
	Arguments  event.Raw
}

// Done is the end of an answer.
type Done struct {
	// StopReason is one of model.completed's stop reasons.
	StopReason string
	Usage      event.Usage
}

// Provider answers requests. Its methods may be called by many goroutines.
type Provider interface {
	// Name is the provider's id in facts and configuration.
	Name() string
	// Stream asks the model. See the package comment for its obligations.
	Stream(ctx context.Context, r *Request) iter.Seq2[Chunk, error]
}

// Error is a failed request.
type Error struct {
	// Category is one of model.failed's error categories.
	Category string
	Message  string
	// Retryable says that asking again is safe and may help.
	Retryable bool
	// RetryAfter is how long the provider wants to be left alone; 0 if it didn't say.
	RetryAfter time.Duration
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("model: %s: %s", e.Category, e.Message) }
