package openaiapi

import (
	"net/http"

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

	out   *wire.SSEWriter
	spoke *step
}

// streamChat answers a request in chunks. What goes wrong once the stream began is
// told in it.
func (a *API) streamChat(w http.ResponseWriter, r *http.Request, c command.Caller, turn *command.SubmitTurnResult, s *chatStream) error {
	s.Object, s.out = "chat.completion.chunk", wire.NewSSEWriter(w)
	empty := ""
	err := s.chunk(&chatDelta{Role: "assistant", Content: &empty}, nil)
	var o *outcome
	if err == nil {
		o, err = a.watch(r.Context(), c, turn, s)
	}
	if r.Context().Err() != nil {
		a.abandon(r.Context(), c, turn.SessionID, turn.TurnID)
		return nil //nolint:nilerr // nobody hears it
	}
	if err == nil {
		if failure := o.failed(); failure != nil {
			err = failure
		} else {
			err = s.end(o)
		}
	}
	if err != nil {
		_ = s.out.Send("", map[string]any{"error": describe(err)}) // the client may be gone
	}
	return nil
}

func (s *chatStream) chunk(d *chatDelta, reason *string) error {
	s.Choices = []chatChoice{{Delta: d, FinishReason: reason}}
	return s.out.Send("", s.chatAnswer)
}

// said implements [listener].
func (s *chatStream) said(at *step, text string) error {
	if s.whole || text == "" {
		return nil
	}
	if s.spoke != nil && s.spoke != at {
		text = "\n\n" + text // as the whole answer has it
	}
	s.spoke = at
	return s.chunk(&chatDelta{Content: &text}, nil)
}

// reasoned implements [listener].
func (s *chatStream) reasoned(*step, string) error { return nil }

// stepped implements [listener].
func (s *chatStream) stepped(*step) error { return nil }

// alive implements [listener].
func (s *chatStream) alive() error { return s.out.Beat() }

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
		s.Choices, s.Usage = []chatChoice{}, usageOf(&o.usage)
		if err := s.out.Send("", s.chatAnswer); err != nil {
			return err
		}
	}
	return s.out.SendText("[DONE]")
}
