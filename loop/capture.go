package loop

import (
	"context"
	"errors"
	"fmt"

	"agentd/event"
	"agentd/process"
	"agentd/redact"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/tool"
)

// maxProcessText is how much text the process.output facts of one process carry. What
// comes after it is behind references, and output.spilled says so at once.
const maxProcessText = 64 << 10

// textMedia is the media type of what commands print.
const textMedia = "text/plain; charset=utf-8"

// captured is what the facts of a process hold of its output.
type captured struct {
	// text is all of it until it is spilled, then nil.
	text    []byte
	spilled bool
	found   redact.Found
}

// outputPiece is a piece of output on its way into a fact. The content of one without a
// text is behind a reference.
type outputPiece struct {
	fact    event.ProcessOutput
	content []byte
	media   string
}

// capturing are pieces that are recorded together.
type capturing struct {
	pieces []outputPiece
	// spill is all output so far, if these pieces cross what facts carry.
	spill []byte
}

// output records a piece of output.
func (x *running) output(c process.Chunk) {
	r := x.text[c.Stream]
	if r == nil {
		r = &redacted{}
		x.text[c.Stream] = r
	}
	if r.held() == 0 {
		r.from = c.Offset
	}
	binary := tool.IsBinary(c.Data)
	if !binary {
		r.add(x.l, validText(c.Data))
		r.to = c.Offset + int64(len(c.Data))
	}
	w := &capturing{}
	x.captureText(w, c.Stream, r, binary) // what was held back comes before what isn't text
	if binary {
		clean, found := x.l.redactBytes(c.Data)
		x.captured.found = x.captured.found.Add(found)
		x.capture(w, outputPiece{event.ProcessOutput{
			ProcessID: x.id, Stream: c.Stream, Offset: c.Offset, SizeBytes: int64(len(c.Data)), Binary: true,
		}, clean, "application/octet-stream"})
	}
	if len(w.pieces) == 0 {
		return
	}
	if err := x.emit(func(tx *session.Tx) { x.emitCaptured(tx, w) }); err != nil {
		x.l.opt.Logger.Warn("output of a process could not be recorded", "processId", x.id, "error", err)
	}
}

// captureText takes what can be given out of a stream, at its end all that was held back.
func (x *running) captureText(w *capturing, stream string, r *redacted, end bool) {
	if end && r.stream != nil {
		defer func(s *redact.Stream) { x.captured.found = x.captured.found.Add(s.Found()) }(r.stream)
	}
	text := r.drainText(end)
	if text == "" {
		return
	}
	from := r.from
	r.from = max(from, r.to-int64(r.held()))
	rest := r.from - from // in the stream itself; redaction changes the length
	same := rest == int64(len(text))
	for _, s := range x.cutForFacts(text) {
		size := rest
		if same {
			size = int64(len(s))
		}
		x.capture(w, outputPiece{event.ProcessOutput{ProcessID: x.id, Stream: stream, Text: s, Offset: from, SizeBytes: size}, []byte(s), textMedia})
		from, rest = from+size, rest-size
	}
}

// cutForFacts cuts a text into pieces that fit into facts, if facts are to carry it.
func (x *running) cutForFacts(text string) []string {
	if x.captured.spilled || len(x.captured.text)+len(text) > maxProcessText {
		return []string{text}
	}
	return textPieces(text)
}

// capture adds a piece. The one that crosses what facts carry, and all after it, are
// behind references.
func (x *running) capture(w *capturing, p outputPiece) {
	c := &x.captured
	if !c.spilled {
		c.text = append(c.text, p.content...)
		if len(c.text) > maxProcessText {
			w.spill, c.text, c.spilled = c.text, nil, true
		}
	}
	if c.spilled {
		p.fact.Text = ""
	}
	w.pieces = append(w.pieces, p)
}

// emitCaptured emits pieces, and that facts don't carry the text from here on.
func (x *running) emitCaptured(tx *session.Tx, w *capturing) {
	for i := range w.pieces {
		fact := w.pieces[i].fact // a copy: the decision may be made again
		if fact.Text == "" {
			fact.OutputRef = tx.Blob(w.pieces[i].content, w.pieces[i].media)
		}
		tx.Emit(event.Event{Type: event.TypeProcessOutput, Scope: x.scope, Payload: &fact})
	}
	if w.spill == nil {
		return
	}
	tx.Emit(event.Event{Type: event.TypeOutputSpilled, Scope: x.scope, Payload: &event.OutputStored{
		OutputRef: tx.Blob(w.spill, textMedia), SizeBytes: int64(len(w.spill)), MediaType: textMedia, Owner: x.id,
		Preview:       tool.Preview(validText(w.spill), x.l.opt.Outputs.PreviewBytes),
		RedactedCount: x.redactedSoFar(), ExpiresAt: x.l.opt.Outputs.expiry(tx.Now()),
	}})
}

