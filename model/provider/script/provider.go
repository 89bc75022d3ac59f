package script

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"agentd/event"
	"agentd/model"
	"agentd/tool/toolkind"
)

// Provider plays a script.
type Provider struct {
	name   string
	repeat bool
	// ordered are the answers without a condition, matched those with one.
	ordered, matched []*Answer
}

// New returns a provider of that name. A nil script repeats what the user says.
func New(name string, s *Script) *Provider {
	p := &Provider{name: name}
	if s == nil {
		return p
	}
	p.repeat = s.Repeat
	for i := range s.Answers {
		if a := &s.Answers[i]; a.When != nil {
			p.matched = append(p.matched, a)
		} else {
			p.ordered = append(p.ordered, a)
		}
	}
	return p
}

// Name implements [model.Provider].
func (p *Provider) Name() string { return p.name }

// Stream implements [model.Provider].
func (p *Provider) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		a := p.answer(r)
		if err := sleepContext(ctx, a.Stall); err != nil {
			yield(model.Chunk{}, err)
			return
		}
		for _, c := range a.chunks(r) {
			if err := sleepContext(ctx, a.Delay); err != nil {
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

// answer chooses the answer to a request.
func (p *Provider) answer(r *model.Request) *Answer {
	said, answered := lastSaid(r.Messages)
	answered += int(r.Failed) // an error was an answer of the script too
	for _, a := range p.matched {
		if !strings.Contains(said, a.When.Contains) {
			continue
		}
		if answered == 0 {
			return a
		}
		answered--
	}
	n := r.Call
	if p.repeat && len(p.ordered) > 0 {
		n %= int64(len(p.ordered))
	}
	if n >= 0 && n < int64(len(p.ordered)) {
		return p.ordered[n]
	}
	return &Answer{Text: "You said: " + said}
}

// lastSaid returns the last text of the user and how often the model has answered
// since.
func lastSaid(messages []*model.Message) (text string, answered int) {
	for _, m := range slices.Backward(messages) {
		switch m.Role {
		case model.RoleUser:
			return m.Text, answered
		case model.RoleAssistant:
			answered++
		}
	}
	return "", answered
}

// sleepContext sleeps unless the context ends first.
func sleepContext(ctx context.Context, d time.Duration) error {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return nil
	case errors.Is(cause, context.DeadlineExceeded):
		return &model.Error{Category: model.Timeout, Message: "the time for the request is over", Retryable: true}
	default:
		return &model.Error{Category: model.Interrupted, Message: cause.Error(), Retryable: true}
	}
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
	calls := a.calls()
	for i := range calls {
		out = append(out, model.Chunk{ToolCall: &calls[i]})
	}
	if a.Error != nil {
		return out
	}
	done := &model.Done{StopReason: a.StopReason, ReasoningSummarised: a.ReasoningSummarised, Usage: a.usage(r), Estimated: a.Usage == nil}
	switch {
	case done.StopReason != "":
	case len(calls) > 0:
		done.StopReason = "tool_use"
	default:
		done.StopReason = "end_turn"
	}
	return append(out, model.Chunk{Done: done})
}

// calls returns the tool calls of the answer.
func (a *Answer) calls() []model.ToolCall {
	var out []model.ToolCall
	for i := range a.Tools {
		t := &a.Tools[i]
		c := model.ToolCall{ProviderID: t.ID, Name: t.Name, Malformed: t.Malformed}
		if c.Malformed == "" {
			c.Arguments, c.Malformed = encodeArguments(t.Arguments)
		}
		out = append(out, c)
	}
	if a.Ask != nil {
		args := map[string]any{"prompt": a.Ask.Prompt}
		if a.Ask.Schema != nil {
			args["schema"] = a.Ask.Schema
		}
		c := model.ToolCall{Name: string(toolkind.RequestInput)}
		c.Arguments, c.Malformed = encodeArguments(args)
		out = append(out, c)
	}
	return out
}

// encodeArguments encodes arguments. Those of a script that wasn't checked may not be JSON.
func encodeArguments(args map[string]any) (arguments event.Raw, malformed string) {
	if args == nil {
		return event.Raw("{}"), ""
	}
	b, err := json.Marshal(args)
	if err != nil {
		return nil, err.Error()
	}
	return b, ""
}

// usage estimates four bytes a token where the script doesn't say.
func (a *Answer) usage(r *model.Request) event.Usage {
	if u := a.Usage; u != nil {
		return event.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CachedInputTokens: u.CachedInputTokens, CacheWriteInputTokens: u.CacheWriteInputTokens, ReasoningTokens: u.ReasoningTokens}
	}
	in, out := len(r.System), len(a.Text)+len(a.Reasoning)
	for _, m := range r.Messages {
		in += len(m.Text)
	}
	for i := range a.Tools {
		out += len(a.Tools[i].Name) + 20*len(a.Tools[i].Arguments)
	}
	return event.Usage{InputTokens: int64(in+3) / 4, OutputTokens: int64(out+3) / 4}
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
