package openaiapi

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// events writes server-sent events. Each is sent at once.
type events struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

// newEvents sends the head of a stream.
func newEvents(w http.ResponseWriter) *events {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies must not hold a stream back
	w.WriteHeader(http.StatusOK)
	return &events{w, http.NewResponseController(w)}
}

// send writes one event; without a name it has data alone.
func (e *events) send(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("openaiapi: encode: %w", err)
	}
	head := ""
	if name != "" {
		head = "event: " + name + "\n"
	}
	return e.write(head + "data: " + string(b) + "\n\n")
}

func (e *events) write(s string) error {
	if _, err := e.w.Write([]byte(s)); err != nil {
		return fmt.Errorf("openaiapi: write: %w", err)
	}
	if err := e.rc.Flush(); err != nil {
		return fmt.Errorf("openaiapi: write: %w", err)
	}
	return nil
}

// beat keeps a silent stream open.
func (e *events) beat() error { return e.write(": alive\n\n") }
