package session_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
)

// TestSeveralActionsAreAnswered: what can be answered is, what can't says why, and the
// facts are those of single answers.
func TestSeveralActionsAreAnswered(t *testing.T) {
	k := newKit(t, nil)
	var ids []string
	for i := range 3 {
		r := k.submit(command.SubmitTurn{SessionID: fmt.Sprintf("sess_%d", i), Create: true})
		ids = append(ids, k.ask(r, "allow", "deny"))
	}
	foreign := callAs[command.SubmitTurnResult](k, acme, &command.SubmitTurn{Input: event.Raw(`"x"`)})
	theirs := k.ask(foreign, "allow", "deny")
	call[command.RespondActionResult](k, &command.RespondAction{ActionID: ids[1], Decision: "allow"})

	p := &command.RespondActions{ActionIDs: []string{ids[0], ids[1], "action_x", ids[0], ids[2]}, Decision: "deny", Reason: "not today"}
	p.IdempotencyKey = "k1"
	got := call[command.RespondActionsResult](k, p)
	var codes []string
	for _, r := range got.Results {
		if r.Error != nil {
			codes = append(codes, r.ActionID+" "+r.Error.Code)
		} else {
			codes = append(codes, r.ActionID+" "+r.Status)
		}
	}
	if want := []string{ids[0] + " resolved", ids[1] + " conflict", "action_x not_found", ids[2] + " resolved"}; !slices.Equal(codes, want) {
		t.Errorf("got  %v\nwant %v", codes, want)
	}
	if got.Done != 2 || got.Failed != 2 || got.Remaining != 0 {
		t.Errorf("%+v", got.BulkCounts)
	}
	facts := k.events("sess_2")
	if last := facts[len(facts)-2]; last.Type != event.TypeActionResolved || last.ActionID != ids[2] {
		t.Errorf("the facts of a denial end with %s", last.Type)
	}
	before := k.json(got)
	k.reopen(nil)
	if again := call[command.RespondActionsResult](k, p); k.json(again) != before {
		t.Errorf("again: %s\nfirst: %s", k.json(again), before)
	}
	other := *p
	other.Decision = "allow"
	k.refused(admin, &other, fault.Conflict)

	mine := callAs[command.RespondActionsResult](k, acme, &command.RespondActions{Filter: &command.ActionFilter{ToolName: "shell"}, Decision: "deny"})
	if len(mine.Results) != 1 || mine.Results[0].ActionID != theirs || mine.Done != 1 {
		t.Errorf("an account's filter chose %+v", mine)
	}
	none := callAs[command.RespondActionsResult](k, acme, &command.RespondActions{ActionIDs: []string{ids[0]}, Decision: "deny"})
	if none.Results[0].Error == nil || none.Results[0].Error.Code != "not_found" {
		t.Errorf("the action of another account: %+v", none.Results[0])
	}
	k.refused(acme, &command.RespondActions{Filter: &command.ActionFilter{SessionID: "sess_1"}, Decision: "deny"}, fault.NotFound)
	k.refused(admin, &command.RespondActions{Decision: "deny"}, fault.InvalidParams)
	k.refused(admin, &command.RespondActions{Decision: "deny", ActionIDs: ids, Filter: &command.ActionFilter{}}, fault.InvalidParams)
	k.refused(admin, &command.RespondActions{Decision: "submit", ActionIDs: ids}, fault.InvalidParams)
	k.verified()
}

