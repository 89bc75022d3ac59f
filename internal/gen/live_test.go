package gen_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence/replaytest"
	"agentd/fault"
	"agentd/internal/answertest"
	"agentd/internal/gen"
	"agentd/internal/tourtest"
	"agentd/loop"
	"agentd/model/provider/script"
	"agentd/process"
	"agentd/sandbox"
	"agentd/store/storetest"
)

// runtime is the real runtime on a store in memory, whose answers are held
// against the schemas that are handed out.
type runtime struct {
	*testing.T
	rt      *agentd.Runtime
	schemas *jsonschema.Compiler
	done    map[command.Name]bool
}

func start(t *testing.T, answers ...script.Answer) *runtime {
	t.Helper()
	st := storetest.NewMem()
	processes := sync.OnceValue(func() *process.Manager { return process.New(process.Options{Report: sandbox.Probe()}) })
	opt := agentd.Options{
		Store: st, Provider: script.New("script", &script.Script{Answers: answers}), Model: "script",
		Loop: loop.Options{Workspace: t.TempDir(), Governance: loop.Governance{Processes: processes}},
	}
	opt.Host = tourtest.Host(t)
	rt, err := agentd.Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
		replaytest.Recorded(t, opt.Store)
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return &runtime{T: t, rt: rt, schemas: compiler(t), done: map[command.Name]bool{}}
}

