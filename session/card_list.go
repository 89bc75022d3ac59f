package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/state"
	"agentd/store"
)

// CardQuery says which cards a list has, in which order, and which page is asked for.
// Empty fields keep everything.
type CardQuery struct {
	Kind CardKind
	Page *command.Page
	// Narrow is what all lists can be narrowed by.
	Narrow *command.Narrowing
	// SessionID keeps the things of one session; one that the caller may not see is an error.
	SessionID string
	// Status, Type, Tool, Parent and Group keep the cards that have them.
	Status, Type, Tool, Parent, Group string
	// Sort is the name of the order; default id.
	Sort string
	// Keeps, if set, keeps cards by what else is in them.
	Keeps func(*Card) bool
	// Beside, if set, returns cards of a session that are not in the index.
	Beside func(*state.Session) []*Card
}

// cardOrders are the orders of lists of things in sessions.
var cardOrders = command.Orders[*Card]{
	"id":       func(c *Card) string { return c.ID },
	"created":  func(c *Card) string { return c.Created },
	"updated":  func(c *Card) string { return c.Updated },
	"title":    func(c *Card) string { return strings.ToLower(c.Title) },
	"cost":     func(c *Card) string { return command.NumberKey(c.Figure) },
	"size":     func(c *Card) string { return command.NumberKey(c.Figure) },
	"items":    func(c *Card) string { return command.NumberKey(c.Figure) },
	"duration": func(c *Card) string { return command.NumberKey(c.Figure) },
}

// ListCards returns the page of a list of things that the caller may see. What it
// counts are those alone.
func (m *Manager) ListCards(ctx context.Context, caller command.Caller, q *CardQuery) (*command.OrderedPage[*Card], error) {
	page, err := command.NewOrderedPage(q.Page, cmp.Or(q.Sort, "id"), q.Narrow.Order, cardOrders, (*Card).place)
	if err != nil {
		return nil, err
	}
	list := &cardList{m: m, caller: caller, CardQuery: q, query: strings.ToLower(q.Narrow.Query)}
	scan, err := list.scanOf(ctx)
	if err != nil {
		return nil, err
	}
	if list.tagged, err = list.taggedSessions(ctx); err != nil {
		return nil, err
	}
	for _, c := range list.beside {
		if list.keeps(c) {
			page.Offer(c)
		}
	}
	if list.nothing {
		return page, nil
	}
	for e, err := range m.opt.Store.Scan(store.OnReplica(ctx, m.opt.Store), scan) {
		if err != nil {
			return nil, storeFault(err)
		}
		c, ok := readCard(&e)
		if !ok {
			return nil, storeFault(fmt.Errorf("%w: index entry %s %s", store.ErrCorrupt, e.Kind, e.Key))
		}
		if list.keeps(c) {
			page.Offer(c)
		}
	}
	return page, nil
}

// place names the card among those of all sessions. Ids come first: most are unique, and
// lists in the order of ids are in the order of places.
func (c *Card) place() string { return c.ID + "\x1f" + c.SessionID }

// cardList is one list under way.
type cardList struct {
	*CardQuery
	m      *Manager
	caller command.Caller
	query  string
	// beside are cards that are not in the index.
	beside []*Card
	// tagged are the sessions with the tags that are asked for; nil if none are.
	tagged map[string]bool
	// nothing says that the caller can see nothing of what is asked for.
	nothing bool
}

// scanOf returns the scan with the fewest cards that has all of the list.
func (l *cardList) scanOf(ctx context.Context) (store.Scan, error) {
	scan := store.Scan{Kind: l.Kind.entryKind()}
	switch {
	case l.SessionID != "":
		err := l.m.ViewAs(ctx, l.caller, l.SessionID, func(st *state.Session) error {
			scan.Prefix = cardPrefix(st.Account, l.SessionID)
			if l.Beside != nil {
				l.beside = l.Beside(st)
			}
			return nil
		})
		return scan, err
	case l.Narrow.Account != "":
		l.nothing = !l.caller.Sees(l.Narrow.Account)
		scan.Prefix = accountPrefix(l.Narrow.Account)
	case !l.caller.Admin:
		scan.Prefix = accountPrefix(l.caller.Account)
	}
	return scan, nil
}

// taggedSessions returns the sessions that have all the tags which are asked for.
func (l *cardList) taggedSessions(ctx context.Context) (map[string]bool, error) {
	if len(l.Narrow.Tags) == 0 {
		return nil, nil
	}
	return l.m.Tagged(ctx, l.caller, l.Narrow.Tags)
}

// Tagged returns the sessions that a caller may see and that have all of some tags.
func (m *Manager) Tagged(ctx context.Context, caller command.Caller, tags []string) (map[string]bool, error) {
	out := map[string]bool{}
	for s, err := range (&request{m: m, caller: caller}).visibleSessions(ctx) {
		if err != nil {
			return nil, err
		}
		if hasAll(s.Tags, tags) {
			out[s.SessionID] = true
		}
	}
	return out, nil
}

func hasAll(have, want []string) bool {
	return !slices.ContainsFunc(want, func(x string) bool { return !slices.Contains(have, x) })
}

// keeps reports whether a card is in the list. What the caller may not see isn't.
func (l *cardList) keeps(c *Card) bool {
	n := l.Narrow
	switch {
	case !l.caller.Sees(c.Account), c.SessionID == event.RuntimeSession && !l.caller.Admin,
		n.Account != "" && c.Account != n.Account,
		l.SessionID != "" && c.SessionID != l.SessionID,
		l.Status != "" && c.Status != l.Status,
		l.Type != "" && c.Type != l.Type,
		l.Tool != "" && c.Tool != l.Tool,
		l.Parent != "" && c.Parent != l.Parent,
		l.Group != "" && c.Group != l.Group,
		n.Workspace != "" && c.Workspace != n.Workspace,
		!n.From.IsZero() && c.Updated < timeKey(n.From),
		!n.To.IsZero() && c.Updated >= timeKey(n.To),
		l.tagged != nil && !l.tagged[c.SessionID],
		l.Keeps != nil && !l.Keeps(c):
		return false
	}
	return l.query == "" || strings.Contains(strings.ToLower(c.ID+"\n"+c.Title+"\n"+c.Text), l.query)
}
