package session_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/store"
)

func processStarted(id string, words ...string) event.Event {
	return event.Event{
		Type: event.TypeProcessStarted, Scope: event.Scope{ProcessID: id},
		Payload: &event.ProcessStarted{ProcessID: id, Command: words, Cwd: "/work", Background: len(words) > 2},
	}
}

func processEnded(id string, ms int64) event.Event {
	return event.Event{
		Type: event.TypeProcessCompleted, Scope: event.Scope{ProcessID: id},
		Payload: &event.ProcessCompleted{ProcessID: id, DurationMs: ms},
	}
}

// listedProcesses returns the ids of a list, over all pages of two.
func listedProcesses(k *kit, c command.Caller, p command.ListProcesses) (ids []string, total int64) {
	k.Helper()
	p.Limit = 2
	for {
		res := callAs[command.ListProcessesResult](k, c, &p)
		for _, x := range res.Processes {
			ids = append(ids, strings.TrimPrefix(x.ProcessID, "proc_"))
		}
		if p.Cursor = res.NextCursor; p.Cursor == "" {
			return ids, res.Total
		}
	}
}

// twoAccounts makes sessions of two accounts, each with processes.
func twoAccounts(k *kit) (acme, other command.Caller, middle time.Time) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	k.reopen(func(o *session.Options) { o.Clock = func() time.Time { now = now.Add(time.Second); return now } })
	acme, other = command.Caller{Account: "acme"}, command.Caller{Account: "other/one"}
	for i, owner := range []command.Caller{acme, acme, other} {
		id := fmt.Sprint("sess_", i)
		callAs[command.CreateSessionResult](k, owner, &command.CreateSession{SessionID: id, Workspace: &event.Workspace{Root: fmt.Sprintf("/w/%d", i%2)}})
		callAs[command.UpdateSessionResult](k, owner, &command.UpdateSession{SessionID: id, Tags: []string{"all", fmt.Sprint("tag", i)}})
	}
	k.emit("sess_0", processStarted("proc_a", "go", "test"), processEnded("proc_a", 30))
	k.emit("sess_0", processStarted("proc_b", "make", "lint"))
	middle = now
	k.emit("sess_1", processStarted("proc_c", "go", "build", "./..."), processEnded("proc_c", 10))
	k.emit("sess_1", processStarted("proc_d", "make\nlint"), processEnded("proc_d", 20))
	k.emit("sess_2", processStarted("proc_e", "go", "vet"))
	return acme, other, middle
}

