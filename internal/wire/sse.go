package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// SSEType is the media type of a stream of server-sent events.
const SSEType = "text/event-stream"

// SSEFrame is one server-sent event.
type SSEFrame struct {
	// ID is the stream's last event id once the frame was read; on the way out an
	// empty one is left out.
	ID string
	// Event is the frame's type; empty means "message".
	Event string
	// Data may have several lines.
	Data []byte
	// Retry asks the reader to wait that long before it connects again; zero
	// means that the frame doesn't say.
	Retry time.Duration
}

// AppendSSE appends a frame. Line breaks of any kind in the data come out as line
// feeds on the other side. An id or a type that can't be written, because it has
// a line break or a zero byte, is left out.
func AppendSSE(dst []byte, f *SSEFrame) []byte {
	if f.Event != "" && !strings.ContainsAny(f.Event, "\r\n") {
		dst = append(append(append(dst, "event: "...), f.Event...), '\n')
	}
	if f.ID != "" && !strings.ContainsAny(f.ID, "\r\n\x00") {
		dst = append(append(append(dst, "id: "...), f.ID...), '\n')
	}
	if f.Retry > 0 {
		dst = append(strconv.AppendInt(append(dst, "retry: "...), f.Retry.Milliseconds(), 10), '\n')
	}
	return append(appendLines(dst, "data: ", f.Data), '\n')
}

// AppendSSEComment appends a comment, which readers pass over: a heartbeat.
func AppendSSEComment(dst []byte, text string) []byte {
	return append(appendLines(dst, ": ", []byte(text)), '\n')
}

func appendLines(dst []byte, field string, data []byte) []byte {
	for {
		i := lineEnd(data)
		if i < 0 {
			return append(append(append(dst, field...), data...), '\n')
		}
		dst = append(append(append(dst, field...), data[:i]...), '\n')
		if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			i++
		}
		data = data[i+1:]
	}
}

// lineEnd returns where the first line ends, or -1. Two searches for one byte are
// far quicker than one for either of two.
func lineEnd(b []byte) int {
	feed := bytes.IndexByte(b, '\n')
	if feed >= 0 {
		b = b[:feed]
	}
	if carriage := bytes.IndexByte(b, '\r'); carriage >= 0 {
		return carriage
	}
	return feed
}

// ErrFrameTooLarge says that a stream has a frame over the reader's bound. The
// stream can't be read further.
var ErrFrameTooLarge = errors.New("wire: a frame of the stream is too large")

// DefaultFrameBytes bounds a frame when a reader is made without a bound.
const DefaultFrameBytes = 32 << 20

// SSEReader reads a stream of server-sent events.
type SSEReader struct {
	in    *bufio.Reader
	bound int

	line []byte
	// skipLF says that the last line ended with a carriage return: a line feed
	// that follows belongs to it. The reader doesn't wait for it, since the frame
	// may be the last for a long time.
	skipLF  bool
	started bool
	lastID  string
	retry   time.Duration
}

// NewSSEReader returns a reader that keeps at most bound bytes of a frame; zero
// means [DefaultFrameBytes].
func NewSSEReader(in io.Reader, bound int) *SSEReader {
	if bound <= 0 {
		bound = DefaultFrameBytes
	}
	return &SSEReader{in: bufio.NewReader(in), bound: bound}
}

// LastID returns the stream's last event id, as a reader that connects again
// sends it.
func (r *SSEReader) LastID() string { return r.lastID }

// Retry returns the delay that the stream asked for last, or zero.
func (r *SSEReader) Retry() time.Duration { return r.retry }

// Next returns the next frame with data. Its bytes are the caller's. At the end
// of the stream the error is io.EOF, and a frame that isn't complete is dropped.
func (r *SSEReader) Next() (SSEFrame, error) {
	var f SSEFrame
	var data []byte
	size, hasData := 0, false
	for {
		if err := r.readLine(r.bound - size); err != nil {
			return SSEFrame{}, err
		}
		if len(r.line) == 0 {
			if hasData {
				f.ID, f.Data = r.lastID, data
				return f, nil
			}
			f, size = SSEFrame{}, 0
			continue
		}
		field, value := splitField(r.line)
		if field == "data" {
			if hasData {
				data = append(data, '\n')
			}
			data, hasData = append(data, value...), true
			// Only what is kept counts: comments may go on for ever.
			size = len(data) + 1
			continue
		}
		r.setField(&f, field, value)
	}
}

// setField takes over a field other than data; one that isn't known is passed over.
func (r *SSEReader) setField(f *SSEFrame, field string, value []byte) {
	switch field {
	case "event":
		f.Event = string(value)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			r.lastID = string(value)
		}
	case "retry":
		if ms, ok := digits(value); ok {
			f.Retry = time.Duration(ms) * time.Millisecond
			r.retry = f.Retry
		}
	}
}

// maxRetry keeps an absurd delay from overflowing.
const maxRetry = 24 * time.Hour

func digits(value []byte) (int64, bool) {
	if len(value) == 0 || strings.Trim(string(value), "0123456789") != "" {
		return 0, false
	}
	ms, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || ms > maxRetry.Milliseconds() {
		ms = maxRetry.Milliseconds()
	}
	return ms, true
}

// splitField splits a line at its colon and takes one space off the value. A
// comment has the empty field.
func splitField(line []byte) (field string, value []byte) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	return string(name), bytes.TrimPrefix(value, []byte{' '})
}

// readLine reads the next line, without its end, into r.line.
func (r *SSEReader) readLine(bound int) error {
	r.line = r.line[:0]
	for {
		chunk, err := r.peek()
		if err != nil {
			return err
		}
		if r.skipLF {
			r.skipLF = false
			if chunk[0] == '\n' {
				r.discard(1)
				continue
			}
		}
		i := lineEnd(chunk)
		n := i
		if i < 0 {
			n = len(chunk)
		}
		if len(r.line)+n > bound {
			return fmt.Errorf("%w: over %d bytes", ErrFrameTooLarge, r.bound)
		}
		r.line = append(r.line, chunk[:n]...)
		if i < 0 {
			r.discard(n)
			continue
		}
		r.skipLF = chunk[i] == '\r'
		r.discard(n + 1)
		r.dropMark()
		return nil
	}
}

// peek returns what is buffered, at least one byte.
func (r *SSEReader) peek() ([]byte, error) {
	if _, err := r.in.Peek(1); err != nil {
		return nil, err
	}
	return r.in.Peek(r.in.Buffered())
}

// discard takes off bytes that peek returned, which can't fail.
func (r *SSEReader) discard(n int) { _, _ = r.in.Discard(n) }

// dropMark takes a byte order mark off the stream's first line.
func (r *SSEReader) dropMark() {
	if !r.started {
		r.started = true
		r.line = bytes.TrimPrefix(r.line, []byte("\xef\xbb\xbf"))
	}
}