// compiler knows every generated schema by its name.
func compiler(t *testing.T) *jsonschema.Compiler {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	names, err := fs.Glob(gen.Schemas(), "*.json")
	if err != nil || len(names) < 100 {
		t.Fatalf("%d schemas, %v", len(names), err)
	}
	for _, name := range names {
		data, _ := gen.Schema(name)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := c.AddResource(doc.(map[string]any)["$id"].(string), doc); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// runCommand carries out a command and checks parameters and result against their schemas.
func runCommand[R any](r *runtime, name command.Name, body string, args ...any) *R {
	r.Helper()
	body = fmt.Sprintf(body, args...)
	r.fits(fmt.Sprintf("command.%s.params", name), []byte(body))
	p, err := command.Decode(name, []byte(body))
	if err != nil {
		r.Fatal(err)
	}
	result, err := r.rt.Do(r.Context(), command.Local(), p)
	if err != nil {
		r.Fatalf("%s: %v", name, err)
	}
	encoded, err := json.Marshal(result)
	if err != nil {
		r.Fatal(err)
	}
	if err := answertest.Problem(name, encoded); err != nil {
		r.Error(err)
	}
	r.done[name] = true
	typed := new(R)
	if err := json.Unmarshal(encoded, typed); err != nil {
		r.Fatalf("%s: the result doesn't fit its type: %v", name, err)
	}
	return typed
}

func (r *runtime) fits(schema string, data []byte) {
	r.Helper()
	s, err := r.schemas.Compile("https://agentd.example/schemas/" + schema + ".schema.json")
	if err != nil {
		r.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		r.Fatal(err)
	}
	if err := s.Validate(v); err != nil {
		r.Errorf("%s: %v\n%s", schema, err, data)
	}
}

// until follows a session to the first event of a type.
func (r *runtime) until(sessionID string, typ event.Type) *event.Event {
	r.Helper()
	sub, err := r.rt.Subscribe(r.Context(), command.Local(), sessionID, 0)
	if err != nil {
		r.Fatal(err)
	}
	defer sub.Close()
	for {
		records, err := sub.Next(r.Context())
		if err != nil {
			r.Fatal(err)
		}
		for _, rec := range records {
			e, err := event.Decode(rec.Data)
			if err != nil {
				r.Fatal(err)
			}
			if e.Type == typ {
				return e
			}
		}
	}
}

// governed tries the commands about tools, permissions, processes and history.
func (r *runtime) governed(threadID, firstTurn string) {
	r.Helper()
	runCommand[command.GetToolInventoryResult](r, "get_tool_inventory", `{"sessionId":"s"}`)
	runCommand[command.EnvironmentRead](r, "get_execution_environment", `{}`)
	runCommand[command.EvaluatePermissionResult](r, "evaluate_permission", `{"sessionId":"s","toolName":"shell","input":{"command":"rm -rf x"}}`)
	runCommand[command.PolicyResult](r, "set_policy", `{"sessionId":"s","rules":[{"decision":"ask","tool":"shell"}]}`)
	runCommand[command.PolicyResult](r, "get_policy", `{"sessionId":"s"}`)
	runCommand[command.GetQuotasResult](r, "get_quotas", `{}`)
	if b := runCommand[command.CompactThreadResult](r, "compact_thread", `{"sessionId":"s","threadId":%q}`, threadID); b.Boundary.SummaryRef == "" {
		r.Errorf("got %+v", b)
	}
	turn := runCommand[command.SubmitTurnResult](r, "submit_turn", `{"sessionId":"s","input":"Run something."}`)
	ask := r.until("s", event.TypePermissionRequested)
	runCommand[command.RespondActionResult](r, "resolve_permission", `{"actionId":%q,"decision":"allow","reason":"it is harmless"}`, ask.ActionID)
	started := r.until("s", event.TypeProcessStarted)
	runCommand[command.WriteProcessStdinResult](r, "write_process_stdin", `{"processId":%q,"data":"hello\n"}`, started.ProcessID)
	runCommand[command.ProcessResult](r, "resize_process", `{"processId":%q,"rows":40,"cols":100}`, started.ProcessID)
	runCommand[command.ListProcessesResult](r, "list_processes", `{"sessionId":"s"}`)
	runCommand[command.ProcessResult](r, "terminate_process", `{"processId":%q}`, started.ProcessID)
	r.ended("s", turn.TurnID)
	runCommand[command.ExplainResult](r, "explain", `{"sessionId":"s","toolCallId":%q}`, started.ToolCallID)
	runCommand[command.RollbackThreadResult](r, "rollback_thread", `{"sessionId":"s","threadId":%q,"toTurnId":%q,"preview":true}`, threadID, firstTurn)
	runCommand[command.ForkThreadResult](r, "fork_thread", `{"sessionId":"s","threadId":%q,"atSequence":%d}`, threadID, started.Sequence)
}

// ended waits for the end of a turn.
func (r *runtime) ended(sessionID, turnID string) {
	r.Helper()
	for {
		read := runCommand[command.ThreadRead](r, "get_thread_read", `{"sessionId":%q,"threadId":%q}`, sessionID, r.mainThread(sessionID))
		for _, t := range read.Turns {
			if t.TurnID == turnID && t.Status == "completed" {
				return
			}
		}
	}
}

func (r *runtime) mainThread(sessionID string) string {
	r.Helper()
	return runCommand[command.SessionRead](r, "get_session", `{"sessionId":%q}`, sessionID).Threads[0].ThreadID
}

func TestAnswersOfTheRuntimeFitTheirSchemas(t *testing.T) {
	r := start(t, append(tourtest.Answers(), script.Answer{Ask: &script.Ask{Prompt: "Which colour?"}}, script.Answer{Text: "Blue, then."},
		script.Answer{When: &script.When{Contains: "replaced by a summary"}, Text: "A summary."},
		script.Answer{When: &script.When{Contains: "Run something."}, Tools: []script.Tool{
			{Name: "shell", Arguments: map[string]any{"command": "cat", "background": true, "tty": true}},
		}},
		script.Answer{When: &script.When{Contains: "Run something."}, Text: "It runs."})...)
	made := runCommand[command.CreateSessionResult](r, "create_session", `{"sessionId":"s","title":"Colours","metadata":{"a":1}}`)
	turn := runCommand[command.SubmitTurnResult](r, "submit_turn", `{"sessionId":"s","input":"Paint it."}`)
	if turn.Status != "accepted" || turn.ThreadID != made.ThreadID {
		t.Errorf("got %+v", turn)
	}
	ask := r.until("s", event.TypeActionRequired)
	two := runCommand[command.SubmitTurnResult](r, "submit_turn", `{"sessionId":"s","input":[{"type":"text","text":"And this."}]}`)
	three := runCommand[command.SubmitTurnResult](r, "submit_turn", `{"sessionId":"s","input":"And that.","options":{"queuePolicy":"queue"}}`)
	if two.Status != "queued" || three.Position != 2 {
		t.Errorf("got %+v and %+v", two, three)
	}
	if q := runCommand[command.QueueResult](r, "promote_queued_turn", `{"sessionId":"s","turnId":%q}`, three.TurnID); q.Queue[0].TurnID != three.TurnID {
		t.Errorf("got %+v", q)
	}
	runCommand[command.QueueResult](r, "remove_queued_turn", `{"sessionId":"s","turnId":%q}`, two.TurnID)
	actions := runCommand[command.ListActionsResult](r, "list_actions", `{"status":"pending"}`)
	if len(actions.Actions) != 1 {
		t.Errorf("%d actions", len(actions.Actions))
	}
	thread := runCommand[command.ThreadRead](r, "get_thread_read", `{"sessionId":"s","threadId":%q}`, made.ThreadID)
	if thread.Status != "blocked" || len(thread.PendingRequests) != 1 || len(thread.QueuedTurns) != 1 {
		t.Errorf("got %+v", thread)
	}
	runCommand[command.ResumeThreadResult](r, "resume_thread", `{"sessionId":"s","threadId":%q}`, made.ThreadID)
	runCommand[command.RespondActionResult](r, "respond_action", `{"actionId":%q,"decision":"submit","payload":"blue"}`, ask.ActionID)
	r.until("s", event.TypeTurnCompleted)
	runCommand[command.InterruptTurnResult](r, "interrupt_turn", `{"sessionId":"s","queue":"clear"}`)
	runCommand[command.ListSessionsResult](r, "list_sessions", `{}`)
	session := runCommand[command.SessionRead](r, "get_session", `{"sessionId":"s","limit":1000}`)
	if session.Sequence == 0 || len(session.Threads) != 1 || len(session.History.Events) == 0 {
		t.Errorf("got %+v", session)
	}
	r.governed(made.ThreadID, turn.TurnID)
	tourtest.Tour(t, "s", made.ThreadID, turn.TurnID, func(name command.Name, body string) json.RawMessage {
		return *runCommand[json.RawMessage](r, name, "%s", body)
	})
	for _, d := range command.Catalog() {
		if d.Available && !r.done[d.Name] {
			t.Errorf("%s is available and was not tried", d.Name)
		}
	}
}

// TestWhatIsNotAvailableSaysSo checks the catalogue against what is carried out.
func TestWhatIsNotAvailableSaysSo(t *testing.T) {
	r := start(t)
	for _, d := range command.Catalog() {
		p, err := command.Decode(d.Name, []byte(d.Example))
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.rt.Do(t.Context(), command.Local(), p)
		if unavailable := err != nil && fault.KindOf(err) == fault.Unavailable; unavailable == d.Available {
			t.Errorf("%s: available is %v, the answer %v", d.Name, d.Available, err)
		}
	}
}

func TestDocumentsAreThere(t *testing.T) {
	for name, data := range map[string][]byte{"openapi": gen.OpenAPI(), "catalog": gen.Catalog()} {
		if !json.Valid(data) {
			t.Errorf("%s is no JSON", name)
		}
		data[0] = 'x'
	}
	if !json.Valid(gen.OpenAPI()) || !json.Valid(gen.Catalog()) {
		t.Error("the bytes are not the caller's own")
	}
	for _, ts := range [][]byte{gen.TypeScript(), gen.CommandTypeScript()} {
		if !bytes.HasPrefix(ts, []byte("// Code generated")) {
			t.Error("the types don't say that they are generated")
		}
	}
}

// TestTheCatalogNamesSchemasThatAreThere: whatever the catalogue lists can be validated,
// what is only delivered too.
func TestTheCatalogNamesSchemasThatAreThere(t *testing.T) {
	var c struct {
		Events []struct {
			Type, Schema string
			Derived      bool
		}
		Commands []struct{ Name, ParamsSchema, ResultSchema string }
	}
	if err := json.Unmarshal(gen.Catalog(), &c); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	derived := 0
	for _, e := range c.Events {
		names[e.Type] = e.Schema
		if e.Derived {
			derived++
		}
	}
	for _, d := range c.Commands {
		names[d.Name], names[d.Name+"'s result"] = d.ParamsSchema, d.ResultSchema
	}
	for of, name := range names {
		if _, ok := gen.Schema(name); !ok {
			t.Errorf("%s: there is no schema %q", of, name)
		}
	}
	if derived == 0 || len(c.Commands) == 0 {
		t.Errorf("%d derived types, %d commands", derived, len(c.Commands))
	}
}
