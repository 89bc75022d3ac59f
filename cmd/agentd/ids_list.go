package main

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/shortid"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
	"agentd/event"
	"agentd/state"
)

// idKind is a kind of things that ids name.
type idKind struct {
	noun string
	// newest is what "last" names, if it isn't the noun.
	newest string
	// prefix is what ids of the kind begin with, if agentd makes them.
	prefix event.Prefix
	// rank orders kinds: a lower one narrows the lists of those above.
	rank int
	// loop says that only a runtime that carries out work can list them.
	loop bool
	// none says what makes the first of them.
	none string
	// list yields those that may begin with a text, newest first.
	list idLister
}

// idLister yields the things of a kind, newest first. A text limits them to those whose
// ids may begin with it; others may be among them.
type idLister func(ctx context.Context, f facts.Source, text string, s idScope) iter.Seq2[idEntry, error]

// idEntry is one thing that an id names.
type idEntry struct {
	id, sessionID, says string
	at                  time.Time
}

// describeIn says what an id names, in so many characters.
func (e *idEntry) describeIn(most int) string {
	when := ""
	if !e.at.IsZero() {
		when = ago(e.at)
	}
	return terminal.Clip(terminal.JoinDots(when, terminal.Plain(e.says)), most)
}

// idScope is what the rest of a command line says of the things that an id may name.
type idScope struct {
	session, job string
	// pending keeps what waits for an answer.
	pending bool
}

// idKinds are the kinds of things that commands take ids of.
func idKinds() map[string]*idKind {
	all := []*idKind{
		{noun: "session", prefix: event.PrefixSession, list: listedSessions, none: `"agentd run" starts one`},
		{noun: "job", prefix: event.PrefixJob, rank: 1, loop: true, list: listedJobs, none: `"agentd job run" starts one`},
		{noun: "turn", prefix: event.PrefixTurn, rank: 2, list: listedTurns, none: `"agentd run" starts one`},
		{noun: "action", prefix: event.PrefixAction, rank: 2, list: listedActions},
		{noun: "task", prefix: event.PrefixTask, rank: 2, loop: true, list: listedTasks, none: `"agentd tasks create" creates one`},
		{noun: "schedule", prefix: event.PrefixSchedule, rank: 2, loop: true, list: listedSchedules, none: `"agentd schedules create" creates one`},
		{noun: "trial", prefix: event.PrefixTrial, rank: 2, loop: true, list: listedTrials, none: `"agentd bench run" runs some`},
		{noun: "thread", prefix: event.PrefixThread, rank: 2, list: listedThreads},
		{noun: "item", prefix: event.PrefixJobItem, rank: 2, loop: true, list: listedItems},
		{noun: "thing", newest: "turn", rank: 2, loop: true, list: listedThings, none: `"agentd run" starts one`},
	}
	out := map[string]*idKind{}
	for _, k := range all {
		out[k.noun] = k
	}
	return out
}

// pagesOf yields the entries of all pages of a list.
func pagesOf[R any](ctx context.Context, f facts.Source, p command.Params, page *command.Page, read func(*R) ([]idEntry, string)) iter.Seq2[idEntry, error] {
	return func(yield func(idEntry, error) bool) {
		for page.Limit = command.MaxPage; ; {
			res := new(R)
			if err := f.Do(ctx, p, res); err != nil {
				yield(idEntry{}, err)
				return
			}
			entries, next := read(res)
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
			if page.Cursor = next; next == "" {
				return
			}
		}
	}
}

