package openai

import (
	"bytes"
	"encoding/json"

	"agentd/event"
	"agentd/model"
	"agentd/model/provider/httpstream"
)

// chunk is one event of the stream, or a whole answer: the second has message
// where the first has delta.
type chunk struct {
	ID      string   `json:"id"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage"`
	Groq    struct {
		Usage *usage `json:"usage"`
	} `json:"x_groq"`
}

type choice struct {
	Index        int     `json:"index"`
	Delta        *delta  `json:"delta"`
	Message      *delta  `json:"message"`
	FinishReason *string `json:"finish_reason"`
}

type delta struct {
	Content          content          `json:"content"`
	Refusal          httpstream.Text  `json:"refusal"`
	ReasoningContent httpstream.Text  `json:"reasoning_content"`
	Reasoning        httpstream.Text  `json:"reasoning"`
	ReasoningDetails []map[string]any `json:"reasoning_details"`
	ToolCalls        []toolCall       `json:"tool_calls"`
	FunctionCall     *function        `json:"function_call"`
}

type toolCall struct {
	Index    *int     `json:"index"`
	ID       string   `json:"id"`
	Function function `json:"function"`
	// Extra is what a vendor adds to a call and wants back with it, such as the
	// thought signature of Gemini.
	Extra json.RawMessage `json:"extra_content"`
}

type function struct {
	Name      string    `json:"name"`
	Arguments arguments `json:"arguments"`
}

// arguments are a text that holds JSON; some servers send the JSON itself.
type arguments httpstream.Text

// UnmarshalJSON implements [json.Unmarshaler].
func (a *arguments) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		*a = arguments(b)
		return nil
	}
	return (*httpstream.Text)(a).UnmarshalJSON(b)
}

// content is a text, or a list of parts with texts.
type content struct {
	text, thinking httpstream.Text
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *content) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '[' {
		return c.text.UnmarshalJSON(b)
	}
	var parts []struct {
		Type     string          `json:"type"`
		Text     httpstream.Text `json:"text"`
		Thinking []struct {
			Text httpstream.Text `json:"text"`
		} `json:"thinking"`
	}
	if err := httpstream.Unmarshal(b, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		c.text += p.Text
		for _, t := range p.Thinking {
			c.thinking += t.Text
		}
	}
	return nil
}

type usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	PromptDetails    struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	CacheHitTokens int64 `json:"prompt_cache_hit_tokens"`
}

func (u *usage) event() event.Usage {
	return event.Usage{
		InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens,
		CachedInputTokens: max(u.PromptDetails.CachedTokens, u.CacheHitTokens), ReasoningTokens: u.CompletionDetails.ReasoningTokens,
	}
}

// decoder reads one answer.
type decoder struct {
	id       string
	finish   string
	finished bool
	refused  bool
	usage    event.Usage
	calls    httpstream.Fragments
	native   native
}

// Event implements [httpstream.Decoder].
func (d *decoder) Event(e httpstream.Event, a *httpstream.Answer) error {
	if bytes.Equal(bytes.TrimSpace(e.Data), []byte("[DONE]")) {
		return d.done(a)
	}
	if len(bytes.TrimSpace(e.Data)) == 0 {
		return nil
	}
	if f := eventFailure(e); f != nil {
		return f.Error()
	}
	var c chunk
	if err := httpstream.Unmarshal(e.Data, &c); err != nil {
		return err
	}
	return d.decodeChunk(&c, a)
}

// eventFailure is the error in an event. Looking for it in every event would read each
// of them twice.
func eventFailure(e httpstream.Event) *httpstream.Failure {
	if e.Name == "error" || bytes.Contains(e.Data, []byte(`"error"`)) || bytes.Contains(e.Data, []byte(`"error_message"`)) {
		return httpstream.ParseFailure(e.Data)
	}
	return nil
}

