package mcpserver

import (
	"bytes"
	"maps"
	"net/http"
	"sync"
	"time"
)

// beat keeps the stream of a call that says nothing for a while alive: proxies and
// clients give up on a silent one. A comment of server-sent events is no message.
//
// The handler behind it has a header of its own, because the stream may have begun
// before the handler says how.
type beat struct {
	to     http.ResponseWriter
	header http.Header
	every  time.Duration

	mu sync.Mutex
	// begun says that the status is sent; early, that a comment began the stream.
	begun, early bool
	// error says that the handler wanted an error's status after that: its body becomes
	// a message of the stream.
	error bool
	last  time.Time
}

// serveBeating runs a handler whose answer is a stream, with comments in its pauses.
func serveBeating(h http.Handler, w http.ResponseWriter, r *http.Request, every time.Duration) {
	b := &beat{to: w, header: http.Header{}, every: every, last: time.Now()}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		b.run(stop)
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	h.ServeHTTP(b, r)
}

func (b *beat) run(stop <-chan struct{}) {
	tick := time.NewTicker(b.every)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			b.comment()
		}
	}
}

// comment fills a pause.
func (b *beat) comment() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.last) < b.every/2 {
		return
	}
	if !b.begun {
		b.begun, b.early = true, true
		b.to.Header().Set("Content-Type", "text/event-stream")
		b.to.Header().Set("Cache-Control", "no-cache, no-transform")
		b.to.WriteHeader(http.StatusOK)
	}
	_, _ = b.to.Write([]byte(": waiting\n\n")) // a client that went away ends the request
	_ = http.NewResponseController(b.to).Flush()
	b.last = time.Now()
}

// Header implements [http.ResponseWriter].
func (b *beat) Header() http.Header { return b.header }

// WriteHeader implements [http.ResponseWriter].
func (b *beat) WriteHeader(status int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin(status)
}

func (b *beat) begin(status int) {
	switch {
	case b.early:
		b.error = b.error || status >= http.StatusBadRequest
	case !b.begun:
		b.begun = true
		maps.Copy(b.to.Header(), b.header)
		b.to.WriteHeader(status)
	}
}

// Write implements [http.ResponseWriter].
func (b *beat) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin(http.StatusOK)
	b.last = time.Now()
	if !b.error {
		return b.to.Write(p)
	}
	if _, err := b.to.Write(bytes.Join([][]byte{[]byte("event: message\ndata: "), bytes.TrimSpace(p), []byte("\n\n")}, nil)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// FlushError is found by [http.ResponseController].
func (b *beat) FlushError() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin(http.StatusOK)
	return http.NewResponseController(b.to).Flush()
}
