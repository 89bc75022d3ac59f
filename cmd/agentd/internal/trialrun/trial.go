package trialrun

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentd/cmd/agentd/internal/facts"
	"agentd/command"
	"agentd/event"
	"agentd/evidence/atif"
	"agentd/evidence/harbor"
)

// TrialResult is what a trial came to.
type TrialResult struct {
	TrialID         string             `json:"trialId"`
	Task            string             `json:"task"`
	ConfigurationID string             `json:"configurationId"`
	SessionID       string             `json:"sessionId,omitempty"`
	Status          string             `json:"status"`
	FailureCategory string             `json:"failureCategory,omitempty"`
	Reward          *float64           `json:"reward"`
	Rewards         map[string]float64 `json:"rewards,omitempty"`
	// Steps are those of a task that has several, as far as it came.
	Steps      []*StepResult `json:"steps,omitempty"`
	DurationMs int64         `json:"durationMs"`
	CostUSD    *float64      `json:"costUSD"`
	// Exception is the name of what went wrong outside the agent, Error its words.
	Exception string `json:"exception,omitempty"`
	Error     string `json:"error,omitempty"`
	Dir       string `json:"dir"`
}

// trial is a trial under way.
type trial struct {
	b      *Run
	rt     *Runtime
	config *Config
	task   *harbor.Task

	at  *harbor.Layout
	res TrialResult
	out harbor.TrialResult
	// stage is the trial's own temporary folder: the workspace and what the script
	// needs are below it.
	stage, workspace string
	ended            *event.BenchmarkTrialEnded
	start            command.StartBenchmarkTrialResult
	// mode is the session's permission mode, seen the last fact that was followed.
	mode string
	seen uint64
}

// exception is something that went wrong outside the agent; its name is one that
// Harbor uses where there is one.
type exception struct {
	name string
	err  error
}

func (e *exception) Error() string { return e.err.Error() }
func (e *exception) Unwrap() error { return e.err }

// runTrial runs a trial. What goes wrong is in its result, and ends no other trial.
func (t *trial) runTrial(ctx context.Context) *TrialResult {
	t.out = harbor.TrialResult{
		ID: newUUID(), TaskName: t.task.Name, TaskID: harbor.TaskID{Path: t.task.Dir}, StartedAt: time.Now().UTC(),
		AgentInfo: harbor.AgentInfo{Name: "agentd", Version: t.b.o.Version},
	}
	t.res = TrialResult{Task: t.task.Name, ConfigurationID: t.config.ID, Status: "failed"}
	err := t.runParts(ctx)
	if err != nil {
		t.recordException(err)
	}
	if t.b.o.KeepWorkspaces && t.workspace != "" {
		kept := t.at.File("workspace")
		if err := errors.Join(os.Mkdir(kept, 0o700), copyTree(t.workspace, kept, nil)); err != nil {
			t.b.o.Log.Warn("a workspace could not be kept", "path", kept, "error", err)
		}
	}
	if t.stage != "" {
		if err := os.RemoveAll(t.stage); err != nil {
			t.b.o.Log.Warn("a workspace could not be removed", "path", t.stage, "error", err)
		}
	}
	t.out.FinishedAt = time.Now().UTC()
	if t.at != nil {
		t.writeFiles()
	}
	return &t.res
}

func (t *trial) recordException(err error) {
	x := exceptionInfo(err)
	t.res.Exception, t.res.Error, t.out.ExceptionInfo = x.Type, x.Message, x
}

// exceptionInfo is an error as Harbor's files have it.
func exceptionInfo(err error) *harbor.ExceptionInfo {
	info := &harbor.ExceptionInfo{Type: "EnvironmentError", Message: err.Error(), OccurredAt: time.Now().UTC()}
	if x, ok := errors.AsType[*exception](err); ok {
		info.Type = x.name
	}
	return info
}

