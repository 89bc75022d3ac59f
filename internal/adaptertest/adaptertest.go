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
	"agentd/loop"
	"agentd/model/provider/script"
	"agentd/store/storetest"
	"agentd/tool"
)

// Open starts a runtime whose model plays a script, as adapters want it.
func Open(t *testing.T, answers ...script.Answer) agentd.Port {
	t.Helper()
	tools, err := tool.NewRegistry(tool.Builtins(nil)...)
	if err != nil {
		t.Fatal(err)
	}
	st := storetest.NewMem()
	rt, err := agentd.Open(t.Context(), agentd.Options{
		Store: st, Model: "script", Provider: script.New("script", &script.Script{Answers: answers}),
		Loop: loop.Options{Workspace: t.TempDir(), Tools: tools},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt.Port()
}

// Caller lets everybody in who doesn't say that it is a stranger.
func Caller(r *http.Request) (command.Caller, bool) {
	return command.Local(), r.Header.Get("X-Stranger") == ""
}

// Writes asks for a tool that has to be allowed.
func Writes() script.Answer {
	return script.Answer{Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "a.txt", "content": "x"}}}}
}

// Turn returns how the only turn of a session stands.
func Turn(t *testing.T, rt agentd.Port, sessionID string) (status, category string) {
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
	var v struct {
		Threads []struct {
			Turns []struct {
				Status          string `json:"status"`
				FailureCategory string `json:"failureCategory"`
			} `json:"turns"`
		} `json:"threads"`
	}
	if err := json.Unmarshal(b, &v); err != nil || len(v.Threads) != 1 || len(v.Threads[0].Turns) != 1 {
		t.Fatalf("%v: %s", err, b)
	}
	return v.Threads[0].Turns[0].Status, v.Threads[0].Turns[0].FailureCategory
}
