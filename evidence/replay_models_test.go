package evidence_test

import (
	"context"
	"slices"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/model"
	"agentd/model/provider/script"
)

// restart ends the runtime and opens another on the same store.
func (k *kit) restart(change func(*agentd.Options)) {
	k.Helper()
	if err := k.r.Close(context.Background()); err != nil {
		k.Fatal(err)
	}
	opt := agentd.Options{Store: k.store, RuntimeID: "runtime_test"}
	opt.Loop.Workspace, opt.Loop.Host.Mode = k.dir, "auto"
	change(&opt)
	var err error
	if k.r, err = agentd.Open(context.Background(), opt); err != nil {
		k.Fatal(err)
	}
}

// TestReplayChangesModelsAgain: a start with another model in the middle of a turn, and
// one with the first model between two turns, are there again.
func TestReplayChangesModelsAgain(t *testing.T) {
	p := &slow{n: 2, let: make(chan struct{})}
	p.Provider = script.New("script", &script.Script{Answers: []script.Answer{{Text: "one"}, {Text: "four"}}})
	first := func(o *agentd.Options) { o.Provider, o.Model = p, "test" }
	k := newKit(t, first)
	k.turn("sess_models", "one", nil)
	r := k.submit("sess_models", "two", nil)
	k.sees(r, event.TypeModelRequested)
	k.restart(func(o *agentd.Options) {
		o.Provider, o.Model = script.New("new", &script.Script{Answers: []script.Answer{{Text: "two"}, {Text: "three"}}}), "other"
	})
	k.sees(r, event.TypeTaskCompleted)
	k.turn("sess_models", "three", nil)
	c := caseOf(k, command.ExportScope{SessionID: "sess_models"}) // where the other model is the catalog's
	if len(c.Environment.Earlier) != 1 || len(c.Acts) != 1 || c.Acts[0].Models != nil {
		t.Errorf("earlier %+v, acts %+v", c.Environment.Earlier, c.Acts)
	}
	finds(k, "sess_models", map[string]mutant{
		"another at first": {func(c *evidence.Case) { c.Environment.Earlier[0].Model = "third" }, "selected was \"script/test\" and is \"script/third\""},
		"it stays":         {without(evidence.ActModels), "turn 2: the recording has routing.single_candidate (selected new/other)"},
	})
	k.restart(first)
	k.turn("sess_models", "four", nil)
	finds(k, "sess_models", map[string]mutant{
		"another":        {func(c *evidence.Case) { act(c, evidence.ActModels).Models[0].Model = "third" }, "selected was \"new/other\" and is \"new/third\""},
		"it stays":       {without(evidence.ActModels), "turn 2: the recording has routing.single_candidate (selected new/other)"},
		"it doesn't end": {func(c *evidence.Case) { undone(c, 1) }, "turn 4: routing.single_candidate: selected was \"script/test\" and is \"new/other\""},
		"it comes late":  {func(c *evidence.Case) { c.Acts[0].Turns, c.Acts[0].After = 3, nil }, "turn 2"},
	})
}

// TestACaseSaysThatModelsChanged: of several that are gone the facts don't tell which was
// the default.
func TestACaseSaysThatModelsChanged(t *testing.T) {
	p := script.New("script", &script.Script{Answers: []script.Answer{{Text: "one"}, {Text: "two"}}})
	k := newKit(t, func(o *agentd.Options) {
		o.Loop.Models = []model.Info{{Provider: "script", Model: "a", HasCredential: true}, {Provider: "script", Model: "b", HasCredential: true}}
		o.Loop.DefaultModel, o.Loop.Providers, o.Provider, o.Model = "script/b", []model.Provider{p}, nil, ""
	})
	k.turn("sess_several", "one", nil)
	k.restart(func(o *agentd.Options) { o.Provider, o.Model = p, "test" })
	k.turn("sess_several", "two", nil)
	if c := caseOf(k, command.ExportScope{SessionID: "sess_several"}); !slices.Contains(c.Limits, "the models that could be asked changed") {
		t.Errorf("limits %v", c.Limits)
	}
}
