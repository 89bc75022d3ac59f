package agui

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// object is an event or a message of the protocol.
type object = map[string]any

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

func (e *events) send(v object) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("agui: encode: %w", err)
	}
	return e.write("data: " + string(b) + "\n\n")
}

// all sends several events.
func (e *events) all(list []object) error {
	for _, v := range list {
		if err := e.send(v); err != nil {
			return err
		}
	}
	return nil
}

// beat keeps a silent stream open.
func (e *events) beat() error { return e.write(": alive\n\n") }

func (e *events) write(s string) error {
	if _, err := e.w.Write([]byte(s)); err != nil {
		return fmt.Errorf("agui: write: %w", err)
	}
	if err := e.rc.Flush(); err != nil {
		return fmt.Errorf("agui: write: %w", err)
	}
	return nil
}