// runParts are a trial's: a folder, the agent, the script, the score, the export.
func (t *trial) runParts(ctx context.Context) error {
	var err error
	if t.at, err = harbor.NewLayout(t.b.dir, t.task.Name, suffix()); err != nil {
		return err
	}
	t.res.TrialID, t.res.Dir, t.out.TrialName, t.out.TrialURI = t.at.Name, t.at.Dir, t.at.Name, "file://"+t.at.Dir
	t.out.TaskChecksum, err = t.task.Digest("")
	if err != nil {
		return err
	}
	if err := timed(&t.out.EnvironmentSetup, t.prepareWorkspace); err != nil {
		return err
	}
	if len(t.task.Config.Steps) > 0 {
		return t.runSteps(ctx)
	}
	if err := timed(&t.out.AgentExecution, func() error { return t.runAgent(ctx) }); err != nil {
		return err
	}
	var scoring error
	if err := timed(&t.out.Verifier, func() error { scoring = t.verifyTrial(ctx); return nil }); err != nil {
		return err
	}
	return errors.Join(scoring, t.exportPack(ctx))
}

// timed notes when a part began and ended.
func timed(into **harbor.Timing, do func() error) error {
	x := &harbor.Timing{StartedAt: time.Now().UTC()}
	err := do()
	x.FinishedAt = time.Now().UTC()
	*into = x
	return err
}

// suffix tells the trials of a task apart.
func suffix() string {
	const letters = "abcdefghijkmnpqrstuvwxyz23456789"
	var raw [7]byte
	_, _ = rand.Read(raw[:]) // never fails, by its contract
	for i := range raw {
		raw[i] = letters[raw[i]%byte(len(letters))]
	}
	return string(raw[:])
}

// prepareWorkspace copies the task's files to a folder of the trial's own.
func (t *trial) prepareWorkspace() error {
	var err error
	if t.stage, err = os.MkdirTemp(t.b.scratch, "trial-*"); err != nil {
		return err
	}
	if t.stage, err = filepath.EvalSymlinks(t.stage); err != nil {
		return err
	}
	t.workspace = filepath.Join(t.stage, "app")
	if err := os.Mkdir(t.workspace, 0o700); err != nil {
		return err
	}
	return copyTree(filepath.Join(t.task.Dir, harbor.EnvironmentDir), t.workspace, isImageFile)
}

// isImageFile reports whether a file only says how to build a container.
func isImageFile(rel string) bool {
	return slices.Contains([]string{"Dockerfile", "docker-compose.yaml", "docker-compose.yml", ".dockerignore"}, rel)
}

// runAgent runs the trial's turn to the trial's end.
func (t *trial) runAgent(ctx context.Context) error {
	if err := t.newSession(ctx); err != nil {
		return err
	}
	limit := t.b.scaled(t.task.AgentTimeout()).Milliseconds()
	if err := t.startTrial(ctx, t.task.Instruction, &command.StartBenchmarkTrial{TimeoutMs: limit}, nil); err != nil {
		return err
	}
	if err := t.followUntil(ctx, neverSeen); err != nil {
		return err
	}
	t.out.AgentResult = t.agentResult(t.ended.Usage, t.ended.CostUSD)
	return t.keepTrajectory(ctx)
}

// agentResult is what the agent used.
func (t *trial) agentResult(u *event.Usage, cost *float64) *harbor.AgentResult {
	r := &harbor.AgentResult{CostUSD: cost, Metadata: map[string]any{"session_id": t.start.SessionID, "trial_id": t.start.TrialID}}
	if u != nil {
		r.InputTokens, r.CacheTokens, r.OutputTokens = u.InputTokens, u.CachedInputTokens, u.OutputTokens
	}
	return r
}

