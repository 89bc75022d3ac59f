// Package runtimetest is the runtime that tests of several packages drive, with the
// models, tools, hooks and stores that they put into it.
//
// # Contract
//
// A [Kit] runs over a store in memory that holds every fact against the schemas. Every
// answer is held against its schema, closed ([answertest.Check]). When
// its test ends, the store is verified, tool calls must have lived as they should
// ([CheckCalls]), and every recorded decision is made again ([DecideAgain]). Packages that use kits call [RunTests] from TestMain, which reports
// how much was decided again.
//
// # Concurrency
//
// A kit belongs to one test. Its runtime may be used by many goroutines.
package runtimetest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/answertest"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/store"
	"agentd/store/storetest"
)

// Kit is a runtime over a store in memory whose events are held against the
// schemas.
type Kit struct {
	*testing.T
	// Store keeps the facts, also while no runtime is open.
	Store store.Store
	// Script is what the model answers.
	Script *script.Script
	// Manual has the next Open recover nothing by itself.
	Manual bool
	// Dir is the workspace.
	Dir string
	// Change is what the test wants otherwise, at each Open.
	Change func(*agentd.Options)
	// Older says that the store has facts as an older version wrote them, in which the
	// lives of tool calls are others.
	Older bool
	// Runtime is the open runtime.
	Runtime *agentd.Runtime
}

// New returns a kit whose model gives the answers one after the other, and without any
// repeats the user.
func New(t *testing.T, answers ...script.Answer) *Kit {
	t.Helper()
	return NewWith(t, nil, answers...)
}

// NewWith is [New] with other options.
func NewWith(t *testing.T, change func(*agentd.Options), answers ...script.Answer) *Kit {
	t.Helper()
	k := &Kit{T: t, Store: storetest.Strict(t, storetest.NewMem()), Script: &script.Script{Answers: answers}, Dir: t.TempDir(), Change: change}
	k.Open()
	t.Cleanup(func() {
		k.Close()
		if !k.Older {
			CheckCalls(k, k.Store)
		}
		DecideAgain(k, k.Store)
	})
	return k
}

// Open starts the runtime, again if it was closed.
func (k *Kit) Open() {
	k.Helper()
	opt := agentd.Options{Store: k.Store, Provider: script.New("script", k.Script), Model: "test"}
	opt.Loop.Workspace = k.Dir
	if k.Manual {
		opt.Recovery = "manual"
	}
	if k.Change != nil {
		k.Change(&opt)
	}
	var err error
	if k.Runtime, err = agentd.Open(context.Background(), opt); err != nil {
		k.Fatal(err)
	}
}

// Close stops the runtime and verifies what it stored.
func (k *Kit) Close() {
	k.Helper()
	if err := k.Runtime.Close(context.Background()); err != nil {
		k.Error(err)
	}
	report, err := session.Verify(context.Background(), k.Store, session.VerifyOptions{})
	if err != nil {
		k.Error(err)
	}
	for _, p := range report.Problems {
		k.Error(p)
	}
}

// Do carries out a command that must succeed.
func Do[R any](k *Kit, p command.Params) *R {
	k.Helper()
	res, err := k.Runtime.Do(context.Background(), command.Local(), p)
	if err != nil {
		k.Fatalf("%s: %v", p.Command(), err)
	}
	answertest.Check(k, p.Command(), res)
	return res.(*R)
}

// DoAs carries out a command for a caller.
func DoAs[R any](k *Kit, caller command.Caller, p command.Params) *R {
	k.Helper()
	res, err := k.Runtime.Do(context.Background(), caller, p)
	if err != nil {
		k.Fatalf("%s: %v", p.Command(), err)
	}
	answertest.Check(k, p.Command(), res)
	return res.(*R)
}

// Submit submits a turn; the session is created if need be.
func (k *Kit) Submit(sessionID, text string) *command.SubmitTurnResult {
	k.Helper()
	return Do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: sessionID, Create: true, Input: event.Raw(`"` + text + `"`)})
}

// SubmitWith submits a turn with options.
func (k *Kit) SubmitWith(sessionID, text string, o *event.TurnOptions) *command.SubmitTurnResult {
	k.Helper()
	return Do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: sessionID, Create: true, Input: Quoted(text), Options: o})
}

// Quoted is a text as the input of a turn.
func Quoted(text string) event.Raw {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always encodes
	}
	return b
}

// Refused carries out a command that must fail, and returns what it was told.
func Refused(k *Kit, p command.Params, kind fault.Kind) string {
	k.Helper()
	res, err := k.Runtime.Do(context.Background(), command.Local(), p)
	if fault.KindOf(err) != kind {
		k.Fatalf("%s: got %v, %v; want %v", p.Command(), res, err, kind)
	}
	return err.Error()
}

// RefusedAs carries out a command that must fail for a caller.
func RefusedAs(k *Kit, caller command.Caller, p command.Params, kind fault.Kind) string {
	k.Helper()
	res, err := k.Runtime.Do(context.Background(), caller, p)
	if fault.KindOf(err) != kind {
		k.Fatalf("%s: got %v, %v; want %v", p.Command(), res, err, kind)
	}
	return err.Error()
}

// ClientOf is a caller with a client's token of an account.
func ClientOf(account string) command.Caller {
	return command.Caller{Account: account, Actor: event.Actor{Kind: "user", ID: "token of " + account}}
}

// CallByName carries out a command as it comes over the wire and returns its result as
// it goes there; a refusal is its kind and its words.
func CallByName(k *Kit, name, params string) (result map[string]any, refusal string) {
	k.Helper()
	p, err := command.Decode(command.Name(name), []byte(params))
	if err != nil {
		return nil, string(fault.KindOf(err)) + " " + err.Error()
	}
	res, err := k.Runtime.Do(context.Background(), command.Local(), p)
	if err != nil {
		return nil, string(fault.KindOf(err)) + " " + err.Error()
	}
	answertest.Check(k, command.Name(name), res)
	b, err := json.Marshal(res)
	if err == nil {
		err = json.Unmarshal(b, &result)
	}
	if err != nil {
		k.Fatal(err)
	}
	return result, ""
}

// Respond answers an action.
func (k *Kit) Respond(actionID, decision string) {
	k.Helper()
	Do[command.RespondActionResult](k, &command.RespondAction{ActionID: actionID, Decision: decision})
}

// Approve answers with allow, and with the mode to go on in if it isn't empty.
func (k *Kit) Approve(actionID, mode string) {
	k.Helper()
	p := &command.RespondAction{ActionID: actionID, Decision: "allow"}
	if mode != "" {
		p.Payload = event.Raw(`{"permissionMode":"` + mode + `"}`)
	}
	Do[command.RespondActionResult](k, p)
}

// ReadFile returns a file of the workspace; "-" if it isn't there.
func (k *Kit) ReadFile(name string) string {
	k.Helper()
	b, err := os.ReadFile(filepath.Join(k.Dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return "-"
	}
	if err != nil {
		k.Fatal(err)
	}
	return string(b)
}

// WriteFile writes a file of the workspace.
func (k *Kit) WriteFile(name, content string) {
	k.Helper()
	if err := os.WriteFile(filepath.Join(k.Dir, name), []byte(content), 0o600); err != nil {
		k.Fatal(err)
	}
}
