package server

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"agentd/fault"
)

// Where balancers and supervisors ask, without a token.
const (
	healthPath = "/healthz"
	readyPath  = "/readyz"
)

// serveHealth answers GET /healthz: the process runs and answers.
func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request, q *request) error {
	q.known = true
	return writeJSON(w, []byte(`{"status":"ok"}`))
}

// readyTimeout is how long the backend may take to say whether it is ready.
const readyTimeout = 5 * time.Second

// serveReady answers GET /readyz: commands can be carried out. Why they can't is
// for the log; anyone may ask here. Balancers ask several times a second: what they were told
// before is logged for debugging only.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request, q *request) error {
	err := s.checkReady(r.Context())
	said := ""
	if err != nil {
		said = err.Error()
	}
	before := s.readiness.Swap(&said)
	q.known = before == nil && err == nil || before != nil && *before == said
	if err != nil {
		return err
	}
	return writeJSON(w, []byte(`{"status":"ready"}`))
}

func (s *Server) checkReady(ctx context.Context) error {
	if s.isStopping() {
		return fault.New(fault.Unavailable, "the server is stopping")
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := s.backend.Ready(ctx); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the runtime can't carry out commands now")
	}
	return nil
}

// serveStatus answers GET /v1/status.
func (s *Server) serveStatus(w http.ResponseWriter, r *http.Request, q *request) error {
	body, err := json.Marshal(struct {
		Version       string    `json:"version"`
		StartedAt     time.Time `json:"startedAt"`
		UptimeSeconds int64     `json:"uptimeSeconds"`
		Connections   int64     `json:"connections"`
		Streams       int64     `json:"streams"`
		// Caller is who asks.
		Caller  callerRead `json:"caller"`
		Runtime any        `json:"runtime"`
	}{
		s.opt.Version, s.metrics.started.UTC(), int64(time.Since(s.metrics.started).Seconds()),
		s.metrics.connections.Load(), s.streams.Load(), q.login.read(), s.backend.Status(r.Context(), q.caller),
	})
	if err != nil {
		return err
	}
	return writeJSON(w, body)
}
