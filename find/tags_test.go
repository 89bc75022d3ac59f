package find_test

import (
	"slices"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
)

// Turns are kept by the tags of their session, as it has them now: those that ended and
// those that go on, beside the other filters, and those of one's own account alone.
func TestTurnsOfTaggedSessions(t *testing.T) {
	k := runtimetest.New(t, script.Answer{When: &script.When{Contains: "wait"}, Ask: &script.Ask{Prompt: "Which?"}})
	for _, id := range []string{"sess_a", "sess_b", "sess_c"} {
		submitAs(k, acme, id, "plan one")
		submitAs(k, acme, id, "plan two")
	}
	submitAs(k, globex, "sess_other", "plan three")
	runtimetest.DoAs[command.SubmitTurnResult](k, acme, &command.SubmitTurn{SessionID: "sess_a", Input: runtimetest.Quoted("wait for it")})
	k.WaitFor("sess_a", runtimetest.FactIs(event.TypeActionRequired, ""))
	tag := func(c command.Caller, id string, tags ...string) {
		t.Helper()
		runtimetest.DoAs[command.UpdateSessionResult](k, c, &command.UpdateSession{SessionID: id, Tags: append([]string{}, tags...)})
	}
	tag(acme, "sess_a", "red", "blue")
	tag(acme, "sess_b", "red")
	tag(globex, "sess_other", "red")
	expect := func(c command.Caller, p command.ListTurns, want ...string) {
		t.Helper()
		var got []string
		for p.Limit = 1; ; {
			list := runtimetest.DoAs[command.ListTurnsResult](k, c, &p)
			for i := range list.Turns {
				got = append(got, list.Turns[i].SessionID)
			}
			if list.Total != int64(len(want)) {
				t.Errorf("%+v: total %d", p, list.Total)
			}
			if p.Cursor = list.NextCursor; p.Cursor == "" {
				break
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
	red, both, none := []string{"red"}, []string{"blue", "red"}, []string{"red", "green"}
	expect(acme, command.ListTurns{Tags: red}, "sess_a", "sess_a", "sess_a", "sess_b", "sess_b")
	expect(acme, command.ListTurns{Tags: both}, "sess_a", "sess_a", "sess_a")
	expect(acme, command.ListTurns{Tags: none})
	expect(acme, command.ListTurns{Tags: red, SessionID: "sess_b"}, "sess_b", "sess_b")
	expect(acme, command.ListTurns{Tags: red, SessionID: "sess_c"})
	expect(acme, command.ListTurns{Tags: red, Query: "two"}, "sess_a", "sess_b")
	expect(acme, command.ListTurns{Tags: red, Status: "running"}, "sess_a")
	expect(globex, command.ListTurns{Tags: red}, "sess_other")
	expect(globex, command.ListTurns{Tags: both})
	expect(command.Local(), command.ListTurns{Tags: red, Query: "plan", Sort: "cost", Order: "asc"}, "sess_a", "sess_a", "sess_b", "sess_b", "sess_other")
	tag(acme, "sess_a")
	tag(acme, "sess_c", "red")
	expect(acme, command.ListTurns{Tags: red}, "sess_b", "sess_b", "sess_c", "sess_c")
}
