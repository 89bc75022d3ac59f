package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// ErrReaderGone says that the reader of a stream went away or is too slow; there is
// nothing left to send to it.
var ErrReaderGone = errors.New("wire: the reader of the stream is gone")

// SSEWriter sends server-sent events as the answer to a request, each at once.
type SSEWriter struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

// NewSSEWriter sends the head of a stream. Its headers keep proxies from buffering it.
func NewSSEWriter(w http.ResponseWriter) *SSEWriter {
	h := w.Header()
	h.Set("Content-Type", SSEType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return &SSEWriter{w, http.NewResponseController(w)}
}

// Send writes a value as JSON, under the name of its type if it has one.
func (s *SSEWriter) Send(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("wire: server-sent event: %w", err)
	}
	return s.write(AppendSSE(nil, &SSEFrame{Event: name, Data: b}))
}

// SendText writes a text as it is, such as the mark that ends a stream.
func (s *SSEWriter) SendText(text string) error {
	return s.write(AppendSSE(nil, &SSEFrame{Data: []byte(text)}))
}

// Beat writes a comment, which keeps a silent stream open.
func (s *SSEWriter) Beat() error { return s.write(AppendSSEComment(nil, "alive")) }

func (s *SSEWriter) write(b []byte) error {
	if _, err := s.w.Write(b); err != nil {
		return errors.Join(ErrReaderGone, err)
	}
	if err := s.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return errors.Join(ErrReaderGone, err)
	}
	return nil
}
