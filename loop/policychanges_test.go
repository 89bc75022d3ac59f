package loop_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/loop"
)

// TestRulesThatAreChangedAtTheSameTime: single rules are added and taken away without a look
// at the others, so none is lost when several people change them.
func TestRulesThatAreChangedAtTheSameTime(t *testing.T) {
	k := runtimetest.NewWith(t, hosted(&loop.HostPolicy{Mode: "default", Rules: []event.PolicyRule{runtimetest.Rule("deny", "shell", "configured")}}))
	session := k.Submit("", "hello").SessionID
	for _, of := range []struct{ name, session string }{{"host", ""}, {"session", session}} {
		t.Run(of.name, func(t *testing.T) {
			rule := func(i int) event.PolicyRule { return runtimetest.Rule("ask", "shell", fmt.Sprint("echo ", i)) }
			stored := func() []string {
				var out []string
				for _, r := range runtimetest.Do[command.PolicyResult](k, &command.GetPolicy{SessionID: of.session}).Rules {
					if r.Origin == "stored" && of.session == "" || r.Source == "session" {
						out = append(out, r.Match)
					}
				}
				slices.Sort(out)
				return out
			}
			refused := func(p *command.SetPolicy) {
				t.Helper()
				if _, err := k.Runtime.Do(t.Context(), command.Local(), p); fault.KindOf(err) != fault.InvalidParams {
					t.Errorf("%+v: %v", p, err)
				}
			}
			const many = 8
			var all sync.WaitGroup
			for i := range many {
				all.Go(func() {
					if _, err := k.Runtime.Do(t.Context(), command.Local(), &command.SetPolicy{SessionID: of.session, AddRules: []event.PolicyRule{rule(i), rule(i)}}); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if got := stored(); len(got) != many {
				t.Fatalf("of %d rules that were added at the same time there are %q", many, got)
			}
			for i := 1; i < many; i++ {
				all.Go(func() {
					gone := rule(i)
					gone.Reason = "said otherwise" // what a rule decides names it, not why
					if _, err := k.Runtime.Do(t.Context(), command.Local(), &command.SetPolicy{SessionID: of.session, RemoveRules: []event.PolicyRule{gone, rule(100), runtimetest.Rule("deny", "shell", "configured")}}); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if got := stored(); !slices.Equal(got, []string{"echo 0"}) {
				t.Fatalf("after all but one were taken away there are %q", got)
			}
			runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{SessionID: of.session, Mode: "plan", RemoveRules: []event.PolicyRule{rule(0)}, AddRules: []event.PolicyRule{rule(1)}})
			if got := stored(); !slices.Equal(got, []string{"echo 1"}) {
				t.Fatalf("a rule was changed, and there are %q", got)
			}
			named := rule(2)
			named.RuleID = "twice"
			runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{SessionID: of.session, AddRules: []event.PolicyRule{named}})
			named.Decision = "deny"
			refused(&command.SetPolicy{SessionID: of.session, AddRules: []event.PolicyRule{named}})
			refused(&command.SetPolicy{SessionID: of.session, AddRules: []event.PolicyRule{{Decision: "ask"}}})
			refused(&command.SetPolicy{SessionID: of.session, Rules: []event.PolicyRule{}, AddRules: []event.PolicyRule{rule(3)}})
			refused(&command.SetPolicy{SessionID: of.session, AcceptWorkspace: true, RemoveRules: []event.PolicyRule{rule(3)}})
			if got := stored(); !slices.Equal(got, []string{"echo 1", "echo 2"}) {
				t.Fatalf("what was refused left %q", got)
			}
			if got := runtimetest.Do[command.PolicyResult](k, &command.GetPolicy{}).Rules[0]; got.Match != "configured" {
				t.Fatalf("the configuration's rule is %+v", got)
			}
		})
	}
}
