package replay_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/hook"
	"agentd/loop"
	"agentd/model"
	"agentd/permission"
	"agentd/replay"
	"agentd/state"
	"agentd/tool"
)

func walked(t *testing.T, r *replay.Recording, opt replay.Options, d replay.Deciders) *replay.Report {
	t.Helper()
	report, err := replay.WalkWith(r, opt, d)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// What was decided is decided again: from the store, from the case of the session, and
// from the case of each turn.
func TestTheSameIsDecidedAgain(t *testing.T) {
	k := recorded(t)
	report := walked(t, k.recording(), replay.Options{}, replay.ProductDeciders())
	if len(report.Differences) > 0 || len(report.Missing) > 0 || report.Decisions < 15 || report.Turns != 4 {
		t.Errorf("%+v", report)
	}
	whole := k.parsed(command.ExportScope{SessionID: mainSession})
	turns, err := whole.Submitted()
	if err != nil || len(turns) != 4 {
		t.Fatalf("%d turns, %v", len(turns), err)
	}
	cases := []*evidence.Case{whole}
	for _, turn := range turns {
		cases = append(cases, k.parsed(command.ExportScope{SessionID: mainSession, TurnID: turn.TurnID}))
	}
	decided := 0
	for i, c := range cases {
		rec, err := replay.OfCase(c)
		if err != nil {
			t.Fatal(err)
		}
		report := walked(t, rec, replay.Options{}, replay.ProductDeciders())
		if len(report.Differences) > 0 || len(report.Missing) > 0 || report.Decisions == 0 || c.Determinism != "deterministic" {
			t.Errorf("case %d: %+v", i, report)
		}
		if i > 0 {
			decided += report.Decisions
		}
	}
	if decided != report.Decisions {
		t.Errorf("the turns alone have %d decisions, all together %d", decided, report.Decisions)
	}
}

// A recorded decision that was changed is found at its sequence.
func TestAChangedFactIsFound(t *testing.T) {
	k := recorded(t)
	for name, change := range map[string]func(event.Payload) bool{
		"a denial is an approval": func(p event.Payload) bool {
			x, ok := p.(*event.PermissionEvaluated)
			if ok = ok && x.Decision == "deny"; ok {
				x.Decision = "allow"
			}
			return ok
		},
		"an approval is a denial": func(p event.Payload) bool {
			x, ok := p.(*event.PermissionEvaluated)
			if ok = ok && x.Decision == "allow"; ok {
				x.Decision = "deny"
			}
			return ok
		},
		"another rule decided": func(p event.Payload) bool {
			x, ok := p.(*event.PermissionEvaluated)
			if ok {
				x.RuleRefs = []string{"host:other"}
			}
			return ok
		},
		"a decision about something else": func(p event.Payload) bool {
			x, ok := p.(*event.PermissionEvaluated)
			if ok {
				x.SafeArgs = event.Raw(`{"path":"b.txt","content":"b"}`)
			}
			return ok
		},
		"a step is left out": func(p event.Payload) bool {
			x, ok := p.(*event.ModelRequested)
			if ok = ok && x.Step == 2; ok {
				x.Step = 3
			}
			return ok
		},
		"another model is asked": func(p event.Payload) bool {
			x, ok := p.(*event.ModelRequested)
			if ok {
				x.Model = "other"
			}
			return ok
		},
		"another model is chosen": func(p event.Payload) bool {
			x, ok := p.(*event.RoutingDecision)
			if ok {
				x.SelectedModel = "other"
			}
			return ok
		},
		"a candidate is missing": func(p event.Payload) bool {
			x, ok := p.(*event.RoutingCandidates)
			if ok {
				x.Candidates = x.Candidates[:1]
			}
			return ok
		},
		"another input is refused": func(p event.Payload) bool {
			x, ok := p.(*event.ModelCompleted)
			if ok = ok && x.Message != nil && len(x.Message.ToolCalls) > 0 && strings.Contains(string(x.Message.ToolCalls[0].Arguments), "7"); ok {
				x.Message.ToolCalls[0].Arguments = event.Raw(`{"path":"a.txt"}`)
			}
			return ok
		},
		"another outcome": func(p event.Payload) bool {
			x, ok := p.(*event.TurnCompleted)
			if ok {
				x.Outcome = "max_tokens"
			}
			return ok
		},
		"another structured output": func(p event.Payload) bool {
			x, ok := p.(*event.TurnCompleted)
			if ok = ok && len(x.StructuredOutput) > 0; ok {
				x.StructuredOutput = event.Raw(`8`)
			}
			return ok
		},
		"another failure": func(p event.Payload) bool {
			x, ok := p.(*event.TurnFailed)
			if ok {
				x.FailureCategory = "model_failed"
			}
			return ok
		},
	} {
		t.Run(name, func(t *testing.T) {
			rec := k.recording()
			var at uint64
			all := rec.Facts
			rec.Facts = func(yield func(*event.Event, error) bool) {
				for e, err := range all {
					if err == nil && at == 0 && change(e.Payload) {
						at = e.Sequence
					}
					if !yield(e, err) {
						return
					}
				}
			}
			report := walked(t, rec, replay.Options{}, replay.ProductDeciders())
			if at == 0 || len(report.Differences) != 1 {
				t.Fatalf("fact %d was changed: %+v", at, report.Differences)
			}
			// A call with other arguments is found where it is judged.
			if d := report.Differences[0]; d.Sequence != at && name != "another input is refused" || d.Expected == d.Found || d.Says == "" {
				t.Errorf("fact %d was changed: %+v", at, d)
			}
		})
	}
}

// A fact that is missing is found at the fact that follows from it.
func TestASkippedDecisionIsFound(t *testing.T) {
	k := recorded(t)
	rec := k.recording()
	all, skipped := rec.Facts, uint64(0)
	rec.Facts = func(yield func(*event.Event, error) bool) {
		for e, err := range all {
			if err == nil && skipped == 0 && e.Type == event.TypePermissionEvaluated {
				skipped = e.Sequence
				continue
			}
			if err == nil && skipped > 0 {
				e.Sequence--
			}
			if !yield(e, err) {
				return
			}
		}
	}
	report := walked(t, rec, replay.Options{}, replay.ProductDeciders())
	if len(report.Differences) != 1 || report.Differences[0].Type != event.TypeToolProgress {
		t.Errorf("%+v", report.Differences)
	}
}

// A program that decides otherwise is found, at the first fact that it decides.
func TestAChangedProgramIsFound(t *testing.T) {
	k := recorded(t)
	for name, c := range map[string]struct {
		change func(*replay.Deciders)
		at     event.Type
	}{
		"the loop": {func(d *replay.Deciders) {
			d.Next = func(p *loop.Policy, s *state.Session, threadID string, now time.Time) loop.Effect {
				e := p.Next(s, threadID, now)
				if c, ok := e.(loop.CallModel); ok {
					c.Step++
					return c
				}
				return e
			}
		}, event.TypeModelRequested},
		"the policy": {func(d *replay.Deciders) {
			d.Decide = func(q permission.Question) permission.Decision {
				out := permission.Decide(q)
				out.Decision = permission.Ask
				return out
			}
		}, event.TypePermissionEvaluated},
		"the routing": {func(d *replay.Deciders) {
			d.Route = func(models []model.Info, a model.Ask) model.Routing {
				a.Default = "script/other"
				return model.Route(models, a)
			}
		}, event.TypeRoutingCandidatesResolved},
		"validation that takes everything": {func(d *replay.Deciders) {
			d.Validate = func(*tool.Entry, event.Raw) error { return nil }
		}, event.TypeToolFailed},
		"validation that takes nothing": {func(d *replay.Deciders) {
			d.Validate = func(*tool.Entry, event.Raw) error { return tool.Errorf(tool.InvalidInput, "no") }
		}, event.TypePermissionEvaluated},
	} {
		t.Run(name, func(t *testing.T) {
			d := replay.ProductDeciders()
			c.change(&d)
			report := walked(t, k.recording(), replay.Options{}, d)
			if len(report.Differences) != 1 || report.Differences[0].Type != c.at {
				t.Errorf("%+v", report.Differences)
			}
		})
	}
}

// So is one that doesn't listen to hooks or to clients.
func TestAProgramThatDoesNotListenIsFound(t *testing.T) {
	k := recordedOthers(t)
	if report := walked(t, k.recording(), replay.Options{}, replay.ProductDeciders()); len(report.Differences) != 0 {
		t.Fatalf("%+v", report.Differences)
	}
	for name, c := range map[string]struct {
		change func(*replay.Deciders)
		at     event.Type
	}{
		"the word of a hook is not heard": {func(d *replay.Deciders) {
			d.Opinion = func(hook.Outcome) *permission.Opinion { return nil }
		}, event.TypePermissionEvaluated},
		"the refusal of a client is taken for a result": {func(d *replay.Deciders) {
			d.ClientFailure = func(*state.Action, *state.ToolCall) *tool.Error { return nil }
		}, event.TypeToolFailed},
		"the result of a client is taken for a refusal": {func(d *replay.Deciders) {
			d.ClientFailure = func(a *state.Action, c *state.ToolCall) *tool.Error {
				if a.Decision == "submit" {
					return tool.Errorf(tool.Denied, "no")
				}
				return loop.ClientFailure(a, c)
			}
		}, event.TypeToolResult},
	} {
		t.Run(name, func(t *testing.T) {
			d := replay.ProductDeciders()
			c.change(&d)
			report := walked(t, k.recording(), replay.Options{}, d)
			if len(report.Differences) != 1 || report.Differences[0].Type != c.at {
				t.Errorf("%+v", report.Differences)
			}
		})
	}
}

// What would be decided under another configuration is listed.
func TestWhatIf(t *testing.T) {
	k := recorded(t)
	for name, c := range map[string]struct {
		opt  replay.Options
		says string
	}{
		"a rule": {replay.Options{All: true, Change: func(c *loop.Configuration) {
			c.Rules = []event.PolicyRule{{RuleID: "no", Decision: "deny", Tool: "write_file"}}
		}}, "turn 1, call 1: write_file would be deny instead of allow"},
		"a mode":  {replay.Options{All: true, Mode: "default"}, "turn 1, call 1: write_file would be ask instead of allow"},
		"a limit": {replay.Options{All: true, Change: func(c *loop.Configuration) { c.Limits.MaxSteps = 1 }}, "step_limit"},
		"a list of models": {replay.Options{All: true, Change: func(c *loop.Configuration) {
			c.Models = slices.DeleteFunc(slices.Clone(c.Models), func(m model.Info) bool { return m.Model == "test" })
		}}, "routing.candidates.resolved"},
		"a budget": {replay.Options{All: true, Change: func(c *loop.Configuration) { c.Budget.SessionCostUSD = 100 }}, "money that is left"},
	} {
		report := walked(t, k.recording(), c.opt, replay.ProductDeciders())
		if !slices.ContainsFunc(report.Differences, func(d replay.Difference) bool { return strings.Contains(d.Says, c.says) }) {
			t.Errorf("%s: %+v", name, report.Differences)
		}
	}
}
