package httpstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Event is one event of a stream of server-sent events.
type Event struct {
	// Name is the value of the event field; empty if there was none.
	Name string
	// Data are the data lines, joined by line feeds. It is valid until the next
	// event is read.
	Data []byte
}

// Content returns the data without the blanks around it; nil if there is none, or if it
// is the mark of the end that some servers send.
func (e *Event) Content() []byte {
	data := bytes.TrimSpace(e.Data)
	if len(data) == 0 || string(data) == "[DONE]" {
		return nil
	}
	return data
}

// errEventTooLong says that an event is longer than it may be.
var errEventTooLong = errors.New("an event of the stream is too long")

// Reader reads server-sent events. It takes lines that end with LF, CR or CRLF,
// skips comments, ids and unknown fields, and gives events without data no
// attention. A field "error" that holds an object is an event of that name. Unlike a browser it also returns an event that the end of the
// stream leaves without its empty line: servers forget it.
type Reader struct {
	in      *bufio.Reader
	max     int
	line    []byte
	data    []byte
	name    string
	hasData bool
	skipLF  bool
	begun   bool
}

// bufferSize is how much of a stream is read at once.
const bufferSize = 4 << 10

// NewReader returns a reader that refuses events longer than maxEvent bytes.
func NewReader(r io.Reader, maxEvent int) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, bufferSize), max: maxEvent}
}

// Next returns the next event. Its error is io.EOF at the end of the stream, and
// otherwise what went wrong; after an error the reader is at its end.
func (r *Reader) Next() (Event, error) {
	r.data, r.name, r.hasData = r.data[:0], "", false
	for {
		line, err := r.readLine()
		if len(line) > 0 {
			if err := r.field(line); err != nil {
				return Event{}, err
			}
		}
		switch {
		case err == nil && len(line) > 0:
		case err != nil && !errors.Is(err, io.EOF):
			return Event{}, err
		case r.hasData:
			return Event{Name: r.name, Data: r.data}, nil
		case err != nil:
			return Event{}, io.EOF
		default:
			r.name = ""
		}
	}
}

// field takes one line of an event.
func (r *Reader) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		r.name = string(value)
	case "error":
		// Not of the standard: llama.cpp said so until late 2025 that it has failed.
		if !bytes.HasPrefix(value, []byte("{")) {
			return nil
		}
		r.name = "error"
		return r.add(value)
	case "data":
		return r.add(value)
	}
	return nil
}

// add takes a line of an event's data.
func (r *Reader) add(value []byte) error {
	if len(r.data)+len(value)+1 > r.max {
		return errEventTooLong
	}
	if r.hasData {
		r.data = append(r.data, '\n')
	}
	r.data = append(r.data, value...)
	r.hasData = true
	return nil
}

// readLine returns the next line without its end. It doesn't wait for the byte
// after a CR: a server that ends lines so may send nothing more for a while.
func (r *Reader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		piece, err := r.peek()
		if err != nil {
			return r.line, err
		}
		end := bytes.IndexAny(piece, "\r\n")
		take := piece
		if end >= 0 {
			take = piece[:end]
		}
		if len(r.line)+len(take) > r.max {
			return nil, errEventTooLong
		}
		r.line = append(r.line, take...)
		if end < 0 {
			_, _ = r.in.Discard(len(piece)) // it was peeked at, so it is there
			continue
		}
		r.skipLF = piece[end] == '\r'
		_, _ = r.in.Discard(end + 1)
		return r.line, nil
	}
}

// peek returns what is there, at least one byte, without the line feed of a CRLF
// whose CR ended the line before, and without a byte order mark at the start.
func (r *Reader) peek() ([]byte, error) {
	for {
		if _, err := r.in.Peek(1); err != nil {
			return nil, err
		}
		piece, _ := r.in.Peek(r.in.Buffered())
		if r.skipLF {
			r.skipLF = false
			if piece[0] == '\n' {
				_, _ = r.in.Discard(1)
				continue
			}
		}
		if !r.begun {
			r.begun = true
			if piece[0] == 0xEF && r.dropMark() {
				continue
			}
		}
		return piece, nil
	}
}

func (r *Reader) dropMark() bool {
	mark, err := r.in.Peek(3)
	if err != nil || !bytes.Equal(mark, []byte("\xEF\xBB\xBF")) {
		return false
	}
	_, _ = r.in.Discard(3)
	return true
}
