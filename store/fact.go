package store

import (
	"context"
	"fmt"
	"io"

	"agentd/event"
)

// Contents opens what is behind references. A [Store] does.
type Contents interface {
	// OpenBlob opens a blob, or returns ErrNotFound.
	OpenBlob(ctx context.Context, ref string) (Blob, error)
}

// maxPayload is the largest payload that is read back. A command's body is at most
// 32 MiB, and each of its characters takes at most six.
const maxPayload = 192 << 20

// DecodeFact decodes a stored fact with its whole payload, which is read where the fact
// shows only a part of it.
func DecodeFact(ctx context.Context, c Contents, data []byte) (*event.Event, error) {
	return event.DecodeWhole(data, func(ref string) ([]byte, error) { return ReadContent(ctx, c, ref, maxPayload) })
}

// DecodeFactPayload sets the whole payload of a fact whose header was decoded.
func DecodeFactPayload(ctx context.Context, c Contents, e *event.Event, payload []byte) error {
	payload, err := e.WholePayload(payload, func(ref string) ([]byte, error) { return ReadContent(ctx, c, ref, maxPayload) })
	if err != nil {
		return err
	}
	return e.DecodePayload(payload)
}

// ReadContent returns what is behind a reference, at most limit bytes; more is an error.
func ReadContent(ctx context.Context, c Contents, ref string, limit int64) ([]byte, error) {
	b, err := c.OpenBlob(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("store: %s: %w", ref, err)
	}
	defer func() { _ = b.Close() }() // it was only read
	if size := b.Info().Size; size > limit {
		return nil, fmt.Errorf("store: %s has %d bytes, at most %d are read", ref, size, limit)
	}
	content, err := io.ReadAll(b)
	if err != nil {
		return nil, fmt.Errorf("store: %s: %w", ref, err)
	}
	return content, nil
}
