package proof

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/storefault"
)

const (
	// evidenceKey names the runtime's signing key in the store. It is there and not
	// in a file because all nodes of a runtime sign with the same key, the first of
	// them to export makes it, and a backup takes it along. A program that can write the
	// store could also write other facts, so a file would protect nothing more.
	evidenceKey = "evidenceKey"
	// MaxInline is the largest pack that is given back whole; of a larger one
	// the result holds the summary, and all of it is behind the reference.
	MaxInline = 4 << 20
	// MaxRetained bounds the contents that one export protects from expiry.
	MaxRetained = 1 << 14
)

// Exported is what is kept of an export for an idempotent repeat.
type Exported struct {
	EvidenceID string `json:"evidenceId"`
	Ref        string `json:"ref"`
	// summary is what the first call is told of a large pack. It isn't kept.
	summary []byte
}

func (r *Reporter) exportEvidence(ctx context.Context, caller command.Caller, p *command.ExportEvidence) (*Exported, error) {
	return r.export(ctx, caller, p, p.ExportScope, "evidence")
}

func (r *Reporter) exportReplay(ctx context.Context, caller command.Caller, p *command.ExportReplay) (*Exported, error) {
	return r.export(ctx, caller, p, p.ExportScope, "replay")
}

func (r *Reporter) exportReview(ctx context.Context, caller command.Caller, p *command.ExportReview) (*Exported, error) {
	return r.export(ctx, caller, p, p.ExportScope, "review")
}

// export carries out the three export commands: the pack is written to a file,
// stored, and then recorded.
func (r *Reporter) export(ctx context.Context, caller command.Caller, p command.Params, scope command.ExportScope, kind string) (*Exported, error) {
	var head uint64
	if err := r.manager.ViewAs(ctx, caller, scope.SessionID, func(s *state.Session) error {
		head = s.Sequence
		return nil
	}); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "agentd-export-*")
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the export needs a temporary file")
	}
	defer func() { _, _ = f.Close(), os.Remove(f.Name()) }()
	contents := storefault.Watch(r.manager.Contents(scope.SessionID))
	x := &export{r: r, caller: caller, params: p, scope: exportScope(scope), kind: kind, contents: contents}
	x.opt = evidence.Options{EvidenceID: r.manager.NewID(event.PrefixEvidence), At: r.manager.Now(), Before: head + 1, Readable: Readable(ctx, contents), Content: x.content(ctx)}
	return x.do(ctx, f)
}

func exportScope(s command.ExportScope) evidence.Scope {
	return evidence.Scope{SessionID: s.SessionID, ThreadID: s.ThreadID, TurnID: s.TurnID, TaskID: s.TaskID}
}

// export is one export under way.
type export struct {
	r      *Reporter
	caller command.Caller
	params command.Params
	scope  evidence.Scope
	kind   string
	// contents are those that the session's account can read.
	contents *storefault.Watched
	opt      evidence.Options
}

// Readable returns what says whether there is something behind a reference. The contents are
// those of the session's account and the caller doesn't count: the account can read the export,
// also one that an admin made.
func Readable(ctx context.Context, contents store.Contents) func(string) bool {
	return func(ref string) bool {
		b, err := contents.OpenBlob(ctx, ref)
		if err != nil {
			return false
		}
		return b.Close() == nil
	}
}

// content reads what a replay needs of what lies behind references.
func (x *export) content(ctx context.Context) func(string) ([]byte, error) {
	return func(ref string) ([]byte, error) {
		b, err := x.contents.OpenBlob(ctx, ref)
		if err != nil {
			return nil, err
		}
		defer b.Close()
		if b.Info().Size > MaxInline {
			return nil, errors.New("it is too large to be a part of a case")
		}
		return io.ReadAll(b)
	}
}

func (x *export) do(ctx context.Context, f *os.File) (*Exported, error) {
	key, err := x.r.SigningKey(ctx)
	if err != nil {
		return nil, err
	}
	x.opt.Key = key
	res, err := x.write(ctx, f)
	if err != nil {
		return nil, x.failed(err)
	}
	if err := x.contents.Err(); err != nil {
		return nil, err // the pack says of contents that they aren't there, and they may be
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the pack can't be read back")
	}
	ref, err := x.r.manager.PutOutput(ctx, f)
	if err != nil {
		return nil, err
	}
	done, err := x.record(ctx, res, ref)
	if err != nil {
		return nil, err
	}
	done.summary = res.Summary
	return done, nil
}

// write writes the pack of the export's kind.
func (x *export) write(ctx context.Context, f io.Writer) (*evidence.Exported, error) {
	switch x.kind {
	case "review":
		return evidence.ExportReview(ctx, x.r.opt.Store, x.scope, x.opt, f)
	case "replay":
		with, err := x.caseOptions(ctx)
		if err != nil {
			return nil, err
		}
		return evidence.ExportReplay(ctx, x.r.opt.Store, x.scope, x.opt, with, f)
	}
	return evidence.Export(ctx, x.r.opt.Store, x.scope, x.opt, f)
}

