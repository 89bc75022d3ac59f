package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"agentd/command"
	"agentd/fault"
	"agentd/internal/wire"
)

// The methods that the relay looks into.
const (
	methodSubscribe   = "subscribe"
	methodUnsubscribe = "unsubscribe"
)

// relaySub is a subscription of the client. The server has a name for it on each
// connection; the client has one.
type relaySub struct {
	id, server string
	params     map[string]json.RawMessage
	sessionID  string
	items      bool
	feed       bool
	// hidden says that the client didn't ask for a feed and gets no cursors.
	hidden bool
	// snapshot says that the client waits for the snapshot that comes first.
	snapshot bool
	// after or cursor is where it goes on, and passed how much of what follows the
	// client has already. The first skip notices of a connection are those.
	after        uint64
	cursor       string
	passed, skip int
}

// relaySubs are the subscriptions of a relay.
type relaySubs struct {
	byID, byServer map[string]*relaySub
	count          int
}

func newRelaySubs() relaySubs {
	return relaySubs{byID: map[string]*relaySub{}, byServer: map[string]*relaySub{}}
}

func (s *relaySubs) ids() []string { return slices.Sorted(maps.Keys(s.byID)) }

// resumed returns all subscriptions, for a new connection to go on with.
func (s *relaySubs) resumed() []*relaySub {
	clear(s.byServer)
	var out []*relaySub
	for _, id := range s.ids() {
		sub := s.byID[id]
		sub.server, sub.skip = "", sub.passed
		out = append(out, sub)
	}
	return out
}

// wasResumed takes the server's answer to going on with a subscription. It returns what
// the client has to know: that it ended, if it did.
func (s *relaySubs) wasResumed(sub *relaySub, answer *relayAnswer) []byte {
	var res struct {
		SubscriptionID string `json:"subscriptionId"`
	}
	if answer.Error == nil && json.Unmarshal(answer.Result, &res) == nil && res.SubscriptionID != "" {
		sub.server = res.SubscriptionID
		s.byServer[sub.server] = sub
		return nil
	}
	delete(s.byID, sub.id)
	var e wire.RPCError
	if json.Unmarshal(answer.Error, &e) != nil {
		e = *wire.RPCErrorOf(fault.New(fault.Unavailable, "the server has another answer than a subscription"))
	}
	problem := wire.ProblemOf(e.Err())
	params, err := json.Marshal(map[string]any{"subscriptionId": sub.id, "sessionId": sub.sessionID, "problem": problem})
	if err != nil {
		return nil // texts and numbers are always JSON
	}
	return wire.AppendRPCNotification(nil, "subscription.ended", params)
}

// keepAnswered keeps a subscription that a server made, and gives it a name.
// It returns the answer as the client gets it.
func (s *relaySubs) keepAnswered(call *relayedCall, result []byte, hidden bool) []byte {
	var res map[string]json.RawMessage
	var server string
	if json.Unmarshal(result, &res) != nil || json.Unmarshal(res["subscriptionId"], &server) != nil {
		return result
	}
	s.count++
	sub := &relaySub{id: fmt.Sprintf("subscription_%d", s.count), server: server, hidden: hidden}
	var in struct {
		SessionID string `json:"sessionId"`
		View      string `json:"view"`
		Snapshot  bool   `json:"snapshot"`
		Feed      bool   `json:"feed"`
	}
	_ = json.Unmarshal(call.Params, &in)         // the server has read them
	_ = json.Unmarshal(call.Params, &sub.params) // the same
	_ = json.Unmarshal(res["after"], &sub.after)
	_ = json.Unmarshal(res["cursor"], &sub.cursor)
	sub.sessionID, sub.items, sub.snapshot, sub.feed = in.SessionID, in.View == "items", in.Snapshot, in.Feed || hidden
	s.byID[sub.id], s.byServer[sub.server] = sub, sub
	if sub.id == sub.server && !hidden {
		return result
	}
	res["subscriptionId"] = quoted(sub.id)
	if hidden {
		delete(res, "cursor")
	}
	changed, err := json.Marshal(res)
	if err != nil {
		return result // it was read as JSON
	}
	return changed
}

func quoted(text string) json.RawMessage { return fmt.Appendf(nil, "%q", text) }

