package agentd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/store/pebble"
	"agentd/tool"
)

// Example embeds the runtime: it opens one over a store, submits a turn and prints the
// answer. A real program uses a provider such as agentd/model/provider/anthropic instead
// of a script.
func Example() {
	ctx := context.Background()
	s, remove := temporaryStore()
	defer remove()

	answers := &script.Script{Answers: []script.Answer{{Text: "Four."}}}
	r := must(agentd.Open(ctx, agentd.Options{Store: s, Provider: script.New("script", answers), Model: "demo"}))
	defer r.Close(ctx)

	turn := submit(ctx, r, "What is two and two?")
	fmt.Println(answer(ctx, r, turn, nil))
	// Output: Four.
}

// Follow the facts of a session: everything that happens is one, in order, and durable
// before it is delivered.
func ExampleRuntime_Subscribe() {
	ctx := context.Background()
	s, remove := temporaryStore()
	defer remove()
	r := must(agentd.Open(ctx, agentd.Options{Store: s, Provider: script.New("script", nil), Model: "demo"}))
	defer r.Close(ctx)
	turn := submit(ctx, r, "Hello!")

	facts := must(r.Subscribe(ctx, command.Local(), turn.SessionID, 0))
	defer facts.Close()
	for done := false; !done; {
		for _, rec := range must(facts.Next(ctx)) {
			e := must(event.Decode(rec.Data))
			switch p := e.Payload.(type) {
			case *event.TurnStarted:
				fmt.Println(e.Type)
			case *event.ModelCompleted:
				fmt.Println(e.Type, p.Message.Text)
			case *event.TurnCompleted:
				fmt.Println(e.Type, p.Outcome)
				done = true
			}
		}
	}
	// Output:
	// turn.started
	// model.completed You said: Hello!
	// turn.completed end_turn
}

// Approve what an agent wants to do: the turn waits at an action until somebody answers
// it, over restarts too.
func ExampleRuntime_Do_approve() {
	ctx := context.Background()
	s, remove := temporaryStore()
	defer remove()
	workspace := temporaryFolder()
	defer os.RemoveAll(workspace)

	answers := &script.Script{Answers: []script.Answer{
		{Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "note.txt", "content": "Buy milk."}}}},
		{Text: "I wrote it down."},
	}}
	opt := agentd.Options{Store: s, Provider: script.New("script", answers), Model: "demo"}
	opt.Loop.Workspace = workspace
	r := must(agentd.Open(ctx, opt))
	defer r.Close(ctx)

	turn := submit(ctx, r, "Remember the milk.")
	said := answer(ctx, r, turn, func(e *event.Event) {
		if p, ok := e.Payload.(*event.ActionRequired); ok {
			fmt.Println("allow", p.ToolName+"?")
			must(r.Do(ctx, command.Local(), &command.RespondAction{ActionID: e.ActionID, Decision: "allow"}))
		}
	})
	fmt.Println(said)
	// Output:
	// allow write_file?
	// I wrote it down.
}

// A tool of one's own: what models are told of it, and what it does.
type wordCount struct{}

// Info implements [tool.Tool].
func (wordCount) Info() event.ToolInfo {
	return event.ToolInfo{
		ToolName: "count_words", Description: "Counts the words of a text.",
		InputSchema:  event.Raw(`{"type":"object","required":["text"],"properties":{"text":{"type":"string"}}}`),
		RuntimeOwner: "local", IsReadOnly: true, IsConcurrencySafe: true, InterruptBehavior: "cancel",
	}
}

// Run implements [tool.Tool].
func (wordCount) Run(_ context.Context, call *tool.Call) (*tool.Result, error) {
	var in struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(call.Input, &in); err != nil {
		return nil, tool.Errorf(tool.InvalidInput, "%v", err)
	}
	return &tool.Result{Output: fmt.Appendf(nil, "%d words", len(strings.Fields(in.Text)))}, nil
}