// newSession makes the trial's session, in its workspace.
func (t *trial) newSession(ctx context.Context) error {
	t.mode = t.config.Mode
	if t.mode == "" || t.mode == "default" {
		t.mode = "never" // there is no one to ask
	}
	var created command.CreateSessionResult
	err := t.rt.Do(ctx, &command.CreateSession{
		Title: t.at.Name, Workspace: &event.Workspace{Root: t.workspace}, PermissionMode: t.mode,
	}, &created)
	t.res.SessionID = created.SessionID
	return err
}

// startTrial starts the trial with its first instruction.
func (t *trial) startTrial(ctx context.Context, instruction string, p *command.StartBenchmarkTrial, options *event.TurnOptions) error {
	config := map[string]any{"configFile": t.config.Path, "permissionMode": t.mode, "agent": "agentd " + t.b.o.Version}
	if options != nil {
		config["options"] = options
	}
	var err error
	if p.Input, err = json.Marshal(instruction); err != nil {
		return err
	}
	if p.Configuration, err = json.Marshal(config); err != nil {
		return err
	}
	p.SessionID = t.res.SessionID
	p.Benchmark = &command.TrialBenchmark{
		DatasetID: t.b.id, DatasetVersion: t.b.version, DatasetRef: t.b.o.Dataset, TaskID: t.task.Name, TrialID: t.at.Name,
		ConfigurationID: t.config.ID, Role: t.role(), HarborJobRef: t.b.dir, HarborTrialRef: t.at.Dir,
		TaskTomlRef: filepath.Join(t.task.Dir, harbor.TaskFile), SingleChangedVariable: t.b.o.Changed,
		HarborTrialResultRef: t.at.File("result.json"),
	}
	p.Dataset = &command.TrialDataset{SelectionPolicy: "all tasks of the folder", TaskCount: int64(len(t.b.o.Tasks))}
	return t.rt.Do(ctx, p, &t.start)
}

// role is the part of the trial's configuration in comparisons.
func (t *trial) role() string {
	if t.config == &t.b.configs[0] {
		return "baseline"
	}
	return "candidate"
}

// neverSeen waits for the trial's end alone.
func neverSeen(*event.Event) bool { return false }

// followUntil waits for the trial's end, or for a fact. What is asked is refused: no one
// is there.
func (t *trial) followUntil(ctx context.Context, until func(*event.Event) bool) error {
	for f, err := range t.rt.Follow(ctx, t.start.SessionID, t.seen, nil) {
		if err != nil {
			return err
		}
		e, err := event.Decode(f.Data)
		if err != nil {
			return err
		}
		t.seen = e.Sequence
		switch p := e.Payload.(type) {
		case *event.BenchmarkTrialEnded:
			t.ended = p
			t.res.Status, t.res.FailureCategory, t.res.DurationMs, t.res.CostUSD = p.Status, p.FailureCategory, p.DurationMs, p.CostUSD
			return nil
		case *event.ActionRequired:
			t.refuseAction(ctx, e, p)
		}
		if until(e) {
			return nil
		}
	}
	return errors.New("the trial's facts ended before the trial")
}

func (t *trial) refuseAction(ctx context.Context, e *event.Event, p *event.ActionRequired) {
	decision := "deny"
	if !slices.Contains(p.Decisions, decision) {
		decision = "cancel"
	}
	var res command.RespondActionResult
	if err := t.rt.Do(ctx, &command.RespondAction{ActionID: e.ActionID, Decision: decision, Reason: "there is no one to answer"}, &res); err != nil {
		t.b.o.Log.Warn("an action could not be answered", "actionId", e.ActionID, "error", err)
	}
}

// keepTrajectory puts the trajectory where a script may look for it.
func (t *trial) keepTrajectory(ctx context.Context) error {
	if t.ended.TrajectoryRef == "" {
		return nil
	}
	doc, err := facts.ReadContent(ctx, t.rt, t.ended.TrajectoryRef, 0)
	if err != nil {
		return err
	}
	var head atif.Trajectory
	if err := json.Unmarshal(doc, &head); err == nil && head.Agent.ModelName != "" {
		provider, name, _ := strings.Cut(head.Agent.ModelName, "/")
		t.out.AgentInfo.ModelInfo = &harbor.ModelInfo{Name: name, Provider: provider}
	}
	return os.WriteFile(filepath.Join(t.at.Agent(), "trajectory.json"), doc, 0o600)
}

