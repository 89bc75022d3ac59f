package adaptertest

import (
	"context"

	"agentd/command"
	"agentd/fault"
)

// Refusing is a runtime in which nothing exists: it checks what it is asked and
// finds none of it. Fuzzing drives decoders with it, quickly.
type Refusing struct{}

var _ command.Runtime = Refusing{}

func nothing(what string) error { return fault.New(fault.NotFound, "there is no %s", what) }

// Do implements [command.Runtime].
func (Refusing) Do(_ context.Context, _ command.Caller, p command.Params) (any, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return nil, nothing("session")
}

// Events implements [command.Runtime].
func (Refusing) Events(context.Context, command.Caller, string, uint64, int) ([]command.Delivered, uint64, error) {
	return nil, 0, nothing("session")
}

// Oldest implements [command.Runtime].
func (Refusing) Oldest(context.Context, command.Caller, string) (uint64, error) {
	return 0, nothing("session")
}

// Subscribe implements [command.Runtime].
func (Refusing) Subscribe(context.Context, command.Caller, string, uint64) (command.Stream, error) {
	return nil, nothing("session")
}

// SubscribeAll implements [command.Runtime].
func (Refusing) SubscribeAll(context.Context, command.Caller, string) (command.Stream, error) {
	return nil, nothing("feed")
}

// Output implements [command.Runtime].
func (Refusing) Output(context.Context, command.Caller, string) (*command.Output, error) {
	return nil, nothing("output")
}
