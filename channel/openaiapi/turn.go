package openaiapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"agentd/channel"
	"agentd/channel/turnview"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// place is where a conversation goes on.
type place struct {
	// sessionID is empty for a new session; create makes the one that is named.
	sessionID string
	create    bool
	// known says that the session has the conversation's past.
	known bool
}

// runCommand carries out a command and reads its result into R, which may be a part of it.
func runCommand[R any](ctx context.Context, a *API, c command.Caller, p command.Params) (*R, error) {
	return channel.ResultOf[R](a.opt.Runtime.Do(ctx, c, p))
}

// answerID names a turn to clients. It is all that is needed to find it again.
func answerID(prefix, sessionID, turnID string) string { return prefix + sessionID + "." + turnID }

// parseID takes such a name apart.
func parseID(prefix, id string) (sessionID, turnID string, err error) {
	rest, ok := strings.CutPrefix(id, prefix)
	at := strings.LastIndexByte(rest, '.')
	if !ok || at <= 0 || !event.ValidID(rest[:at]) || !event.ValidID(rest[at+1:]) {
		return "", "", fault.New(fault.NotFound, "there is no response %s", wire.Clip(id))
	}
	return rest[:at], rest[at+1:], nil
}

// namedSession finds the session that a header or the metadata name; it is made if there
// is none.
func (a *API) namedSession(ctx context.Context, c command.Caller, r *http.Request, metadata map[string]string) (place, error) {
	id := r.Header.Get(HeaderSession)
	if id == "" {
		id = metadata["session_id"]
	}
	if id == "" {
		return place{}, nil
	}
	if !event.ValidID(id) {
		return place{}, fault.Param("metadata.session_id", "%q is not an id", wire.Clip(id))
	}
	v, err := a.sessionView(ctx, c, id)
	if fault.KindOf(err) == fault.NotFound {
		return place{sessionID: id, create: true}, nil
	}
	if err != nil {
		return place{}, err
	}
	return place{sessionID: id, create: true, known: len(v.Threads) > 0 && v.Threads[0].TurnCount > 0 && !v.began(turnOf(c, r))}, nil
}

// view is the part of a session's snapshot that is needed here.
type view struct {
	Threads []struct {
		ThreadID  string          `json:"threadId"`
		TurnCount int64           `json:"turnCount"`
		Block     *turnview.Block `json:"block"`
		Turns     []struct {
			TurnID string `json:"turnId"`
		} `json:"turns"`
	} `json:"threads"`
}

// began says whether the conversation began with a turn: for a request that made it, it
// had no past.
func (v *view) began(turnID string) bool {
	t := &v.Threads[0]
	return len(t.Turns) > 0 && int64(len(t.Turns)) == t.TurnCount && t.Turns[0].TurnID == turnID
}

// has says whether the conversation has a turn.
func (v *view) has(turnID string) bool {
	for _, t := range v.Threads[0].Turns {
		if t.TurnID == turnID {
			return true
		}
	}
	return false
}

// blockOf says why a thread doesn't go on; nil if it does, or waits for an answer.
func (v *view) blockOf(threadID string) *turnview.Blocked {
	for i := range v.Threads {
		if t := &v.Threads[i]; t.ThreadID == threadID {
			return t.Block.Blocked()
		}
	}
	return nil
}

func (a *API) sessionView(ctx context.Context, c command.Caller, sessionID string) (*view, error) {
	none := 0
	return runCommand[view](ctx, a, c, &command.GetSession{SessionID: sessionID, Limit: &none})
}

// turnOf is the turn of a request with an idempotency key, so that the same request
// again finds it in a conversation that has gone on with it. Without a key it is empty.
func turnOf(c command.Caller, r *http.Request) string {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(c.Account + "\x00" + key))
	return "turn_openai_" + hex.EncodeToString(sum[:13])
}