// Give agents a tool of your own beside the built-in ones.
func ExampleOpen_tool() {
	ctx := context.Background()
	s, remove := temporaryStore()
	defer remove()

	tools := must(tool.NewRegistry(append(tool.Builtins(nil), wordCount{})...))
	answers := &script.Script{Answers: []script.Answer{
		{Tools: []script.Tool{{Name: "count_words", Arguments: map[string]any{"text": "to be or not to be"}}}},
		{Text: "There are six."},
	}}
	opt := agentd.Options{Store: s, Provider: script.New("script", answers), Model: "demo"}
	opt.Loop.Tools = tools
	r := must(agentd.Open(ctx, opt))
	defer r.Close(ctx)

	turn := submit(ctx, r, "How many words has: to be or not to be?")
	said := answer(ctx, r, turn, func(e *event.Event) {
		if p, ok := e.Payload.(*event.ToolResult); ok {
			fmt.Println(p.ToolName, "→", p.Preview)
		}
	})
	fmt.Println(said)
	// Output:
	// count_words → 6 words
	// There are six.
}

// Bind agents in one call: a sandbox for their commands, hidden places, a policy that
// asks, redaction and limits, as "agentd serve" has them.
func ExampleOpenGoverned() {
	ctx := context.Background()
	s, remove := temporaryStore()
	defer remove()
	workspace := temporaryFolder()
	defer os.RemoveAll(workspace)

	answers := &script.Script{Answers: []script.Answer{
		{Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": ".env", "content": "KEY=1"}}}},
		{Text: "I may not. The password is correct-horse-battery."},
	}}
	r := must(agentd.OpenGoverned(
		ctx,
		agentd.Options{Store: s, Provider: script.New("script", answers), Model: "demo"},
		agentd.Governance{
			Workspace: workspace,
			Secrets:   []string{"correct-horse-battery"},
			Rules:     []event.PolicyRule{{Decision: "deny", Tool: "write_file", Match: ".env"}},
		},
	))
	defer r.Close(ctx)

	turn := submit(ctx, r, "Store the key.")
	said := answer(ctx, r, turn, func(e *event.Event) {
		if p, ok := e.Payload.(*event.ToolFailed); ok {
			fmt.Println(p.ToolName, "was", p.ErrorCategory)
		}
	})
	fmt.Println(said)
	// Output:
	// write_file was denied
	// I may not. The password is [redacted:value].
}

// submit submits a turn in a new session.
func submit(ctx context.Context, r *agentd.Runtime, text string) *command.SubmitTurnResult {
	input := must(json.Marshal(text))
	res := must(r.Do(ctx, command.Local(), &command.SubmitTurn{Input: input}))
	return res.(*command.SubmitTurnResult)
}

// answer follows a turn to its end, shows every fact to see, and returns what the model
// said last.
func answer(ctx context.Context, r *agentd.Runtime, turn *command.SubmitTurnResult, see func(*event.Event)) (said string) {
	facts := must(r.Subscribe(ctx, command.Local(), turn.SessionID, 0))
	defer facts.Close()
	for {
		for _, rec := range must(facts.Next(ctx)) {
			e := must(event.Decode(rec.Data))
			if see != nil {
				see(e)
			}
			switch p := e.Payload.(type) {
			case *event.ModelCompleted:
				said = p.Message.Text
			case *event.TurnCompleted:
				return said
			case *event.TurnFailed:
				panic(p.Error.Message)
			}
		}
	}
}

// temporaryStore opens the embedded store in a folder of its own.
func temporaryStore() (opened store.Store, remove func()) {
	dir := temporaryFolder()
	s := must(pebble.Open(dir, nil))
	return s, func() {
		if err := errors.Join(s.Close(), os.RemoveAll(dir)); err != nil {
			panic(err)
		}
	}
}

func temporaryFolder() string { return must(os.MkdirTemp("", "agentd-example-*")) }

// must keeps the examples short. A real program handles its errors.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
