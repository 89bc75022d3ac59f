package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"agentd/fault"
	"agentd/server"
	"agentd/store"
)

// storeLinks keeps the links that log in to the console as index entries beside the facts: a
// link that one node made is used at any, and after a restart. That it is used once is
// decided by the store, which writes a mark of its use only if there is none.
type storeLinks struct {
	store store.Store

	mu sync.Mutex // one write at a time
}

const (
	// kindLink: name → storedLink. kindLinkUsed: end of the link, and its name → nothing.
	kindLink     = "console.link"
	kindLinkUsed = "console.link.used"
	// linkWriter is what the entries are written in the name of.
	linkWriter = "console.links"
	// marksFor is how long after the end of a link the mark of its use stays. So far the
	// clocks of two nodes may differ.
	marksFor = 10 * time.Minute
)

// storedLink is what the entry of a link holds.
type storedLink struct {
	TokenID string `json:"tokenId"`
	Until   int64  `json:"until"`
	Sealed  string `json:"sealed"`
}

func (l *storedLink) ended(now time.Time) bool { return now.Unix() >= l.Until }

// usedKey orders marks by the end of their links.
func usedKey(until int64, name string) string { return fmt.Sprintf("%020d.%s", until, name) }

// KeepLink implements [server.LinkKeeper]. It also removes what has ended.
func (s *storeLinks) KeepLink(ctx context.Context, l server.Link) error {
	value, err := json.Marshal(storedLink{l.TokenID, l.Until.Unix(), l.Sealed})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	ops, err := s.oldMarks(ctx, now)
	if err != nil {
		return linkFault(err)
	}
	waiting, same := 0, 0
	for e, err := range s.store.Scan(ctx, store.Scan{Kind: kindLink}) {
		if err != nil {
			return linkFault(err)
		}
		var other storedLink
		if json.Unmarshal(e.Value, &other) != nil || other.ended(now) {
			ops = append(ops, store.IndexOp{Entry: store.Entry{Kind: kindLink, Key: e.Key}, Delete: true})
			continue
		}
		if waiting++; other.TokenID == l.TokenID {
			same++
		}
	}
	if err := server.CheckLinks(waiting, same); err != nil {
		return err
	}
	return linkFault(s.write(ctx, append(ops, store.IndexOp{Entry: store.Entry{Kind: kindLink, Key: l.Name, Value: value}})))
}

// oldMarks returns what removes the marks that no use can meet any more.
func (s *storeLinks) oldMarks(ctx context.Context, now time.Time) (ops []store.IndexOp, err error) {
	before := usedKey(now.Add(-marksFor).Unix(), "")
	for e, err := range s.store.Scan(ctx, store.Scan{Kind: kindLinkUsed, Limit: 1000}) {
		if err != nil {
			return nil, err
		}
		if e.Key >= before {
			break
		}
		ops = append(ops, store.IndexOp{Entry: store.Entry{Kind: kindLinkUsed, Key: e.Key}, Delete: true})
	}
	return ops, nil
}

// TakeLink implements [server.LinkKeeper].
func (s *storeLinks) TakeLink(ctx context.Context, name string) (server.Link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, err := s.store.Get(ctx, kindLink, name)
	if errors.Is(err, store.ErrNotFound) {
		return server.Link{}, server.ErrNoLink
	}
	if err != nil {
		return server.Link{}, linkFault(err)
	}
	var l storedLink
	if err := json.Unmarshal(value, &l); err != nil || l.ended(time.Now()) {
		return server.Link{}, server.ErrNoLink
	}
	err = s.write(ctx, []store.IndexOp{
		{Entry: store.Entry{Kind: kindLinkUsed, Key: usedKey(l.Until, name)}, IfAbsent: true},
		{Entry: store.Entry{Kind: kindLink, Key: name}, Delete: true},
	})
	if errors.Is(err, store.ErrExists) {
		return server.Link{}, server.ErrNoLink
	}
	if err != nil {
		return server.Link{}, linkFault(err)
	}
	// A process that stood still since the link was read may have missed the mark of another
	// one: marks are removed, but long after the end of their links.
	if l.ended(time.Now()) {
		return server.Link{}, server.ErrNoLink
	}
	return server.Link{Name: name, TokenID: l.TokenID, Until: time.Unix(l.Until, 0), Sealed: l.Sealed}, nil
}

// write makes changes of the index durable.
func (s *storeLinks) write(ctx context.Context, ops []store.IndexOp) error {
	return store.WriteEntries(ctx, s.store, linkWriter, ops)
}

// linkFault says that a link can't be kept or used now. After a write whose outcome isn't
// known the link may be used up.
func linkFault(err error) error {
	if err == nil {
		return nil
	}
	return fault.Wrap(fault.Unavailable, err, "login links can't be kept now; run agentd console again in a moment")
}