// Whole implements [httpstream.Decoder].
func (d *decoder) Whole(body []byte, a *httpstream.Answer) error {
	var c chunk
	if err := httpstream.Unmarshal(body, &c); err != nil {
		return err
	}
	if len(c.Choices) == 0 {
		return nil
	}
	if err := d.decodeChunk(&c, a); err != nil {
		return err
	}
	d.finished = true
	return d.done(a)
}

// End implements [httpstream.Decoder].
func (d *decoder) End(a *httpstream.Answer) error {
	if !d.finished {
		return httpstream.Unfinished()
	}
	return d.done(a)
}

func (d *decoder) decodeChunk(c *chunk, a *httpstream.Answer) error {
	if c.ID != "" {
		d.id = c.ID
	}
	for _, u := range []*usage{c.Usage, c.Groq.Usage} {
		if u != nil && *u != (usage{}) {
			d.usage = u.event()
		}
	}
	for i := range c.Choices {
		// Only one answer was asked for.
		if ch := &c.Choices[i]; ch.Index == 0 {
			if err := d.choice(ch, a); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *decoder) choice(c *choice, a *httpstream.Answer) error {
	for _, part := range []*delta{c.Delta, c.Message} {
		if part != nil {
			if err := d.delta(part, a); err != nil {
				return err
			}
		}
	}
	if c.FinishReason != nil && *c.FinishReason != "" {
		d.finish, d.finished = *c.FinishReason, true
	}
	return nil
}

func (d *decoder) delta(part *delta, a *httpstream.Answer) error {
	reasoning := part.ReasoningContent
	if reasoning == "" {
		reasoning = part.Reasoning
	}
	a.Reasoning(reasoning + part.Content.thinking)
	d.native.add(part)
	a.Text(part.Content.text)
	if part.Refusal != "" {
		d.refused = true
		a.Text(part.Refusal)
	}
	if f := part.FunctionCall; f != nil {
		if err := d.calls.Add(0, "", f.Name, httpstream.Text(f.Arguments)); err != nil {
			return err
		}
	}
	for i := range part.ToolCalls {
		c := &part.ToolCalls[i]
		index := d.index(c)
		if err := d.calls.Add(index, c.ID, c.Function.Name, httpstream.Text(c.Function.Arguments)); err != nil {
			return err
		}
		d.native.extra(index, c.Extra)
	}
	return nil
}

// index says which call a piece belongs to. Without an index, and with one that
// another call has, a new id begins a new call; without either, a name does.
func (d *decoder) index(c *toolCall) int {
	last := d.calls.Last()
	if c.Index != nil {
		known := d.calls.ID(*c.Index)
		if c.ID == "" || known == "" || known == c.ID {
			return *c.Index
		}
		return d.calls.Find(c.ID)
	}
	switch {
	case last < 0:
		return 0
	case c.ID != "":
		return d.calls.Find(c.ID)
	case c.Function.Name != "":
		return last + 1
	}
	return last
}

// done ends the answer.
func (d *decoder) done(a *httpstream.Answer) error {
	if d.finish == "content_filter" {
		return httpstream.ContentFilter("finish_reason content_filter")
	}
	if d.finish == "error" {
		return &model.Error{Category: model.ServerError, Message: "the server ended the answer with an error that it didn't explain", Retryable: true}
	}
	if !d.finished && !a.Written() && d.calls.Last() < 0 {
		return httpstream.Unfinished()
	}
	native := d.native.raw(d.calls.Indices())
	d.calls.Flush(a)
	a.Finish(model.Done{StopReason: d.stopReason(), Usage: d.usage, ResponseID: d.id, Native: native})
	return nil
}

func (d *decoder) stopReason() string {
	if d.refused {
		return httpstream.StopRefusal
	}
	switch d.finish {
	case "stop", "eos", "end_turn", "":
		return httpstream.StopEndTurn
	case "tool_calls", "function_call", "tool_use":
		return httpstream.StopToolUse
	case "length", "max_tokens", "model_length":
		return httpstream.StopMaxTokens
	case "refusal":
		return httpstream.StopRefusal
	}
	return httpstream.StopOther
}
