package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"
	"time"
)

// lingerFor is how long requests that were read may still be answered after the
// client's stream ended: a client that writes its requests and closes wants the
// answers, one that is gone doesn't.
const lingerFor = 2 * time.Second

// maxLine bounds how much of a line is kept to see what it is.
const maxLine = 1 << 20

// linger holds the end of a client's stream back while requests are unanswered.
type linger struct {
	io.Reader
	out io.Writer
	ctx context.Context // the life of the stream

	mu       sync.Mutex
	in, sent []byte // the beginnings of lines
	open     int
	answered chan struct{}
}

func newLinger(ctx context.Context, in io.Reader, out io.Writer) *linger {
	return &linger{Reader: in, out: out, ctx: ctx, answered: make(chan struct{}, 1)}
}

// Read implements [io.Reader].
func (l *linger) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	l.mu.Lock()
	l.in = forEachMessage(l.in, p[:n], func(isRequest bool) {
		if isRequest {
			l.open++
		}
	})
	l.mu.Unlock()
	if n == 0 && errors.Is(err, io.EOF) {
		l.wait()
	}
	return n, err
}

// Write implements [io.Writer].
func (l *linger) Write(p []byte) (int, error) {
	n, err := l.out.Write(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = forEachMessage(l.sent, p[:n], func(isRequest bool) {
		if !isRequest {
			l.open--
		}
	})
	select {
	case l.answered <- struct{}{}:
	default:
	}
	return n, err
}

// wait returns when all is answered, or when it takes too long.
func (l *linger) wait() {
	timer := time.NewTimer(lingerFor)
	defer timer.Stop()
	for {
		l.mu.Lock()
		open := l.open
		l.mu.Unlock()
		if open <= 0 {
			return
		}
		select {
		case <-l.answered:
		case <-timer.C:
			return
		case <-l.ctx.Done():
			return
		}
	}
}

// Close implements [io.Closer]: both streams belong to the caller.
func (*linger) Close() error { return nil }

// forEachMessage tells of each whole message whether it is a request, else it is an answer,
// and returns the beginning of the next.
func forEachMessage(begun, more []byte, tell func(isRequest bool)) []byte {
	for {
		i := bytes.IndexByte(more, '\n')
		if i < 0 && len(begun)+len(more) > maxLine {
			return begun // it ends as no message, and counts as nothing
		}
		if i < 0 {
			return append(begun, more...)
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(slices.Concat(begun, more[:i]), &m) == nil && len(m.ID) > 0 {
			tell(m.Method != "")
		}
		begun, more = nil, more[i+1:]
	}
}
