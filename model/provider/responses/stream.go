package responses

import (
	"encoding/json"

	"agentd/event"
	"agentd/model"
	"agentd/model/provider/httpstream"
)

// streamEvent is one event of the stream.
type streamEvent struct {
	Type         string          `json:"type"`
	OutputIndex  int             `json:"output_index"`
	SummaryIndex int             `json:"summary_index"`
	ItemID       string          `json:"item_id"`
	Delta        httpstream.Text `json:"delta"`
	Item         json.RawMessage `json:"item"`
	Response     *response       `json:"response"`
}

// response is the answer as a whole.
type response struct {
	ID         string            `json:"id"`
	Object     string            `json:"object"`
	Status     string            `json:"status"`
	Error      json.RawMessage   `json:"error"`
	Output     []json.RawMessage `json:"output"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage struct {
		InputTokens  int64 `json:"input_tokens"`
		OutputTokens int64 `json:"output_tokens"`
		InputDetails struct {
			CachedTokens int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		OutputDetails struct {
			ReasoningTokens int64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
}

func (r *response) usage() event.Usage {
	return event.Usage{
		InputTokens: r.Usage.InputTokens, OutputTokens: r.Usage.OutputTokens,
		CachedInputTokens: r.Usage.InputDetails.CachedTokens, ReasoningTokens: r.Usage.OutputDetails.ReasoningTokens,
	}
}

// decoder reads one answer.
type decoder struct {
	items items
}

// Event implements [httpstream.Decoder].
func (d *decoder) Event(e httpstream.Event, a *httpstream.Answer) error {
	data := e.Content()
	if data == nil {
		return nil
	}
	var ev streamEvent
	if err := httpstream.Unmarshal(data, &ev); err != nil {
		return err
	}
	if ev.Type == "" {
		ev.Type = e.Name
	}
	switch ev.Type {
	case "response.output_text.delta":
		d.items.wrote(ev.OutputIndex)
		a.Text(ev.Delta)
	case "response.refusal.delta":
		d.items.wrote(ev.OutputIndex)
		d.items.refused = true
		a.Text(ev.Delta)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta", "response.reasoning.delta":
		write := a.Reasoning
		if ev.Type == "response.reasoning_summary_text.delta" {
			write = a.ReasoningSummary
		}
		if d.items.reasoned(ev.OutputIndex, ev.SummaryIndex) {
			write("\n\n")
		}
		write(ev.Delta)
	case "response.output_item.done":
		return d.items.done(ev.OutputIndex, ev.Item, a)
	case "response.completed", "response.incomplete", "response.failed", "response.done", "response.cancelled":
		if ev.Response == nil {
			return httpstream.Unfinished()
		}
		return d.finish(ev.Response, a)
	case "error":
		return failedResponse(data)
	}
	return nil // beginnings, repetitions, and what is new
}

// Whole implements [httpstream.Decoder].
func (d *decoder) Whole(body []byte, a *httpstream.Answer) error {
	var r response
	if err := httpstream.Unmarshal(body, &r); err != nil {
		return err
	}
	if r.Object != "response" && r.Output == nil {
		return nil
	}
	return d.finish(&r, a)
}

// End implements [httpstream.Decoder]. The last event holds the usage and the
// state of the whole: an answer without it is cut.
func (d *decoder) End(*httpstream.Answer) error { return httpstream.Unfinished() }

func failedResponse(data []byte) error {
	if f := httpstream.ParseFailure(data); f != nil {
		return f.Error()
	}
	f := httpstream.Failure{}
	return f.Error()
}

func (d *decoder) finish(r *response, a *httpstream.Answer) error {
	switch r.Status {
	case "failed":
		return failedResponse([]byte(`{"error":` + orNull(r.Error) + `}`))
	case "cancelled":
		return &model.Error{Category: model.ServerError, Message: "the provider cancelled the answer", Retryable: true}
	}
	if r.Incomplete.Reason == "content_filter" {
		return httpstream.ContentFilter("incomplete: content_filter")
	}
	if !d.items.came {
		// Nothing came item by item: take the answer from here.
		for i, item := range r.Output {
			if err := d.items.done(i, item, a); err != nil {
				return err
			}
		}
	}
	a.Finish(model.Done{StopReason: d.stopReason(r), Usage: r.usage(), ResponseID: r.ID, Native: d.items.native()})
	return nil
}

func orNull(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "null"
	}
	return string(raw)
}

func (d *decoder) stopReason(r *response) string {
	switch {
	case d.items.refused:
		return httpstream.StopRefusal
	case r.Incomplete.Reason == "max_output_tokens":
		return httpstream.StopMaxTokens
	case r.Status == "incomplete":
		return httpstream.StopOther
	}
	return httpstream.StopEndTurn
}
