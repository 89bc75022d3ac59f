package openaiapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// AgentModel is the name of the agent with its default model.
const AgentModel = "agentd"

// Headers of requests and answers.
const (
	// HeaderSession names the session, in a request and in its answer.
	HeaderSession = "X-Agentd-Session"
	// HeaderTurn names the turn of an answer.
	HeaderTurn = "X-Agentd-Turn"
	// HeaderMode is the permission mode of the request's turn.
	HeaderMode = "X-Agentd-Mode"
)

// Options configure an [API]. Runtime and Caller are required.
type Options struct {
	// Runtime carries out what clients ask for.
	Runtime command.Runtime
	// Caller returns who sends a request; false refuses it.
	Caller func(r *http.Request) (command.Caller, bool)
	// PassOn has the node that owns a session answer a request that failed with the
	// given error, before anything was sent; false if it can't. Nil never can.
	PassOn func(context.Context, error) bool
	// Models lists the models as "provider/model", the default first.
	Models func() []string
	// ActionWait is how long a request waits for an action to be answered,
	// default one minute.
	ActionWait time.Duration
	// Heartbeat is the longest silence of a stream, default 10 s.
	Heartbeat time.Duration
	// MaxBody is the largest body, default 32 MiB.
	MaxBody int64
	// Clock defaults to time.Now.
	Clock func() time.Time
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// API answers requests.
type API struct{ opt Options }

// New returns a handler for the paths /v1/chat/completions, /v1/responses and
// /v1/models.
func New(opt Options) *API {
	if opt.ActionWait <= 0 {
		opt.ActionWait = time.Minute
	}
	if opt.Heartbeat <= 0 {
		opt.Heartbeat = 10 * time.Second
	}
	if opt.MaxBody <= 0 {
		opt.MaxBody = 32 << 20
	}
	if opt.Clock == nil {
		opt.Clock = time.Now
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Models == nil {
		opt.Models = func() []string { return nil }
	}
	return &API{opt}
}

// ServeHTTP implements [http.Handler].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := a.opt.Caller(r)
	if !ok {
		writeError(w, fault.New(fault.Unauthenticated, "the request has no token"))
		return
	}
	err := a.route(w, r, c)
	switch {
	case err == nil:
	case r.Context().Err() != nil && errors.Is(err, context.Canceled): // the client is gone
	case a.opt.PassOn != nil && a.opt.PassOn(r.Context(), err):
	default:
		a.complain(r, err)
		writeError(w, err)
	}
}

// complain logs an error whose details the client doesn't get.
func (a *API) complain(r *http.Request, err error) {
	var told *apiError
	if !errors.As(err, &told) && fault.KindOf(err) == fault.Internal {
		a.opt.Logger.Error("a request of the OpenAI endpoint failed", "path", wire.Clip(r.URL.Path), "error", err)
	}
}

// route finds what answers a request. An error is what to answer with, and nothing
// was sent then.
func (a *API) route(w http.ResponseWriter, r *http.Request, c command.Caller) error {
	rest, responses := strings.CutPrefix(r.URL.Path, "/v1/responses/")
	id, cancel := strings.CutSuffix(rest, "/cancel")
	switch path := r.URL.Path; {
	case path == "/v1/chat/completions":
		return only(r, http.MethodPost, func() error { return a.chat(w, r, c) })
	case path == "/v1/responses":
		return only(r, http.MethodPost, func() error { return a.createResponse(w, r, c) })
	case responses && cancel && validName(id):
		return only(r, http.MethodPost, func() error { return a.cancelResponse(w, r, c, id) })
	case responses && validName(rest):
		return only(r, http.MethodGet, func() error { return a.getResponse(w, r, c, rest) })
	case path == "/v1/models":
		return only(r, http.MethodGet, func() error { return a.listModels(w) })
	case strings.HasPrefix(path, "/v1/models/"):
		return only(r, http.MethodGet, func() error { return a.getModel(w, strings.TrimPrefix(path, "/v1/models/")) })
	}
	return fault.New(fault.NotFound, "there is nothing at this address")
}

func validName(id string) bool { return id != "" && !strings.Contains(id, "/") }

func only(r *http.Request, method string, do func() error) error {
	if r.Method != method {
		return fault.New(fault.MethodNotAllowed, "method %.20s is not allowed here; use %s", r.Method, method)
	}
	return do()
}

// apiError is an error as the API's clients read it.
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
	status  int
	// retryAfter is how many seconds to wait before trying again, if that helps.
	retryAfter int64
}

// Error implements error.
func (e *apiError) Error() string { return e.Type + ": " + e.Message }

func newError(status int, kind, code, message string) *apiError {
	return &apiError{Message: message, Type: kind, Code: &code, status: status}
}

// describeError turns any error into one that is sent. The cause of one that isn't
// classified stays here.
func describeError(err error) *apiError {
	var e *apiError
	if errors.As(err, &e) {
		return e
	}
	p := wire.ProblemOf(err)
	kind := "invalid_request_error"
	switch fault.Kind(p.Code) { //nolint:exhaustive // the others are the request's fault
	case fault.Unauthenticated:
		kind = "authentication_error"
	case fault.Forbidden:
		kind = "permission_error"
	case fault.RateLimited:
		kind = "rate_limit_error"
	case fault.Internal, fault.Unavailable:
		kind = "server_error"
	}
	e = newError(p.Status, kind, p.Code, p.Detail)
	e.retryAfter = p.RetryAfter
	if p.Param != "" {
		e.Param = &p.Param
	}
	return e
}

// Refuse answers a request with an error.
func (a *API) Refuse(w http.ResponseWriter, _ *http.Request, err error) { writeError(w, err) }

func writeError(w http.ResponseWriter, err error) {
	e := describeError(err)
	if e.status == http.StatusConflict || w.Header().Get(HeaderTurn) != "" {
		// The clients would send the request again, and so start a second turn.
		w.Header().Set("X-Should-Retry", "false")
	}
	if e.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(e.retryAfter, 10))
	}
	writeJSON(w, e.status, map[string]any{"error": e})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":{"message":"the answer can't be encoded","type":"server_error","param":null,"code":"internal"}}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a client that went away needs no answer
}

// modelObject is a model in a list.
type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func (a *API) models() []modelObject {
	out := []modelObject{{AgentModel, "model", 0, "agentd"}}
	for _, id := range a.opt.Models() {
		owner, _, _ := strings.Cut(id, "/")
		out = append(out, modelObject{id, "model", 0, owner})
	}
	return out
}

func (a *API) listModels(w http.ResponseWriter) error {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": a.models()})
	return nil
}

func (a *API) getModel(w http.ResponseWriter, id string) error {
	m, err := a.model(id)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, m)
	return nil
}

// model finds a model by its name; none is the agent's default.
func (a *API) model(id string) (*modelObject, error) {
	if id == "" {
		id = AgentModel
	}
	for _, m := range a.models() {
		if m.ID == id {
			return &m, nil
		}
	}
	e := newError(http.StatusNotFound, "invalid_request_error", "model_not_found", "there is no model "+wire.Clip(id)+"; GET /v1/models lists those there are")
	param := "model"
	e.Param = &param
	return nil, e
}

// encodeRaw encodes a value that always encodes.
func encodeRaw(v any) event.Raw {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}
