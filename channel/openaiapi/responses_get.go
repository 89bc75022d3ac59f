package openaiapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"agentd/channel"
	"agentd/channel/turnview"
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
	begin, _, err := a.span(ctx, c, sessionID, turnID)
	if err != nil {
		return nil, err
	}
	o := &outcome{turnview.View{TurnID: turnID}}
	res := a.newResponse(sessionID, turnID, &responseRequest{})
	for d, err := range channel.Facts(ctx, a.opt.Runtime, c, sessionID, begin-1) {
		if err != nil {
			return nil, err
		}
		if e, err := event.Decode(d.Data); err == nil { // one of a newer release is passed over
			res.submitted(e, turnID)
			o.Fold(e)
		}
		if o.End != nil {
			break
		}
	}
	res.finish(o)
	if o.End == nil && o.Blocked != nil {
		res.Metadata["agentd.blocked"] = o.Blocked.Reason
	}
	var waiting []string
	for _, a := range o.Actions {
		waiting = append(waiting, a.ID)
	}
	if waiting != nil {
		// The status has no word for it: it is in progress, and says what it waits for.
		res.Metadata["agentd.waiting_for_action"] = strings.Join(waiting, ",")
	}
	return res, nil
}

// submitted fills in what the request had said.
func (res *response) submitted(e *event.Event, turnID string) {
	p, ok := e.Payload.(*event.TurnSubmitted)
	if !ok || e.TurnID != turnID {
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
		return fault.New(fault.Conflict, "the response is already finished")
	}
	_, err = runCommand[command.InterruptTurnResult](r.Context(), a, c, &command.InterruptTurn{SessionID: sessionID, TurnID: turnID, Reason: "the client cancelled the response"})
	if err != nil {
		return err
	}
	if _, err := a.watch(r.Context(), c, &command.SubmitTurnResult{SessionID: sessionID, TurnID: turnID, Sequence: begin}, deaf{}); err != nil {
		return err
	}
	return a.getResponse(w, r, c, id)
}
