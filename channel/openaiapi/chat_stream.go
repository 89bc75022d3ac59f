package openaiapi

import (
	"net/http"

	"agentd/channel"
	"agentd/channel/turnview"
	"agentd/command"
	"agentd/internal/wire"
)

// chatStream sends an answer in chunks.
type chatStream struct {
	*chatAnswer
	// usage says that the client wants to know it.
	usage bool
	// whole says that the answer is sent in one piece, because only the end tells
	// whether it satisfies its schema.
	whole bool

	*wire.SSEWriter
	// spoke is the model call of the last piece.
	spoke string
}

// streamChat answers a request in chunks. What goes wrong once the stream began is
// told in it.
func (a *API) streamChat(w http.ResponseWriter, r *http.Request, c command.Caller, turn *command.SubmitTurnResult, s *chatStream) error {
	s.Object, s.SSEWriter = "chat.completion.chunk", wire.NewSSEWriter(w)
	empty := ""
	err := s.chunk(&chatDelta{Role: "assistant", Content: &empty}, nil)
	var o *outcome
	if err == nil {
		o, err = a.watch(r.Context(), c, turn, s)
	}
	if r.Context().Err() != nil {
		channel.Abandon(r.Context(), a.opt.Runtime, c, turn.SessionID, turn.TurnID, a.opt.Logger)
		return nil //nolint:nilerr // the client is gone
	}
	if err == nil {
		if failure := o.failed(); failure != nil {
			err = failure
		} else {
			err = s.end(o)
		}
	}
	if err != nil {
		_ = s.Send("", map[string]any{"error": describeError(err)}) // the client may be gone
	}
	return nil
}

func (s *chatStream) chunk(d *chatDelta, reason *string) error {
	s.Choices = []chatChoice{{Delta: d, FinishReason: reason}}
	return s.Send("", s.chatAnswer)
}

// showChange implements [listener].
func (s *chatStream) showChange(c turnview.Change) error {
	p, ok := c.(turnview.PartGrown)
	if !ok || s.whole || p.Kind != turnview.Text {
		return nil
	}
	if s.spoke != "" && s.spoke != p.CallID {
		p.Content = "\n\n" + p.Content // as the whole answer has it
	}
	s.spoke = p.CallID
	return s.chunk(&chatDelta{Content: &p.Content}, nil)
}

// end sends what comes after the text.
func (s *chatStream) end(o *outcome) error {
	if s.whole {
		text := o.text()
		if err := s.chunk(&chatDelta{Content: &text}, nil); err != nil {
			return err
		}
	}
	reason := finishReason(o)
	if err := s.chunk(&chatDelta{}, &reason); err != nil {
		return err
	}
	if s.usage {
		s.Choices, s.Usage = []chatChoice{}, usageOf(o.End.Usage())
		if err := s.Send("", s.chatAnswer); err != nil {
			return err
		}
	}
	return s.SendText("[DONE]")
}
