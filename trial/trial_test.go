package trial_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/evidence/atif"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/redact"
	"agentd/state"
)

func score(k *runtimetest.Kit, trialID string, value float64) {
	k.Helper()
	runtimetest.Do[command.TrialResult](k, runtimetest.ScoreOf(trialID, value))
}

func TestATrialIsFactsFromItsStartToItsPack(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("bypass"), runtimetest.CallsTool("write_file", map[string]any{"path": "a.txt", "content": "x"}), runtimetest.Says("Fixed."))
	res, e := k.RunTrial(&command.StartBenchmarkTrial{
		Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "cand"), Input: runtimetest.Quoted("Fix it."), TimeoutMs: 60_000,
		Configuration: event.Raw(`{"agent":"fixer","prompt":"v2","model":"someone/else"}`),
	})
	if e.Type != event.TypeBenchmarkTrialCompleted || res.TrialID != "trial_1" || e.TurnID != res.TurnID || e.TaskID != res.TaskID || e.RunID != res.RunID {
		t.Fatalf("%+v ended as %+v", res, e)
	}
	ended := e.Payload.(*event.BenchmarkTrialEnded)
	if ended.TrajectoryRef == "" || ended.ToolCalls != 1 || ended.ModelCalls != 2 || len(ended.EvidenceGaps) > 0 || ended.FailureCategory != "" {
		t.Errorf("the end says %+v", ended)
	}
	var types []string
	for _, e := range k.Facts(res.SessionID) {
		if e.Benchmark != nil {
			types = append(types, strings.TrimPrefix(string(e.Type), "benchmark."))
		}
	}
	if got := strings.Join(types, " "); got != "dataset.resolved configuration.resolved trial.started trial.completed" {
		t.Errorf("facts of the trial: %s", got)
	}
	config := runtimetest.Payloads[*event.BenchmarkConfiguration](k, res.SessionID)[0]
	if config.Agent != "fixer" || config.Model != "someone/else" || !strings.Contains(string(config.Details), `"notApplied":["model"]`) {
		t.Errorf("a model that isn't known here must be recorded as not applied: %+v %s", config, config.Details)
	}
	score(k, "trial_1", 0.75)
	x := runtimetest.Do[command.ExportBenchmarkTrialResult](k, &command.ExportBenchmarkTrial{TrialID: "trial_1"})
	if err := atif.Validate(x.Trajectory); err != nil {
		t.Error(err)
	}
	checkPack(t, k, x, res, ended)
	snap, err := k.Runtime.Do(context.Background(), command.Local(), &command.GetSession{SessionID: res.SessionID})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(snap)
	if err != nil || !strings.Contains(string(raw), `"trialId":"trial_1"`) || !strings.Contains(string(raw), `"value":0.75`) {
		t.Errorf("the snapshot's summary lacks the trial or its reward: %v %s", err, raw)
	}
}

