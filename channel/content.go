package channel

import (
	"context"
	"errors"
	"io"

	"agentd/command"
	"agentd/event"
)

// ReadOutput reads what is behind a reference.
func ReadOutput(ctx context.Context, rt command.Runtime, caller command.Caller, ref string) ([]byte, error) {
	out, err := rt.Output(ctx, caller, ref)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(out.Content)
	return data, errors.Join(err, out.Content.Close())
}

// wholeFact decodes a fact with its whole payload, and an answer with its whole message.
func wholeFact(ctx context.Context, rt command.Runtime, caller command.Caller, data []byte) (*event.Event, error) {
	read := func(ref string) ([]byte, error) { return ReadOutput(ctx, rt, caller, ref) }
	e, err := event.DecodeWhole(data, read)
	if err != nil {
		return nil, err
	}
	if p, ok := e.Payload.(*event.ModelCompleted); ok {
		if p.Message, err = p.Whole(read); err != nil {
			return nil, err
		}
	}
	return e, nil
}
