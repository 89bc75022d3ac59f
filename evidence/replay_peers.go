package evidence

import (
	"slices"

	"agentd/event"
)

// CasePeer is a peer that carries out tools and came or went.
type CasePeer struct {
	EventID   string `json:"eventId"`
	ChannelID string `json:"channelId"`
	// Gone says that it went. Until then it offers Tools, whose TimeoutMs is short if
	// nobody answered a call in time, and else 0.
	Gone  bool                `json:"gone,omitempty"`
	Tools []event.ChannelTool `json:"tools,omitempty"`
	When  Moment              `json:"when"`
}

// Moment is a moment of a recording: after a fact that both runs share, and before
// what came next from outside.
type Moment struct {
	// Of and Facts say that so many facts of this were there; see [Fact].
	Of    string `json:"of,omitempty"`
	Facts int    `json:"facts,omitempty"`
	// Turns, Answers and Decisions are how many there had been.
	Turns     int `json:"turns,omitempty"`
	Answers   int `json:"answers,omitempty"`
	Decisions int `json:"decisions,omitempty"`
}

// Reached reports whether the facts that were collected are those of a moment, or
// more.
func (p *Projection) Reached(m Moment) bool { return m.Of == "" || p.reached[m.Of] >= m.Facts }

// now is the moment of the recording.
func (r *recording) now() Moment {
	m := Moment{Turns: len(r.c.Turns), Answers: len(r.c.Answers), Decisions: len(r.c.Decisions)}
	m.Of, m.Facts = r.projected.last, r.projected.reached[r.projected.last]
	return m
}

// lateMs is how long a replay waits for a call that nobody answered in time: longer
// than the turn takes to settle down to wait.
const lateMs = 500

// clientAction is the type of the action that a call of a peer's tool is.
const clientAction = "client_tool"

// peerFacts are what a recording remembers of peers.
type peerFacts struct {
	// offered are the tools of each peer, gone those that went with a promise to wait
	// for them and are still expected.
	offered map[string][]event.ChannelTool
	gone    map[string]*CasePeer
	// late are the tools with calls that were not answered in time.
	late map[string]bool
	// askedAt is when a peer was given a call, by the action.
	askedAt map[string]Moment
}

// peer takes a peer's coming and going. It is also told of facts outside of the
// scope: who was there when a turn began is not said in it.
func (r *recording) peer(e *event.Event) {
	f := &r.party.peerFacts
	switch p := e.Payload.(type) {
	case *event.ChannelConnected:
		if len(p.Tools) == 0 {
			return
		}
		if f.offered == nil {
			f.offered, f.gone = map[string][]event.ChannelTool{}, map[string]*CasePeer{}
			f.late, f.askedAt = map[string]bool{}, map[string]Moment{}
		}
		f.offered[e.ChannelID] = p.Tools
		r.cameBack(e)
	case *event.ChannelResumed:
		r.cameBack(e)
	case *event.ActionRequired:
		if p.ActionType == clientAction && f.offered != nil {
			f.askedAt[e.ActionID] = r.now()
		}
	case *event.ToolFailed:
		if p.ErrorCategory == "unavailable" { // nobody waits any more for who went
			for id, gone := range f.gone {
				r.left(id, gone.When)
			}
		}
	case *event.ChannelDisconnected:
		if f.offered[e.ChannelID] == nil {
			return
		}
		gone := &CasePeer{EventID: e.ID, ChannelID: e.ChannelID, Gone: true, When: r.now()}
		if f.gone[e.ChannelID] = gone; p.ToolGraceMs == 0 {
			r.left(e.ChannelID, gone.When)
		}
	}
}

// cameBack takes a peer that is there, for the first time or again. One that was
// waited for has never gone, as far as its calls are concerned.
func (r *recording) cameBack(e *event.Event) {
	f := &r.party.peerFacts
	if f.offered[e.ChannelID] == nil {
		return
	}
	if f.gone[e.ChannelID] != nil {
		delete(f.gone, e.ChannelID)
		return
	}
	if r.awayForNothing(e.ChannelID) {
		return
	}
	r.parties().Peers = append(r.parties().Peers, CasePeer{EventID: e.ID, ChannelID: e.ChannelID, Tools: slices.Clone(f.offered[e.ChannelID]), When: r.now()})
}

// awayForNothing forgets that a peer went, if nothing happened meanwhile: a replay could
// not do both in the same moment, and a call that the peer was to carry out afterwards
// would end with its going.
func (r *recording) awayForNothing(channelID string) bool {
	peers := r.parties().Peers
	for i := range slices.Backward(peers) {
		if peers[i].ChannelID != channelID {
			continue
		}
		if !peers[i].Gone || peers[i].When != r.now() {
			return false
		}
		r.c.Parties.Peers = slices.Delete(peers, i, i+1)
		return true
	}
	return false
}

// left takes a peer that nobody waits for any more.
func (r *recording) left(channelID string, when Moment) {
	if gone := r.party.gone[channelID]; gone != nil {
		gone.When = when
		r.parties().Peers = append(r.parties().Peers, *gone)
		delete(r.party.gone, channelID)
	}
}

// offers reports whether a peer offers a tool.
func (r *recording) offers(name string) bool {
	for _, tools := range r.party.offered {
		if slices.ContainsFunc(tools, func(t event.ChannelTool) bool { return t.ToolName == name }) {
			return true
		}
	}
	return false
}

// peerAnswered takes how a call of a peer's tool ended; it reports whether it was
// one. A call that was lost ends with its peer, and one that nobody answered by the
// time: neither is an answer that could be given.
func (r *recording) peerAnswered(e *event.Event, p *event.ActionResolved) bool {
	q := r.asked[e.ActionID]
	if q == nil || q.ActionType != clientAction || r.party.offered == nil {
		return false
	}
	switch {
	case p.Status == "expired":
		r.party.late[q.ToolName] = true
		r.parties().Unanswered = append(r.parties().Unanswered, applicable(e.ToolCallID))
		return true
	case p.DecisionSource == "runtime" && p.ActionType == clientAction:
		r.left(e.ChannelID, r.party.askedAt[e.ActionID])
		r.parties().Unanswered = append(r.parties().Unanswered, applicable(e.ToolCallID))
		return true
	case p.DecisionSource == "runtime":
		return false // the turn was stopped
	}
	d := CaseDecision{
		EventID: e.ID, ActionType: q.ActionType, ToolName: q.ToolName, ToolCallID: applicable(e.ToolCallID),
		Decision: p.Decision, Payload: p.Payload, Source: p.DecisionSource,
	}
	if len(d.Payload) == 0 && !r.readInto(p.PayloadRef, &d.Payload) {
		r.limit("a large answer is only behind its reference")
	}
	r.c.Decisions = append(r.c.Decisions, d)
	return true
}

// peersEnd settles how long the calls of peers wait.
func (r *recording) peersEnd() {
	if r.c.Parties == nil {
		return
	}
	for i := range r.c.Parties.Peers {
		tools := r.c.Parties.Peers[i].Tools
		for j := range tools {
			name := tools[j].ToolName
			if tools[j].TimeoutMs = 0; r.party.late[name] {
				tools[j].TimeoutMs = lateMs
			}
		}
	}
}