func checkPack(t *testing.T, k *runtimetest.Kit, x *command.ExportBenchmarkTrialResult, res *command.StartBenchmarkTrialResult, ended *event.BenchmarkTrialEnded) {
	t.Helper()
	var pack struct {
		RuntimeCorrelation map[string]string
		Refs               map[string]string
		Metrics            struct {
			Reward           float64
			EvidenceComplete bool
			Tokens           int64
		}
		DecisionInputs struct {
			FailureCategory                             string
			PromotionEligible, TrajectoryAtifCompatible bool
		}
		Trajectory struct {
			Schema, Ref, ExportStatus string
			RequiredFieldStatus       map[string]bool
		}
	}
	if err := json.Unmarshal(x.Pack, &pack); err != nil {
		t.Fatal(err)
	}
	c := pack.RuntimeCorrelation
	if c["sessionId"] != res.SessionID || c["turnId"] != res.TurnID || c["taskId"] != res.TaskID || c["runId"] != res.RunID || c["runtimeId"] != k.Runtime.ID() {
		t.Errorf("correlation %v", c)
	}
	if pack.Refs["trajectoryRef"] != ended.TrajectoryRef || pack.Trajectory.Ref != ended.TrajectoryRef {
		t.Errorf("the same facts gave another trajectory: %s, at the end %s", pack.Trajectory.Ref, ended.TrajectoryRef)
	}
	if pack.Metrics.Reward != 0.75 || !pack.Metrics.EvidenceComplete || pack.Trajectory.Schema != "ATIF-v1.8" || pack.Trajectory.ExportStatus != "exported" {
		t.Errorf("pack %s", x.Pack)
	}
	// Nobody compared the trial, so nobody counted regressions.
	if d := pack.DecisionInputs; d.FailureCategory != "none" || d.PromotionEligible || !d.TrajectoryAtifCompatible {
		t.Errorf("decision inputs %+v", d)
	}
	for name, there := range pack.Trajectory.RequiredFieldStatus {
		if !there {
			t.Errorf("the trajectory lacks %s", name)
		}
	}
	if got := k.ReadOutput(x.Ref); got != string(x.Pack)+"\n" && strings.TrimSpace(got) != strings.TrimSpace(string(x.Pack)) {
		t.Errorf("behind the reference is another pack: %s", got)
	}
	report, err := evidence.Verify(strings.NewReader(k.ReadOutput(pack.Refs["runtimeTranscriptRef"])), evidence.VerifyOptions{})
	if err != nil || report.Finding != nil {
		t.Errorf("the transcript: %v, %v", err, report)
	}
	var manifest []map[string]any
	if err := json.Unmarshal([]byte(k.ReadOutput(pack.Refs["artifactManifestRef"])), &manifest); err != nil || len(manifest) < 3 {
		t.Fatalf("manifest %v: %v", manifest, err)
	}
	for _, m := range manifest {
		for _, name := range []string{"source", "destination", "type", "status", "producer", "redaction", "sizeBytes"} {
			if _, ok := m[name]; !ok {
				t.Errorf("entry %v of the manifest lacks %s", m["source"], name)
			}
		}
	}
}

// TestPackHasTheStandardsMembers compares the members of a pack with those of the
// standard's own example.
func TestPackHasTheStandardsMembers(t *testing.T) {
	raw, err := os.ReadFile("../../shared/spec/fixtures/benchmark-trial-pack.json")
	if err != nil {
		t.Skipf("skipped: the members of the standard's example of a trial pack: %v", err)
	}
	k := runtimetest.New(t, runtimetest.Says("Fixed."))
	k.RunTrial(&command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "cand"), Input: runtimetest.Quoted("Fix it.")})
	score(k, "trial_1", 1)
	x := runtimetest.Do[command.ExportBenchmarkTrialResult](k, &command.ExportBenchmarkTrial{TrialID: "trial_1"})
	var want, have map[string]any
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(x.Pack, &have); err != nil {
		t.Fatal(err)
	}
	missing := func(path string, want, have map[string]any) {
		for name := range want {
			if _, ok := have[name]; !ok {
				t.Errorf("%s has no %s", path, name)
			}
		}
	}
	missing("pack", want, have)
	for name, v := range want {
		if sub, ok := v.(map[string]any); ok {
			mine, _ := have[name].(map[string]any)
			missing(name, sub, mine)
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok && name != "integrity" {
			t.Errorf("the pack has %s, which the example doesn't", name)
		}
	}
}

func TestTheSameTrialTwiceIsOneTrial(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("Fixed."), runtimetest.Says("Fixed."))
	p := &command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "base"), Input: runtimetest.Quoted("Fix it.")}
	first, _ := k.RunTrial(p)
	again := runtimetest.Do[command.StartBenchmarkTrialResult](k, &command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "base"), Input: runtimetest.Quoted("Fix it.")})
	if *again != *first {
		t.Errorf("again: %+v, first: %+v", again, first)
	}
	if n := k.CountFacts(first.SessionID, event.TypeTurnSubmitted); n != 1 {
		t.Errorf("%d turns", n)
	}
	other := &command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_1", "fix-8", "base"), Input: runtimetest.Quoted("Fix it.")}
	if said := runtimetest.Refused(k, other, fault.Conflict); !strings.Contains(said, "trial_1") {
		t.Errorf("said %s", said)
	}
	runtimetest.Refused(k, &command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "base"), Input: runtimetest.Quoted("Fix it better.")}, fault.Conflict)
	keyed := &command.StartBenchmarkTrial{Mutation: command.Mutation{IdempotencyKey: "k"}, Benchmark: runtimetest.TrialOf("", "fix-7", "base"), Input: runtimetest.Quoted("Fix it.")}
	a := *runtimetest.Do[command.StartBenchmarkTrialResult](k, keyed)
	keyed.Benchmark = runtimetest.TrialOf("", "fix-7", "base")
	if b := *runtimetest.Do[command.StartBenchmarkTrialResult](k, keyed); a != b || !strings.HasPrefix(a.TrialID, "trial_") {
		t.Errorf("the same key gave %+v and %+v", a, b)
	}
}

