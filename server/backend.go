package server

import (
	"context"

	"agentd/command"
)

// Backend is the runtime as the server needs it.
type Backend interface {
	command.Runtime
	// Ready reports why commands can't be carried out now, or nil.
	Ready(ctx context.Context) error
	// Status describes the runtime; it must encode as JSON. Paths, processes and
	// figures of all accounts are for admins alone.
	Status(ctx context.Context, c command.Caller) any
}
