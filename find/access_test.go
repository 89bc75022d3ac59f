package find_test

import (
	"fmt"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/redact"
)

var (
	acme   = command.Caller{Account: "acme", Actor: event.Actor{Kind: "user"}}
	globex = command.Caller{Account: "globex", Actor: event.Actor{Kind: "user"}}
)

func submitAs(k *runtimetest.Kit, c command.Caller, sessionID, text string) *command.SubmitTurnResult {
	k.Helper()
	res := runtimetest.DoAs[command.SubmitTurnResult](k, c, &command.SubmitTurn{SessionID: sessionID, Create: true, Input: runtimetest.Quoted(text)})
	k.Completes(res)
	return res
}

// An account learns nothing of another one: not by results, totals or cursors, and a
// session of the other is as one that never was.
func TestAccountsAreApart(t *testing.T) {
	k := runtimetest.New(t)
	for i := range 5 {
		submitAs(k, acme, "sess_acme", fmt.Sprintf("secret plan %d", i))
	}
	own := submitAs(k, globex, "sess_globex", "our own plan")

	list := runtimetest.DoAs[command.ListTurnsResult](k, globex, &command.ListTurns{Page: command.Page{Limit: 1}})
	if list.Total != 1 || list.NextCursor != "" || len(list.Turns) != 1 || list.Turns[0].TurnID != own.TurnID {
		t.Errorf("globex sees %+v", list)
	}
	if list = runtimetest.DoAs[command.ListTurnsResult](k, globex, &command.ListTurns{Account: "acme"}); list.Total != 0 || len(list.Turns) != 0 {
		t.Errorf("globex asked for acme's turns and got %+v", list)
	}
	if list = runtimetest.DoAs[command.ListTurnsResult](k, globex, &command.ListTurns{Query: "secret"}); list.Total != 0 {
		t.Errorf("globex found %+v", list)
	}
	found := runtimetest.DoAs[command.SearchResult](k, globex, &command.Search{Query: "plan", Page: command.Page{Limit: 3}})
	for _, h := range found.Hits {
		if h.SessionID != "sess_globex" {
			t.Errorf("globex found %+v", h)
		}
	}
	if len(found.Hits) != 2 || found.NextCursor != "" { // the input, and the answer that repeats it
		t.Errorf("globex found %d hits, cursor %q", len(found.Hits), found.NextCursor)
	}
	for _, p := range []func(id string) command.Params{
		func(id string) command.Params { return &command.ListTurns{SessionID: id} },
		func(id string) command.Params { return &command.Search{SessionID: id, Query: "plan"} },
	} {
		_, foreign := k.Runtime.Do(t.Context(), globex, p("sess_acme"))
		_, absent := k.Runtime.Do(t.Context(), globex, p("sess_none"))
		if fault.KindOf(foreign) != fault.NotFound || strings.ReplaceAll(foreign.Error(), "sess_acme", "X") != strings.ReplaceAll(absent.Error(), "sess_none", "X") {
			t.Errorf("a foreign session: %v; an absent one: %v", foreign, absent)
		}
	}
	// A cursor of another account is only a place in the order.
	first := runtimetest.DoAs[command.ListTurnsResult](k, acme, &command.ListTurns{Page: command.Page{Limit: 1}})
	if first.Total != 5 || first.NextCursor == "" {
		t.Fatalf("acme sees %+v", first)
	}
	for _, turn := range runtimetest.DoAs[command.ListTurnsResult](k, globex, &command.ListTurns{Page: command.Page{Cursor: first.NextCursor}}).Turns {
		if turn.SessionID != "sess_globex" {
			t.Errorf("with acme's cursor globex sees %+v", turn)
		}
	}
	if all := runtimetest.Do[command.ListTurnsResult](k, &command.ListTurns{}); all.Total != 6 {
		t.Errorf("an admin sees %d turns", all.Total)
	}
}

// A cursor goes on where it was, also when what it was made at is gone.
func TestCursorsOutliveWhatTheyPointTo(t *testing.T) {
	k := runtimetest.New(t)
	for i := range 6 {
		k.Completes(k.Submit(fmt.Sprintf("sess_%d", i), "heron"))
	}
	page := command.Page{Limit: 2}
	list := runtimetest.Do[command.ListTurnsResult](k, &command.ListTurns{Page: page})
	hits := runtimetest.Do[command.SearchResult](k, &command.Search{Page: page, Query: "heron", Types: []string{"turn.submitted"}})
	for _, id := range []string{list.Turns[1].SessionID, hits.Hits[1].SessionID} {
		if _, err := k.Runtime.Do(t.Context(), command.Local(), &command.DeleteSession{SessionID: id}); err != nil && fault.KindOf(err) != fault.NotFound {
			t.Fatal(err)
		}
	}
	page = command.Page{Limit: 2, Cursor: list.NextCursor}
	next := runtimetest.Do[command.ListTurnsResult](k, &command.ListTurns{Page: page})
	if next.Total != 5 || len(next.Turns) != 2 || next.Turns[0].SessionID != "sess_3" {
		t.Errorf("after the deletion: %+v", next)
	}
	page.Cursor = hits.NextCursor
	if found := runtimetest.Do[command.SearchResult](k, &command.Search{Page: page, Query: "heron", Types: []string{"turn.submitted"}}); len(found.Hits) != 2 || found.Hits[0].SessionID != "sess_3" {
		t.Errorf("after the deletion: %+v", found.Hits)
	}
}

