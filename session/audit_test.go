package session_test

import (
	"fmt"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// readAudit reads all pages, and returns what the events are about.
func (k *kit) readAudit(caller command.Caller, limit int, types ...string) (seen []string, cursor string) {
	k.Helper()
	for {
		page := callAs[command.ReadAuditResult](k, caller, &command.ReadAudit{After: cursor, Limit: limit, Types: types})
		if len(page.Events) > limit {
			k.Fatalf("%d events in a page of %d", len(page.Events), limit)
		}
		for _, data := range page.Events {
			e, err := event.Decode(data)
			if err != nil {
				k.Fatal(err)
			}
			seen = append(seen, fmt.Sprintf("%s %d %s", e.SessionID, e.Sequence, e.Type))
		}
		if cursor = page.Cursor; page.Complete {
			return seen, cursor
		}
	}
}

// TestAnAuditHasEverythingOnce: whatever the size of its pages, an audit has the facts of
// its types, of the sessions that the caller may see, once and in order; and goes on after
// its last page with what was written since.
func TestAnAuditHasEverythingOnce(t *testing.T) {
	k := newKit(t, nil)
	acme := command.Caller{Account: "acme", Actor: event.Actor{Kind: "user"}}
	for i := range 5 {
		for range 3 {
			id := fmt.Sprintf("sess_%d", i)
			if i%2 == 1 {
				callAs[command.CreateSessionResult](k, acme, &command.CreateSession{SessionID: id + k.m.NewID("")})
				continue
			}
			k.submit(command.SubmitTurn{SessionID: id, Create: true})
		}
	}
	all, _ := k.readAudit(admin, 1000)
	if len(all) != 3+6 { // session.created, and nothing else of these types
		t.Errorf("%d facts: %v", len(all), all)
	}
	whole, cursor := k.readAudit(admin, 1000, "*")
	for _, limit := range []int{1, 2, 7} {
		if got, _ := k.readAudit(admin, limit, "*"); fmt.Sprint(got) != fmt.Sprint(whole) {
			t.Errorf("pages of %d: %v, not %v", limit, got, whole)
		}
	}
	if own, _ := k.readAudit(acme, 1000); len(own) != 6 {
		t.Errorf("an account sees %v", own)
	}
	k.submit(command.SubmitTurn{SessionID: "sess_new", Create: true})
	if page := call[command.ReadAuditResult](k, &command.ReadAudit{After: cursor}); len(page.Events) != 1 || !page.Complete {
		t.Errorf("after the last page: %+v", page)
	}
	for _, p := range []*command.ReadAudit{{After: "x"}, {After: cursor + "A"}, {Types: []string{"no.such"}}, {Types: []string{"["}}, {Types: []string{""}}} {
		k.refused(admin, p, fault.InvalidParams)
	}
}
