package replay_test

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/hook"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/replay"
	"agentd/state"
	"agentd/store/storetest"
)

const mainSession = "sess_main"

// kit is a runtime over a store in memory.
type kit struct {
	testing.TB
	r     *agentd.Runtime
	store *storetest.Mem
}

func newKit(t testing.TB, change func(*agentd.Options), answers ...script.Answer) *kit {
	t.Helper()
	k := &kit{TB: t, store: storetest.NewMem()}
	opt := agentd.Options{Store: k.store, Provider: script.New("script", &script.Script{Answers: answers}), Model: "test", RuntimeID: "runtime_test"}
	opt.Loop.Workspace, opt.Loop.Host.Mode = t.TempDir(), "auto"
	if change != nil {
		change(&opt)
	}
	var err error
	if k.r, err = agentd.Open(context.Background(), opt); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return k
}

// turn runs a turn to its end; calls that ask are allowed, and a client's tool is carried
// out unless its arguments say that the client refuses.
func (k *kit) turn(sessionID, text string, o *event.TurnOptions) {
	k.Helper()
	input, err := json.Marshal(text)
	if err != nil {
		k.Fatal(err)
	}
	ctx := context.Background()
	res, err := k.r.Do(ctx, command.Local(), &command.SubmitTurn{SessionID: sessionID, Create: true, Input: input, Options: o})
	if err != nil {
		k.Fatal(err)
	}
	turnID := res.(*command.SubmitTurnResult).TurnID
	sub, err := k.r.Subscribe(ctx, command.Local(), sessionID, 0)
	if err != nil {
		k.Fatal(err)
	}
	defer sub.Close()
	for {
		records, err := sub.Next(ctx)
		if err != nil {
			k.Fatal(err)
		}
		for _, rec := range records {
			e, err := event.Decode(rec.Data)
			if err != nil {
				k.Fatal(err)
			}
			if q, ok := e.Payload.(*event.ActionRequired); ok && q.ActionType == "tool_permission" {
				if _, err := k.r.Do(ctx, command.Local(), &command.RespondAction{ActionID: e.ActionID, Decision: "allow"}); err != nil {
					k.Fatal(err)
				}
			}
			if q, ok := e.Payload.(*event.ActionRequired); ok && q.ActionType == state.ActionClientTool {
				answer := &command.RespondAction{ActionID: e.ActionID, Decision: "submit", Payload: event.Raw(`{"output":"seen"}`)}
				if strings.Contains(string(q.SafeArgs), "refuse") {
					answer.Decision, answer.Payload = "cancel", nil
				}
				if _, err := k.r.Do(ctx, command.Local(), answer); err != nil {
					k.Fatal(err)
				}
			}
			if e.TurnID == turnID && slices.Contains([]event.Type{event.TypeTaskCompleted, event.TypeTaskFailed, event.TypeTaskCancelled}, e.Type) {
				return
			}
		}
	}
}

// export returns the case of a scope.
func (k *kit) export(s command.ExportScope) []byte {
	k.Helper()
	res, err := k.r.Do(context.Background(), command.Local(), &command.ExportReplay{ExportScope: s})
	if err != nil {
		k.Fatal(err)
	}
	b, _, err := k.r.Output(context.Background(), command.Local(), res.(*command.ExportResult).Ref)
	if err != nil {
		k.Fatal(err)
	}
	defer b.Close()
	data, err := io.ReadAll(b)
	if err != nil {
		k.Fatal(err)
	}
	return data
}

// parsed returns the case of a scope.
func (k *kit) parsed(s command.ExportScope) *evidence.Case {
	k.Helper()
	c := &evidence.Case{}
	if err := json.Unmarshal(k.export(s), c); err != nil {
		k.Fatal(err)
	}
	return c
}

func wants(name string, args map[string]any) script.Answer {
	return script.Answer{Tools: []script.Tool{{Name: name, Arguments: args}}}
}

// recorded runs the turns that most tests look at: a request that fails once, calls
// that are allowed, refused for their input and denied, an answer with a schema, and a
// budget that is spent.
func recorded(t testing.TB) *kit {
	t.Helper()
	k := newKit(t, func(o *agentd.Options) {
		o.Loop.Budget = model.Budget{SessionCostUSD: 1}
		o.Loop.Models = []model.Info{
			{Provider: "script", Model: "test", HasCredential: true, Capabilities: []string{model.CapTools, model.CapStreaming}, Price: &model.Price{Rates: model.Rates{InputPerMTok: 1, OutputPerMTok: 1}}},
			{Provider: "script", Model: "other", HasCredential: true, Capabilities: []string{model.CapTools, model.CapStreaming}, Price: &model.Price{Rates: model.Rates{InputPerMTok: 1, OutputPerMTok: 1}}},
		}
		o.Loop.Providers, o.Loop.DefaultModel = []model.Provider{o.Provider}, "script/test"
		o.Provider, o.Model = nil, ""
	},
		script.Answer{Error: &script.Error{Category: "overloaded", Message: "busy", Retryable: true}},
		wants("write_file", map[string]any{"path": "a.txt", "content": "b"}),
		wants("read_file", map[string]any{"path": 7}),
		script.Answer{Text: "done"},
		wants("write_file", map[string]any{"path": "c.txt", "content": "d"}), script.Answer{Text: "not allowed"},
		script.Answer{Text: "no number"}, script.Answer{Text: "7", Usage: &script.Usage{InputTokens: 2_000_000}},
	)
	k.turn(mainSession, "go", nil)
	k.turn(mainSession, "again", &event.TurnOptions{PermissionMode: "plan"})
	k.turn(mainSession, "count", &event.TurnOptions{OutputSchema: event.Raw(`{"type":"number"}`)})
	k.turn(mainSession, "more", nil)
	return k
}

// recordedOthers runs a turn with calls that a hook denies, that a client refuses and
// that a client carries out.
func recordedOthers(t testing.TB) *kit {
	t.Helper()
	judge, err := hook.New(hook.Options{
		Hooks: []hook.Hook{{Name: "judge", Point: hook.PreToolUse, Match: hook.Match{Tool: "write_file"}, Command: []string{"judge"}}},
		NewID: func() string { return "hook_judge" },
		Exec: func(context.Context, hook.Command) (hook.Exit, error) {
			return hook.Exit{Stdout: []byte(`{"decision":"deny","reason":"no"}`)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	look := func(what string) script.Tool {
		return script.Tool{Name: "look", Arguments: map[string]any{"what": what}}
	}
	k := newKit(t, func(o *agentd.Options) { o.Loop.Hooks = judge },
		script.Answer{Text: "hello"},
		wants("write_file", map[string]any{"path": "a.txt", "content": "b"}),
		script.Answer{Tools: []script.Tool{look("refuse")}}, script.Answer{Tools: []script.Tool{look("here")}}, script.Answer{Text: "done"})
	k.turn(mainSession, "hello", nil)
	if _, err := k.r.Do(context.Background(), command.Local(), &command.ConnectChannel{
		ChannelID: "chan_client", Transport: "websocket", PeerRole: "client", SessionID: mainSession,
		Tools: []event.ChannelTool{{ToolName: "look", InputSchema: event.Raw(`{"type":"object"}`), IsReadOnly: true}},
	}); err != nil {
		t.Fatal(err)
	}
	k.turn(mainSession, "go", nil)
	return k
}

// recording returns the facts of the main session as a recording.
func (k *kit) recording() *replay.Recording {
	k.Helper()
	rec, err := replay.Stored(context.Background(), k.store, mainSession)
	if err != nil {
		k.Fatal(err)
	}
	return rec
}
