package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"agentd/event"
	"agentd/state"
	"agentd/store"
)

// maxContent bounds what is read behind a reference.
const maxContent = 64 << 20

// Stored returns the recording of a session as a store has it.
func Stored(ctx context.Context, s store.Store, sessionID string) (*Recording, error) {
	r := &Recording{SessionID: sessionID, Content: func(ref string) ([]byte, error) { return readContent(ctx, s, ref) }}
	after := uint64(0)
	base, err := s.Base(ctx, sessionID)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return nil, fmt.Errorf("replay: %w", err)
	case base.Sequence > 0:
		after = base.Sequence
		if r.Base, err = state.DecodeBase(base.Data); err != nil {
			return nil, fmt.Errorf("replay: %w", err)
		}
	}
	r.Facts = decodeFacts(ctx, s, s.Read(ctx, sessionID, store.Range{After: after}))
	return r, nil
}

// decodeFacts decodes records, with their whole payloads.
func decodeFacts(ctx context.Context, contents store.Contents, records iter.Seq2[store.Record, error]) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for rec, err := range records {
			var e *event.Event
			if err == nil {
				e, err = store.DecodeFact(ctx, contents, rec.Data)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func readContent(ctx context.Context, s store.Store, ref string) ([]byte, error) {
	b, err := s.OpenBlob(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.Close() }() // it was only read
	if b.Info().Size > maxContent {
		return nil, errors.New("it is too large")
	}
	return io.ReadAll(b)
}
