package runtimetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/evidence/atif"
	"agentd/model/provider/script"
	"agentd/transfer"
)

// ExportSession returns a session as another runtime gets it.
func (k *Kit) ExportSession(sessionID string) []byte {
	k.Helper()
	var b bytes.Buffer
	if err := k.Runtime.ExportSession(context.Background(), command.Local(), sessionID, &b); err != nil {
		k.Fatal(err)
	}
	return b.Bytes()
}

// ImportSession takes over what [Kit.ExportSession] of another kit returned.
func (k *Kit) ImportSession(file []byte, opt transfer.ImportOptions) (*transfer.ImportedSession, error) {
	return k.Runtime.ImportSession(context.Background(), command.Local(), bytes.NewReader(file), opt)
}

// Trajectory exports a thread of a session, which must be legal.
func (k *Kit) Trajectory(sessionID, threadID, turnID, version string) (*atif.Trajectory, []byte) {
	k.Helper()
	var b bytes.Buffer
	scope := atif.Scope{SessionID: sessionID, ThreadID: threadID, TurnID: turnID}
	if _, err := atif.Export(context.Background(), k.Store, scope, atif.Options{Version: version, Contents: k.content}, &b); err != nil {
		k.Fatal(err)
	}
	if err := atif.Validate(b.Bytes()); err != nil {
		k.Fatalf("%v\n%s", err, b.Bytes())
	}
	t := &atif.Trajectory{}
	if err := json.Unmarshal(b.Bytes(), t); err != nil {
		k.Fatal(err)
	}
	return t, b.Bytes()
}

func (k *Kit) content(ref string, limit int64) ([]byte, error) {
	b, err := k.Store.OpenBlob(context.Background(), ref)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return io.ReadAll(io.LimitReader(b, limit))
}

// Why asks, and holds each statement to the fact that it names.
func (k *Kit) Why(p *command.Explain) *command.ExplainResult {
	k.Helper()
	res := Do[command.ExplainResult](k, p)
	byID := map[string]*event.Event{}
	for _, e := range k.Facts(p.SessionID) {
		byID[e.ID] = e
	}
	last := uint64(0)
	for _, f := range res.Facts {
		e := byID[f.EventID]
		if e == nil || e.Sequence != f.Sequence || string(e.Type) != f.Type || f.Says == "" || f.Sequence <= last {
			k.Errorf("%+v is said of %+v", f, e)
		}
		last = f.Sequence
	}
	return res
}

// ExpectStatements checks that the chain has facts that say so, in that order: pairs of a type
// and words of what it says.
func (k *Kit) ExpectStatements(res *command.ExplainResult, pairs ...string) {
	k.Helper()
	at := 0
	for i := 0; i < len(pairs); i += 2 {
		for at < len(res.Facts) && (res.Facts[at].Type != pairs[i] || !strings.Contains(res.Facts[at].Says, pairs[i+1])) {
			at++
		}
		if at == len(res.Facts) {
			var all []string
			for _, f := range res.Facts {
				all = append(all, f.Type+": "+f.Says)
			}
			k.Fatalf("no %s says %q where it is due:\n%s", pairs[i], pairs[i+1], strings.Join(all, "\n"))
		}
		at++
	}
}

// TrialOf is a trial of a task with a configuration.
func TrialOf(trialID, task, configuration string) *command.TrialBenchmark {
	role := "baseline"
	if configuration != "base" {
		role = "candidate"
	}
	return &command.TrialBenchmark{
		DatasetID: "small-fixes", DatasetVersion: "1.0", TaskID: task, TrialID: trialID, ConfigurationID: configuration, Role: role,
	}
}

// ScoreOf is the score of a trial by unit tests.
func ScoreOf(trialID string, value float64) *command.RecordBenchmarkReward {
	return &command.RecordBenchmarkReward{
		TrialID: trialID, Reward: &command.Reward{Value: &value, Criteria: []string{"tests pass"}},
		Verifier: &event.BenchmarkVerifier{Name: "unit-tests", Version: "1", Status: "completed"},
	}
}

// RunTrial starts a trial and waits for its end.
func (k *Kit) RunTrial(p *command.StartBenchmarkTrial) (*command.StartBenchmarkTrialResult, *event.Event) {
	k.Helper()
	res := Do[command.StartBenchmarkTrialResult](k, p)
	return res, k.WaitForTrial(res.SessionID, res.TrialID)
}

// WaitForTrial waits for the end of a trial.
func (k *Kit) WaitForTrial(sessionID, trialID string) *event.Event {
	k.Helper()
	return k.WaitFor(sessionID, func(e *event.Event) bool {
		_, ended := e.Payload.(*event.BenchmarkTrialEnded)
		return ended && e.Benchmark.TrialID == trialID
	})
}

// ThreeEdits is a kit with three turns: one creates a.txt, one changes it and creates
// b.txt, one deletes nothing and creates c.txt.
func ThreeEdits(t *testing.T, heard *Listener, more ...script.Answer) (*Kit, []*command.SubmitTurnResult) {
	t.Helper()
	k := NewWith(
		t, AllOf(InMode("auto"), WithVault(t), ListenedBy(heard)),
		append([]script.Answer{
			WritesFile("a.txt", "one"), Says("turn one"),
			{Tools: []script.Tool{
				{Name: "write_file", Arguments: map[string]any{"path": "a.txt", "content": "two"}},
				{Name: "write_file", Arguments: map[string]any{"path": "b.txt", "content": "two"}},
			}},
			Says("turn two"),
			WritesFile("c.txt", "three"), Says("turn three"),
		}, more...)...,
	)
	var turns []*command.SubmitTurnResult
	for i := range 3 {
		r := k.Submit("sess_a", fmt.Sprintf("do %d", i+1))
		k.Completes(r)
		turns = append(turns, r)
	}
	return k, turns
}