// redactedSoFar counts the secrets that were taken out of the output.
func (x *running) redactedSoFar() int64 {
	n := x.captured.found.Count
	for _, r := range x.text {
		if r.stream != nil {
			n += r.stream.Found().Count
		}
	}
	return n
}

// beginRecording says that the output and the end of a process are being recorded, until
// done is called.
func (l *Loop) beginRecording(processID string) (done func()) {
	ended := make(chan struct{})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recording[processID] = ended
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.recording, processID)
		close(ended)
	}
}

// isRecording reports whether this run began the process and hasn't recorded its end.
func (l *Loop) isRecording(processID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recording[processID] != nil
}

// awaitRecorded waits until all output of a process that has ended, and its end, are facts.
func (l *Loop) awaitRecorded(processID string) {
	l.mu.Lock()
	ended := l.recording[processID]
	l.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// heldBack takes what was held back of all streams.
func (x *running) heldBack() *capturing {
	w := &capturing{}
	for stream, r := range x.text {
		x.captureText(w, stream, r, true)
	}
	return w
}

// storeWhole stores what was kept of the output when a process has ended, and returns its
// reference; none if facts show all of it. Where something is missing a fact says so: of
// a call that waits for the process it is the one that comes with its result.
func (x *running) storeWhole(tx *session.Tx, o process.Output) string {
	if o.Total <= int64(x.l.opt.Outputs.InlineBytes) {
		return ""
	}
	clean, found := x.l.redactBytes(joinOutput(o))
	ref := tx.Blob(clean, textMedia)
	if o.Truncated() && x.background {
		tx.Emit(event.Event{Type: event.TypeOutputTruncated, Scope: x.scope, Payload: &event.OutputStored{
			OutputRef: ref, SizeBytes: o.Total, MediaType: textMedia, DroppedBytes: o.Dropped(), Owner: x.id,
			Preview:       tool.Preview(validText(clean), x.l.opt.Outputs.PreviewBytes),
			RedactedCount: found.Count, ExpiresAt: x.l.opt.Outputs.expiry(tx.Now()),
		}})
	}
	return ref
}

// capturedOutputs reads what the facts hold of the output of processes that an earlier run
// started: that is what a restart leaves of it.
func (l *Loop) capturedOutputs(ctx context.Context, sessionID string, fates []process.Fate) (map[string][]byte, error) {
	if len(fates) == 0 {
		return nil, nil
	}
	out := map[string][]byte{}
	var from uint64
	err := l.m.View(ctx, sessionID, func(s *state.Session) error {
		for _, f := range fates {
			if x := s.Environment.Find(f.Entry.ProcessID); x != nil {
				out[x.ProcessID] = nil
				if from == 0 || x.StartSequence < from {
					from = x.StartSequence
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var e event.Event
	for rec, err := range l.opt.Store.Read(ctx, sessionID, store.Range{After: from}) {
		if err != nil {
			return nil, fmt.Errorf("loop: read: %w", err)
		}
		payload, err := event.DecodeHeader(rec.Data, &e)
		if err != nil {
			return nil, fmt.Errorf("loop: %w", err)
		}
		so, wanted := out[e.ProcessID]
		if !wanted || e.Type != event.TypeProcessOutput || int64(len(so)) >= l.opt.Outputs.MaxBytes {
			continue
		}
		if err := e.DecodePayload(payload); err != nil {
			return nil, fmt.Errorf("loop: %w", err)
		}
		piece, err := l.readPiece(ctx, e.Payload.(*event.ProcessOutput))
		if err != nil {
			return nil, err
		}
		out[e.ProcessID] = append(so, piece...)
	}
	return out, nil
}

// readPiece returns the bytes of a piece of output; none if they have expired.
func (l *Loop) readPiece(ctx context.Context, p *event.ProcessOutput) ([]byte, error) {
	if p.OutputRef == "" {
		return []byte(p.Text), nil
	}
	b, err := store.ReadContent(ctx, l.opt.Store, p.OutputRef, l.opt.Outputs.MaxBytes)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return b, err
}
