// Package script is a model provider that plays a file instead of asking a
// model: demos, tests and a first start need no key and give the same answer
// every time.
//
// A script is a list of answers. The answer to a thread's n-th model call is the
// n-th of the list, so a thread that is taken up again after a crash goes on
// where it was. When the list is used up, or empty, the provider repeats what the
// user said. Format:
//
//	answers:
//	  - text: Hello.            # the answer's text
//	    reasoning: Be polite.   # optional
//	    chunks: 4               # send the text in so many pieces, default by words
//	    delay: 10ms             # wait before each piece
//	    usage: {inputTokens: 12, outputTokens: 3}
//	  - ask: {prompt: "Which colour?"}   # ask the user with request_input
//	  - error: {category: rate_limited, message: slow down, retryable: true}
package script

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"agentd/event"
	"agentd/model"
)

// Script is a list of answers.
type Script struct {
	Answers []Answer `yaml:"answers"`
}

// Answer is one answer of the script.
type Answer struct {
	Text      string        `yaml:"text"`
	Reasoning string        `yaml:"reasoning"`
	Chunks    int           `yaml:"chunks"`
	Delay     time.Duration `yaml:"delay"`
	Usage     *Usage        `yaml:"usage"`
	Ask       *Ask          `yaml:"ask"`
	Error     *Error        `yaml:"error"`
}

// Usage is the number of tokens that an answer claims to have used; without it
// they are estimated.
type Usage struct {
	InputTokens       int64 `yaml:"inputTokens"`
	OutputTokens      int64 `yaml:"outputTokens"`
	CachedInputTokens int64 `yaml:"cachedInputTokens"`
	ReasoningTokens   int64 `yaml:"reasoningTokens"`
}

// Ask makes the answer a call of request_input.
type Ask struct {
	Prompt string         `yaml:"prompt"`
	Schema map[string]any `yaml:"schema"`
}

// Error makes the answer fail.
type Error struct {
	Category   string        `yaml:"category"`
	Message    string        `yaml:"message"`
	Retryable  bool          `yaml:"retryable"`
	RetryAfter time.Duration `yaml:"retryAfter"`
}

// Load reads a script from a file. An unknown key is an error that names its place.
func Load(path string) (*Script, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	var s Script
	if err := yaml.UnmarshalWithOptions(b, &s, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("script: %s: %w", path, err)
	}
	return &s, nil
}

// Provider plays a script.
type Provider struct {
	name   string
	script *Script
}

// New returns a provider of that name. A nil script repeats what the user says.
func New(name string, s *Script) *Provider {
	if s == nil {
		s = &Script{}
	}
	return &Provider{name: name, script: s}
}

// Name implements [model.Provider].
func (p *Provider) Name() string { return p.name }

// Stream implements [model.Provider].
func (p *Provider) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	a := p.answer(r)
	return func(yield func(model.Chunk, error) bool) {
		for _, c := range a.chunks(r) {
			if err := wait(ctx, a.Delay); err != nil {
				yield(model.Chunk{}, err)
				return
			}
			if !yield(c, nil) {
				return
			}
		}
		if a.Error != nil {
			yield(model.Chunk{}, &model.Error{
				Category: a.Error.Category, Message: a.Error.Message, Retryable: a.Error.Retryable, RetryAfter: a.Error.RetryAfter,
			})
		}
	}
}

func (p *Provider) answer(r *model.Request) Answer {
	if r.Call < int64(len(p.script.Answers)) {
		return p.script.Answers[r.Call]
	}
	said := ""
	for _, m := range r.Messages {
		if m.Role == "user" {
			said = m.Text
		}
	}
	return Answer{Text: "You said: " + said}
}

// wait sleeps unless the context ends first.
func wait(ctx context.Context, d time.Duration) error {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return &model.Error{Category: "interrupted", Message: context.Cause(ctx).Error(), Retryable: true}
	}
	return nil
}

// chunks returns the pieces of the answer; the last one is its end, unless the
// answer fails.
func (a *Answer) chunks(r *model.Request) []model.Chunk {
	var out []model.Chunk
	if a.Reasoning != "" {
		out = append(out, model.Chunk{Reasoning: a.Reasoning})
	}
	for _, piece := range pieces(a.Text, a.Chunks) {
		out = append(out, model.Chunk{Text: piece})
	}
	done := &model.Done{StopReason: "end_turn", Usage: a.usage(r)}
	if a.Ask != nil {
		args, _ := json.Marshal(map[string]any{"prompt": a.Ask.Prompt, "schema": a.Ask.Schema}) //nolint:errchkjson // YAML values always encode
		out = append(out, model.Chunk{ToolCall: &model.ToolCall{Name: "request_input", Arguments: args}})
		done.StopReason = "tool_use"
	}
	if a.Error == nil {
		out = append(out, model.Chunk{Done: done})
	}
	return out
}

// usage estimates four bytes a token where the script doesn't say.
func (a *Answer) usage(r *model.Request) event.Usage {
	if u := a.Usage; u != nil {
		return event.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CachedInputTokens: u.CachedInputTokens, ReasoningTokens: u.ReasoningTokens}
	}
	in := 0
	for _, m := range r.Messages {
		in += len(m.Text)
	}
	return event.Usage{InputTokens: int64(in+3) / 4, OutputTokens: int64(len(a.Text)+3) / 4}
}

// pieces splits a text into n pieces, or into words if n is 0.
func pieces(s string, n int) []string {
	if s == "" {
		return nil
	}
	if n == 0 {
		return strings.SplitAfter(s, " ")
	}
	runes := []rune(s)
	var out []string
	for i := range n {
		if piece := runes[i*len(runes)/n : (i+1)*len(runes)/n]; len(piece) > 0 {
			out = append(out, string(piece))
		}
	}
	return out
}
