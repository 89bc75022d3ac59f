package trial

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/evidence/atif"
	"agentd/fault"
	"agentd/proof"
	"agentd/session"
	"agentd/state"
	"agentd/store/storefault"
)

// exportedTrial is what is kept of an export for an idempotent repeat.
type exportedTrial struct {
	proof.Exported
	TrajectoryRef string `json:"trajectoryRef"`
}

// exportTrial carries out export_benchmark_trial: the trajectory, the transcript
// and the manifest are stored, then the pack that refers to them, then the fact.
func (r *Runner) exportTrial(ctx context.Context, caller command.Caller, p *command.ExportBenchmarkTrial) (*exportedTrial, error) {
	t, err := r.trial(ctx, caller, p.TrialID)
	if err != nil {
		return nil, err
	}
	x := &trialExport{r: r, caller: caller, params: p, t: t, id: r.manager.NewID(event.PrefixEvidence)}
	return x.do(ctx)
}

// trialAnswer answers export_benchmark_trial with the pack and the trajectory.
func (r *Runner) trialAnswer(ctx context.Context, caller command.Caller, _ *command.ExportBenchmarkTrial, x *exportedTrial) (*command.ExportBenchmarkTrialResult, error) {
	res, err := r.proof.ReadPack(ctx, caller, &x.Exported)
	if err != nil {
		return nil, err
	}
	out := &command.ExportBenchmarkTrialResult{ExportResult: *res}
	out.Trajectory, err = r.inlined(ctx, caller, x.TrajectoryRef)
	return out, err
}

// inlined returns a stored document, or where it is if it is too large.
func (r *Runner) inlined(ctx context.Context, caller command.Caller, ref string) (event.Raw, error) {
	b, _, err := r.manager.Output(ctx, caller, ref)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if b.Info().Size > proof.MaxInline {
		return event.Raw(fmt.Sprintf(`{"partial":true,"ref":%q}`, ref)), nil
	}
	raw, err := io.ReadAll(b)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the trajectory can't be read back")
	}
	return bytes.TrimSpace(raw), nil
}

// trialExport is one export of a trial under way.
type trialExport struct {
	r      *Runner
	caller command.Caller
	params command.Params
	t      *foundTrial
	id     string
	// types are the media types of what was stored, by reference.
	types map[string]string
	// retain are the contents that the transcript refers to.
	retain []string
	p      packing
	// seal says which facts the pack was made of.
	seal evidence.Seal
}

func (x *trialExport) do(ctx context.Context) (*exportedTrial, error) {
	x.types = map[string]string{}
	x.p = packing{runtimeID: x.r.opt.RuntimeID, t: x.t}
	if err := x.trajectory(ctx); err != nil {
		return nil, err
	}
	if err := x.transcript(ctx); err != nil {
		return nil, err
	}
	if err := x.comparisons(ctx); err != nil {
		return nil, err
	}
	x.references()
	ref, err := x.storeJSON(ctx, x.p.manifest)
	if err != nil {
		return nil, err
	}
	x.p.refs.ArtifactManifestRef = ref
	if ref, err = x.storePack(ctx); err != nil {
		return nil, err
	}
	return x.record(ctx, ref)
}

// storePack stores the pack, signed. All that it refers to is named by hashes, so
// the signature holds that as well.
func (x *trialExport) storePack(ctx context.Context) (string, error) {
	x.seal.Indent = true // people read it
	raw, err := evidence.Sealed(x.p.pack(), x.seal)
	if err != nil {
		return "", fault.Wrap(fault.Internal, err, "the pack could not be written down")
	}
	ref, err := x.r.manager.PutOutput(ctx, bytes.NewReader(raw))
	x.types[ref] = "application/json"
	return ref, err
}

// trajectory writes the trajectory as it is now and looks at what came out.
func (x *trialExport) trajectory(ctx context.Context) error {
	t := &x.t.Trial
	if t.TurnID == "" {
		return fault.New(fault.Conflict, "trial %s has no turn yet: there is nothing to export", t.TrialID)
	}
	ref, sum, err := x.r.storeTrajectory(ctx, trajectoryScope(x.t.sessionID, t), t)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the trajectory can't be written")
	}
	x.types[ref], x.p.sum, x.p.refs.TrajectoryRef = atifType, sum, ref
	raw, err := readFrom(ctx, x.r.opt.Store)(ref, 1<<30)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the trajectory can't be read back")
	}
	if x.p.doc, err = inspect(raw); err != nil {
		return fault.Wrap(fault.Internal, err, "the trajectory can't be read back")
	}
	x.list("trajectory.json", "agentd", ref, int64(len(raw)), atifType, redactionOf(sum.Redactions))
	for _, o := range sum.Outputs {
		x.list("outputs/"+strings.TrimPrefix(o.Ref, "sha256:"), cmp.Or(o.ToolCallID, "agentd"), o.Ref, o.SizeBytes, o.MediaType, outputRedaction(o))
	}
	for _, f := range sum.Files {
		x.p.manifest = append(x.p.manifest, manifestEntry{
			Source: f.Path, Destination: f.Path, Type: "file", Status: f.Change, Producer: f.ToolCallID, SHA256: strings.TrimPrefix(f.Hash, "sha256:"),
			Redaction: "not_stored",
		})
	}
	return nil
}

