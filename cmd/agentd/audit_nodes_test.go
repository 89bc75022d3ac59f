package main

import (
	"encoding/json"
	"slices"
	"testing"

	"agentd/command"
	"agentd/event"
)

// TestAuditGoesOnAtAnotherNode: the cursor of a page that one node gave holds at another one
// when the first is dead. Nothing is missed and nothing comes twice; what an admin did to a
// session is part of it.
func TestAuditGoesOnAtAnotherNode(t *testing.T) {
	f := newFleet(t, "1h", slow).quick()
	a, b := f.node(f.dir()), f.node(f.dir())
	var seen []string
	var cursor string
	// page reads one page, and returns whether there was more when it was read.
	page := func(p *process, limit int) bool {
		t.Helper()
		read := call[command.ReadAuditResult](p, &command.ReadAudit{After: cursor, Limit: limit})
		if len(read.Gaps) > 0 {
			t.Errorf("facts are missing: %v", read.Gaps)
		}
		for _, data := range read.Events {
			var e struct {
				SessionID string
				Type      event.Type
			}
			if err := json.Unmarshal(data, &e); err != nil {
				t.Fatal(err)
			}
			if e.SessionID != event.RuntimeSession { // which node opened is not what this is about
				seen = append(seen, e.SessionID+" "+string(e.Type))
			}
		}
		cursor = read.Cursor
		return !read.Complete
	}
	want := []string{}
	create := func(p *process, id string) {
		t.Helper()
		call[command.CreateSessionResult](p, &command.CreateSession{SessionID: id, Workspace: &event.Workspace{Root: t.TempDir()}})
		want = append(want, id+" session.created")
	}
	for _, id := range []string{"sess_a1", "sess_a2", "sess_a3"} {
		create(a, id)
	}
	call[command.MoveSessionResult](a, &command.MoveSession{SessionID: "sess_a2", Root: t.TempDir()})
	want = append(want, "sess_a2 session.updated")
	create(b, "sess_b1")
	for len(seen) < 2 {
		page(a, 1)
	}
	f.kill(a)
	create(b, "sess_b2")
	for page(b, 2) {
	}
	slices.Sort(seen) // those of different sessions have no order
	slices.Sort(want)
	if !slices.Equal(seen, want) {
		t.Errorf("the audit has %v, want %v", seen, want)
	}
}
