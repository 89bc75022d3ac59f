package main

import (
	"context"
	"encoding/json"

	"agentd/fault"
	"agentd/internal/wire"
)

// relayAnswer is an answer of a server.
type relayAnswer struct {
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// unavailable returns what the server said if it could not do it now.
func (r *relayAnswer) unavailable() *fault.Error {
	var e wire.RPCError
	if r.Error != nil && json.Unmarshal(r.Error, &e) == nil && e.Err().Kind == fault.Unavailable {
		return e.Err()
	}
	return nil
}

// goes reports whether a server that refused something is about to end, so that the next one
// is to be asked. One of several behind an address is known by what it says.
func (w *relay) goes(ctx context.Context, refused *fault.Error) bool {
	if refused == nil {
		w.refused = 0
		return false
	}
	if w.isGoing != nil {
		return w.isGoing(ctx)
	}
	w.refused++
	return w.keyed && refused.RetryAfter > 0 && refused.RetryAfter <= steadyWait && w.refused < relayRetries
}
