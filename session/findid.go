package session

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/store"
)

// What one question about an id looks at, at most.
const (
	maxFindSessions = 500
	maxFindFacts    = 100_000
)

// An id is made a moment before the fact that first has it; the clock of the node that
// wrote the fact may be another one.
const (
	findBefore = time.Minute
	findAfter  = 10 * time.Minute
)

// findID says what an id names. No index has all of them: one entry for every step and
// event would cost each turn more than the question is worth. But an id that agentd made
// says when that was, and the facts of a session are in the order of time.
func (r *request) findID(ctx context.Context, p *command.FindID) (*command.FindIDResult, error) {
	f := &idFinder{r: r, id: p.ID, facts: maxFindFacts, res: &command.FindIDResult{Found: []command.FoundThing{}}}
	if p.SessionID != "" {
		if err := r.m.See(ctx, r.caller, p.SessionID); err != nil {
			return nil, err
		}
		return f.res, f.lookThrough(ctx, p.SessionID)
	}
	if err := f.lookUp(ctx); err != nil || len(f.res.Found) > 0 {
		return f.res, err
	}
	at, timed := event.MadeAt(p.ID)
	sessions, err := r.sessionsAt(ctx, at)
	if err != nil {
		return nil, err
	}
	f.res.Complete = timed && len(sessions) <= maxFindSessions
	for _, id := range sessions[:min(len(sessions), maxFindSessions)] {
		if timed {
			err = f.lookAround(ctx, id, at)
		} else {
			err = f.lookForTurn(ctx, id)
		}
		if err != nil || len(f.res.Found) > 0 {
			return f.res, err
		}
	}
	return f.res, nil
}

// sessionsAt returns the sessions that the caller may see and that may have written
// something at a time: first those that were in use before and after it, those that ended
// soon after it before others. Without a time it returns all, the newest first.
func (r *request) sessionsAt(ctx context.Context, at time.Time) ([]string, error) {
	type candidate struct {
		id   string
		rank time.Duration
	}
	var list []candidate
	for s, err := range r.visibleSessions(ctx) {
		switch {
		case err != nil:
			return nil, err
		case at.IsZero():
			list = append(list, candidate{id: s.SessionID})
		case !s.CreatedAt.After(at.Add(findBefore)):
			rank := s.UpdatedAt.Sub(at)
			if rank < -findBefore { // facts after the last change of the summary: not impossible
				rank = 1<<62 - rank
			}
			list = append(list, candidate{s.SessionID, rank})
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(a.rank, b.rank) })
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].id
	}
	return out, nil
}

// idFinder looks for one id.
type idFinder struct {
	r  *request
	id string
	// facts is how many may still be looked at.
	facts int
	res   *command.FindIDResult
}

// indexedIDs are the kinds of things that an index finds, whoever chose their ids.
func (f *idFinder) indexedIDs() []struct{ kind, entries string } {
	return []struct{ kind, entries string }{
		{"task", kindTask},
		{"process", kindProcess},
		{"subagent", KindSubagent},
		{"job", KindJob},
		{"schedule", KindSchedule},
		{"trial", KindTrial},
	}
}

// lookUp asks the indexes.
func (f *idFinder) lookUp(ctx context.Context) error {
	if err := f.addVisible(ctx, "session", f.id); err != nil {
		return err
	}
	for _, x := range f.indexedIDs() {
		v, err := f.r.m.opt.Store.Get(ctx, x.entries, f.id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return storeFault(err)
		}
		sessionID, _, _ := strings.Cut(string(v), "/")
		if err := f.addVisible(ctx, x.kind, sessionID); err != nil {
			return err
		}
	}
	if err := f.lookUpChannel(ctx); err != nil {
		return err
	}
	return f.lookUpAction(ctx)
}

