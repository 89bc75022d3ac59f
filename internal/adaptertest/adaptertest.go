// Package adaptertest is what the tests of protocol adapters have in common: a real
// runtime over a store in memory whose model plays a script, and a look at what
// became of a turn.
package adaptertest

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence/replaytest"
	"agentd/loop"
	"agentd/model/provider/script"
	"agentd/store/storetest"
	"agentd/tool"
	"agentd/tool/toolkind"
)

// Open starts a runtime whose model plays a script, as adapters want it. What it
// recorded is run again when the test ends.
func Open(t *testing.T, answers ...script.Answer) agentd.Port {
	t.Helper()
	tools, err := tool.NewRegistry(append(tool.Builtins(nil), Locked())...)
	if err != nil {
		t.Fatal(err)
	}
	st := storetest.NewMem()
	opt := agentd.Options{
		Store: st, Model: "script", Provider: script.New("script", &script.Script{Answers: answers}),
		Loop: loop.Options{Workspace: t.TempDir(), Tools: tools},
	}
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
	return rt.Port()
}

// Caller lets everyone in who doesn't say that it is a stranger.
func Caller(r *http.Request) (command.Caller, bool) {
	return command.Local(), r.Header.Get("X-Stranger") == ""
}

// Writes asks for a tool that has to be allowed.
func Writes() script.Answer {
	return script.Answer{Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "a.txt", "content": "x"}}}}
}

// Plans hands a plan over, which has to be approved. It works in the mode plan.
func Plans() script.Answer {
	return script.Answer{Tools: []script.Tool{{Name: string(toolkind.PresentPlan), Arguments: map[string]any{"plan": "1. Look.\n2. Write it down."}}}}
}

// Unlocks asks for a tool that needs a credential: one of References has to be named.
func Unlocks() script.Answer {
	return script.Answer{Tools: []script.Tool{{Name: lockedName, Arguments: map[string]any{}}}}
}

// References are where the credential of [Unlocks] may be read from.
func References() []string { return []string{"env:FIRST_KEY", "env:SECOND_KEY"} }

const lockedName = "open_vault"

// Locked is the tool of [Unlocks], which [Open] has.
func Locked() tool.Tool { return locked{} }

// locked is a tool that says which credential it was called with.
type locked struct{}

// Info implements [tool.Tool].
func (locked) Info() event.ToolInfo {
	return event.ToolInfo{ToolName: lockedName, Description: "Opens the vault.", InputSchema: event.Raw(`{"type":"object"}`), IsReadOnly: true, RuntimeOwner: "local", InterruptBehavior: "cancel"}
}

// Run implements [tool.Tool].
func (locked) Run(_ context.Context, c *tool.Call) (*tool.Result, error) {
	with := c.Credentials["vault"]
	if with == "" {
		err := tool.Errorf(tool.Unavailable, "the vault is locked")
		err.Credential = &tool.Need{Name: "vault", For: "the vault", References: References()}
		return nil, err
	}
	return &tool.Result{Output: []byte("opened with " + with)}, nil
}

// Turn returns how the only turn of a session stands.
func Turn(t *testing.T, rt agentd.Port, sessionID string) (status, category string) {
	t.Helper()
	var v struct {
		Threads []struct {
			Turns []struct {
				Status          string `json:"status"`
				FailureCategory string `json:"failureCategory"`
			} `json:"turns"`
		} `json:"threads"`
	}
	Session(t, rt, sessionID, &v)
	if len(v.Threads) != 1 || len(v.Threads[0].Turns) != 1 {
		t.Fatalf("%+v", v)
	}
	return v.Threads[0].Turns[0].Status, v.Threads[0].Turns[0].FailureCategory
}

// Session reads how a session stands, as a client would decode it.
func Session(t *testing.T, rt command.Runtime, sessionID string, into any) {
	t.Helper()
	none := 0
	res, err := rt.Do(context.Background(), command.Local(), &command.GetSession{SessionID: sessionID, Limit: &none})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
}

// Stuck is a pipe that isn't emptied, and that knows no deadlines.
type Stuck struct {
	// Entered has a value once something writes; writes return when Release is closed.
	Entered, Release chan struct{}
}

// NewStuck returns one.
func NewStuck() *Stuck {
	return &Stuck{Entered: make(chan struct{}, 1), Release: make(chan struct{})}
}

// Write implements [io.Writer].
func (s *Stuck) Write(p []byte) (int, error) {
	select {
	case s.Entered <- struct{}{}:
	default:
	}
	<-s.Release
	return len(p), nil
}

// Leaving is a runtime whose client goes away at the worst moment: a turn was just
// accepted, and its adapter wasn't told yet.
type Leaving struct {
	command.Runtime
	// Leave has the client go away.
	Leave func()
}

// Do implements [command.Runtime].
func (l *Leaving) Do(ctx context.Context, c command.Caller, p command.Params) (any, error) {
	res, err := l.Runtime.Do(context.WithoutCancel(ctx), c, p)
	if _, submits := p.(*command.SubmitTurn); !submits || err != nil {
		return res, err
	}
	l.Leave()
	if ctx.Done() != nil { // else it doesn't end with the client
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return res, nil
}
