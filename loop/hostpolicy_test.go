package loop_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/loop"
)

// hosted gives the host a policy, which the test may change between two starts.
func hosted(p *loop.HostPolicy) func(*agentd.Options) {
	return func(o *agentd.Options) { o.Loop.Host = *p }
}

// decided asks what would be decided about writing a file.
func decided(k *runtimetest.Kit, path string) string {
	k.Helper()
	r := runtimetest.Do[command.EvaluatePermissionResult](k, &command.EvaluatePermission{
		ToolName: "write_file", Input: event.Raw(fmt.Sprintf(`{"path":%q,"content":"x"}`, path)),
	})
	return r.PermissionDecision.Decision
}

// TestTheConfigurationsRulesStay: whatever is stored by command, and over restarts and
// other configurations, the rules of the configuration of now are in force, each once,
// and what they deny is denied.
func TestTheConfigurationsRulesStay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		paths := []string{"a", "b", "c"}
		anyRules := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) event.PolicyRule {
			return runtimetest.Rule(rapid.SampledFrom([]string{"allow", "ask", "deny"}).Draw(rt, "decision"), rapid.SampledFrom([]string{"*", "write_file", "shell"}).Draw(rt, "tool"), rapid.SampledFrom(append(paths, "")).Draw(rt, "match"))
		}), 0, 4)
		host := loop.HostPolicy{Mode: "bypass", Rules: anyRules.Draw(rt, "configured")}
		k := runtimetest.NewWith(t, hosted(&host))
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0:
				runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{Rules: anyRules.Draw(rt, "stored")})
			case 1: // what was read is sent back, with one more
				now := runtimetest.Do[command.PolicyResult](k, &command.GetPolicy{})
				runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{Rules: append(now.Rules, runtimetest.Rule("ask", "shell", "x"))})
			case 2:
				host.Rules = anyRules.Draw(rt, "configured again")
				if err := k.Runtime.Reconfigure(t.Context(), host); err != nil {
					rt.Fatal(err)
				}
			case 3:
				k.Close()
				host.Rules = anyRules.Draw(rt, "configured at a start")
				k.Open()
			}
			now := runtimetest.Do[command.PolicyResult](k, &command.GetPolicy{}).Rules
			var configured []event.PolicyRule
			for _, r := range now {
				switch r.Origin {
				case "configuration":
					r.Origin = ""
					configured = append(configured, r)
				case "stored":
				default:
					rt.Fatalf("%+v has no origin", r)
				}
			}
			if !slices.Equal(configured, host.Rules) {
				rt.Fatalf("configured %+v, in force %+v", host.Rules, now)
			}
			for _, path := range paths {
				if slices.ContainsFunc(host.Rules, func(r event.PolicyRule) bool {
					return r.Decision == "deny" && r.Tool != "shell" && (r.Match == "" || r.Match == path && r.Tool == "write_file")
				}) && decided(k, path) != "deny" {
					rt.Fatalf("%s is not denied by %+v", path, now)
				}
			}
		}
	})
}

// TestAStoredModeEndsAtTheConfigurations: a mode that an admin sets holds at once, and
// after a start only as far as the configuration goes.
func TestAStoredModeEndsAtTheConfigurations(t *testing.T) {
	widths := []string{"plan", "untrusted", "default", "never", "auto", "bypass"}
	for i, configured := range widths {
		for j, stored := range widths {
			for _, byDefault := range []bool{false, true} {
				k := runtimetest.NewWith(t, hosted(&loop.HostPolicy{Mode: configured, DefaultMode: byDefault}))
				in := func() string { return runtimetest.Do[command.PolicyResult](k, &command.GetPolicy{}).Mode }
				runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{Mode: stored, Rules: []event.PolicyRule{runtimetest.Rule("deny", "shell", "x")}})
				if got := in(); got != stored {
					t.Errorf("%s, set to %s: %s at once", configured, stored, got)
				}
				want, warnings := stored, 0
				if j > i && !byDefault {
					want, warnings = configured, 1
				}
				for range 2 { // it is said once
					k.Close()
					k.Open()
					if got := in(); got != want {
						t.Errorf("%s (default %v), set to %s: %s after a start", configured, byDefault, stored, got)
					}
				}
				said := 0
				for _, n := range runtimetest.Payloads[*event.RuntimeNotice](k, event.RuntimeSession) {
					if n.Code == "stored_mode_too_wide" {
						said++
					}
				}
				if said != warnings || len(runtimetest.Do[command.PolicyResult](k, &command.GetPolicy{}).Rules) != 1 {
					t.Errorf("%s, set to %s: %d warnings, want %d", configured, stored, said, warnings)
				}
			}
		}
	}
}

// TestAReloadIsAFact: with the policy that holds afterwards, where its parts come from,
// and without a stored mode that the new configuration doesn't allow.
func TestAReloadIsAFact(t *testing.T) {
	k := runtimetest.NewWith(t, hosted(&loop.HostPolicy{Mode: "auto", Rules: []event.PolicyRule{runtimetest.Rule("deny", "shell", "a")}}))
	runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{Mode: "bypass", Rules: []event.PolicyRule{runtimetest.Rule("ask", "shell", "b")}})
	if err := k.Runtime.Reconfigure(t.Context(), loop.HostPolicy{Mode: "default", Rules: []event.PolicyRule{runtimetest.Rule("deny", "shell", "c")}}); err != nil {
		t.Fatal(err)
	}
	changed := runtimetest.Payloads[*event.PolicyChanged](k, event.RuntimeSession)
	last := changed[len(changed)-1]
	if last.Mode != "default" || last.ModeOrigin != "configuration" || len(last.Rules) != 2 ||
		last.Rules[0].Match != "c" || last.Rules[0].Origin != "configuration" || last.Rules[1].Match != "b" || last.Rules[1].Origin != "stored" {
		t.Errorf("%+v", last)
	}
}