// branch returns where a conversation goes on behind a turn: its session, or, if
// others came after it there, a fork that ends with it.
func (a *API) branch(ctx context.Context, c command.Caller, r *http.Request, sessionID, turnID string) (place, error) {
	v, err := a.sessionView(ctx, c, sessionID)
	if err != nil {
		return place{}, err
	}
	if len(v.Threads) == 0 {
		return place{}, fault.New(fault.NotFound, "there is no response of turn %s", turnID)
	}
	main, own := &v.Threads[0], turnOf(c, r)
	if n := len(main.Turns); n > 0 && main.Turns[n-1].TurnID == turnID || own != "" && v.has(own) {
		return place{sessionID: sessionID, known: true}, nil
	}
	_, end, err := a.span(ctx, c, sessionID, turnID)
	if err != nil {
		return place{}, err
	}
	if end == 0 {
		return place{}, fault.New(fault.Conflict, "previous_response_id: that response is not finished")
	}
	p := &command.ForkThread{SessionID: sessionID, ThreadID: main.ThreadID, AtSequence: end}
	p.IdempotencyKey = own
	fork, err := runCommand[command.ForkThreadResult](ctx, a, c, p)
	if err != nil {
		return place{}, err
	}
	return place{sessionID: fork.SessionID, known: true}, nil
}

// span finds the sequences at which a turn was submitted and ended; an end of 0 is
// none yet.
func (a *API) span(ctx context.Context, c command.Caller, sessionID, turnID string) (begin, end uint64, err error) {
	var e event.Event
	for d, err := range channel.Facts(ctx, a.opt.Runtime, c, sessionID, 0) {
		if err != nil {
			return 0, 0, err
		}
		if _, err := event.DecodeHeader(d.Data, &e); err != nil || e.TurnID != turnID {
			continue
		}
		switch e.Type { //nolint:exhaustive // the others are within
		case event.TypeTurnSubmitted:
			begin = e.Sequence
		case event.TypeTurnCompleted, event.TypeTurnFailed:
			return begin, e.Sequence, nil
		}
	}
	if begin == 0 {
		return 0, 0, fault.New(fault.NotFound, "there is no response of turn %s", turnID)
	}
	return begin, 0, nil
}

// asked is a request of either API in our words.
type asked struct {
	model    string
	input    event.Raw
	place    place
	schema   event.Raw
	metadata map[string]string
	api      string
	// background says that the turn goes on without its client.
	background bool
}

// submitTurn makes a request a turn.
func (a *API) submitTurn(ctx context.Context, c command.Caller, r *http.Request, q *asked) (*command.SubmitTurnResult, error) {
	m, err := a.model(q.model)
	if err != nil {
		return nil, err
	}
	o := &event.TurnOptions{PermissionMode: r.Header.Get(HeaderMode), OutputSchema: q.schema}
	if m.ID != AgentModel {
		o.Model = m.ID
	}
	about := map[string]string{"channel": q.api}
	if q.background {
		about["background"] = "true"
	}
	for name, value := range q.metadata {
		about["openai."+name] = value
	}
	p := &command.SubmitTurn{
		SessionID: q.place.sessionID, Create: q.place.create, TurnID: turnOf(c, r), Input: q.input, Options: o, Metadata: encodeRaw(about),
	}
	p.IdempotencyKey = r.Header.Get("Idempotency-Key")
	return runCommand[command.SubmitTurnResult](channel.Accepting(ctx), a, c, p)
}

// beginRequest reads a request into q, submits the turn that it asks for, and names that
// turn in the answer's headers.
func beginRequest[Q any](a *API, w http.ResponseWriter, r *http.Request, c command.Caller, q *Q, of func(*http.Request, command.Caller, *Q) (*asked, error)) (*asked, *command.SubmitTurnResult, error) {
	if err := wire.ReadForeign(w, r, a.opt.MaxBody, q); err != nil {
		return nil, nil, err
	}
	in, err := of(r, c, q)
	if err != nil {
		return nil, nil, err
	}
	turn, err := a.submitTurn(r.Context(), c, r, in)
	if err != nil {
		return nil, nil, err
	}
	setTurnHeaders(w, turn)
	return in, turn, nil
}

// followToEnd follows a turn to its end for an answer in one piece. A client that goes away
// ends it.
func (a *API) followToEnd(r *http.Request, c command.Caller, turn *command.SubmitTurnResult) (*outcome, error) {
	o, err := a.watch(r.Context(), c, turn, deaf{})
	if r.Context().Err() != nil {
		channel.Abandon(r.Context(), a.opt.Runtime, c, turn.SessionID, turn.TurnID, a.opt.Logger)
		return nil, r.Context().Err()
	}
	if err != nil {
		return nil, err
	}
	if failure := o.failed(); failure != nil {
		return nil, failure
	}
	return o, nil
}