func TestARewardIsKeptAsItWasGiven(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("Fixed."))
	res, _ := k.RunTrial(&command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "base"), Input: runtimetest.Quoted("Fix it.")})
	score(k, "trial_1", 0.5)
	score(k, "trial_1", 0.5)
	if said := runtimetest.Refused(k, runtimetest.ScoreOf("trial_1", 0.6), fault.Conflict); !strings.Contains(said, "0.5") {
		t.Errorf("said %s", said)
	}
	more := runtimetest.ScoreOf("trial_1", 0.5)
	more.Reward.Criteria = []string{"tests pass", "docs"}
	runtimetest.Refused(k, more, fault.Conflict)
	if n := k.CountFacts(res.SessionID, event.TypeBenchmarkRewardRecorded); n != 1 {
		t.Errorf("%d rewards", n)
	}
	runtimetest.Refused(k, runtimetest.ScoreOf("trial_none", 1), fault.NotFound)
	runtimetest.Refused(k, &command.ExportBenchmarkTrial{TrialID: "trial_none"}, fault.NotFound)
}

func TestNobodySeesTheTrialOfAnother(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("Fixed."))
	ctx := context.Background()
	ann := command.Caller{Account: "ann", Actor: event.Actor{Kind: "user"}}
	ben := command.Caller{Account: "ben", Actor: event.Actor{Kind: "user"}}
	res, err := k.Runtime.Do(ctx, ann, &command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "base"), Input: runtimetest.Quoted("Fix it.")})
	if err != nil {
		t.Fatal(err)
	}
	k.WaitForTrial(res.(*command.StartBenchmarkTrialResult).SessionID, "trial_1")
	side := &command.ComparedRun{ConfigurationID: "base", TrialIDs: []string{"trial_1"}}
	for _, p := range []command.Params{
		runtimetest.ScoreOf("trial_1", 1), &command.ExportBenchmarkTrial{TrialID: "trial_1"},
		&command.CompareBenchmarkRuns{Baseline: side, Candidate: &command.ComparedRun{ConfigurationID: "cand", TrialIDs: []string{"trial_1"}}},
	} {
		if _, err := k.Runtime.Do(ctx, ben, p); fault.KindOf(err) != fault.NotFound || strings.Contains(err.Error(), "sess_") {
			t.Errorf("%s: %v", p.Command(), err)
		}
	}
	if _, err := k.Runtime.Do(ctx, ann, runtimetest.ScoreOf("trial_1", 1)); err != nil {
		t.Error(err)
	}
}

func TestATrialThatTakesTooLongEnds(t *testing.T) {
	runtimetest.InTime(t, 30*time.Millisecond, func(limit time.Duration) bool {
		k := runtimetest.NewWith(t, runtimetest.StuckModel(make(chan struct{}, 1)))
		res, e := k.RunTrial(&command.StartBenchmarkTrial{
			Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "base"), Input: runtimetest.Quoted("Fix it."), TimeoutMs: limit.Milliseconds(),
		})
		p := e.Payload.(*event.BenchmarkTrialEnded)
		if e.Type != event.TypeBenchmarkTrialFailed || p.FailureCategory != "timed_out" || !p.TimedOut || p.Error == nil || p.DurationMs < limit.Milliseconds() {
			t.Errorf("%s %+v", e.Type, p)
		}
		at := map[event.Type]time.Time{}
		for _, f := range k.Facts(res.SessionID) {
			at[f.Type] = f.Time
		}
		if at[event.TypeTurnStarted].Sub(at[event.TypeBenchmarkTrialStarted]) >= limit {
			return false // the turn began too late: the trial interrupted it
		}
		if k.CountFacts(res.SessionID, event.TypeModelRequested) == 0 {
			return false // the turn had hardly begun
		}
		if k.CountFacts(res.SessionID, event.TypeTurnInterruptRequested) > 0 {
			return false // the process stood still for seconds: the trial waited no longer for its turn
		}
		if failed := runtimetest.Payloads[*event.TurnFailed](k, res.SessionID); len(failed) != 1 || failed[0].FailureCategory != "timed_out" {
			t.Errorf("the turn ended as %+v", failed)
		}
		if p.TrajectoryRef == "" || atif.Validate([]byte(k.ReadOutput(p.TrajectoryRef))) != nil {
			t.Errorf("the trajectory of a trial that timed out: %q", p.TrajectoryRef)
		}
		return true
	})
}