// TestListsFilterSortAndCount: every filter and both directions of every order, for an
// admin and for accounts, which learn nothing of others.
func TestListsFilterSortAndCount(t *testing.T) {
	k := newKit(t, nil)
	acme, other, middle := twoAccounts(k)
	type list = command.ListProcesses
	narrow := func(n command.Narrowing) list { return list{Narrowing: n} }
	for _, c := range []struct {
		name string
		by   command.Caller
		p    list
		want string
	}{
		{"by id", admin, list{}, "a b c d e"},
		{"by id, down", admin, narrow(command.Narrowing{Order: "desc"}), "e d c b a"},
		{"newest first", admin, list{Sort: "created"}, "e d c b a"},
		{"oldest first", admin, list{Sort: "created", Narrowing: command.Narrowing{Order: "asc"}}, "a b c d e"},
		{"longest first", admin, list{Sort: "duration"}, "a d c e b"},
		{"shortest first", admin, list{Sort: "duration", Narrowing: command.Narrowing{Order: "asc"}}, "b e c d a"},
		{"own", acme, list{}, "a b c d"},
		{"another's own", other, list{}, "e"},
		{"of no account", command.Caller{}, list{}, ""},
		{"of a session", acme, list{SessionID: "sess_1"}, "c d"},
		{"running", admin, list{Status: "running"}, "b e"},
		{"running and own", acme, list{Status: "running"}, "b"},
		{"in the background", admin, list{Type: "background"}, "c"},
		{"of an account", admin, narrow(command.Narrowing{Account: "other/one"}), "e"},
		{"of another's account", acme, narrow(command.Narrowing{Account: "other/one"}), ""},
		{"in a workspace", admin, narrow(command.Narrowing{Workspace: "/w/0"}), "a b e"},
		{"with tags", admin, narrow(command.Narrowing{Tags: []string{"all", "tag1"}}), "c d"},
		{"with another's tag", acme, narrow(command.Narrowing{Tags: []string{"tag2"}}), ""},
		{"by text", admin, narrow(command.Narrowing{Query: "MAKE lint"}), "b d"},
		{"by id as text", admin, narrow(command.Narrowing{Query: "proc_c"}), "c"},
		{"later", admin, narrow(command.Narrowing{From: middle.Add(time.Microsecond)}), "c d e"},
		{"earlier", admin, narrow(command.Narrowing{To: middle}), "a b"},
		{"all of it at once", acme, list{SessionID: "sess_0", Status: "running", Narrowing: command.Narrowing{Query: "lint", Workspace: "/w/0", Tags: []string{"all"}}}, "b"},
	} {
		ids, total := listedProcesses(k, c.by, c.p)
		if strings.Join(ids, " ") != c.want || total != int64(len(strings.Fields(c.want))) {
			t.Errorf("%s: %v, total %d; want %s", c.name, ids, total, c.want)
		}
	}
	k.refused(acme, &list{SessionID: "sess_2"}, fault.NotFound)
	k.refused(acme, &list{SessionID: "sess_none"}, fault.NotFound)
	k.refused(admin, &list{Narrowing: command.Narrowing{From: middle, To: middle}}, fault.InvalidParams)
	k.refused(admin, &list{Sort: "colour"}, fault.InvalidParams)
	k.refused(admin, &list{Page: command.Page{Cursor: "made-up"}}, fault.InvalidParams)
	page := call[command.ListProcessesResult](k, &list{Page: command.Page{Limit: 3}})
	k.refused(admin, &list{Page: command.Page{Cursor: page.NextCursor}, Sort: "created"}, fault.InvalidParams)
	k.refused(admin, &command.ListArtifacts{Page: command.Page{Cursor: page.NextCursor}}, fault.InvalidParams)
	if rest := callAs[command.ListProcessesResult](k, acme, &list{Page: command.Page{Cursor: page.NextCursor}}); len(rest.Processes) != 1 || rest.Total != 4 {
		t.Errorf("behind a cursor of an admin an account sees %+v", rest)
	}
	k.verified()
}

// TestListsWhileThingsComeAndGo: over the pages of a list everything that was there all
// the time comes exactly once, also behind a cursor of something that was deleted.
func TestListsWhileThingsComeAndGo(t *testing.T) {
	for _, order := range []string{"asc", "desc"} {
		for _, sort := range []string{"id", "created"} {
			k := newKit(t, nil)
			var stay []string
			for i := range 24 {
				id := fmt.Sprintf("sess_%02d", i)
				call[command.CreateSessionResult](k, &command.CreateSession{SessionID: id})
				process := fmt.Sprintf("proc_%02d", i)
				k.emit(id, processStarted(process, "true"), processEnded(process, 1))
				if i%3 != 1 {
					stay = append(stay, process)
				}
			}
			seen := map[string]int{}
			p := &command.ListProcesses{Page: command.Page{Limit: 4}, Sort: sort, Narrowing: command.Narrowing{Order: order}}
			for round := 0; ; round++ {
				res := call[command.ListProcessesResult](k, p)
				for _, x := range res.Processes {
					seen[x.ProcessID]++
				}
				if p.Cursor = res.NextCursor; p.Cursor == "" {
					break
				}
				fresh := fmt.Sprintf("new_%02d", round)
				call[command.CreateSessionResult](k, &command.CreateSession{SessionID: fresh})
				k.emit(fresh, processStarted(fmt.Sprintf("proc_%02dn", round*5), "true"))
				for _, x := range res.Processes { // what the cursor was made of goes, if it can
					if !slices.Contains(stay, x.ProcessID) && strings.HasPrefix(x.SessionID, "sess_") {
						call[command.DeleteSessionResult](k, &command.DeleteSession{SessionID: x.SessionID})
					}
				}
				if gone := fmt.Sprintf("sess_%02d", round*3+16); round < 2 && seen["proc_"+gone[5:]] == 0 {
					call[command.DeleteSessionResult](k, &command.DeleteSession{SessionID: gone})
					stay = slices.DeleteFunc(stay, func(id string) bool { return id == "proc_"+gone[5:] })
				}
			}
			for _, id := range stay {
				if seen[id] != 1 {
					t.Errorf("%s %s: %s came %d times", sort, order, id, seen[id])
				}
			}
			for id, n := range seen {
				if n > 1 {
					t.Errorf("%s %s: %s came %d times", sort, order, id, n)
				}
			}
			k.verified()
		}
	}
}