// lookUpChannel asks the index of channels. A channel has an account of its own.
func (f *idFinder) lookUpChannel(ctx context.Context) error {
	c, err := f.r.m.Channel(ctx, f.id)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return nil
	case err != nil:
		return err
	case f.r.caller.Sees(c.Account()):
		return f.addThing(ctx, "channel", c.Home)
	}
	return nil
}

// lookUpAction asks the index of actions.
func (f *idFinder) lookUpAction(ctx context.Context) error {
	v, err := f.r.m.opt.Store.Get(ctx, kindAction, f.id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return storeFault(err)
	}
	var record actionRecord
	if err := json.Unmarshal(v, &record); err != nil || record.Action == nil {
		return storeFault(fmt.Errorf("%w: action %s in the index: %w", store.ErrCorrupt, f.id, err))
	}
	return f.addVisible(ctx, "action", record.Action.SessionID)
}

// addVisible adds a thing, if the caller may see its session.
func (f *idFinder) addVisible(ctx context.Context, kind, sessionID string) error {
	switch err := f.r.m.See(ctx, f.r.caller, sessionID); {
	case fault.KindOf(err) == fault.NotFound:
		return nil
	case err != nil:
		return err
	}
	return f.addThing(ctx, kind, sessionID)
}

// addThing adds a thing, with the fact that began it if the id says when that was.
func (f *idFinder) addThing(ctx context.Context, kind, sessionID string) error {
	before := len(f.res.Found)
	if at, ok := event.MadeAt(f.id); ok {
		if err := f.lookAround(ctx, sessionID, at); err != nil {
			return err
		}
	}
	if len(f.res.Found) == before {
		f.res.Found = append(f.res.Found, command.FoundThing{Kind: kind, SessionID: sessionID})
	}
	f.res.Found[before].Kind, f.res.Complete = kind, true
	return nil
}

// lookForTurn looks for a turn in a session, by an id that its caller chose.
func (f *idFinder) lookForTurn(ctx context.Context, sessionID string) error {
	f.res.Sessions++
	v, err := f.r.m.opt.Store.Get(ctx, kindTurn, turnKey(sessionID, f.id))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return storeFault(err)
	}
	var t turnRecord
	if err := json.Unmarshal(v, &t); err != nil {
		return storeFault(fmt.Errorf("%w: turn %s in the index: %w", store.ErrCorrupt, f.id, err))
	}
	f.res.Found = append(f.res.Found, command.FoundThing{Kind: "turn", SessionID: sessionID, ThreadID: t.ThreadID, TurnID: f.id, Sequence: t.Sequence, Time: t.Submitted})
	f.res.Complete = true
	return nil
}

// lookThrough looks at all facts of a session, as many as may be looked at.
func (f *idFinder) lookThrough(ctx context.Context, sessionID string) error {
	first, last, err := f.bounds(ctx, sessionID)
	if err != nil {
		return err
	}
	f.res.Complete = last-first < uint64(f.facts)
	if at, ok := event.MadeAt(f.id); ok && !f.res.Complete {
		return f.lookAround(ctx, sessionID, at)
	}
	_, err = f.scanFacts(ctx, sessionID, first, time.Time{})
	return err
}

// lookAround looks at the facts of a session that were written when the id was made.
func (f *idFinder) lookAround(ctx context.Context, sessionID string, at time.Time) error {
	first, last, err := f.bounds(ctx, sessionID)
	if err != nil || last < first {
		return err
	}
	n := sort.Search(int(last-first)+1, func(i int) bool {
		var t time.Time
		if err == nil {
			t, err = f.timeOf(ctx, sessionID, first+uint64(i))
		}
		return err != nil || !t.Before(at.Add(-findBefore))
	})
	if err != nil || first+uint64(n) > last {
		return err
	}
	all, err := f.scanFacts(ctx, sessionID, first+uint64(n), at.Add(findAfter))
	f.res.Complete = f.res.Complete && all
	return err
}

