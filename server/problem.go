package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"agentd/fault"
	"agentd/internal/wire"
)

// asFault returns err as a fault. A context that ended means that the server
// gave up on the command, not that the command is wrong.
func asFault(err error) *fault.Error {
	var f *fault.Error
	if errors.As(err, &f) {
		return f
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		f = fault.Wrap(fault.Unavailable, err, "the request took too long; it may still complete")
		f.RetryAfter = time.Second
		return f
	}
	return fault.Wrap(fault.Internal, err, "something went wrong inside agentd; its log has more under this request id")
}

// duringStop says of what a stopping server refuses that it can be tried again soon: another
// node, or the next process, does it. What has no kind then, a part of the runtime that is
// closed already says.
func duringStop(err error) *fault.Error {
	if _, ok := errors.AsType[*fault.Error](err); !ok {
		return fault.Stopping(err)
	}
	f := asFault(err)
	if f.Kind != fault.Unavailable || f.RetryAfter > 0 {
		return f
	}
	again := *f
	again.RetryAfter = fault.Stopping(nil).RetryAfter
	return &again
}

// faultOf is an error as it is said now.
func (s *Server) faultOf(err error) *fault.Error {
	if s.isStopping() {
		return duringStop(err)
	}
	return asFault(err)
}

// problemOf turns an error into what is sent. The cause stays here.
func problemOf(err error, requestID string) *wire.Problem {
	p := wire.ProblemOf(asFault(err))
	p.RequestID = requestID
	return &p
}

// writeProblem sends an error as an HTTP answer.
func writeProblem(w http.ResponseWriter, err error, requestID string) {
	p := problemOf(err, requestID)
	h := w.Header()
	h.Set("Content-Type", wire.ProblemType)
	h.Set("Cache-Control", "no-store")
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(p.RetryAfter, 10))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="agentd"`)
	}
	_ = writeBody(w, p.Status, append(problemJSON(p), '\n')) // a client that went away needs no answer
}

// WriteProblem answers a request of a [Mount] with an error, as the server's own
// addresses do: with the request's id, and with the time to wait if there is one.
func WriteProblem(w http.ResponseWriter, err error) {
	if rec, ok := w.(*recorder); ok && rec.stops() {
		err = duringStop(err)
	}
	writeProblem(w, err, w.Header().Get("X-Request-ID"))
}

func problemJSON(p *wire.Problem) []byte { return mustMarshal(p) }

// problemWriter turns the plain-text errors of other handlers into problems.
type problemWriter struct {
	http.ResponseWriter
	requestID string
	// detail is said instead of the other handler's words.
	detail  string
	swallow bool
	// admit, if there is one, may refuse an answer by what its header says.
	admit func(http.Header) error
}

// WriteHeader implements [http.ResponseWriter].
func (w *problemWriter) WriteHeader(status int) {
	if status < http.StatusBadRequest {
		if err := w.refusal(); err != nil {
			w.swallow = true
			writeProblem(w.ResponseWriter, err, w.requestID)
			return
		}
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.swallow = true
	kind, detail := fault.InvalidParams, w.detail
	if status == http.StatusPreconditionFailed {
		kind, detail = fault.Conflict, "the content is another one than the request's If-Match or If-Unmodified-Since allows"
	}
	for _, d := range fault.Table() {
		if d.HTTP == status {
			kind = d.Kind
			break
		}
	}
	writeProblem(w.ResponseWriter, fault.New(kind, "%s", detail), w.requestID)
}

// refusal says why an answer isn't let through, and takes away what would describe
// it.
func (w *problemWriter) refusal() error {
	if w.admit == nil {
		return nil
	}
	h := w.Header()
	err := w.admit(h)
	if err != nil {
		for _, name := range []string{"ETag", "Content-Range", "Accept-Ranges", "Content-Encoding"} {
			h.Del(name)
		}
	}
	return err
}

// Write implements [http.ResponseWriter].
func (w *problemWriter) Write(p []byte) (int, error) {
	if w.swallow {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets [http.ResponseController] reach the connection.
func (w *problemWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