func TestATrialWhoseTurnWaitsInTheQueueTimesOut(t *testing.T) {
	asked := make(chan struct{}, 1)
	k := runtimetest.NewWith(t, runtimetest.StuckModel(asked))
	busy := k.Submit("sess_busy", "first")
	<-asked
	res, e := k.RunTrial(&command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "base"), Input: runtimetest.Quoted("Fix it."), SessionID: "sess_busy", TimeoutMs: 20})
	if p := e.Payload.(*event.BenchmarkTrialEnded); p.FailureCategory != "timed_out" || e.TurnID != res.TurnID {
		t.Errorf("%+v", p)
	}
	if err := k.Runtime.View(context.Background(), "sess_busy", func(s *state.Session) error {
		if th := s.MainThread(); th.Active == nil || th.Active.TurnID != busy.TurnID || len(th.Queue) != 0 {
			t.Errorf("the turn before must go on, and the trial's be gone: %+v", th)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestATrialWithoutInputEndsWithTheTurnOfItsTask(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("Other."), runtimetest.Says("Fixed."))
	res := runtimetest.Do[command.StartBenchmarkTrialResult](k, &command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "base")})
	if res.TurnID != "" || res.TaskID == "" || res.RunID == "" {
		t.Fatalf("%+v", res)
	}
	runtimetest.Refused(k, &command.ExportBenchmarkTrial{TrialID: "trial_1"}, fault.Conflict)
	k.Completes(k.Submit(res.SessionID, "something else"))
	turn := runtimetest.Do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: res.SessionID, TaskID: res.TaskID, Input: runtimetest.Quoted("Fix it.")})
	e := k.WaitForTrial(res.SessionID, "trial_1")
	if e.TurnID != turn.TurnID || e.RunID != turn.RunID || e.TaskID != res.TaskID {
		t.Errorf("the trial's end is of %+v, its turn was %+v", e.Scope, turn)
	}
	var doc atif.Trajectory
	if err := json.Unmarshal([]byte(k.ReadOutput(e.Payload.(*event.BenchmarkTrialEnded).TrajectoryRef)), &doc); err != nil || doc.Steps[0].Message.Text != "Fix it." {
		t.Errorf("the trajectory is of another turn: %v %+v", err, doc.Steps)
	}
}

func TestSecretsAreInNoTrajectory(t *testing.T) {
	secret := strings.Join([]string{"sk", "live", strings.Repeat("Ab3", 8)}, "-") + "q9Zx"
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), func(o *agentd.Options) {
		o.Loop.Redact = redact.New(redact.Options{Values: []string{secret}})
	}),
		script.Answer{Reasoning: "I use " + secret, Text: "Using " + secret, Tools: []script.Tool{{Name: "read_file", Arguments: map[string]any{"path": "env"}}}},
		runtimetest.CallsTool("write_file", map[string]any{"path": "b", "content": secret}), runtimetest.Says("It is "+secret))
	k.WriteFile("env", "TOKEN="+secret+"\n"+strings.Repeat("x "+secret+"\n", 400))
	res, e := k.RunTrial(&command.StartBenchmarkTrial{
		Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "cand"), Input: runtimetest.Quoted("Use " + secret + "."), Configuration: event.Raw(`{"prompt":` + string(runtimetest.Quoted(secret)) + `}`),
	})
	p := runtimetest.ScoreOf("trial_1", 1)
	p.Reward.Criteria = []string{"uses " + secret}
	runtimetest.Do[command.TrialResult](k, p)
	x := runtimetest.Do[command.ExportBenchmarkTrialResult](k, &command.ExportBenchmarkTrial{TrialID: "trial_1"})
	docs := map[string]string{"trajectory": string(x.Trajectory), "pack": string(x.Pack), "kept trajectory": k.ReadOutput(e.Payload.(*event.BenchmarkTrialEnded).TrajectoryRef)}
	for _, e := range k.Facts(res.SessionID) {
		raw, err := json.Marshal(e.Payload)
		if err != nil {
			t.Fatal(err)
		}
		docs[string(e.Type)+" "+e.ID] = string(raw)
	}
	for name, doc := range docs {
		if strings.Contains(doc, secret) {
			t.Errorf("%s has the secret: %s", name, doc)
		}
	}
	if !strings.Contains(docs["trajectory"], "read_file") || !strings.Contains(docs["trajectory"], "It is") {
		t.Errorf("the trajectory lacks what is no secret: %s", x.Trajectory)
	}
}

