package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"agentd/command"
	"agentd/event"
	"agentd/store"
)

// listSessions answers from the index alone: it loads no session and claims none.
func (r *request) listSessions(ctx context.Context, p *command.ListSessions) (*command.ListSessionsResult, error) {
	page, err := command.NewOrderedPage(&p.Page, cmp.Or(p.Sort, "created"), p.Order, sessionOrders,
		func(s *command.SessionSummary) string { return s.SessionID })
	if err != nil {
		return nil, err
	}
	keeps := sessionFilter(p)
	for s, err := range r.visibleSessions(ctx) {
		if err != nil {
			return nil, err
		}
		if keeps(s) {
			page.Offer(s)
		}
	}
	res := &command.ListSessionsResult{Sessions: []command.SessionSummary{}, Total: page.Total, NextCursor: page.Next()}
	for _, s := range page.Things() {
		row := *s
		if row.Tags == nil {
			row.Tags = []string{}
		}
		res.Sessions = append(res.Sessions, row)
	}
	return res, nil
}

// visibleSessions yields the summaries of the sessions that the caller may see, newest
// first. They are shared and must not be changed.
func (r *request) visibleSessions(ctx context.Context) iter.Seq2[*command.SessionSummary, error] {
	return func(yield func(*command.SessionSummary, error) bool) {
		kind := kindSession
		if !r.caller.Admin && r.caller.Account != "" {
			kind = accountSessions(r.caller.Account)
		}
		for entry, err := range r.m.opt.Store.Scan(store.OnReplica(ctx, r.m.opt.Store), store.Scan{Kind: kind, Reverse: true}) {
			if err != nil {
				yield(nil, storeFault(err))
				return
			}
			s, err := r.m.summaries.read(&entry)
			if err != nil {
				yield(nil, storeFault(err))
				return
			}
			hidden := !r.caller.Sees(s.Account) || (s.SessionID == event.RuntimeSession && !r.caller.Admin)
			if !hidden && !yield(s, nil) {
				return
			}
		}
	}
}

// VisibleSessions returns the ids of the sessions that a caller may see, newest first,
// but for the runtime's own.
func (m *Manager) VisibleSessions(ctx context.Context, caller command.Caller) ([]string, error) {
	var out []string
	for s, err := range (&request{m: m, caller: caller}).visibleSessions(ctx) {
		if err != nil {
			return nil, err
		}
		if s.SessionID != event.RuntimeSession {
			out = append(out, s.SessionID)
		}
	}
	return out, nil
}

// summaryCache keeps summaries that were read, so that a list over many sessions
// decodes only those that changed. The index is read each time: it is the truth, also
// of what other nodes write.
type summaryCache struct {
	mu    sync.Mutex
	known map[string]knownSummary
}

type knownSummary struct {
	encoded string
	summary *command.SessionSummary
}

// maxSummaries bounds what is kept.
const maxSummaries = 1 << 18

func (c *summaryCache) read(e *store.Entry) (*command.SessionSummary, error) {
	c.mu.Lock()
	known, ok := c.known[e.Key]
	c.mu.Unlock()
	if ok && known.encoded == string(e.Value) {
		return known.summary, nil
	}
	s := &command.SessionSummary{}
	if err := json.Unmarshal(e.Value, s); err != nil {
		return nil, fmt.Errorf("%w: index of sessions: %w", store.ErrCorrupt, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxSummaries {
		c.known = map[string]knownSummary{}
	}
	c.known[e.Key] = knownSummary{string(e.Value), s}
	return s, nil
}

// sessionFilter returns what keeps a session in a list.
func sessionFilter(p *command.ListSessions) func(*command.SessionSummary) bool {
	query := strings.ToLower(p.Query)
	return func(s *command.SessionSummary) bool {
		switch {
		case s.Archived != p.Archived,
			p.Status != "" && s.Status != p.Status,
			p.Workspace != "" && s.Workspace != p.Workspace,
			p.Account != "" && s.Account != p.Account,
			p.Pinned != nil && s.Pinned != *p.Pinned,
			!p.From.IsZero() && s.UpdatedAt.Before(p.From),
			!p.To.IsZero() && !s.UpdatedAt.Before(p.To):
			return false
		}
		for _, tag := range p.Tags {
			if !slices.Contains(s.Tags, tag) {
				return false
			}
		}
		return query == "" || strings.Contains(strings.ToLower(s.SessionID+"\n"+s.Title+"\n"+s.Workspace+"\n"+strings.Join(s.Tags, "\n")), query)
	}
}

// sessionOrders are the orders of a list of sessions.
var sessionOrders = command.Orders[*command.SessionSummary]{
	"created": func(s *command.SessionSummary) string { return timeKey(s.CreatedAt) },
	"updated": func(s *command.SessionSummary) string { return timeKey(s.UpdatedAt) },
	"cost":    func(s *command.SessionSummary) string { return command.NumberKey(s.CostUSD) },
	"tokens": func(s *command.SessionSummary) string {
		return command.NumberKey(float64(s.InputTokens + s.OutputTokens))
	},
	"turns": func(s *command.SessionSummary) string { return command.NumberKey(float64(s.TurnCount)) },
	"title": func(s *command.SessionSummary) string { return strings.ToLower(s.Title) },
}