// What is redacted in facts can't be found, not even by who knows it.
func TestSecretsAreNotFound(t *testing.T) {
	const secret = "hunter2hunter2hunter2"
	k := runtimetest.NewWith(t, func(o *agentd.Options) {
		o.Loop.Redact = redact.New(redact.Options{Values: []string{secret}})
	}, script.Answer{Text: "It is " + secret + ", heron."})
	k.Completes(k.Submit("", "my password is "+secret+" heron"))
	if found := runtimetest.Do[command.SearchResult](k, &command.Search{Query: "heron"}); len(found.Hits) != 2 || strings.Contains(fmt.Sprint(found.Hits), secret) {
		t.Errorf("found %+v", found.Hits)
	}
	// The query is redacted as everything that callers send: it can't be used to guess.
	found, err := k.Runtime.Do(t.Context(), command.Local(), &command.Search{Query: "hunter2hunter2*"})
	if err != nil {
		t.Fatal(err)
	}
	if hits := found.(*command.SearchResult).Hits; len(hits) != 0 {
		t.Errorf("found %+v", hits)
	}
}

// Answers survive a restart, and a runtime that finds facts without an index builds it.
func TestIndexIsBuiltForFactsOfEarlierVersions(t *testing.T) {
	k := runtimetest.New(t)
	for range 3 {
		k.Completes(k.Submit("", "heron"))
	}
	k.Close()
	k.Open()
	if list := runtimetest.Do[command.ListTurnsResult](k, &command.ListTurns{}); list.Total != 3 {
		t.Errorf("%d turns", list.Total)
	}
}

// A word with a star stands for words of what the caller may see: neither what it finds
// nor whether it was too much for it depends on what others wrote, or on what is gone.
func TestStarredWordsTellNothingOfOthers(t *testing.T) {
	many := func(prefix string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%s%04d ", prefix, i)
		}
		return b.String()
	}
	k := runtimetest.New(t)
	submitAs(k, globex, "sess_globex", "okapizz is the last of them")
	submitAs(k, acme, "sess_acme", many("okapi", 600)+many("zebra", 600))
	submitAs(k, globex, "sess_deleted", many("okapi", 600))
	runtimetest.DoAs[command.DeleteSessionResult](k, globex, &command.DeleteSession{SessionID: "sess_deleted"})
	look := func(c command.Caller, query string) (turns int, truncated bool) {
		t.Helper()
		found := runtimetest.DoAs[command.SearchResult](k, c, &command.Search{Query: query, Types: []string{"turn.submitted"}})
		list := runtimetest.DoAs[command.ListTurnsResult](k, c, &command.ListTurns{Query: query})
		if len(found.Hits) != int(list.Total) || found.Truncated != list.Truncated {
			t.Errorf("%s: search finds %d (truncated: %v), list_turns %d (%v)", query, len(found.Hits), found.Truncated, list.Total, list.Truncated)
		}
		return len(found.Hits), found.Truncated
	}
	for _, c := range []struct {
		caller    command.Caller
		query     string
		turns     int
		truncated bool
	}{
		{globex, "okapi*", 1, false},
		{globex, "okapi* last", 1, false},
		{globex, "zebra*", 0, false},
		{acme, "okapi*", 1, true},
		{acme, "okapi05*", 1, false},
		{acme, "zebra059*", 1, false},
		{command.Local(), "okapi*", 1, true}, // okapizz comes behind more words than are looked for
		{command.Local(), "okapiz*", 1, false},
	} {
		if turns, truncated := look(c.caller, c.query); turns != c.turns || truncated != c.truncated {
			t.Errorf("%s finds %d turns for %s, truncated: %v; want %d, %v", c.caller.Account, turns, c.query, truncated, c.turns, c.truncated)
		}
	}
	own := runtimetest.DoAs[command.SearchResult](k, acme, &command.Search{Query: "okapi*", SessionID: "sess_acme", Types: []string{"model.completed"}})
	submitAs(k, globex, "sess_globex", many("okapi", 300))
	if turns, truncated := look(globex, "okapi*"); turns != 2 || truncated {
		t.Errorf("with 301 words of its own globex finds %d turns, truncated: %v", turns, truncated)
	}
	if again := runtimetest.DoAs[command.SearchResult](k, acme, &command.Search{Query: "okapi*", SessionID: "sess_acme", Types: []string{"model.completed"}}); len(again.Hits) != len(own.Hits) || again.Truncated != own.Truncated {
		t.Errorf("after globex wrote, acme finds %+v instead of %+v", again, own)
	}
}