func TestTrialsThatLeftTheWorkingSetAreFound(t *testing.T) {
	k := runtimetest.New(t)
	k.Script.Answers, k.Script.Repeat = []script.Answer{runtimetest.Says("Fixed.")}, true
	const n = 22 // more than a session keeps in its working set
	for i := range n {
		k.RunTrial(&command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf(fmt.Sprintf("trial_%d", i), "fix", "base"), Input: runtimetest.Quoted("Fix it."), SessionID: sessionOf(k, i)})
	}
	for i := range n {
		id := fmt.Sprintf("trial_%d", i)
		score(k, id, float64(i))
		score(k, id, float64(i))
		runtimetest.Refused(k, runtimetest.ScoreOf(id, -1), fault.Conflict)
		x := runtimetest.Do[command.ExportBenchmarkTrialResult](k, &command.ExportBenchmarkTrial{TrialID: id})
		if !strings.Contains(string(x.Pack), fmt.Sprintf(`"reward": %d,`, i)) || !strings.Contains(string(x.Pack), `"evidenceComplete": true`) {
			t.Fatalf("trial %d: %s", i, x.Pack)
		}
	}
}

// sessionOf makes the session at the first trial.
func sessionOf(k *runtimetest.Kit, i int) string {
	if i == 0 {
		runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_many"})
	}
	return "sess_many"
}

// TestEvidenceOfATrialHoldsTheTrial: an evidence pack of a trial's session names data
// set, trial and configuration, and the score is a verdict in it.
func TestEvidenceOfATrialHoldsTheTrial(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("Fixed."))
	res, _ := k.RunTrial(&command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "cand"), Input: runtimetest.Quoted("Fix it.")})
	score(k, "trial_1", 0.5)
	x := runtimetest.Do[command.ExportResult](k, &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: res.SessionID}})
	type entry struct {
		Type    string
		Content struct {
			Benchmark struct{ DatasetID, TrialID, ConfigurationID string }
			Value     float64
		}
	}
	var pack struct{ Trials, Verification []entry }
	if err := json.Unmarshal(x.Pack, &pack); err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, e := range pack.Trials {
		types = append(types, e.Type)
		if b := e.Content.Benchmark; b.DatasetID != "small-fixes" || b.ConfigurationID != "cand" {
			t.Errorf("%s is about %+v", e.Type, b)
		}
	}
	if got := strings.Join(types, " "); got != "benchmark.dataset.resolved benchmark.configuration.resolved benchmark.trial.started benchmark.trial.completed benchmark.reward.recorded" {
		t.Errorf("facts of the trial: %s", got)
	}
	if v := pack.Verification; len(v) != 1 || v[0].Content.Value != 0.5 {
		t.Errorf("verdicts: %+v", v)
	}
}

// TestATrialThatHasNotEndedHasNoDuration: what isn't known yet is null, not zero.
func TestATrialThatHasNotEndedHasNoDuration(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("default"), runtimetest.CallsTool("write_file", map[string]any{"path": "a.txt", "content": "x"}), runtimetest.Says("Fixed."))
	res := runtimetest.Do[command.StartBenchmarkTrialResult](k, &command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "cand"), Input: runtimetest.Quoted("Fix it.")})
	k.WaitFor(res.SessionID, func(e *event.Event) bool { return e.Type == event.TypeActionRequired })
	x := runtimetest.Do[command.ExportBenchmarkTrialResult](k, &command.ExportBenchmarkTrial{TrialID: "trial_1"})
	var pack struct {
		Metrics map[string]json.RawMessage `json:"metrics"`
	}
	if err := json.Unmarshal(x.Pack, &pack); err != nil || string(pack.Metrics["durationMs"]) != "null" {
		t.Errorf("%s, %v", x.Pack, err)
	}
}