// TestActionsAreListedByWhatTheyAreAbout, pending and answered, in a list that keeps
// its records.
func TestActionsAreListedByWhatTheyAreAbout(t *testing.T) {
	k := newKit(t, nil)
	turn := k.submit(command.SubmitTurn{SessionID: "sess_a", Create: true})
	ask := func(id, kind, tool, prompt string) event.Event {
		return event.Event{
			Type: event.TypeActionRequired, Scope: event.Scope{ThreadID: turn.ThreadID, TurnID: turn.TurnID, TaskID: turn.TaskID, RunID: turn.RunID, ActionID: id},
			Payload: &event.ActionRequired{ActionType: kind, ToolName: tool, Prompt: prompt, Decisions: []string{"allow", "deny"}},
		}
	}
	k.emit("sess_a", ask("action_1", "tool_permission", "shell", "Run it?"), ask("action_2", "plan_approval", "", "Do it?"), ask("action_3", "tool_permission", "write_file", "Write it?"))
	call[command.RespondActionResult](k, &command.RespondAction{ActionID: "action_1", Decision: "allow"})
	for _, c := range []struct {
		p    command.ListActions
		want string
	}{
		{command.ListActions{}, "action_1 action_2 action_3"},
		{command.ListActions{Status: "pending"}, "action_2 action_3"},
		{command.ListActions{Status: "pending", Sort: "created"}, "action_3 action_2"},
		{command.ListActions{Status: "resolved", SessionID: "sess_a"}, "action_1"},
		{command.ListActions{Type: "tool_permission"}, "action_1 action_3"},
		{command.ListActions{Tool: "write_file", Status: "pending"}, "action_3"},
		{command.ListActions{Sort: "updated"}, "action_1 action_3 action_2"},
		{command.ListActions{Narrowing: command.Narrowing{Query: "do IT"}}, "action_2"},
	} {
		res := call[command.ListActionsResult](k, &c.p)
		var ids []string
		for _, raw := range res.Actions {
			var a command.ActionRecord
			if err := json.Unmarshal(raw, &a); err != nil || a.Prompt == "" {
				t.Errorf("%s: %v", raw, err)
			}
			ids = append(ids, a.ActionID)
		}
		if strings.Join(ids, " ") != c.want || res.Total != int64(len(ids)) {
			t.Errorf("%+v: %v, total %d; want %s", c.p, ids, res.Total, c.want)
		}
	}
	if res := callAs[command.ListActionsResult](k, command.Caller{Account: "other"}, &command.ListActions{Status: "pending"}); len(res.Actions) != 0 || res.Total != 0 {
		t.Errorf("another account sees %+v", res)
	}
	k.verified()
}

