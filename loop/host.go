package loop

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"agentd/event"
	"agentd/internal/clip"
	"agentd/sandbox"
	"agentd/session"
	"agentd/state"
	"agentd/tool"
	"agentd/workspace"
)

// Bounds of a running call's progress: how often it is recorded, how much text is
// gathered between two records, and how many records a call may leave.
const (
	progressEvery = 250 * time.Millisecond
	progressBytes = 4096
	progressMax   = 200
)

// toolHost is the runtime as a running tool sees it.
type toolHost struct {
	r *toolRun

	mu       sync.Mutex
	message  string
	fraction *float64
	text     redacted
	index    int64
	last     time.Time
	timer    *time.Timer
	closed   bool
	writing  sync.WaitGroup

	recorder *workspace.Recorder
	ended    []endedCommand
}

func newToolHost(r *toolRun) *toolHost { return &toolHost{r: r} }

// Progress implements [tool.Host]: what comes quickly is gathered.
func (h *toolHost) Progress(message string, fraction float64, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.index >= progressMax {
		return
	}
	if message != "" {
		h.message = clip.Text(message, 500)
	}
	if fraction >= 0 {
		f := min(fraction, 1)
		h.fraction = &f
	}
	if len(h.text.ready(false)) < progressBytes {
		h.text.add(h.r.l, clip.Valid(text, progressBytes))
	}
	if h.timer == nil {
		wait := max(0, progressEvery-time.Since(h.last))
		h.writing.Add(1)
		h.timer = time.AfterFunc(wait, func() {
			defer h.writing.Done()
			h.record()
		})
	}
}

// record writes what was gathered.
func (h *toolHost) record() {
	h.mu.Lock()
	h.timer = nil
	message := h.r.l.redactText(h.message)
	p := &event.ToolProgress{ToolName: h.r.request.ToolName, Message: message, Fraction: h.fraction, Text: h.text.drainText(false), Index: h.index}
	h.message, h.fraction = "", nil
	if h.closed || (p.Message == "" && p.Fraction == nil && p.Text == "") {
		h.mu.Unlock()
		return
	}
	h.index++
	h.last = time.Now()
	h.mu.Unlock()
	err := h.r.emitWhileRunning(func(tx *session.Tx, _ *state.Thread) {
		tx.Emit(event.Event{Type: event.TypeToolProgress, Scope: h.r.scope, Payload: p})
	})
	if err != nil && !errors.Is(err, errMoved) {
		h.r.l.opt.Logger.Warn("progress of a tool call could not be recorded", "toolCallId", h.r.call.ToolCallID, "error", err)
	}
}

// close ends the call's progress.
func (h *toolHost) close() {
	h.mu.Lock()
	h.closed = true
	if h.timer != nil && h.timer.Stop() {
		h.writing.Done()
	}
	h.mu.Unlock()
	h.writing.Wait()
}

// Changing implements [tool.Host]. The file tools run in this process, where no
// kernel holds the profile: this is where read_only does.
func (h *toolHost) Changing(ctx context.Context, path string) error {
	if h.r.l.opt.Sandbox.Mode == sandbox.ReadOnly && h.r.confining != lifted {
		err := tool.Errorf(tool.SandboxViolation, "the workspace is read-only: sandbox.mode is read_only")
		err.Boundary, err.Path, err.Liftable = "filesystem", path, true
		return err
	}
	rec, err := h.keeper()
	if err != nil || rec == nil {
		return err
	}
	return rec.Changing(ctx, path)
}

// keeper returns the recorder of the call's changes; nil where nothing is kept.
func (h *toolHost) keeper() (*workspace.Recorder, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.r.l.opt.Vault == nil || h.recorder != nil {
		return h.recorder, nil
	}
	rec, err := h.r.l.opt.Vault.Record(h.r.place.root)
	if err != nil {
		return nil, err
	}
	h.recorder = rec
	return rec, nil
}

// changes returns what the call changed, with what must be stored to undo it. The
// tool's own word is used where nothing was kept.
func (h *toolHost) changes(ctx context.Context, told []event.FileChange) ([]event.FileChange, [][]byte) {
	if h.recorder == nil {
		return told, nil
	}
	c, err := h.recorder.Finish(context.WithoutCancel(ctx))
	if err != nil {
		h.r.l.opt.Logger.Warn("file changes of a tool call could not be saved", "toolCallId", h.r.call.ToolCallID, "error", err)
		for i := range told {
			told[i].Note = "the earlier content could not be kept: " + fileErrorReason(err)
		}
		return told, nil
	}
	out := slices.Clone(c.Files)
	for _, x := range told {
		if !slices.ContainsFunc(out, func(y event.FileChange) bool { return y.Path == x.Path }) {
			out = append(out, x)
		}
	}
	return out, c.Blobs
}