func TestSeveralTurnsAreInterrupted(t *testing.T) {
	k := newKit(t, nil)
	one := k.submit(command.SubmitTurn{SessionID: "sess_a", Create: true})
	waiting := k.submit(command.SubmitTurn{SessionID: "sess_a"})
	two := k.submit(command.SubmitTurn{SessionID: "sess_b", Create: true})
	call[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_idle"})
	got := call[command.InterruptTurnsResult](k, &command.InterruptTurns{Turns: []command.TurnTarget{
		{SessionID: "sess_a", TurnID: waiting.TurnID}, {SessionID: "sess_x"}, {SessionID: "sess_idle"}, {SessionID: "sess_a", TurnID: "turn_x"},
	}})
	if got.Done != 3 || got.Failed != 1 || !got.Results[0].Interrupted || got.Results[1].Error == nil || got.Results[1].Error.Code != "not_found" || got.Results[2].Interrupted || got.Results[3].Interrupted {
		t.Errorf("%s", k.json(got))
	}
	got = call[command.InterruptTurnsResult](k, &command.InterruptTurns{Filter: &command.SessionFilter{}, Reason: "stop all"})
	if got.Done != 2 || got.Failed != 0 || got.Results[0].TurnID != two.TurnID || got.Results[1].TurnID != one.TurnID {
		t.Errorf("%s", k.json(got))
	}
	if types := k.types("sess_b"); types[len(types)-1] != event.TypeTurnInterruptRequested {
		t.Errorf("facts: %v", types)
	}
	if got := callAs[command.InterruptTurnsResult](k, acme, &command.InterruptTurns{Filter: &command.SessionFilter{}}); got.Results == nil || len(got.Results) != 0 {
		t.Errorf("another account's sessions were chosen: %s", k.json(got))
	}
}

// TestABulkThatWasCutOffGoesOn: what was chosen is done, though other sessions would be
// chosen by now, and what was done isn't done twice.
func TestABulkThatWasCutOffGoesOn(t *testing.T) {
	cut, cancel := context.WithCancel(t.Context())
	k := newKit(t, func(o *session.Options) { o.Observer = onFact{event.TypeSessionUpdated, cancel} })
	for i := range 40 {
		call[command.CreateSessionResult](k, &command.CreateSession{SessionID: fmt.Sprintf("sess_%02d", i), Title: "old"})
	}
	p := &command.ArchiveSessions{Filter: &command.SessionFilter{Query: "old"}}
	p.IdempotencyKey = "cut"
	table := command.NewTable(command.TableOptions{Repeats: k.m})
	k.m.Register(table)
	if _, err := table.Do(cut, admin, p); fault.KindOf(err) != fault.Unavailable {
		t.Fatalf("got %v", err)
	}
	archived := call[command.ListSessionsResult](k, &command.ListSessions{Archived: true}).Total
	if archived == 0 || archived == 40 {
		t.Fatalf("%d sessions were archived before it was cut off", archived)
	}
	k.reopen(nil)
	call[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_new", Title: "also old"})
	got := call[command.ArchiveSessionsResult](k, p)
	if got.Done != 40 || got.Failed != 0 {
		t.Errorf("%+v", got.BulkCounts)
	}
	if n := call[command.ListSessionsResult](k, &command.ListSessions{}).Total; n != 1 {
		t.Errorf("%d sessions are left, want the one that came later", n)
	}
	for i := range 40 {
		if types := k.types(fmt.Sprintf("sess_%02d", i)); len(types) != 3 {
			t.Errorf("session %d has the facts %v", i, types)
		}
	}
	k.verified()
}

// onFact calls something when a fact of a type is committed.
type onFact struct {
	kind event.Type
	do   func()
}

// Committed implements [session.Observer].
func (o onFact) Committed(_ string, facts []event.Event) {
	for i := range facts {
		if facts[i].Type == o.kind {
			o.do()
		}
	}
}

func TestABulkIsBounded(t *testing.T) {
	k := newKit(t, nil)
	ids := make([]string, command.MaxBulk+1)
	for i := range ids {
		ids[i] = fmt.Sprintf("sess_%04d", i)
		call[command.CreateSessionResult](k, &command.CreateSession{SessionID: ids[i]})
	}
	k.refused(admin, &command.ArchiveSessions{SessionIDs: ids}, fault.InvalidParams)
	for _, want := range []command.BulkCounts{{Done: command.MaxBulk, Remaining: 1}, {Done: 1}, {}} {
		if got := call[command.ArchiveSessionsResult](k, &command.ArchiveSessions{Filter: &command.SessionFilter{}}); got.BulkCounts != want {
			t.Errorf("got %+v, want %+v", got.BulkCounts, want)
		}
	}
	if got := call[command.ArchiveSessionsResult](k, &command.ArchiveSessions{SessionIDs: ids[:2], Archived: new(false)}); got.Done != 2 || *got.Results[0].Archived {
		t.Errorf("%+v", got)
	}
}
