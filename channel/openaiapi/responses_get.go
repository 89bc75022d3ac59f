package openaiapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// getResponse tells what became of a response, from its facts.
func (a *API) getResponse(w http.ResponseWriter, r *http.Request, c command.Caller, id string) error {
	res, err := a.recall(r.Context(), c, id)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, res)
	return nil
}

// recall reads a turn's facts into a response.
func (a *API) recall(ctx context.Context, c command.Caller, id string) (*response, error) {
	sessionID, turnID, err := parseID(responsePrefix, id)
	if err != nil {
		return nil, err
	}
	begin, end, err := a.span(ctx, c, sessionID, turnID)
	if err != nil {
		return nil, err
	}
	o := &outcome{}
	res := a.newResponse(sessionID, turnID, &responseRequest{})
	for after := begin - 1; ; {
		page, last, err := a.opt.Runtime.Events(ctx, c, sessionID, after, 500)
		if err != nil {
			return nil, err
		}
		for i := range page {
			after = page[i].Sequence
			if e, err := event.Decode(page[i].Data); err == nil && e.Sequence == begin {
				res.submitted(e)
			}
			if err := o.take(&page[i], turnID, deaf{}); err != nil {
				return nil, err
			}
		}
		if len(page) == 0 || o.ended || after >= last || (end > 0 && after >= end) {
			break
		}
	}
	res.finish(o)
	if len(o.waiting) > 0 {
		// The status has no word for it: it is in progress, and says what it waits for.
		res.Metadata["agentd.waiting_for_action"] = strings.Join(o.waiting, ",")
	}
	if o.blocked != "" && !o.ended {
		res.Metadata["agentd.blocked"] = o.blocked
	}
	return res, nil
}

// submitted fills in what the request had said.
func (res *response) submitted(e *event.Event) {
	p, ok := e.Payload.(*event.TurnSubmitted)
	if !ok {
		return
	}
	res.CreatedAt = e.Time.Unix()
	if p.Options != nil && p.Options.Model != "" {
		res.Model = p.Options.Model
	}
	var about map[string]string
	_ = json.Unmarshal(p.Metadata, &about) // another caller's may be anything
	res.Background = about["background"] == "true" && about["channel"] == "openai.responses"
	for name, value := range about {
		if own, is := strings.CutPrefix(name, "openai."); is {
			res.Metadata[own] = value
		}
	}
}

func (a *API) cancelResponse(w http.ResponseWriter, r *http.Request, c command.Caller, id string) error {
	sessionID, turnID, err := parseID(responsePrefix, id)
	if err != nil {
		return err
	}
	begin, end, err := a.span(r.Context(), c, sessionID, turnID)
	if err != nil {
		return err
	}
	if end > 0 {
		return fault.New(fault.Conflict, "the response is finished already")
	}
	_, err = do[command.InterruptTurnResult](r.Context(), a, c, &command.InterruptTurn{SessionID: sessionID, TurnID: turnID, Reason: "the client cancelled the response"})
	if err != nil {
		return err
	}
	if _, err := a.watch(r.Context(), c, &command.SubmitTurnResult{SessionID: sessionID, TurnID: turnID, Sequence: begin}, deaf{}); err != nil {
		return err
	}
	return a.getResponse(w, r, c, id)
}
