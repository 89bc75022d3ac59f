package gemini

import (
	"bytes"
	"encoding/json"

	"agentd/event"
	"agentd/model"
	"agentd/model/provider/httpstream"
)

// chunk is one event of the stream, each a response of its own.
type chunk struct {
	ResponseID     string      `json:"responseId"`
	Candidates     []candidate `json:"candidates"`
	PromptFeedback struct {
		BlockReason        string `json:"blockReason"`
		BlockReasonMessage string `json:"blockReasonMessage"`
	} `json:"promptFeedback"`
	Usage *struct {
		Prompt     int64 `json:"promptTokenCount"`
		Cached     int64 `json:"cachedContentTokenCount"`
		Candidates int64 `json:"candidatesTokenCount"`
		Thoughts   int64 `json:"thoughtsTokenCount"`
		ToolUse    int64 `json:"toolUsePromptTokenCount"`
	} `json:"usageMetadata"`
}

type candidate struct {
	Index   int `json:"index"`
	Content struct {
		Parts []json.RawMessage `json:"parts"`
	} `json:"content"`
	FinishReason  string `json:"finishReason"`
	FinishMessage string `json:"finishMessage"`
}

type part struct {
	Text         httpstream.Text `json:"text"`
	Thought      bool            `json:"thought"`
	Signature    string          `json:"thoughtSignature"`
	FunctionCall *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
}

// decoder reads one answer.
type decoder struct {
	id      string
	finish  string
	message string
	usage   event.Usage
	native  native
}

// Event implements [httpstream.Decoder].
func (d *decoder) Event(e httpstream.Event, a *httpstream.Answer) error {
	data := e.Content()
	if data == nil {
		return nil
	}
	if bytes.Contains(data, []byte(`"error"`)) {
		if f := httpstream.ParseFailure(data); f != nil {
			return f.Error()
		}
	}
	var c chunk
	if err := httpstream.Unmarshal(data, &c); err != nil {
		return err
	}
	return d.decodeChunk(&c, a)
}

// Whole implements [httpstream.Decoder]: one response, or a list of them.
func (d *decoder) Whole(body []byte, a *httpstream.Answer) error {
	var list []chunk
	if err := httpstream.Unmarshal(body, &list); err != nil {
		var one chunk
		if err := httpstream.Unmarshal(body, &one); err != nil {
			return err
		}
		list = []chunk{one}
	}
	came := false
	for i := range list {
		came = came || len(list[i].Candidates) > 0
		if err := d.decodeChunk(&list[i], a); err != nil {
			return err
		}
	}
	if !came {
		return nil
	}
	return d.End(a)
}

// End implements [httpstream.Decoder]. The protocol has no last event: an answer
// is whole if one of its events gave a reason to stop.
func (d *decoder) End(a *httpstream.Answer) error {
	switch d.finish {
	case "":
		return httpstream.Unfinished()
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE":
		return &model.Error{Category: model.Malformed, Message: "the model's answer makes no sense to the provider: " + d.reason(), Retryable: true}
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return httpstream.ContentFilter(d.reason())
	}
	a.Finish(model.Done{StopReason: d.stopReason(), Usage: d.usage, ResponseID: d.id, Native: d.native.raw()})
	return nil
}

func (d *decoder) reason() string {
	if d.message == "" {
		return d.finish
	}
	return d.finish + ": " + d.message
}

func (d *decoder) stopReason() string {
	switch d.finish {
	case "STOP":
		return httpstream.StopEndTurn
	case "MAX_TOKENS":
		return httpstream.StopMaxTokens
	}
	return httpstream.StopOther
}

func (d *decoder) decodeChunk(c *chunk, a *httpstream.Answer) error {
	if c.ResponseID != "" {
		d.id = c.ResponseID
	}
	if u := c.Usage; u != nil {
		d.usage = event.Usage{
			InputTokens: u.Prompt + u.ToolUse, OutputTokens: u.Candidates + u.Thoughts,
			CachedInputTokens: u.Cached, ReasoningTokens: u.Thoughts,
		}
	}
	if f := c.PromptFeedback; f.BlockReason != "" {
		return httpstream.ContentFilter("the prompt was blocked: " + f.BlockReason + " " + f.BlockReasonMessage)
	}
	for i := range c.Candidates {
		if cand := &c.Candidates[i]; cand.Index == 0 {
			if err := d.candidate(cand, a); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *decoder) candidate(c *candidate, a *httpstream.Answer) error {
	for _, raw := range c.Content.Parts {
		var p part
		if err := httpstream.Unmarshal(raw, &p); err != nil {
			return err
		}
		if err := d.part(&p, raw, a); err != nil {
			return err
		}
	}
	if c.FinishReason != "" {
		d.finish, d.message = c.FinishReason, c.FinishMessage
	}
	return nil
}

func (d *decoder) part(p *part, raw json.RawMessage, a *httpstream.Answer) error {
	switch f := p.FunctionCall; {
	case f != nil:
		if a.Calls() >= httpstream.MaxToolCalls {
			return &model.Error{Category: model.Malformed, Message: "the answer holds too many tool calls"}
		}
		a.ToolCall(f.ID, f.Name, string(f.Args))
		d.native.call(raw, p.Signature != "")
	case p.Thought:
		a.ReasoningSummary(p.Text) // Gemini shows summaries of its thoughts alone
		if p.Signature != "" {
			d.native.keepSignedPart(raw)
		}
	default:
		a.Text(p.Text)
		d.native.text(p, raw)
	}
	return nil
}
