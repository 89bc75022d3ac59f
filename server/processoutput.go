package server

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// ProcessPiece is a piece of a process's output as a stream of server-sent events has it.
type ProcessPiece struct {
	ProcessID string `json:"processId"`
	// Stream is stdout, stderr or tty.
	Stream string `json:"stream"`
	// Offset of the first byte in what can be read of the process.
	Offset int64 `json:"offset"`
	// Text, or Base64 for what isn't text.
	Text   string `json:"text,omitempty"`
	Base64 string `json:"base64,omitempty"`
}

// ProcessEnd is the last frame of such a stream.
type ProcessEnd struct {
	ProcessID string `json:"processId"`
	// Status is completed, failed or terminated; running if the stream wasn't to follow.
	Status   string `json:"status"`
	ExitCode *int64 `json:"exitCode,omitempty"`
	// SizeBytes is how much there is in all.
	SizeBytes int64 `json:"sizeBytes"`
}

// processQuery is what a client asks of a process's output.
type processQuery struct {
	offset int64
	follow bool
}

var processQueryNames = []string{"offset", "follow"}

func parseProcessQuery(r *http.Request) (*processQuery, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidParams, err, "the query can't be read: a %% must be followed by two hexadecimal digits, and ; is not allowed")
	}
	for name, v := range values {
		if !slices.Contains(processQueryNames, name) {
			return nil, fault.Param(wire.Clip(name), "unknown parameter; use one of %s", strings.Join(processQueryNames, ", "))
		}
		if len(v) > 1 {
			return nil, fault.Param(name, "is given twice")
		}
	}
	q := &processQuery{follow: true}
	if values.Has("follow") {
		if q.follow, err = parseFlag("follow", values.Get("follow")); err != nil {
			return nil, err
		}
	}
	for _, from := range []struct {
		name, value string
		given       bool
	}{
		{"offset", values.Get("offset"), values.Has("offset")},
		{"Last-Event-ID", r.Header.Get("Last-Event-ID"), r.Header.Get("Last-Event-ID") != ""},
	} {
		if !from.given {
			continue
		}
		n, err := strconv.ParseInt(from.value, 10, 64)
		if err != nil || n < 0 {
			return nil, fault.Param(from.name, "%q is not a number of bytes", wire.Clip(from.value))
		}
		q.offset = n
	}
	return q, nil
}

// serveProcessOutput answers GET /v1/processes/{id}/output: what facts hold of a process's
// output, from an offset on, and what comes until the process ends. It reads the session's
// facts like any subscriber: it goes on after a restart, on every node, and a client that
// reads slowly holds up only itself.
func (s *Server) serveProcessOutput(w http.ResponseWriter, r *http.Request, q *request) error {
	pq, err := parseProcessQuery(r)
	if err != nil {
		return err
	}
	missing := fault.New(fault.NotFound, "there is no process %s", wire.Clip(q.variable))
	finder, ok := s.backend.(command.ProcessFinder)
	if !ok || !event.ValidID(q.variable) {
		return missing
	}
	sessionID, started, err := finder.LocateProcess(r.Context(), q.caller, q.variable)
	if err != nil {
		return err
	}
	done, err := s.openStream(q.login.TokenID, "sse")
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := s.untilStop(r.Context())
	defer cancel()
	f := &processFollower{s: s, q: q, id: q.variable, offset: pq.offset}
	if !pq.follow {
		if _, f.through, err = s.backend.Events(ctx, q.caller, sessionID, started-1, 0); err != nil {
			return err
		}
	}
	stream, err := s.backend.Subscribe(ctx, q.caller, sessionID, started-1)
	if err != nil {
		return err
	}
	defer stream.Close()
	w.Header().Set("Vary", "Accept")
	if acceptsSSE(r.Header) {
		if f.frames, err = s.startSSE(w, sequenceIDs); err != nil {
			return nil // the client is gone
		}
	} else if err := f.startPlain(w); err != nil {
		return nil
	}
	if r.Method == http.MethodHead {
		return nil
	}
	f.finish(f.follow(ctx, stream))
	return nil
}

// processFollower writes the output of one process to one client.
type processFollower struct {
	s  *Server
	q  *request
	id string
	// offset is where the client goes on, position how far the facts were read.
	offset, position int64
	// through is the last fact that is looked at; 0 for a client that follows.
	through uint64
	// Exactly one of these is set.
	frames *sse
	plain  *plainWriter
}

type plainWriter struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (f *processFollower) startPlain(w http.ResponseWriter) error {
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	f.plain = &plainWriter{w, http.NewResponseController(w)}
	w.WriteHeader(http.StatusOK)
	return f.plain.rc.Flush()
}

// errProcessEnded says that there is nothing more to come.
var errProcessEnded = errors.New("server: the process has ended")

// follow writes until the process ends, the client goes, the token ends or the server
// stops.
func (f *processFollower) follow(ctx context.Context, stream command.Stream) error {
	for beat := time.Now().Add(f.s.opt.Heartbeat); ; {
		if err := f.followFor(ctx, f.q.login.until(min(f.s.opt.Recheck, time.Until(beat))), stream); err != nil {
			return err
		}
		if err := f.q.login.again(ctx); err != nil {
			return err
		}
		if time.Until(beat) > 0 {
			continue
		}
		if f.frames != nil {
			if err := f.frames.heartbeat(); err != nil {
				return err
			}
		}
		beat = time.Now().Add(f.s.opt.Heartbeat)
	}
}

