// Package script is a model provider that plays a file instead of asking a
// model: demos, tests and a first start need no key and give the same answer
// every time.
//
// # Contract
//
// A script is a list of answers. Which of them a request gets is a pure function
// of the request, so a thread that is taken up again after a crash goes on where
// it was, and one provider serves any number of threads:
//
//   - Answers without "when" are taken in order: the answer to the request with
//     Call n is the n-th of them. With "repeat" the list begins again at its end.
//   - Answers with "when" come first where they match the last thing that the user
//     said. Several that match are taken in order, one for each answer or error of
//     the model since then: the first asks for a tool, say, and the second says
//     what came of it. When they are used up, the others go on.
//   - Without an answer to give, or without a script, the provider repeats what the
//     user said.
//
// An answer sends its reasoning, its text, its tool calls and its end, or its
// error, in this order. Format:
//
//	repeat: true                # begin again at the end of the list
//	answers:
//	  - text: Hello.            # the answer's text
//	    reasoning: Be polite.   # what the model says to itself
//	    chunks: 4               # send the text in so many pieces, default by words
//	    delay: 10ms             # wait before each piece
//	    stall: 1h               # send nothing for so long, then go on
//	    stopReason: max_tokens  # default tool_use with tool calls, otherwise end_turn
//	    usage: {inputTokens: 12, outputTokens: 3, cachedInputTokens: 4, cacheWriteInputTokens: 6, reasoningTokens: 2}
//	  - text: I will look.
//	    tools:                  # ask for tools
//	      - {name: shell, arguments: {command: ls}}
//	      - {name: shell, id: call_1, malformed: '{"command": '}   # arguments that are no JSON
//	  - ask: {prompt: "Which colour?", schema: {type: string}}     # the same as calling request_input
//	  - error: {category: rate_limited, message: slow down, retryable: true, retryAfter: 2s}
//	  - when: {contains: weather}   # if the user's last text contains this
//	    text: It rains.
//
// [Load] and [Parse] are strict: an unknown key, stop reason or error category is
// an error that names its line and column.
package script

import (
	"time"
)

// Script is a list of answers.
type Script struct {
	Answers []Answer `yaml:"answers"`
	// Repeat begins the list again when it is used up.
	Repeat bool `yaml:"repeat"`
}

// Answer is one answer of the script.
type Answer struct {
	// When says which requests the answer is for; nil: the next in order.
	When      *When  `yaml:"when"`
	Text      string `yaml:"text"`
	Reasoning string `yaml:"reasoning"`
	// ReasoningSummarised says that Reasoning is a summary, as some providers give one.
	ReasoningSummarised bool          `yaml:"reasoningSummarised"`
	Chunks              int           `yaml:"chunks"`
	Delay               time.Duration `yaml:"delay"`
	// Stall is how long nothing is sent before the first piece.
	Stall time.Duration `yaml:"stall"`
	// StopReason is one of model.completed's; if empty, the fitting one.
	StopReason string `yaml:"stopReason"`
	Usage      *Usage `yaml:"usage"`
	Tools      []Tool `yaml:"tools"`
	Ask        *Ask   `yaml:"ask"`
	Error      *Error `yaml:"error"`
}

// When is a condition on a request.
type When struct {
	// Contains has to occur in the last text of the user.
	Contains string `yaml:"contains"`
}

// Tool is a tool call that an answer asks for.
type Tool struct {
	Name string `yaml:"name"`
	// ID is the provider's name of the call; it may be empty.
	ID        string         `yaml:"id"`
	Arguments map[string]any `yaml:"arguments"`
	// Malformed is sent in place of arguments.
	Malformed string `yaml:"malformed"`
}

// Usage is the number of tokens that an answer claims to have used; without it
// they are estimated.
type Usage struct {
	InputTokens       int64 `yaml:"inputTokens"`
	OutputTokens      int64 `yaml:"outputTokens"`
	CachedInputTokens int64 `yaml:"cachedInputTokens"`
	// CacheWriteInputTokens were kept for later requests.
	CacheWriteInputTokens int64 `yaml:"cacheWriteInputTokens"`
	ReasoningTokens       int64 `yaml:"reasoningTokens"`
}

// Ask makes the answer a call of request_input.
type Ask struct {
	Prompt string         `yaml:"prompt"`
	Schema map[string]any `yaml:"schema"`
}

// Error makes the answer fail, after what it has sent.
type Error struct {
	Category   string        `yaml:"category"`
	Message    string        `yaml:"message"`
	Retryable  bool          `yaml:"retryable"`
	RetryAfter time.Duration `yaml:"retryAfter"`
}
