package anthropic

import (
	"encoding/json"

	"agentd/event"
	"agentd/model"
	"agentd/model/provider/httpstream"
)

// streamEvent is one event of the stream.
type streamEvent struct {
	Type    string          `json:"type"`
	Index   int             `json:"index"`
	Message *message        `json:"message"`
	Block   json.RawMessage `json:"content_block"`
	Delta   struct {
		Type        string          `json:"type"`
		Text        httpstream.Text `json:"text"`
		Thinking    httpstream.Text `json:"thinking"`
		Signature   string          `json:"signature"`
		PartialJSON httpstream.Text `json:"partial_json"`
		StopReason  string          `json:"stop_reason"`
		StopDetails *stopDetails    `json:"stop_details"`
	} `json:"delta"`
	Usage *usage `json:"usage"`
}

// stopDetails say more about a refusal; any of it may be missing.
type stopDetails struct {
	Explanation httpstream.Text `json:"explanation"`
}

// message is the start of an answer in a stream, or a whole answer.
type message struct {
	ID         string            `json:"id"`
	Type       string            `json:"type"`
	Content    []json.RawMessage `json:"content"`
	StopReason string            `json:"stop_reason"`
	Details    *stopDetails      `json:"stop_details"`
	Usage      *usage            `json:"usage"`
}

// usage as the API counts it: the parts of the input beside each other. Pointers,
// because an event repeats only what it knows.
type usage struct {
	InputTokens   *int64 `json:"input_tokens"`
	OutputTokens  *int64 `json:"output_tokens"`
	CacheRead     *int64 `json:"cache_read_input_tokens"`
	CacheCreation *int64 `json:"cache_creation_input_tokens"`
}

// counts are the latest numbers of each kind.
type counts struct{ input, output, read, created int64 }

func (c *counts) add(u *usage) {
	if u == nil {
		return
	}
	for _, p := range []struct {
		to   *int64
		from *int64
	}{{&c.input, u.InputTokens}, {&c.output, u.OutputTokens}, {&c.read, u.CacheRead}, {&c.created, u.CacheCreation}} {
		if p.from != nil {
			*p.to = *p.from
		}
	}
}

func (c *counts) event() event.Usage {
	return event.Usage{InputTokens: c.input + c.read + c.created, OutputTokens: c.output, CachedInputTokens: c.read, CacheWriteInputTokens: c.created}
}

// decoder reads one answer.
type decoder struct {
	id      string
	stop    string
	details *stopDetails
	counts  counts
	blocks  blocks
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
	case "message_start":
		if m := ev.Message; m != nil {
			d.id = m.ID
			d.counts.add(m.Usage)
		}
	case "content_block_start":
		return d.blocks.start(ev.Index, ev.Block, a)
	case "content_block_delta":
		return d.blocks.delta(&ev, a)
	case "content_block_stop":
		d.blocks.stop(ev.Index, a)
	case "message_delta":
		if ev.Delta.StopReason != "" {
			d.stop, d.details = ev.Delta.StopReason, ev.Delta.StopDetails
		}
		d.counts.add(ev.Usage)
	case "message_stop":
		return d.finish(a)
	case "error":
		return d.failed(data)
	}
	return nil // pings, and what is new
}

func (d *decoder) failed(data []byte) error {
	if f := httpstream.ParseFailure(data); f != nil {
		return f.Error()
	}
	f := httpstream.Failure{}
	return f.Error()
}

// Whole implements [httpstream.Decoder].
func (d *decoder) Whole(body []byte, a *httpstream.Answer) error {
	var m message
	if err := httpstream.Unmarshal(body, &m); err != nil {
		return err
	}
	if m.Type != "message" {
		return nil
	}
	d.id, d.stop, d.details = m.ID, m.StopReason, m.Details
	d.counts.add(m.Usage)
	for i, b := range m.Content {
		if err := d.blocks.start(i, b, a); err != nil {
			return err
		}
		d.blocks.stop(i, a)
	}
	return d.finish(a)
}

// End implements [httpstream.Decoder].
func (d *decoder) End(a *httpstream.Answer) error {
	if d.stop == "" {
		return httpstream.Unfinished()
	}
	return d.finish(a)
}

func (d *decoder) finish(a *httpstream.Answer) error {
	if d.stop == "" && !a.Written() {
		return httpstream.Unfinished()
	}
	d.blocks.stopAll(a)
	d.explain(a)
	a.Finish(model.Done{StopReason: d.stopReason(), Usage: d.counts.event(), ResponseID: d.id, Native: d.blocks.native()})
	return nil
}

// explain hands on what the API says to the user about a refusal, behind what the
// model said before it.
func (d *decoder) explain(a *httpstream.Answer) {
	if d.stop != "refusal" || d.details == nil || d.details.Explanation == "" {
		return
	}
	if a.Written() {
		a.Text("\n\n")
	}
	a.Text(d.details.Explanation)
}

func (d *decoder) stopReason() string {
	switch d.stop {
	case "end_turn", "":
		return httpstream.StopEndTurn
	case "tool_use":
		return httpstream.StopToolUse
	case "max_tokens", "model_context_window_exceeded":
		return httpstream.StopMaxTokens
	case "stop_sequence":
		return httpstream.StopSequence
	case "refusal":
		return httpstream.StopRefusal
	}
	return httpstream.StopOther
}