// TestArtifactsAreListedAfterTheyLeftTheWorkingSet, with what changed last.
func TestArtifactsAreListedAfterTheyLeftTheWorkingSet(t *testing.T) {
	k := newKit(t, nil)
	call[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	for i := range 70 {
		k.emit("sess_a", event.Event{Type: event.TypeArtifactChanged, Scope: event.Scope{ArtifactID: fmt.Sprintf("artifact_%02d", i)}, Payload: &event.ArtifactChanged{
			Change: "created", Kind: []string{"file", "report"}[i%2], Title: fmt.Sprintf("Number %d", i), URI: fmt.Sprintf("docs/%02d.md", i), SizeBytes: int64(1000 - i),
		}})
	}
	k.emit("sess_a", event.Event{Type: event.TypeArtifactChanged, Scope: event.Scope{ArtifactID: "artifact_03"}, Payload: &event.ArtifactChanged{Change: "deleted"}})
	k.reopen(nil)
	res := call[command.ListArtifactsResult](k, &command.ListArtifacts{Type: "report", Sort: "size"})
	if res.Total != 34 || len(res.Artifacts) != 34 || res.Artifacts[0].ArtifactID != "artifact_01" || res.Artifacts[0].Title != "Number 1" || res.Artifacts[0].SessionID != "sess_a" {
		t.Errorf("%d, %+v", res.Total, res.Artifacts)
	}
	res = call[command.ListArtifactsResult](k, &command.ListArtifacts{Status: "deleted"})
	if res.Total != 1 || res.Artifacts[0].ArtifactID != "artifact_03" || res.Artifacts[0].Change != "deleted" {
		t.Errorf("%+v", res)
	}
	if res = call[command.ListArtifactsResult](k, &command.ListArtifacts{Narrowing: command.Narrowing{Query: "docs/1"}}); res.Total != 10 {
		t.Errorf("%+v", res)
	}
	k.verified()
}

// TestDamagedCardIsReported by the list and by verify, and not passed over.
func TestDamagedCardIsReported(t *testing.T) {
	k := newKit(t, nil)
	call[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	k.emit("sess_a", processStarted("proc_a", "true"), processEnded("proc_a", 1))
	k.closeManager()
	claim, err := k.store.Claim(t.Context(), "sess_a")
	if err != nil {
		t.Fatal(err)
	}
	if errs := k.store.Append(t.Context(), []*store.Batch{{SessionID: "sess_a", Epoch: claim.Epoch, Index: []store.IndexOp{
		{Entry: store.Entry{Kind: "card_process", Key: "/sess_a/proc_a", Value: []byte("nothing")}},
	}}}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	k.reopen(nil)
	if _, err := runCommand(k.m, admin, &command.ListProcesses{}); err == nil {
		t.Error("the damaged card was passed over")
	}
	report, err := session.Verify(t.Context(), k.store, session.VerifyOptions{})
	if err != nil || len(report.Problems) != 1 {
		t.Errorf("%v, %v", report.Problems, err)
	}
}

// TestCardsOfEarlierReleasesAreMade: things that were there before there were cards are
// listed once the cards were made, also those that left the working set, and verify
// reports a missing card only from then on.
func TestCardsOfEarlierReleasesAreMade(t *testing.T) {
	k := newKit(t, nil)
	acme, _, _ := twoAccounts(k)
	for i := range 30 {
		id := fmt.Sprintf("proc_x%02d", i)
		k.emit("sess_1", processStarted(id, "true"), processEnded(id, 1))
	}
	want, _ := listedProcesses(k, acme, command.ListProcesses{})
	k.closeManager()
	removeCards(k, "sess_0", "sess_1", "sess_2")
	k.verified()
	k.reopen(nil)
	if done, err := k.m.CardsComplete(t.Context()); done || err != nil {
		t.Fatalf("%v, %v", done, err)
	}
	if err := k.m.WriteCards(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ := listedProcesses(k, acme, command.ListProcesses{}); !slices.Equal(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
	k.verified()
	if done, err := k.m.CardsComplete(t.Context()); !done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
	k.closeManager()
	removeCards(k, "sess_2")
	if report, err := session.Verify(t.Context(), k.store, session.VerifyOptions{}); err != nil || len(report.Problems) != 1 {
		t.Errorf("%v, %v", report.Problems, err)
	}
	k.reopen(nil)
}

// removeCards removes the cards of sessions, as if they were of an earlier release.
func removeCards(k *kit, sessions ...string) {
	k.Helper()
	for _, id := range sessions {
		claim, err := k.store.Claim(k.Context(), id)
		if err != nil {
			k.Fatal(err)
		}
		b := &store.Batch{SessionID: id, Epoch: claim.Epoch}
		for e, err := range k.store.Scan(k.Context(), store.Scan{Kind: "card_process"}) {
			if err != nil {
				k.Fatal(err)
			}
			if strings.Contains(e.Key, "/"+id+"/") {
				b.Index = append(b.Index, store.IndexOp{Entry: e, Delete: true})
			}
		}
		if errs := k.store.Append(k.Context(), []*store.Batch{b}); errs[0] != nil {
			k.Fatal(errs[0])
		}
	}
}
