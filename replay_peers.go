package agentd

import (
	"context"
	"slices"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
)

// offer lets turns name the tools of all peers, also of those that come later, or
// never do in a case that somebody changed.
func (x *parties) offer() {
	var names []event.ChannelTool
	for _, t := range x.p.c.Turns {
		for _, n := range t.Tools {
			names = append(names, event.ChannelTool{ToolName: n})
		}
	}
	if x.p.with.Live == nil {
		x.p.r.loop.OfferClientTools(names)
	}
}

// due takes the comings and goings of peers that the test accepts.
func (x *parties) due(ok func(evidence.Moment) bool) []evidence.CasePeer {
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	var out []evidence.CasePeer
	x.peers = slices.DeleteFunc(x.peers, func(p evidence.CasePeer) bool {
		if ok(p.When) {
			out = append(out, p)
			return true
		}
		return false
	})
	return out
}

// moves lets peers come and go as they did.
func (x *parties) moves(ctx context.Context, list []evidence.CasePeer) error {
	x.moving.Lock()
	defer x.moving.Unlock()
	for _, p := range list {
		var do command.Params = &command.ConnectChannel{
			ChannelID: p.ChannelID, SessionID: x.p.session, Transport: "in_process", PeerRole: "client", Tools: p.Tools,
		}
		switch token := x.tokens[p.ChannelID]; {
		case p.Gone:
			do = &command.DisconnectChannel{ChannelID: p.ChannelID}
		case token != "":
			do = &command.ReconnectChannel{ChannelID: p.ChannelID, ResumeToken: token, SessionID: x.p.session}
		}
		res, err := x.p.r.Do(ctx, command.Local(), do)
		if err != nil {
			return err
		}
		if made, ok := res.(*command.ConnectChannelResult); ok {
			x.tokens[p.ChannelID] = made.ResumeToken
		}
	}
	return nil
}

// reached lets peers come and go whose moment is a fact that the replay has now.
func (x *parties) reached(ctx context.Context) error {
	if x.p.with.Live != nil {
		return nil
	}
	if err := x.moves(ctx, x.due(func(m evidence.Moment) bool { return m.Turns <= x.turns && x.p.got.Reached(m) })); err != nil {
		return err
	}
	return x.spawnAll(ctx, func(m evidence.Moment) bool { return m.Turns <= x.turns && x.p.got.Reached(m) })
}

// beforeTurn, beforeAnswer and beforeDecision let peers come and go who did so
// before, whatever the facts are: what follows depends on them.
func (x *parties) beforeTurn(ctx context.Context, number int) error {
	list := x.due(func(m evidence.Moment) bool { return m.Turns <= number })
	x.p.mu.Lock()
	x.turns = number + 1
	x.p.mu.Unlock()
	if x.p.with.Live != nil {
		return nil
	}
	return x.moves(ctx, list)
}

func (x *parties) beforeAnswer(ctx context.Context) error {
	list := x.due(func(m evidence.Moment) bool { return m.Answers <= x.answered && m.Turns <= x.turns })
	x.p.mu.Lock()
	x.answered++
	x.p.mu.Unlock()
	return x.moves(ctx, list)
}

func (x *parties) beforeDecision(ctx context.Context) error {
	list := x.due(func(m evidence.Moment) bool { return m.Decisions <= x.decided && m.Turns <= x.turns })
	x.decided++
	return x.moves(ctx, list)
}

// unanswered reports whether a peer never answered a call of the recording: it went,
// or it let the time pass.
func (x *parties) unanswered(q *event.ActionRequired, call string) bool {
	if q.ActionType != "client_tool" || call == "" {
		return false
	}
	i := slices.Index(x.silent, call)
	if i >= 0 {
		x.silent = slices.Delete(x.silent, i, i+1)
	}
	return i >= 0
}

// decision returns where the answer to an action is: that about the same call, else
// the first about the same tool.
func (p *replaying) decision(q *event.ActionRequired, call string) int {
	about := func(d evidence.CaseDecision) bool { return d.ActionType == q.ActionType && d.ToolName == q.ToolName }
	i := slices.IndexFunc(p.decisions, func(d evidence.CaseDecision) bool { return about(d) && call != "" && d.ToolCallID == call })
	if i < 0 {
		i = slices.IndexFunc(p.decisions, about)
	}
	return i
}
