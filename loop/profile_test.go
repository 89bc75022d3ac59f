package loop_test

import (
	"slices"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/state"
)

// withCapabilities offers models of one provider, by name, with what each can do. The
// first is the default.
func withCapabilities(heard *runtimetest.Listener, models ...model.Info) func(*agentd.Options) {
	return func(o *agentd.Options) {
		heard.Provider = o.Provider
		o.Provider, o.Model = nil, ""
		o.Loop.Providers = []model.Provider{heard}
		for _, m := range models {
			m.Provider, m.HasCredential = "script", true
			o.Loop.Models = append(o.Loop.Models, m)
		}
		o.Loop.DefaultModel = "script/" + models[0].Model
		runtimetest.QuickBackoff(o)
	}
}

func chosenModel(k *runtimetest.Kit, sessionID string) *event.RoutingDecision {
	all := runtimetest.Payloads[*event.RoutingDecision](k, sessionID)
	if len(all) == 0 {
		k.Fatal("no model was chosen")
	}
	return all[len(all)-1]
}

// model-routing-limits.md, task profile: a runtime exposes what a task requires, and the
// choice of a model is made across these requirements.
func TestTaskProfileDecidesTheModel(t *testing.T) {
	var heard runtimetest.Listener
	plain := model.Info{Model: "plain", Capabilities: []string{model.CapTools, model.CapStreaming}}
	thinker := model.Info{Model: "thinker", Capabilities: []string{model.CapTools, model.CapReasoning}}
	k := runtimetest.NewWith(t, withCapabilities(&heard, plain, thinker), runtimetest.Says("done"), runtimetest.Says("done"))
	given := &event.TaskProfile{RequiredCapabilities: []string{model.CapTools, model.CapReasoning}, LatencyTarget: "relaxed"}
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	task := runtimetest.Do[command.TaskResult](k, &command.CreateTask{
		SessionID: "sess_a", Objective: "think", TaskFields: command.TaskFields{TaskProfile: given}, Start: true,
	})
	ended := k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeTaskCompleted && e.TaskID == task.TaskID })
	if d := chosenModel(k, "sess_a"); d.SelectedModel != "thinker" || d.CapabilityGap != "none" || d.RequiresUserOverride {
		t.Errorf("%+v", d)
	}
	profile := runtimetest.Payloads[*event.TaskProfile](k, "sess_a")[0]
	if profile.Source != "task" || profile.LatencyTarget != "relaxed" || !slices.Equal(profile.RequiredCapabilities, []string{"tools", "reasoning"}) || profile.WaivableCapabilities != nil {
		t.Errorf("%+v", profile)
	}
	check := func() {
		rec := runtimetest.Do[state.Task](k, &command.GetTask{TaskID: ended.TaskID})
		if p := rec.TaskProfile; p == nil || p.LatencyTarget != "relaxed" || p.Source != "task" || len(p.RequiredCapabilities) != 2 || p.EstimatedInputTokens != 0 {
			t.Errorf("the task's own profile is %+v", p)
		}
	}
	check()
	k.Close()
	k.Open()
	check()
	// A turn of no such task goes to the default.
	k.Completes(k.Submit("sess_b", "go"))
	if d := chosenModel(k, "sess_b"); d.SelectedModel != "plain" {
		t.Errorf("%+v", d)
	}
}

func TestTaskProfileThatNoModelMeets(t *testing.T) {
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, withCapabilities(&heard, model.Info{Model: "plain", Capabilities: []string{model.CapTools}}), runtimetest.Says("done"))
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	runtimetest.Do[command.TaskResult](k, &command.CreateTask{
		SessionID: "sess_a", Objective: "think", Start: true,
		TaskFields: command.TaskFields{TaskProfile: &event.TaskProfile{RequiredCapabilities: []string{model.CapReasoning}}},
	})
	e := k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeRoutingNotPossible })
	if p := e.Payload.(*event.RoutingCandidates); p.CapabilityGap != "reasoning" {
		t.Errorf("%+v", p)
	}
	if len(heard.Heard()) > 0 {
		t.Error("the model was asked all the same")
	}
}

