package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/store"
)

// listSessions answers from the index alone: it loads no session and claims none.
func (r *request) listSessions(ctx context.Context, p *command.ListSessions) (*command.ListSessionsResult, error) {
	page, err := newSessionPage(p)
	if err != nil {
		return nil, err
	}
	keeps := sessionFilter(p)
	total := int64(0)
	for s, err := range r.visibleSessions(ctx) {
		if err != nil {
			return nil, err
		}
		if !keeps(s) {
			continue
		}
		total++
		page.offer(s)
	}
	res := page.result()
	res.Total = total
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
		for entry, err := range r.m.opt.Store.Scan(ctx, store.Scan{Kind: kind, Reverse: true}) {
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

// sortKeys give what sessions are ordered by, as texts that are ordered the same way.
var sortKeys = map[string]func(*command.SessionSummary) string{
	"created": func(s *command.SessionSummary) string { return timeKey(s.CreatedAt) },
	"updated": func(s *command.SessionSummary) string { return timeKey(s.UpdatedAt) },
	"cost":    func(s *command.SessionSummary) string { return numberKey(math.Float64bits(max(s.CostUSD, 0))) },
	"tokens":  func(s *command.SessionSummary) string { return numberKey(uint64(s.InputTokens + s.OutputTokens)) },
	"turns":   func(s *command.SessionSummary) string { return numberKey(uint64(s.TurnCount)) },
	"title":   func(s *command.SessionSummary) string { return strings.ToLower(s.Title) },
}

func numberKey(n uint64) string { return fmt.Sprintf("%016x", n) }

// sessionPage collects the sessions that come next behind a place in the order.
type sessionPage struct {
	size       int
	sort       string
	descending bool
	key        func(*command.SessionSummary) string
	// behind is where the page begins; nil at the beginning.
	behind *sessionPlace
	// found are the first of those that come behind it, in order: one more than fits.
	found []sessionPlace
}

// sessionPlace is a session's place in an order.
type sessionPlace struct {
	key, id string
	summary *command.SessionSummary
}

func newSessionPage(p *command.ListSessions) (*sessionPage, error) {
	by := cmp.Or(p.Sort, "created")
	g := &sessionPage{size: p.Size(), sort: by, descending: by != "title", key: sortKeys[by]}
	if p.Order != "" {
		g.descending = p.Order == "desc"
	}
	if p.Cursor == "" {
		return g, nil
	}
	order, rest, _ := strings.Cut(p.Cursor, "\n")
	id, key, ok := strings.Cut(rest, "\n")
	if !ok || order != g.order() {
		return nil, fault.Param("cursor", "is of a list in another order; repeat its sort and order, or leave the cursor out to start from the beginning")
	}
	g.behind = &sessionPlace{key: key, id: id}
	return g, nil
}

// order names the order in cursors.
func (g *sessionPage) order() string {
	if g.descending {
		return g.sort + " desc"
	}
	return g.sort + " asc"
}

// compare orders two places. Sessions that are alike are ordered by their ids.
func (g *sessionPage) compare(a, b sessionPlace) int {
	c := cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.id, b.id))
	if g.descending {
		return -c
	}
	return c
}

func (g *sessionPage) offer(s *command.SessionSummary) {
	at := sessionPlace{g.key(s), s.SessionID, s}
	full := len(g.found) > g.size
	if (g.behind != nil && g.compare(at, *g.behind) <= 0) || (full && g.compare(at, g.found[g.size]) >= 0) {
		return
	}
	i, _ := slices.BinarySearchFunc(g.found, at, g.compare)
	if full {
		g.found = g.found[:g.size]
	}
	g.found = slices.Insert(g.found, i, at)
}

func (g *sessionPage) result() *command.ListSessionsResult {
	res := &command.ListSessionsResult{Sessions: []command.SessionSummary{}}
	for i := range g.found[:min(len(g.found), g.size)] {
		res.Sessions = append(res.Sessions, *g.found[i].summary)
	}
	if len(g.found) > g.size {
		last := g.found[g.size-1]
		res.NextCursor = g.order() + "\n" + last.id + "\n" + last.key
	}
	return res
}