// resumeParams are the parameters that go on where the client is.
func (s *relaySub) resumeParams() []byte {
	p := maps.Clone(s.params)
	if p == nil {
		p = map[string]json.RawMessage{}
	}
	delete(p, "snapshot")
	switch {
	case s.snapshot:
		p["snapshot"] = json.RawMessage("true")
	case s.feed:
		p["feed"] = json.RawMessage("true")
	}
	if s.feed && s.cursor != "" {
		p["cursor"] = quoted(s.cursor)
	}
	if s.sessionID != "" {
		p["after"] = fmt.Appendf(nil, "%d", s.after)
	}
	data, err := json.Marshal(p)
	if err != nil {
		return []byte("{}") // it was read as JSON
	}
	return data
}

// read makes a message of a line. What changes something gets a key, so that it may be
// sent twice, and what wants no answer an id.
func (w *relay) read(line []byte) *relayed {
	requests, batch, bad := wire.ParseRPC(line)
	if bad != nil {
		return &relayed{raw: line}
	}
	m := &relayed{batch: batch}
	if slices.ContainsFunc(requests, func(r wire.RPCRequest) bool { return r.Err != nil }) {
		m.raw = line // the server says what is wrong
		for i := range requests {
			if !requests[i].Notification() {
				m.calls = append(m.calls, relayedCall{RPCRequest: requests[i]})
			}
		}
		return m
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range requests {
		call := relayedCall{RPCRequest: requests[i]}
		if call.Notification() {
			call.ID, call.added = w.newID(), true
		}
		if d, known := command.Lookup(command.Name(call.Method)); w.keyed && known && d.Mutates {
			call.Params = withMember(call.Params, "idempotencyKey", quoted("stdio_"+rand.Text()))
		}
		m.calls = append(m.calls, call)
	}
	return m
}

// withMember adds a member to an object that doesn't have it.
func withMember(object json.RawMessage, name string, value json.RawMessage) json.RawMessage {
	if len(object) == 0 {
		object = json.RawMessage("{}")
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return object
	}
	if _, there := members[name]; there {
		return object
	}
	out := fmt.Appendf(nil, "{%q:%s", name, value)
	if len(members) > 0 {
		out = append(out, ',')
	}
	return append(out, object[1:]...)
}

// encode is a message as this connection's server understands it.
func (w *relay) encode(m *relayed) []byte {
	if m.raw != nil {
		return m.raw
	}
	var out []byte
	for i := range m.calls {
		call := &m.calls[i]
		params := call.Params
		switch {
		case m.resumes != nil:
			params = m.resumes.resumeParams()
		case call.Method == methodSubscribe && w.hides(call):
			params = withMember(params, "feed", json.RawMessage("true"))
		case call.Method == methodUnsubscribe:
			params = w.subs.serverParams(params)
		}
		if m.batch {
			out = append(out, ',')
		}
		out = wire.AppendRPCRequest(out, call.ID, call.Method, params)
	}
	if m.batch {
		out[0] = '['
		out = append(out, ']')
	}
	return out
}

// hides reports whether a subscription to all sessions is made a feed, so that it can go
// on over a restart.
func (w *relay) hides(call *relayedCall) bool {
	var p map[string]json.RawMessage
	if !w.keyed || len(call.Params) > 0 && json.Unmarshal(call.Params, &p) != nil {
		return false
	}
	for _, name := range []string{"sessionId", "channelId", "feed", "cursor", "after", "snapshot"} {
		if _, there := p[name]; there {
			return false
		}
	}
	return true
}

// serverParams has an unsubscription name what the server knows.
func (s *relaySubs) serverParams(params json.RawMessage) json.RawMessage {
	var in map[string]json.RawMessage
	var id string
	if json.Unmarshal(params, &in) != nil || json.Unmarshal(in["subscriptionId"], &id) != nil {
		return params
	}
	sub := s.byID[id]
	switch {
	case sub != nil && sub.server == id, sub == nil && s.byServer[id] == nil:
		return params
	case sub == nil || sub.server == "":
		id += "?" // another subscription has that name there
	default:
		id = sub.server
	}
	in["subscriptionId"] = quoted(id)
	changed, err := json.Marshal(in)
	if err != nil {
		return params // it was read as JSON
	}
	return changed
}

// answered keeps what an answer says about subscriptions, and returns it as the client
// gets it.
func (w *relay) answered(call *relayedCall, answer *relayAnswer, message []byte) []byte {
	if answer.Error != nil || call.Err != nil {
		return message
	}
	switch call.Method {
	case methodSubscribe:
		return wire.AppendRPCResult(nil, call.ID, w.subs.keepAnswered(call, answer.Result, w.hides(call)))
	case methodUnsubscribe:
		var in struct {
			SubscriptionID string `json:"subscriptionId"`
		}
		_ = json.Unmarshal(call.Params, &in) // the server has read them
		if sub := w.subs.byID[in.SubscriptionID]; sub != nil {
			delete(w.subs.byServer, sub.server)
			delete(w.subs.byID, sub.id)
		}
	}
	return message
}

// relayNotice is a notification of a server.
type relayNotice struct {
	Method         string          `json:"method"`
	Params         json.RawMessage `json:"params"`
	SubscriptionID string          `json:"subscriptionId"`
	Cursor         string          `json:"cursor"`
}

// handleNotice returns what the client gets of a notification.
func (w *relay) handleNotice(ctx context.Context, message []byte) ([]byte, error) {
	var n relayNotice
	if err := json.Unmarshal(message, &n); err != nil {
		return nil, fmt.Errorf("stdio: a message of the server: %w", err)
	}
	if n.Method == "subscription.ended" {
		return w.handleEnd(ctx, &n, message)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	sub := w.subs.byServer[n.SubscriptionID]
	if sub == nil {
		return message, nil
	}
	if !sub.moveOn(&n) {
		return nil, nil
	}
	if sub.id == sub.server && !sub.hidden {
		return message, nil
	}
	out := wire.AppendRPCNotification(nil, n.Method, n.Params)
	out = fmt.Appendf(out[:len(out)-1], `,"subscriptionId":%q`, sub.id)
	if n.Cursor != "" && !sub.hidden {
		out = fmt.Appendf(out, `,"cursor":%q`, n.Cursor)
	}
	return append(out, '}'), nil
}

// moveOn moves a subscription on by a notice; false if the client has it already.
func (s *relaySub) moveOn(n *relayNotice) bool {
	switch n.Method {
	case "snapshot":
		s.snapshot = false
		return true
	case "event", "gap":
	default: // what can't be replayed is counted no more
		s.passed, s.skip = 0, 0
		return true
	}
	had := s.skip > 0
	if had {
		s.skip--
	}
	switch {
	case s.feed && n.Cursor != "":
		s.cursor, s.passed, s.skip = n.Cursor, 0, 0
	case s.feed:
		s.count(had)
	default:
		var e struct {
			Sequence uint64 `json:"sequence"`
		}
		_ = json.Unmarshal(n.Params, &e) // an envelope has one
		switch {
		case !s.items:
			s.after = e.Sequence
		case e.Sequence != s.after+1 || s.passed == 0: // the first of an event
			s.after, s.passed = e.Sequence-1, 1
		default:
			s.count(had)
		}
	}
	return !had
}

func (s *relaySub) count(had bool) {
	if !had {
		s.passed++
	}
}

// handleEnd passes on that a subscription ended by itself, unless it is because the
// server does.
func (w *relay) handleEnd(ctx context.Context, n *relayNotice, message []byte) ([]byte, error) {
	var end map[string]json.RawMessage
	var server string
	var problem wire.Problem
	if json.Unmarshal(n.Params, &end) != nil || json.Unmarshal(end["subscriptionId"], &server) != nil {
		return message, nil
	}
	_ = json.Unmarshal(end["problem"], &problem) // without one it is no end of the server
	if problem.Code == string(fault.Unavailable) && w.goes(ctx, problem.Err()) {
		return nil, errGoing
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	sub := w.subs.byServer[server]
	if sub == nil {
		return message, nil
	}
	delete(w.subs.byServer, server)
	delete(w.subs.byID, sub.id)
	end["subscriptionId"] = quoted(sub.id)
	params, err := json.Marshal(end)
	if err != nil {
		return nil, fmt.Errorf("stdio: the end of a subscription: %w", err)
	}
	return wire.AppendRPCNotification(nil, n.Method, params), nil
}
