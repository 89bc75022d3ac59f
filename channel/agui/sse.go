package agui

import (
	"net/http"

	"agentd/internal/wire"
)

// object is an event or a message of the protocol.
type object = map[string]any

// events sends events of the protocol, which have no names of their own.
type events struct{ *wire.SSEWriter }

func newEvents(w http.ResponseWriter) events { return events{wire.NewSSEWriter(w)} }

func (e events) send(v object) error { return e.Send("", v) }

// sendAll sends several events.
func (e events) sendAll(list []object) error {
	for _, v := range list {
		if err := e.send(v); err != nil {
			return err
		}
	}
	return nil
}