// inspect holds a trajectory against the format, and says which members that a
// benchmark relies on it has.
func inspect(raw []byte) (*trajectoryDoc, error) {
	var t atif.Trajectory
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, err
	}
	calls, observed, numbered := false, false, len(t.Steps) > 0
	for i, s := range t.Steps {
		calls = calls || len(s.ToolCalls) > 0
		observed = observed || s.Observation != nil
		numbered = numbered && s.StepID == int64(i+1)
	}
	return &trajectoryDoc{valid: atif.Validate(raw) == nil, fields: map[string]bool{
		"schema_version": t.SchemaVersion != "", "session_id": t.SessionID != "", "agent": t.Agent.Name != "" && t.Agent.Version != "",
		"steps[].step_id": numbered, "steps[].tool_calls": calls, "steps[].observation": observed, "final_metrics": t.FinalMetrics != nil,
	}}, nil
}

func redactionOf(count int64) string {
	if count > 0 {
		return fmt.Sprintf("%d secrets were replaced before storing", count)
	}
	return "none_needed"
}

func outputRedaction(o atif.Output) string {
	if o.Redacted {
		return "secrets were replaced before storing"
	}
	return "none_needed"
}

// list adds a stored file to the manifest.
func (x *trialExport) list(name, producer, ref string, size int64, mediaType, redaction string) {
	x.p.manifest = append(x.p.manifest, manifestEntry{
		Source: ref, Destination: name, Type: "file", Status: "stored", Producer: producer, SHA256: strings.TrimPrefix(ref, "sha256:"),
		SizeBytes: &size, MediaType: mediaType, Redaction: redaction,
	})
}

// transcript writes the signed evidence pack of the trial's turn.
func (x *trialExport) transcript(ctx context.Context) error {
	f, err := os.CreateTemp("", "agentd-trial-*")
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the export needs a temporary file")
	}
	defer func() { _, _ = f.Close(), os.Remove(f.Name()) }()
	key, err := x.r.proof.SigningKey(ctx)
	if err != nil {
		return err
	}
	about := trajectoryScope(x.t.sessionID, &x.t.Trial)
	scope := evidence.Scope{SessionID: about.SessionID, ThreadID: about.ThreadID, TurnID: about.TurnID}
	contents := storefault.Watch(x.r.manager.Contents(scope.SessionID))
	res, err := evidence.Export(ctx, x.r.opt.Store, scope, evidence.Options{
		EvidenceID: x.id, At: x.r.manager.Now(), Key: key, Before: x.t.head + 1, Readable: proof.Readable(ctx, contents),
	}, f)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the transcript can't be written")
	}
	if err := contents.Err(); err != nil {
		return err // the transcript says of contents that they aren't there, and they may be
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the transcript can't be read back")
	}
	ref, err := x.r.manager.PutOutput(ctx, f)
	if err != nil {
		return err
	}
	x.types[ref], x.p.refs.RuntimeTranscriptRef, x.retain = "application/json", ref, res.Refs
	x.seal = evidence.Seal{Format: evidence.TrialFormat, SessionID: scope.SessionID, Through: res.Through, Head: res.Head, Events: res.Events, Key: key}
	x.list("runtime-transcript.json", "agentd", ref, size, "application/json", redactionOf(x.p.sum.Redactions))
	return nil
}

// comparisons takes over what the last comparison that names the trial says.
func (x *trialExport) comparisons(ctx context.Context) error {
	return x.r.manager.Read(ctx, x.t.sessionID, func(s *state.Session) error {
		for i := range s.Benchmark.Comparisons {
			c := &s.Benchmark.Comparisons[i]
			if slices.Contains(c.Candidate.TrialIDs, x.t.TrialID) || slices.Contains(c.Baseline.TrialIDs, x.t.TrialID) {
				x.p.regressions = c.Delta.P0QcGateRegressionCount
			}
		}
		return nil
	})
}

// references fills in where the files are that others keep.
func (x *trialExport) references() {
	refs, t := &x.p.refs, &x.t.Trial
	refs.RewardRef, refs.RewardDetailsRef, refs.AgentQcReportRef = unavailable, unavailable, unavailable
	refs.HarborTrialResultRef = cmp.Or(t.Benchmark.HarborTrialResultRef, unavailable)
	refs.HarborVerifierStdoutRef = cmp.Or(t.Benchmark.HarborVerifierStdoutRef, unavailable)
	if t.Reward != nil {
		refs.RewardRef, refs.RewardDetailsRef = cmp.Or(t.Reward.Ref, unavailable), cmp.Or(t.Reward.DetailsRef, unavailable)
	}
}

func (x *trialExport) storeJSON(ctx context.Context, v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return "", fault.Wrap(fault.Internal, err, "the pack could not be written down")
	}
	ref, err := x.r.manager.PutOutput(ctx, &b)
	x.types[ref] = "application/json"
	return ref, err
}

// record makes the export a fact, and what it stored readable. The fact belongs to
// the session and not to the turn: so the next export of the turn is the same.
func (x *trialExport) record(ctx context.Context, ref string) (*exportedTrial, error) {
	return session.Write(ctx, x.r.manager, x.caller, x.params, x.t.sessionID, asBenchmark, func(tx *session.Tx) (*exportedTrial, error) {
		for ref, mediaType := range x.types {
			tx.Refer(ref, mediaType)
		}
		tx.Retain(x.retain[:min(len(x.retain), proof.MaxRetained)]...)
		tx.Emit(event.Event{Type: event.TypeEvidenceChanged, Scope: event.Scope{EvidenceID: x.id}, Payload: &event.EvidenceChanged{
			Kind: "benchmark_trial", PackRef: ref, TraceRef: x.p.refs.TrajectoryRef, ChainSequence: x.p.sum.Through,
		}})
		return &exportedTrial{Exported: proof.Exported{EvidenceID: x.id, Ref: ref}, TrajectoryRef: x.p.refs.TrajectoryRef}, nil
	})
}