// bounds returns the first and the last fact of a session that can be read.
func (f *idFinder) bounds(ctx context.Context, sessionID string) (first, last uint64, err error) {
	head, err := f.r.m.opt.Store.Head(ctx, sessionID)
	if err != nil || head.Sequence == 0 {
		return 1, 0, storeFault(err)
	}
	first, err = f.r.m.Readable(ctx, sessionID, 0)
	return first, head.Sequence, err
}

// timeOf returns when a fact was written.
func (f *idFinder) timeOf(ctx context.Context, sessionID string, sequence uint64) (time.Time, error) {
	for rec, err := range f.r.m.opt.Store.Read(ctx, sessionID, store.Range{After: sequence - 1, Limit: 1}) {
		if err != nil {
			return time.Time{}, storeFault(err)
		}
		e, err := store.DecodeFact(ctx, f.r.m.opt.Store, rec.Data)
		if err != nil {
			return time.Time{}, storeFault(fmt.Errorf("%w: session %s, fact %d: %w", store.ErrCorrupt, sessionID, sequence, err))
		}
		return e.Time, nil
	}
	return time.Time{}, nil // removed since
}

// scanFacts looks for the first fact from a sequence on that has the id, until a time, and
// reports whether there was nothing more to look at.
func (f *idFinder) scanFacts(ctx context.Context, sessionID string, from uint64, until time.Time) (all bool, err error) {
	f.res.Sessions++
	quoted := []byte(`"` + f.id + `"`)
	for rec, err := range f.r.m.opt.Store.Read(ctx, sessionID, store.Range{After: from - 1, Limit: f.facts}) {
		if errors.Is(err, store.ErrTrimmed) {
			return true, nil // removed since
		}
		if err != nil {
			return false, storeFault(err)
		}
		f.facts--
		if !bytes.Contains(rec.Data, quoted) && (until.IsZero() || f.facts%64 != 0) {
			continue
		}
		e, err := store.DecodeFact(ctx, f.r.m.opt.Store, rec.Data)
		if err != nil {
			return false, storeFault(fmt.Errorf("%w: session %s, fact %d: %w", store.ErrCorrupt, sessionID, rec.Sequence, err))
		}
		if kind := kindInFact(rec.Data, f.id); kind != "" {
			f.res.Found = append(f.res.Found, command.FoundThing{
				Kind: kind, SessionID: sessionID, Sequence: e.Sequence, EventID: e.ID, Type: string(e.Type), Time: e.Time, ThreadID: e.ThreadID, TurnID: e.TurnID,
			})
			f.res.Complete = true
			return true, nil
		}
		if !until.IsZero() && e.Time.After(until) {
			return true, nil
		}
	}
	return f.facts > 0, nil
}

// kindInFact returns what the id in a fact names, by the member that has it: "turn" for
// turnId. The fact's own members come before those of its payload. It is empty for an id
// that is only in a text.
func kindInFact(data []byte, id string) string {
	var fact map[string]any
	if json.Unmarshal(data, &fact) != nil {
		return ""
	}
	payload := fact["payload"]
	delete(fact, "payload")
	return cmp.Or(memberWith(fact, "", id), memberWith(payload, "", id))
}

// memberWith returns the name of the member that has an id, without "Id".
func memberWith(v any, name, id string) string {
	switch v := v.(type) {
	case string:
		if v == id && (strings.HasSuffix(name, "Id") || strings.HasSuffix(name, "Ids")) {
			return strings.TrimSuffix(strings.TrimSuffix(name, "Ids"), "Id")
		}
	case []any:
		for _, x := range v {
			if kind := memberWith(x, name, id); kind != "" {
				return kind
			}
		}
	case map[string]any:
		names := make([]string, 0, len(v))
		for n := range v {
			names = append(names, n)
		}
		// Those that are about the thing itself come before those that refer to it.
		slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
		for _, n := range names {
			if kind := memberWith(v[n], n, id); kind != "" {
				return kind
			}
		}
	}
	return ""
}