func (f *processFollower) followFor(ctx context.Context, d time.Duration, stream command.Stream) error {
	wait, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for wait.Err() == nil {
		batch, err := stream.Next(wait)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && wait.Err() != nil:
			return nil // it was quiet
		case err != nil:
			return err
		}
		for i := range batch {
			if err := f.writeFact(ctx, &batch[i]); err != nil {
				return err
			}
		}
		if err := f.flush(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// writeFact writes what a fact says about the process.
func (f *processFollower) writeFact(ctx context.Context, d *command.Delivered) error {
	var e event.Event
	payload, err := event.DecodeHeader(d.Data, &e)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if e.ProcessID == f.id {
		switch e.Type { //nolint:exhaustive // the others say nothing about the output
		case event.TypeProcessOutput, event.TypeProcessCompleted, event.TypeProcessFailed, event.TypeProcessTerminated:
			if err := e.DecodePayload(payload); err != nil {
				return fmt.Errorf("server: %w", err)
			}
			if err := f.writePayload(ctx, e.Payload); err != nil {
				return err
			}
		}
	}
	if f.through > 0 && d.Sequence >= f.through {
		return f.sendEnd(ProcessEnd{Status: "running"})
	}
	return nil
}

func (f *processFollower) writePayload(ctx context.Context, p event.Payload) error {
	switch p := p.(type) {
	case *event.ProcessOutput:
		return f.writePiece(ctx, p)
	case *event.ProcessCompleted:
		return f.sendEnd(ProcessEnd{Status: "completed", ExitCode: &p.ExitCode})
	case *event.ProcessFailed:
		return f.sendEnd(ProcessEnd{Status: "failed"})
	case *event.ProcessTerminated:
		return f.sendEnd(ProcessEnd{Status: "terminated"})
	}
	return nil
}

// sendEnd tells how the process ended.
func (f *processFollower) sendEnd(last ProcessEnd) error {
	if f.frames != nil {
		last.ProcessID, last.SizeBytes = f.id, f.position
		if err := f.frames.frame("end", mustMarshal(last)); err != nil {
			return err
		}
	}
	if err := f.flush(); err != nil {
		return err
	}
	return errProcessEnded
}

// writePiece writes what the client doesn't have of a piece.
func (f *processFollower) writePiece(ctx context.Context, p *event.ProcessOutput) error {
	if p.OutputRef == "" {
		return f.writeFrom(p.Stream, strings.NewReader(p.Text), int64(len(p.Text)))
	}
	out, err := f.s.backend.Output(ctx, f.q.caller, p.OutputRef)
	if err != nil {
		return err
	}
	defer func() { _ = out.Content.Close() }() // it was only read
	return f.writeFrom(p.Stream, out.Content, out.Size)
}

// pieceSize is the most that is written at once.
const pieceSize = 16 << 10

func (f *processFollower) writeFrom(stream string, content io.ReadSeeker, size int64) error {
	begin := f.position
	f.position += size
	skip := max(0, f.offset-begin)
	if skip >= size {
		return nil
	}
	if _, err := content.Seek(skip, io.SeekStart); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	buf := make([]byte, min(pieceSize, size-skip))
	for at := begin + skip; at < begin+size; {
		n, err := io.ReadFull(content, buf[:min(int64(len(buf)), begin+size-at)])
		if err != nil {
			return fmt.Errorf("server: the output of a process is cut off: %w", err)
		}
		piece := buf[:n]
		if f.frames != nil {
			piece = wholeCharacters(piece, at+int64(n) < begin+size)
			if back := n - len(piece); back > 0 {
				if _, err := content.Seek(-int64(back), io.SeekCurrent); err != nil {
					return fmt.Errorf("server: %w", err)
				}
			}
		}
		if err := f.write(stream, at, piece); err != nil {
			return err
		}
		at += int64(len(piece))
	}
	return nil
}

// wholeCharacters leaves out a character at the end that goes on in the next piece.
func wholeCharacters(b []byte, more bool) []byte {
	if !more {
		return b
	}
	for n := 1; n < utf8.UTFMax && n < len(b); n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return b[:len(b)-n]
			}
			break
		}
	}
	return b
}

func (f *processFollower) write(stream string, at int64, piece []byte) error {
	if f.plain != nil {
		if _, err := f.plain.w.Write(piece); err != nil {
			return errGone
		}
		return nil
	}
	x := ProcessPiece{ProcessID: f.id, Stream: stream, Offset: at}
	if utf8.Valid(piece) {
		x.Text = string(piece)
	} else {
		x.Base64 = base64.StdEncoding.EncodeToString(piece)
	}
	f.frames.data(&command.Delivered{Sequence: uint64(at) + uint64(len(piece))}, true, mustMarshal(x))
	if len(f.frames.buf) >= flushAt {
		return f.frames.flush()
	}
	return nil
}

func (f *processFollower) flush() error {
	if f.frames != nil {
		return f.frames.flush()
	}
	if err := f.plain.rc.Flush(); err != nil {
		return errGone
	}
	return nil
}

// finish ends the answer. A plain one that isn't complete is cut off, so that the client
// doesn't take it for all there is.
func (f *processFollower) finish(err error) {
	switch {
	case errors.Is(err, errProcessEnded):
	case f.frames != nil:
		f.frames.end(err, f.q.id)
	case !errors.Is(err, errGone):
		panic(http.ErrAbortHandler)
	}
}