func TestTaskProfileSaysHowToChoose(t *testing.T) {
	var heard runtimetest.Listener
	caps := []string{model.CapTools}
	dear := model.Info{Model: "dear", Capabilities: caps, Price: &model.Price{Rates: model.Rates{InputPerMTok: 9, OutputPerMTok: 9}}}
	cheap := model.Info{Model: "cheap", Capabilities: caps, Price: &model.Price{Rates: model.Rates{InputPerMTok: 1, OutputPerMTok: 1}}}
	change := runtimetest.AllOf(withCapabilities(&heard, dear, cheap), func(o *agentd.Options) { o.Loop.Fallback = []string{"script/dear"} })
	k := runtimetest.NewWith(t, change, script.Answer{Error: &script.Error{Category: "server_error", Message: "no"}})
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	runtimetest.Do[command.TaskResult](k, &command.CreateTask{
		SessionID: "sess_a", Objective: "save", Start: true,
		TaskFields: command.TaskFields{TaskProfile: &event.TaskProfile{BudgetClass: "low", FallbackPolicy: "none"}},
	})
	k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeTurnFailed })
	d := chosenModel(k, "sess_a")
	if d.SelectedModel != "cheap" || d.DecisionSource != "task_constraint" || len(d.FallbackChain) > 0 || !strings.Contains(d.DecisionReason, "cheap") {
		t.Errorf("%+v", d)
	}
	if n := k.CountFacts("sess_a", event.TypeRoutingFallbackApplied); n > 0 {
		t.Error("another model was asked")
	}
}

// specification.md, standard event classes: tool.catalog.resolved is the surface that was
// selected for the turn. model-routing-limits.md, routing decision: a single candidate is
// no failure, but its capability gap is told.
func TestCatalogueIsWhatIsSent(t *testing.T) {
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, withCapabilities(&heard, model.Info{Model: "talker", Capabilities: []string{model.CapStreaming}}), runtimetest.Says("hello"))
	k.Completes(k.Submit("sess_a", "go"))
	catalogue := runtimetest.Payloads[*event.ToolCatalogResolved](k, "sess_a")[0]
	if sent := heard.Heard()[0].Tools; len(sent) != 0 || catalogue.ToolCount != 0 || len(catalogue.Tools) != 0 {
		t.Errorf("%d tools were sent, the catalogue has %d", len(sent), catalogue.ToolCount)
	}
	if d := chosenModel(k, "sess_a"); d.CapabilityGap != "tools" || !d.RequiresUserOverride || d.CandidateCount != 1 {
		t.Errorf("%+v", d)
	}
	if p := runtimetest.Payloads[*event.TaskProfile](k, "sess_a")[0]; !slices.Contains(p.RequiredCapabilities, "tools") || !slices.Contains(p.WaivableCapabilities, "tools") {
		t.Errorf("%+v", p)
	}
	// Tools that were asked for can't be done without.
	k.Fails(k.SubmitWith("sess_b", "go", &event.TurnOptions{Tools: []string{"read_file"}}), "routing_not_possible")
}

func TestModelThatCanUseToolsIsTaken(t *testing.T) {
	var heard runtimetest.Listener
	talker := model.Info{Model: "talker", Capabilities: []string{model.CapStreaming}}
	worker := model.Info{Model: "worker", Capabilities: []string{model.CapTools}}
	k := runtimetest.NewWith(t, withCapabilities(&heard, talker, worker), runtimetest.Says("hello"), runtimetest.Says("hello"))
	k.Completes(k.Submit("sess_a", "go"))
	d := chosenModel(k, "sess_a")
	if d.SelectedModel != "worker" || d.CapabilityGap != "none" || len(d.Excluded) != 1 || d.Excluded[0].Category != model.ExcludedCapability {
		t.Errorf("%+v", d)
	}
	catalogue := runtimetest.Payloads[*event.ToolCatalogResolved](k, "sess_a")[0]
	if n := len(heard.Heard()[0].Tools); n == 0 || int64(n) != catalogue.ToolCount {
		t.Errorf("%d tools were sent, the catalogue has %d", n, catalogue.ToolCount)
	}
	// Who asks for the talker gets it, and is told what it lacks.
	k.Completes(k.SubmitWith("sess_b", "go", &event.TurnOptions{Model: "script/talker"}))
	if d := chosenModel(k, "sess_b"); d.SelectedModel != "talker" || d.CapabilityGap != "tools" {
		t.Errorf("%+v", d)
	}
}
