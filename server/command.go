package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"agentd/command"
	"agentd/fault"
	"agentd/internal/wire"
)

// serveCommand answers POST /v1/commands/{command}.
func (s *Server) serveCommand(w http.ResponseWriter, r *http.Request, q *request) error {
	d, ok := command.Lookup(command.Name(q.variable))
	if !ok {
		return fault.New(fault.NotFound, "there is no command %s", wire.Clip(q.variable))
	}
	if err := permit(q.login.Role, d.Scope, d.Name); err != nil {
		return err
	}
	body, giveBack, err := s.readJSONBody(w, r, q)
	defer giveBack()
	if err != nil {
		return err
	}
	q.caller.Answer = &q.answer
	keepSecret(w, d.ShowsSecret)
	result, err := s.runCommand(r.Context(), q, d, body)
	if err != nil {
		if f, ok := errors.AsType[*fault.Error](err); ok && q.forwarded && f.Elsewhere != "" {
			w.Header().Set(elsewhereHeader, "1")
		}
		return err
	}
	held := s.chargeFor(q)
	defer held.release()
	if err := held.chargeAnswer(len(result), d.Mutates); err != nil {
		return err
	}
	return writeJSON(w, result)
}

// runCommand decodes and carries out a command that the caller may call, and returns the
// encoded result.
func (s *Server) runCommand(ctx context.Context, q *request, d *command.Def, body []byte) (result []byte, err error) {
	began := time.Now()
	defer func() {
		code := "ok"
		if err != nil {
			code = string(asFault(err).Kind)
		}
		s.metrics.commands.get(string(d.Name), code).Add(1)
		s.metrics.commandTime.get(string(d.Name)).observe(time.Since(began))
	}()
	p, err := command.Decode(d.Name, body)
	if err != nil {
		return nil, err
	}
	if err := permit(q.login.Role, command.Need(p), d.Name); err != nil {
		return nil, err
	}
	leave, err := s.enterCommand(ctx, q, d)
	if err != nil {
		return nil, err
	}
	defer leave()
	limited := withDeadline(ctx, s.opt.CommandTimeout)
	defer limited.end()
	ctx = limited
	if q.authorization != "" && !q.part {
		ctx = command.WithForwarder(ctx, s.forwarderOf(q))
	}
	value, err := s.backend.Do(ctx, q.caller, p)
	for began := time.Now(); ; {
		to := q.forwardable(err)
		if to == "" {
			break
		}
		result, failed := s.forwardCommand(ctx, q, to, d, body, forwardedWhole, err)
		if !onItsWay(failed) || time.Since(began) > s.opt.MoveWait || !pause(ctx, nodeCheck/2) {
			return result, failed
		}
		// The node is stopping or being drained, or just was: its sessions are on their way to
		// another one.
		value, err = s.backend.Do(ctx, q.caller, p)
	}
	if err != nil {
		return nil, err
	}
	result, err = json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("server: result of %s: %w", d.Name, err)
	}
	return result, nil
}

// readJSONBody reads a request's JSON body. giveBack is never nil.
func (s *Server) readJSONBody(w http.ResponseWriter, r *http.Request, q *request) (body []byte, giveBack func(), err error) {
	nothing := func() {}
	if err := checkMedia(r.Header); err != nil {
		return nil, nothing, err
	}
	if r.ContentLength > s.opt.MaxBody {
		w.Header().Set("Connection", "close")
		s.drainBody(w, r)
		return nil, nothing, s.tooLarge(s.opt.MaxBody)
	}
	body, giveBack, err = s.readBody(http.MaxBytesReader(w, r.Body, s.opt.MaxBody), q.login.TokenID, s.opt.MaxBody, chunk)
	s.metrics.received.Add(int64(len(body)))
	if err != nil {
		w.Header().Set("Connection", "close")
		if err = s.bodyFault(err); fault.KindOf(err) == fault.PayloadTooLarge {
			s.drainBody(w, r)
		}
		return nil, giveBack, err
	}
	// From here on the connection is only watched for the client's leaving.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, giveBack, nil
}

// pauseOfSender is how long a client that is being refused may send nothing before
// it gets its answer.
const pauseOfSender = 200 * time.Millisecond

// drainBody takes in a part of a body that is refused, for as long as it comes: many
// clients send all before they read, and would see a broken connection instead of
// the answer. One that asked first, with Expect, reads it.
func (s *Server) drainBody(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Expect") != "" {
		return
	}
	rc := http.NewResponseController(w)
	for left := 2 * s.opt.MaxBody; left > 0; {
		if rc.SetReadDeadline(time.Now().Add(pauseOfSender)) != nil {
			return
		}
		n, err := io.CopyN(io.Discard, r.Body, min(left, 64<<10))
		if left -= n; err != nil {
			return
		}
	}
}

// bodyFault says what is wrong with a body that could not be read to its end.
func (s *Server) bodyFault(err error) error {
	var tooLarge *http.MaxBytesError
	var known *fault.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &tooLarge):
		return s.tooLarge(tooLarge.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.Wrap(fault.InvalidParams, err, "the body did not arrive in time")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fault.Wrap(fault.InvalidParams, err, "the body is shorter than Content-Length says")
	}
	return fault.Wrap(fault.InvalidParams, err, "the body can't be read")
}

// checkMedia refuses a body that says that it is not JSON.
func checkMedia(h http.Header) error {
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return fault.New(fault.UnsupportedMedia, "Content-Encoding %s is not supported; send the body unencoded", wire.Clip(enc))
	}
	header := h.Get("Content-Type")
	if header == "" {
		return nil
	}
	media, params, err := mime.ParseMediaType(header)
	charset := strings.ToLower(params["charset"])
	if err != nil || media != "application/json" || (charset != "" && charset != "utf-8") {
		return fault.New(fault.UnsupportedMedia, "the body must be application/json in UTF-8, not %s", wire.Clip(header))
	}
	return nil
}

// writeJSON sends an encoded object.
func writeJSON(w http.ResponseWriter, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	return writeBody(w, http.StatusOK, append(body, '\n'))
}

// ignoreGone drops an error of writing an answer: the client went away or was
// too slow, so no answer can be sent.
func ignoreGone(error) error { return nil }

// sizeWord writes a number of bytes for people.
func sizeWord(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
