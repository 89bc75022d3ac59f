package session_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
)

// TestSessionsAreRenamedTaggedPinnedAndArchived: each change is one fact, read models
// and lists show it, also after a restart, and what changes nothing leaves no fact.
func TestSessionsAreRenamedTaggedPinnedAndArchived(t *testing.T) {
	k := newKit(t, nil)
	call[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a", Title: "first"})
	p := &command.UpdateSession{
		SessionID: "sess_a", Title: new("second"), Tags: []string{"b", "a", "b"}, Pinned: new(true), Archived: new(true), Metadata: event.Raw(`{"k":1}`),
	}
	got := call[command.UpdateSessionResult](k, p)
	if got.Title != "second" || !slices.Equal(got.Tags, []string{"a", "b"}) || !got.Pinned || !got.Archived || string(got.Metadata) != `{"k":1}` {
		t.Errorf("%+v", got)
	}
	call[command.UpdateSessionResult](k, p)
	if types := k.types("sess_a"); len(types) != 3 || types[2] != event.TypeSessionUpdated {
		t.Errorf("facts: %v", types)
	}
	k.reopen(nil)
	snap := call[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_a"})
	if snap.Title != "second" || !slices.Equal(snap.Tags, []string{"a", "b"}) || !snap.Pinned || !snap.Archived {
		t.Errorf("%+v", snap.SessionSnapshot)
	}
	if n := call[command.ListSessionsResult](k, &command.ListSessions{}).Total; n != 0 {
		t.Errorf("%d sessions are listed that were archived", n)
	}
	listed := call[command.ListSessionsResult](k, &command.ListSessions{Archived: true}).Sessions
	if len(listed) != 1 || listed[0].Title != "second" || !listed[0].Pinned || !listed[0].Archived {
		t.Errorf("%+v", listed)
	}
	got = call[command.UpdateSessionResult](k, &command.UpdateSession{
		SessionID: "sess_a", Title: new(""), Tags: []string{}, Pinned: new(false), Archived: new(false), Metadata: event.Raw(`{}`),
	})
	if got.Title != "" || len(got.Tags) > 0 || got.Pinned || got.Archived || got.Metadata != nil {
		t.Errorf("%+v", got)
	}
	k.reopen(nil)
	snap = call[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_a"})
	if snap.Title != "" || len(snap.Tags) > 0 || snap.Pinned || snap.Archived || snap.Metadata != nil {
		t.Errorf("%+v", snap.SessionSnapshot)
	}
	k.refused(admin, &command.UpdateSession{SessionID: "sess_a"}, fault.InvalidParams)
	k.refused(admin, &command.UpdateSession{SessionID: "sess_a", Tags: []string{""}}, fault.InvalidParams)
	k.refused(admin, &command.UpdateSession{SessionID: "sess_x", Pinned: new(true)}, fault.NotFound)
	k.refused(admin, &command.UpdateSession{SessionID: event.RuntimeSession, Pinned: new(true)}, fault.InvalidParams)
	k.refused(command.Caller{Account: "other"}, &command.UpdateSession{SessionID: "sess_a", Pinned: new(true)}, fault.NotFound)
	k.verified()
}

// TestTagsThatAreChangedAtTheSameTime: single tags are added and taken away without a look at
// the others, so none is lost when several people change them.
func TestTagsThatAreChangedAtTheSameTime(t *testing.T) {
	k := newKit(t, nil)
	call[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	call[command.UpdateSessionResult](k, &command.UpdateSession{SessionID: "sess_a", Tags: []string{"before"}})
	const many = 8
	tag := func(i int) string { return fmt.Sprint("tag", i) }
	each := func(from int, change func(p *command.UpdateSession, i int)) {
		t.Helper()
		var all sync.WaitGroup
		for i := from; i < many; i++ {
			p := &command.UpdateSession{SessionID: "sess_a"}
			change(p, i)
			all.Go(func() {
				if _, err := runCommand(k.m, admin, p); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	hasTags := func(want ...string) {
		t.Helper()
		if got := call[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_a"}).Tags; !slices.Equal(got, want) {
			t.Errorf("the tags are %q, want %q", got, want)
		}
	}
	each(0, func(p *command.UpdateSession, i int) { p.AddTags = []string{tag(i), tag(i), "before"} })
	hasTags("before", "tag0", "tag1", "tag2", "tag3", "tag4", "tag5", "tag6", "tag7")
	facts := len(k.types("sess_a"))
	each(0, func(p *command.UpdateSession, i int) {
		p.AddTags, p.RemoveTags = []string{tag(i)}, []string{"never there"}
	})
	if n := len(k.types("sess_a")); n != facts {
		t.Errorf("%d facts of changes that change nothing", n-facts)
	}
	each(1, func(p *command.UpdateSession, i int) { p.RemoveTags = []string{tag(i), "never there"} })
	hasTags("before", "tag0")
	call[command.UpdateSessionResult](k, &command.UpdateSession{SessionID: "sess_a", AddTags: []string{"both", "a"}, RemoveTags: []string{"both", "before"}})
	hasTags("a", "both", "tag0")
	k.refused(admin, &command.UpdateSession{SessionID: "sess_a", Tags: []string{}, AddTags: []string{"b"}}, fault.InvalidParams)
	k.refused(admin, &command.UpdateSession{SessionID: "sess_a", Tags: []string{"b"}, RemoveTags: []string{"a"}}, fault.InvalidParams)
	k.refused(admin, &command.UpdateSession{SessionID: "sess_a", AddTags: []string{""}}, fault.InvalidParams)
	full := make([]string, command.MaxTags)
	for i := range full {
		full[i] = fmt.Sprint("full", i)
	}
	k.refused(admin, &command.UpdateSession{SessionID: "sess_a", AddTags: full}, fault.InvalidParams)
	call[command.UpdateSessionResult](k, &command.UpdateSession{SessionID: "sess_a", AddTags: full, RemoveTags: []string{"a", "both", "tag0"}})
	call[command.UpdateSessionResult](k, &command.UpdateSession{SessionID: "sess_a", RemoveTags: full})
	hasTags()
	// A session that came from elsewhere can have more than a caller could give it.
	brought := []string{"a"}
	for i := range command.MaxTags + 4 {
		brought = append(brought, fmt.Sprint("brought", i))
	}
	k.emit("sess_a", event.Event{Type: event.TypeSessionUpdated, Payload: &event.SessionUpdated{Tags: brought}})
	k.refused(admin, &command.UpdateSession{SessionID: "sess_a", AddTags: []string{"b"}, RemoveTags: []string{"a"}}, fault.InvalidParams)
	call[command.UpdateSessionResult](k, &command.UpdateSession{SessionID: "sess_a", RemoveTags: []string{"a"}})
	if got := call[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_a"}).Tags; len(got) != len(brought)-1 {
		t.Errorf("%d tags are left of %d, want one fewer", len(got), len(brought))
	}
	k.verified()
}

// TestThreadsArePinned, and the pin is taken away again.
func TestThreadsArePinned(t *testing.T) {
	k := newKit(t, nil)
	thread := call[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"}).ThreadID
	for _, pinned := range []bool{true, true, false, false} {
		got := call[command.UpdateThreadResult](k, &command.UpdateThread{SessionID: "sess_a", ThreadID: thread, Pinned: &pinned})
		snap := call[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_a"})
		if got.Pinned != pinned || slices.Contains(snap.PinnedThreadIDs, thread) != pinned {
			t.Errorf("pinned %v: %+v, %v", pinned, got, snap.PinnedThreadIDs)
		}
	}
	if n := len(k.types("sess_a")); n != 4 {
		t.Errorf("%d facts; one per change was expected", n)
	}
	k.refused(admin, &command.UpdateThread{SessionID: "sess_a", ThreadID: "thread_x", Pinned: new(true)}, fault.NotFound)
}

// listed returns the titles of a list, over all pages of two.
func listed(k *kit, c command.Caller, p command.ListSessions) (titles string, total int64) {
	k.Helper()
	var out []string
	p.Limit = 2
	for {
		res := callAs[command.ListSessionsResult](k, c, &p)
		for _, s := range res.Sessions {
			out = append(out, s.Title)
		}
		if p.Cursor = res.NextCursor; p.Cursor == "" {
			return strings.Join(out, " "), res.Total
		}
	}
}

// TestSessionsAreFilteredSortedAndCounted, for an admin and for an account, which
// learns nothing of others: not by totals, filters or cursors.
func TestSessionsAreFilteredSortedAndCounted(t *testing.T) {
	k := newKit(t, nil)
	acme, other := command.Caller{Account: "acme"}, command.Caller{Account: "other"}
	for i, name := range []string{"one", "two", "three", "four"} {
		owner := acme
		if i == 3 {
			owner = other
		}
		id := "sess_" + name
		callAs[command.CreateSessionResult](k, owner, &command.CreateSession{SessionID: id, Title: name, Workspace: &event.Workspace{Root: fmt.Sprintf("/w/%d", i%2)}})
		callAs[command.UpdateSessionResult](k, owner, &command.UpdateSession{SessionID: id, Tags: []string{"all", fmt.Sprint("tag", i%2)}, Pinned: new(i == 1)})
	}
	k.submit(command.SubmitTurn{SessionID: "sess_one"})
	for _, c := range []struct {
		name string
		by   command.Caller
		p    command.ListSessions
		want string
	}{
		{"newest first", admin, command.ListSessions{}, "four three two one"},
		{"own", acme, command.ListSessions{}, "three two one"},
		{"by title", admin, command.ListSessions{Sort: "title"}, "four one three two"},
		{"by title, down", admin, command.ListSessions{Sort: "title", Order: "desc"}, "two three one four"},
		{"last active", admin, command.ListSessions{Sort: "updated"}, "one four three two"},
		{"by turns", acme, command.ListSessions{Sort: "turns"}, "one two three"},
		{"with tags", admin, command.ListSessions{Tags: []string{"all", "tag1"}}, "four two"},
		{"in a workspace", admin, command.ListSessions{Workspace: "/w/0"}, "three one"},
		{"of an account", admin, command.ListSessions{Account: "other"}, "four"},
		{"of another's account", acme, command.ListSessions{Account: "other"}, ""},
		{"pinned", admin, command.ListSessions{Pinned: new(true)}, "two"},
		{"not pinned", admin, command.ListSessions{Pinned: new(false)}, "four three one"},
		{"running", admin, command.ListSessions{Status: "queued"}, ""},
		{"by text in a tag", acme, command.ListSessions{Query: "TAG1"}, "two"},
	} {
		titles, total := listed(k, c.by, c.p)
		if titles != c.want || total != int64(len(strings.Fields(c.want))) {
			t.Errorf("%s: %q, total %d; want %q", c.name, titles, total, c.want)
		}
	}
	page := call[command.ListSessionsResult](k, &command.ListSessions{Page: command.Page{Limit: 1}})
	k.refused(admin, &command.ListSessions{Page: command.Page{Cursor: page.NextCursor}, Sort: "title"}, fault.InvalidParams)
	rest := callAs[command.ListSessionsResult](k, acme, &command.ListSessions{Page: command.Page{Cursor: page.NextCursor}})
	if len(rest.Sessions) != 3 || rest.Total != 3 {
		t.Errorf("behind a cursor of an admin an account sees %+v", rest)
	}
	k.verified()
}

// TestSummariesHaveEveryField: what a list needs of a session is in each of its rows, also
// where it is nothing yet.
func TestSummariesHaveEveryField(t *testing.T) {
	k := newKit(t, nil)
	call[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_new"})
	var list struct {
		Sessions []map[string]any `json:"sessions"`
	}
	if err := json.Unmarshal([]byte(k.json(call[command.ListSessionsResult](k, &command.ListSessions{}))), &list); err != nil || len(list.Sessions) != 1 {
		t.Fatal(err, list)
	}
	for field, want := range map[string]any{
		"costUSD": 0.0, "inputTokens": 0.0, "outputTokens": 0.0, "pendingActions": 0.0, "turnCount": 0.0,
		"tags": []any{}, "pinned": false, "archived": false, "status": "idle", "sessionId": "sess_new",
	} {
		if got, ok := list.Sessions[0][field]; !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, want %v", field, got, want)
		}
	}
}
