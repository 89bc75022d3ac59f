package agui

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"agentd/channel"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// protocolVersion is the one that this package speaks.
const protocolVersion = "1.0"

// Options configure a [Handler]. Runtime and Caller are required.
type Options struct {
	// Runtime carries out what clients ask for.
	Runtime command.Runtime
	// Caller returns who sends a request; false refuses it.
	Caller func(r *http.Request) (command.Caller, bool)
	// PassOn has the node that owns a session answer a request that failed with the
	// given error, before anything was sent; false if it can't. Nil never can.
	PassOn func(context.Context, error) bool
	// Heartbeat is the longest silence of a stream, default 10 s.
	Heartbeat time.Duration
	// MaxBody is the largest body, default 32 MiB.
	MaxBody int64
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Handler answers runs.
type Handler struct{ opt Options }

// New returns a handler for one address.
func New(opt Options) *Handler {
	if opt.Heartbeat <= 0 {
		opt.Heartbeat = 10 * time.Second
	}
	if opt.MaxBody <= 0 {
		opt.MaxBody = 32 << 20
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	return &Handler{opt}
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.serve(w, r); err != nil {
		if h.opt.PassOn != nil && h.opt.PassOn(r.Context(), err) {
			return
		}
		if fault.KindOf(err) == fault.Internal && r.Context().Err() == nil {
			h.opt.Logger.Error("a run of the AG-UI endpoint failed", "error", err)
		}
		writeError(w, err)
	}
}

// serve answers one request. An error is what to answer with, and nothing was sent
// then.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	c, ok := h.opt.Caller(r)
	if !ok {
		return fault.New(fault.Unauthenticated, "the request has no token")
	}
	if r.Method != http.MethodPost {
		return fault.New(fault.MethodNotAllowed, "method %.20s is not allowed here; use POST", r.Method)
	}
	in, err := h.read(w, r)
	if err != nil {
		return err
	}
	run := &run{h: h, caller: c, in: in}
	if err := run.beginTurn(r.Context()); err != nil {
		return err
	}
	return run.streamRun(w, r)
}

// read decodes and checks the body.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) (*input, error) {
	in := &input{}
	if err := wire.ReadForeign(w, r, h.opt.MaxBody, in); err != nil {
		return nil, err
	}
	switch {
	case !event.ValidID(in.ThreadID) || in.ThreadID == event.RuntimeSession:
		return nil, fault.Param("threadId", "%.80q is not a valid thread id", in.ThreadID)
	case !event.ValidID(in.RunID):
		return nil, fault.Param("runId", "%.80q is not a valid run id", in.RunID)
	case len(in.Tools) > 0:
		return nil, fault.Param("tools", "tools of the front end are not supported: the agent's tools run inside agentd")
	}
	return in, nil
}

// writeError answers with a problem, as agentd's other addresses do.
func writeError(w http.ResponseWriter, err error) {
	said := struct {
		wire.Problem
		Type string `json:"type"`
	}{wire.ProblemOf(err), "about:blank"}
	said.RequestID = w.Header().Get("X-Request-ID") // it joins the answer to the server's log
	if said.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(said.RetryAfter, 10))
	}
	b, bad := json.Marshal(said)
	if bad != nil {
		b = []byte(`{}`)
	}
	w.Header().Set("Content-Type", wire.ProblemType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(said.Status)
	_, _ = w.Write(append(b, '\n')) // a client that went away needs no answer
}

// runCommand carries out a command and reads its result into R, which may be a part of it.
func runCommand[R any](ctx context.Context, h *Handler, c command.Caller, p command.Params) (*R, error) {
	return channel.ResultOf[R](h.opt.Runtime.Do(ctx, c, p))
}