// chained yields what several lists do, one after the other.
func chained(lists ...iter.Seq2[idEntry, error]) iter.Seq2[idEntry, error] {
	return func(yield func(idEntry, error) bool) {
		for _, l := range lists {
			for e, err := range l {
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

func listedSessions(ctx context.Context, f facts.Source, text string, _ idScope) iter.Seq2[idEntry, error] {
	of := func(archived bool) iter.Seq2[idEntry, error] {
		p := &command.ListSessions{Query: text, Sort: "updated", Archived: archived}
		return pagesOf(ctx, f, p, &p.Page, func(r *command.ListSessionsResult) ([]idEntry, string) {
			var out []idEntry
			for i := range r.Sessions {
				if s := &r.Sessions[i]; s.SessionID != event.RuntimeSession {
					out = append(out, idEntry{id: s.SessionID, sessionID: s.SessionID, says: s.Title, at: s.UpdatedAt})
				}
			}
			return out, r.NextCursor
		})
	}
	if text == "" {
		return of(false) // what was put aside is not the last
	}
	return chained(of(false), of(true))
}

func listedTurns(ctx context.Context, f facts.Source, text string, s idScope) iter.Seq2[idEntry, error] {
	p := &command.ListTurns{SessionID: s.session}
	if since, ok := shortid.Since(text); ok {
		p.From = since.Add(-time.Hour) // clocks of nodes differ
	}
	return pagesOf(ctx, f, p, &p.Page, func(r *command.ListTurnsResult) ([]idEntry, string) {
		out := make([]idEntry, len(r.Turns))
		for i := range r.Turns {
			t := &r.Turns[i]
			out[i] = idEntry{id: t.TurnID, sessionID: t.SessionID, says: t.Preview, at: t.StartedAt}
		}
		return out, r.NextCursor
	})
}

func listedActions(ctx context.Context, f facts.Source, text string, s idScope) iter.Seq2[idEntry, error] {
	p := &command.ListActions{SessionID: s.session, Narrowing: command.Narrowing{Query: text}, Sort: "created"}
	if s.pending {
		p.Status = "pending"
	}
	return pagesOf(ctx, f, p, &p.Page, func(r *command.ListActionsResult) ([]idEntry, string) {
		var out []idEntry
		for _, raw := range r.Actions {
			var x action
			if json.Unmarshal(raw, &x) == nil {
				out = append(out, idEntry{id: x.ActionID, sessionID: x.SessionID, says: x.asks(), at: x.CreatedAt})
			}
		}
		return out, r.NextCursor
	})
}

func listedTasks(ctx context.Context, f facts.Source, text string, s idScope) iter.Seq2[idEntry, error] {
	p := &command.ListTasks{SessionID: s.session, Narrowing: command.Narrowing{Query: text}, Sort: "created"}
	return pagesOf(ctx, f, p, &p.Page, func(r *command.ListTasksResult) ([]idEntry, string) {
		var out []idEntry
		for i := range r.Tasks {
			t := &r.Tasks[i]
			if t.TaskKind == "turn" && text == "" {
				continue // the last task is one that somebody created
			}
			out = append(out, idEntry{id: t.TaskID, sessionID: t.SessionID, says: cmp.Or(t.Title, t.Objective), at: t.CreatedAt})
		}
		return out, r.NextCursor
	})
}

func listedJobs(ctx context.Context, f facts.Source, text string, s idScope) iter.Seq2[idEntry, error] {
	p := &command.ListJobs{SessionID: s.session, Narrowing: command.Narrowing{Query: text}, Sort: "created"}
	return pagesOf(ctx, f, p, &p.Page, func(r *command.ListJobsResult) ([]idEntry, string) {
		out := make([]idEntry, len(r.Jobs))
		for i := range r.Jobs {
			j := &r.Jobs[i]
			out[i] = idEntry{id: j.JobID, sessionID: j.SessionID, says: cmp.Or(j.Title, j.Status), at: j.CreatedAt}
		}
		return out, r.NextCursor
	})
}

func listedItems(ctx context.Context, f facts.Source, _ string, s idScope) iter.Seq2[idEntry, error] {
	p := &command.GetJob{JobID: s.job}
	return pagesOf(ctx, f, p, &p.Page, func(r *command.JobRecord) ([]idEntry, string) {
		out := make([]idEntry, len(r.Items))
		for i := range r.Items {
			out[i] = idEntry{id: r.Items[i].ItemID, sessionID: r.SessionID, says: r.Items[i].Status, at: r.CreatedAt}
		}
		return out, r.NextCursor
	})
}

func listedSchedules(ctx context.Context, f facts.Source, _ string, s idScope) iter.Seq2[idEntry, error] {
	p := &command.ListSchedules{SessionID: s.session}
	return newestFirst(pagesOf(ctx, f, p, &p.Page, func(r *command.ListSchedulesResult) ([]idEntry, string) {
		out := make([]idEntry, len(r.Schedules))
		for i := range r.Schedules {
			x := &r.Schedules[i]
			out[i] = idEntry{id: x.ScheduleID, sessionID: x.SessionID, says: cmp.Or(x.Title, x.Status), at: x.CreatedAt}
		}
		return out, r.NextCursor
	}))
}

func listedTrials(ctx context.Context, f facts.Source, text string, s idScope) iter.Seq2[idEntry, error] {
	p := &command.ListTrials{SessionID: s.session, Narrowing: command.Narrowing{Query: text}, Sort: "created"}
	return pagesOf(ctx, f, p, &p.Page, func(r *command.ListTrialsResult) ([]idEntry, string) {
		out := make([]idEntry, len(r.Trials))
		for i := range r.Trials {
			out[i] = idEntry{id: r.Trials[i].TrialID, sessionID: r.Trials[i].SessionID, says: r.Trials[i].Status, at: r.Trials[i].StartedAt}
		}
		return out, r.NextCursor
	})
}

// listedThreads yields the threads of the session that the command line names.
func listedThreads(ctx context.Context, f facts.Source, _ string, s idScope) iter.Seq2[idEntry, error] {
	return func(yield func(idEntry, error) bool) {
		none := 0
		var read struct {
			Threads []state.ThreadReadModel `json:"threads"`
		}
		if s.session == "" {
			return
		}
		if err := f.Do(ctx, &command.GetSession{SessionID: s.session, Limit: &none}, &read); err != nil {
			yield(idEntry{}, err)
			return
		}
		slices.Reverse(read.Threads)
		for i := range read.Threads {
			if !yield(idEntry{id: read.Threads[i].ThreadID, sessionID: s.session, says: read.Threads[i].Role}, nil) {
				return
			}
		}
	}
}

// newestFirst yields what a short list does in the order of its times.
func newestFirst(list iter.Seq2[idEntry, error]) iter.Seq2[idEntry, error] {
	return func(yield func(idEntry, error) bool) {
		var all []idEntry
		for e, err := range list {
			if err != nil {
				yield(idEntry{}, err)
				return
			}
			all = append(all, e)
		}
		slices.SortStableFunc(all, func(x, y idEntry) int { return y.at.Compare(x.at) })
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// listedThings yields what can be explained. Of what has no list, such as tool calls,
// the facts tell. The last thing is a turn.
func listedThings(ctx context.Context, f facts.Source, text string, s idScope) iter.Seq2[idEntry, error] {
	if text == "" {
		return listedTurns(ctx, f, "", s)
	}
	listed := []idLister{}
	kinds := idKinds()
	for _, noun := range []string{"turn", "action", "task", "job"} {
		k := kinds[noun]
		if strings.HasPrefix(text, string(k.prefix)) {
			return k.list(ctx, f, text, s)
		}
		listed = append(listed, k.list)
	}
	lists := []iter.Seq2[idEntry, error]{}
	if !namesKind(text) {
		for _, list := range listed {
			lists = append(lists, list(ctx, f, text, s))
		}
	}
	if _, timed := shortid.Since(text); timed || namesKind(text) {
		lists = append(lists, idsInFacts(ctx, f, text, s))
	}
	return chained(lists...)
}

// namesKind reports whether a text begins like the ids of what only facts tell of.
func namesKind(text string) bool {
	return slices.ContainsFunc([]event.Prefix{event.PrefixToolCall, event.PrefixSubagent, event.PrefixJobItem, event.PrefixEvent},
		func(p event.Prefix) bool { return strings.HasPrefix(text, string(p)) })
}

// idsInFacts yields the ids in the facts of sessions that may have what begins with a
// text: those that were in use since it was made.
func idsInFacts(ctx context.Context, f facts.Source, text string, s idScope) iter.Seq2[idEntry, error] {
	return func(yield func(idEntry, error) bool) {
		sessions := []string{s.session}
		if s.session == "" {
			p := &command.ListSessions{Sort: "updated"}
			if since, ok := shortid.Since(text); ok {
				p.From = since.Add(-time.Hour)
			}
			var res command.ListSessionsResult
			if err := f.Do(ctx, p, &res); err != nil {
				yield(idEntry{}, err)
				return
			}
			sessions = sessions[:0]
			for i := range res.Sessions {
				sessions = append(sessions, res.Sessions[i].SessionID)
			}
		}
		for _, id := range sessions {
			if !yieldIDsOf(ctx, f, id, text, yield) {
				return
			}
		}
	}
}

// yieldIDsOf yields the ids in one session's facts that begin with a text, each once.
func yieldIDsOf(ctx context.Context, f facts.Source, sessionID, text string, yield func(idEntry, error) bool) bool {
	seen := map[string]bool{}
	for after := uint64(0); ; {
		page, last, err := f.Page(ctx, sessionID, after, facts.PageSize)
		if err != nil {
			return yield(idEntry{}, err)
		}
		for _, x := range page {
			after = x.Sequence
			for _, e := range idsOf(x.Data) {
				if e.sessionID = sessionID; shortid.Begins(e.id, text) && !seen[e.id] {
					if seen[e.id] = true; !yield(e, nil) {
						return false
					}
				}
			}
		}
		if len(page) == 0 || after >= last {
			return true
		}
	}
}

// idsOf returns the ids in a fact of what can be explained.
func idsOf(fact []byte) []idEntry {
	type ids struct {
		EventID    string `json:"eventId"`
		ToolCallID string `json:"toolCallId"`
		ActionID   string `json:"actionId"`
		TurnID     string `json:"turnId"`
		TaskID     string `json:"taskId"`
		SubagentID string `json:"subagentId"`
		JobID      string `json:"jobId"`
		ItemID     string `json:"itemId"`
	}
	var e struct {
		ids
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Payload   ids       `json:"payload"`
	}
	if json.Unmarshal(fact, &e) != nil {
		return nil // of a newer server
	}
	var out []idEntry
	for _, x := range []ids{e.ids, e.Payload} {
		for _, id := range []string{x.EventID, x.ToolCallID, x.ActionID, x.TurnID, x.TaskID, x.SubagentID, x.JobID, x.ItemID} {
			if id != "" && id != event.NotApplicable {
				out = append(out, idEntry{id: id, says: e.Type, at: e.Timestamp})
			}
		}
	}
	return out
}