// PackRefs are what is needed of the references of a trial's pack.
type PackRefs struct {
	TrajectoryRef        string `json:"trajectoryRef"`
	RuntimeTranscriptRef string `json:"runtimeTranscriptRef"`
}

// ReadPackRefs reads the references of a trial's pack.
func ReadPackRefs(pack []byte) (*PackRefs, error) {
	var p struct {
		Refs *PackRefs `json:"refs"`
	}
	err := json.Unmarshal(pack, &p)
	if err == nil && p.Refs == nil {
		err = errors.New("it has no references")
	}
	if err != nil {
		return nil, fmt.Errorf("the trial's pack: %w", err)
	}
	return p.Refs, nil
}

// exportPack writes the trial's pack and what it refers to into the artifacts.
func (t *trial) exportPack(ctx context.Context) error {
	var res command.ExportBenchmarkTrialResult
	if err := t.rt.Do(ctx, &command.ExportBenchmarkTrial{TrialID: t.start.TrialID}, &res); err != nil {
		return err
	}
	pack, err := facts.ReadContent(ctx, t.rt, res.Ref, 0)
	if err != nil {
		return err
	}
	refs, err := ReadPackRefs(pack)
	if err != nil {
		return err
	}
	transcript, err := facts.ReadContent(ctx, t.rt, refs.RuntimeTranscriptRef, 0)
	if err != nil {
		return err
	}
	var list []harbor.Artifact
	for name, doc := range map[string][]byte{"trial-pack.json": pack, "runtime-transcript.json": transcript} {
		path := filepath.Join(t.at.Artifacts(), name)
		if err := os.WriteFile(path, doc, 0o600); err != nil {
			return err
		}
		sum, size, err := harbor.Sum(path)
		if err != nil {
			return err
		}
		list = append(list, harbor.Artifact{
			Source: "/logs/artifacts/" + name, Destination: name, Type: "file", Status: "collected", Producer: "agentd", SHA256: sum, SizeBytes: size,
			MediaType: "application/json", Redaction: "secrets were replaced before storing",
		})
	}
	slices.SortFunc(list, func(a, b harbor.Artifact) int { return strings.Compare(a.Destination, b.Destination) })
	return harbor.WriteJSON(filepath.Join(t.at.Artifacts(), harbor.ManifestFile), list)
}

// writeFiles writes the trial's own files.
func (t *trial) writeFiles() {
	settings, err := json.Marshal(map[string]any{
		"trial_name": t.at.Name, "task": map[string]string{"path": t.task.Dir}, "agent": map[string]string{"name": "agentd", "config": t.config.Path},
		"environment": map[string]string{"type": "local"}, "timeout_multiplier": t.b.o.TimeoutMultiplier,
	})
	if err == nil {
		t.out.Config = settings
		err = errors.Join(harbor.WriteJSON(t.at.File("config.json"), json.RawMessage(settings)), harbor.WriteJSON(t.at.File("result.json"), &t.out))
	}
	line := fmt.Sprintf("%s %s %s with %s: %s %s\n", t.out.FinishedAt.Format(time.RFC3339), t.at.Name, t.task.Name, t.config.ID, t.res.Status, t.res.FailureCategory)
	err = errors.Join(err, os.WriteFile(t.at.File("trial.log"), []byte(line), 0o600))
	if t.res.Exception != "" {
		err = errors.Join(err, os.WriteFile(t.at.File("exception.txt"), []byte(t.res.Exception+": "+t.res.Error+"\n"), 0o600))
	}
	if err != nil {
		t.b.o.Log.Error("the files of a trial could not be written", "trialId", t.at.Name, "error", err)
	}
}