// caseOptions are what a case has beside the facts, as it is now.
func (x *export) caseOptions(ctx context.Context) (evidence.CaseOptions, error) {
	out, err := x.r.opt.Case()
	if err != nil {
		return out, fault.Wrap(fault.Internal, err, "the configuration can't be exported")
	}
	if p, ok := x.params.(*command.ExportReplay); ok {
		out.GraderInstructions = x.r.manager.RedactText(p.GraderInstructions)
	}
	err = x.r.manager.Read(ctx, x.scope.SessionID, func(s *state.Session) error {
		if s.Workspace != nil && s.Workspace.Root != "" {
			out.Workspace = s.Workspace.Root
		}
		return nil
	})
	return out, err
}

// failed says why there is no pack.
func (x *export) failed(err error) error {
	if removed, ok := errors.AsType[*store.TrimmedError](err); ok {
		return fault.New(fault.NotFound, "no fact of session %s is in that scope; those through %d were removed by retention", x.scope.SessionID, removed.Through)
	}
	if errors.Is(err, evidence.ErrNothing) {
		return fault.New(fault.NotFound, "no fact of session %s is in that scope", x.scope.SessionID)
	}
	if errors.Is(err, evidence.ErrNoTurns) {
		return fault.New(fault.NotFound, "no turn of session %s is in that scope: there is nothing to decide again", x.scope.SessionID)
	}
	return fault.Wrap(fault.Unavailable, err, "the session's facts can't be exported")
}

// record makes the export a fact, and the pack readable.
func (x *export) record(ctx context.Context, res *evidence.Exported, ref string) (*Exported, error) {
	return session.Write(ctx, x.r.manager, x.caller, x.params, x.scope.SessionID, event.ByEvidence, func(tx *session.Tx) (*Exported, error) {
		tx.Refer(ref, "application/json")
		tx.Retain(res.Refs[:min(len(res.Refs), MaxRetained)]...)
		p := &event.EvidenceChanged{Kind: x.kind, ChainSequence: res.Through, ChainHash: fmt.Sprintf("%x", res.Head), DurationMs: tx.Now().Sub(x.opt.At).Milliseconds()}
		switch x.kind {
		case "replay":
			p.ReplayRef = ref
		case "review":
			p.ReviewRef = ref
		default:
			p.PackRef = ref
		}
		tx.Emit(event.Event{Type: event.TypeEvidenceChanged, Scope: x.factScope(res), Payload: p})
		return &Exported{EvidenceID: x.opt.EvidenceID, Ref: ref}, nil
	})
}

// factScope is what the fact of the export belongs to.
func (x *export) factScope(res *evidence.Exported) event.Scope {
	s := event.Scope{EvidenceID: x.opt.EvidenceID}
	if x.scope == (evidence.Scope{SessionID: x.scope.SessionID}) {
		return s
	}
	one := func(id string) string {
		if id == event.NotApplicable || id == evidence.Several {
			return ""
		}
		return id
	}
	c := &res.Correlation
	s.ThreadID, s.TurnID, s.TaskID, s.RunID = one(c.ThreadID), one(c.TurnID), one(c.TaskID), one(c.RunID)
	return s
}

// packAnswer answers an export command with its pack.
func packAnswer[P command.Params](r *Reporter) func(context.Context, command.Caller, P, *Exported) (*command.ExportResult, error) {
	return func(ctx context.Context, caller command.Caller, _ P, x *Exported) (*command.ExportResult, error) {
		return r.ReadPack(ctx, caller, x)
	}
}

// ReadPack returns an export with its pack, or with the summary of a large one.
func (r *Reporter) ReadPack(ctx context.Context, caller command.Caller, x *Exported) (*command.ExportResult, error) {
	res := &command.ExportResult{EvidenceID: x.EvidenceID, Ref: x.Ref, Pack: x.summary}
	b, _, err := r.manager.Output(ctx, caller, x.Ref)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if b.Info().Size > MaxInline {
		if res.Pack == nil {
			res.Pack = event.Raw(`{"partial":true}`)
		}
		return res, nil
	}
	if res.Pack, err = io.ReadAll(b); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the pack can't be read back")
	}
	return res, nil
}

// KeyID returns the id of the key that the runtime signs with, which a reader who
// verifies an export has to be told.
func (r *Reporter) KeyID(ctx context.Context) (string, error) {
	key, err := r.SigningKey(ctx)
	if err != nil {
		return "", err
	}
	return evidence.KeyID(key.Public().(ed25519.PublicKey)), nil
}

// SigningKey returns the runtime's key, made at the first use.
func (r *Reporter) SigningKey(ctx context.Context) (ed25519.PrivateKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed) // never fails, by its contract
	kept, err := r.opt.Store.SetMeta(ctx, evidenceKey, seed)
	if err == nil && len(kept) != ed25519.SeedSize {
		err = errors.New("it has the wrong length")
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the runtime's signing key can't be read")
	}
	return ed25519.NewKeyFromSeed(kept), nil
}
