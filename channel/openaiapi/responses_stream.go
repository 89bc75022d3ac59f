package openaiapi

import (
	"net/http"

	"agentd/channel"
	"agentd/channel/turnview"
	"agentd/command"
	"agentd/internal/wire"
)

// responseStream sends a response as events.
type responseStream struct {
	*response
	// whole says that the text is sent in one piece, because only the end tells
	// whether it satisfies its schema; background that the turn goes on without the
	// client.
	whole, background bool

	*wire.SSEWriter
	sequence int64
	// open is the item that is being sent, items those that were.
	open  *outputItem
	items []outputItem
}

// fields are what an event has beside its type and number.
type fields map[string]any

func (s *responseStream) send(kind string, f fields) error {
	f["type"], f["sequence_number"] = kind, s.sequence
	s.sequence++
	return s.Send(kind, f)
}

// streamResponse answers a request as events. What goes wrong once the stream
// began is told in it.
func (a *API) streamResponse(w http.ResponseWriter, r *http.Request, c command.Caller, turn *command.SubmitTurnResult, s *responseStream) error {
	s.SSEWriter = wire.NewSSEWriter(w)
	err := s.send("response.created", fields{"response": s.response})
	if err == nil {
		err = s.send("response.in_progress", fields{"response": s.response})
	}
	var o *outcome
	if err == nil {
		o, err = a.watch(r.Context(), c, turn, s)
	}
	if r.Context().Err() != nil {
		if !s.background {
			channel.Abandon(r.Context(), a.opt.Runtime, c, turn.SessionID, turn.TurnID, a.opt.Logger)
		}
		return nil
	}
	if err == nil {
		err = s.end(o)
	}
	if err != nil {
		e := describeError(err)
		_ = s.send("error", fields{"message": e.Message, "code": e.Code, "param": e.Param}) // the client may be gone
	}
	return nil
}

// showChange implements [listener].
func (s *responseStream) showChange(c turnview.Change) error {
	if s.whole {
		return nil
	}
	switch c := c.(type) {
	case turnview.PartOpened:
		return s.begin(itemOf(c.CallID, c.Kind, "in_progress", ""))
	case turnview.PartGrown:
		return s.grow(c.Content)
	case turnview.PartClosed:
		return s.close()
	}
	return nil
}

// begin opens an item.
func (s *responseStream) begin(item outputItem) error {
	at := len(s.items)
	s.open = &item
	empty := item
	empty.Status, empty.Content, empty.Summary = "in_progress", nil, nil
	if item.Type == "message" {
		empty.Content = []outputText{}
	} else {
		empty.Summary = []summaryText{}
	}
	if err := s.send("response.output_item.added", fields{"output_index": at, "item": empty}); err != nil {
		return err
	}
	if item.Type == "message" {
		return s.send("response.content_part.added", fields{"item_id": item.ID, "output_index": at, "content_index": 0, "part": textPart("")})
	}
	return s.send("response.reasoning_summary_part.added", fields{"item_id": item.ID, "output_index": at, "summary_index": 0, "part": summaryText{"summary_text", ""}})
}

// grow adds to the item that is open.
func (s *responseStream) grow(text string) error {
	if s.open.Type == "reasoning" {
		s.open.Summary[0].Text += text
		return s.send("response.reasoning_summary_text.delta", fields{"item_id": s.open.ID, "output_index": len(s.items), "summary_index": 0, "delta": text})
	}
	s.open.Content[0].Text += text
	return s.send("response.output_text.delta", fields{
		"item_id": s.open.ID, "output_index": len(s.items), "content_index": 0, "delta": text, "logprobs": []struct{}{},
	})
}

// close ends the item that is open.
func (s *responseStream) close() error {
	item := s.open
	s.open = nil
	at := len(s.items)
	item.Status = "completed"
	s.items = append(s.items, *item)
	var err error
	if item.Type == "message" {
		part := item.Content[0]
		if err = s.send("response.output_text.done", fields{"item_id": item.ID, "output_index": at, "content_index": 0, "text": part.Text, "logprobs": []struct{}{}}); err == nil {
			err = s.send("response.content_part.done", fields{"item_id": item.ID, "output_index": at, "content_index": 0, "part": part})
		}
	} else {
		part := item.Summary[0]
		if err = s.send("response.reasoning_summary_text.done", fields{"item_id": item.ID, "output_index": at, "summary_index": 0, "text": part.Text}); err == nil {
			err = s.send("response.reasoning_summary_part.done", fields{"item_id": item.ID, "output_index": at, "summary_index": 0, "part": part})
		}
	}
	if err != nil {
		return err
	}
	return s.send("response.output_item.done", fields{"output_index": at, "item": item})
}

// end sends how the turn ended. The response lists what was sent.
func (s *responseStream) end(o *outcome) error {
	if text := o.text(); s.whole && text != "" && o.failed() == nil {
		if err := s.begin(messageItem("structured", "in_progress", "")); err != nil {
			return err
		}
		if err := s.grow(text); err != nil {
			return err
		}
		if err := s.close(); err != nil {
			return err
		}
	}
	s.finish(o)
	if s.items != nil {
		s.Output = s.items
	}
	kind := map[string]string{"completed": "response.completed", "incomplete": "response.incomplete"}[s.Status]
	if kind == "" {
		kind = "response.failed"
	}
	return s.send(kind, fields{"response": s.response})
}
