package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// cancelled is what a client says of a request that it doesn't wait for any more.
type cancelled struct {
	Method string `json:"method"`
	Params struct {
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
}

// listenPipe serves subscriptions to tasks over a pair of streams: it takes the
// requests for them out of what the SDK reads, and writes their messages between
// those of the SDK, each of which is one line and one write.
type listenPipe struct {
	s   *Server
	id  *Identity
	in  io.Reader
	ctx context.Context // the life of the streams

	// line is the beginning of a line; ready is what the SDK may read; through says that
	// the rest of a line is handed on as it comes; err is why there is no more.
	line, ready []byte
	through     bool
	err         error
	chunk       []byte

	running sync.WaitGroup
	// open are the subscriptions by the ids of their requests.
	openMu sync.Mutex
	open   map[string]context.CancelFunc

	outMu sync.Mutex
	out   io.Writer
}

func newListenPipe(ctx context.Context, s *Server, id *Identity, in io.Reader, out io.Writer) *listenPipe {
	return &listenPipe{s: s, id: id, in: in, out: out, ctx: ctx, chunk: make([]byte, 32<<10), open: map[string]context.CancelFunc{}}
}

// Read implements [io.Reader] for the SDK.
func (l *listenPipe) Read(p []byte) (int, error) {
	for len(l.ready) == 0 && l.err == nil {
		var n int
		n, l.err = l.in.Read(l.chunk)
		l.splitLines(l.chunk[:n])
	}
	if len(l.ready) == 0 {
		return 0, l.err
	}
	n := copy(p, l.ready)
	l.ready = l.ready[n:]
	return n, nil
}

// splitLines sorts what came into lines. One that is too long to be a subscription is
// handed on without having been looked at.
func (l *listenPipe) splitLines(more []byte) {
	for len(more) > 0 {
		i := bytes.IndexByte(more, '\n') + 1
		if i == 0 {
			i = len(more)
		}
		l.line, more = append(l.line, more[:i]...), more[i:]
		whole := l.line[len(l.line)-1] == '\n'
		if whole && !l.through && (l.refuseNonMessage(l.line) || l.listen(l.line)) {
			l.line = nil
			continue
		}
		if whole || l.through || len(l.line) > maxLine {
			l.ready, l.line, l.through = append(l.ready, l.line...), nil, !whole
		}
	}
	if l.err != nil { // the last line may have no end
		l.ready, l.line = append(l.ready, l.line...), nil
	}
}

// refuseNonMessage answers a line that is no message, and reports whether it is none: the SDK would
// end the connection for it, and with it whatever runs.
func (l *listenPipe) refuseNonMessage(line []byte) bool {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return false
	}
	a := &wireAnswer{Version: "2.0", ID: json.RawMessage("null")}
	var batch []json.RawMessage
	switch {
	case !json.Valid(line):
		a.Error = &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the line is not valid JSON"}
	case line[0] != '[':
		batch = append(batch, line)
	case json.Unmarshal(line, &batch) != nil || len(batch) == 0:
		a.Error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the batch is empty"}
	}
	for _, m := range batch {
		if _, err := jsonrpc.DecodeMessage(m); err != nil {
			a.Error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the line is not a message of JSON-RPC 2.0"}
		}
	}
	if a.Error == nil {
		return false
	}
	_, _ = l.Write(append(encodeJSON(a), '\n')) // a client that went away needs no answer
	return true
}

// listen begins a subscription to tasks and reports whether the line asked for one.
// A request that is cancelled here is none that the SDK knows, which passes it over.
func (l *listenPipe) listen(line []byte) bool {
	if bytes.Contains(line, []byte("notifications/cancelled")) {
		l.cancel(line)
		return false
	}
	m := new(message)
	if !bytes.Contains(line, []byte(methodListen)) || json.Unmarshal(line, m) != nil || !m.listens() || m.version() < statelessSince {
		return false
	}
	ctx, end := context.WithCancel(l.ctx)
	key := string(m.ID)
	l.openMu.Lock()
	l.open[key] = end
	l.openMu.Unlock()
	l.running.Go(func() {
		defer end()
		l.serve(ctx, m)
		l.openMu.Lock()
		defer l.openMu.Unlock()
		delete(l.open, key)
	})
	return true
}

// serve tells of tasks until it is over, and answers then. A client that cancelled
// the request wants no answer.
func (l *listenPipe) serve(ctx context.Context, m *message) {
	s := &listening{s: l.s, id: l.id, request: m.ID}
	s.send = func(_ context.Context, n notice) error {
		_, err := l.Write(append(noticeOf(n), '\n'))
		return err
	}
	var res *listenResult
	err := errNoTasks()
	if declaresTasks(m.Params.Meta) {
		res, err = s.run(ctx, m.Params.Notifications.TaskIDs)
	}
	if ctx.Err() == nil {
		_, _ = l.Write(append(s.answerOf(res, err), '\n')) // a client that went away needs no answer
	}
}

func (l *listenPipe) cancel(line []byte) {
	var c cancelled
	if json.Unmarshal(line, &c) != nil {
		return
	}
	l.openMu.Lock()
	defer l.openMu.Unlock()
	if end := l.open[string(c.Params.RequestID)]; end != nil {
		end()
	}
}

// Write implements [io.Writer].
func (l *listenPipe) Write(p []byte) (int, error) {
	l.outMu.Lock()
	defer l.outMu.Unlock()
	return l.out.Write(p)
}
