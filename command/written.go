package command

import (
	"context"
	"errors"
	"sync/atomic"

	"agentd/fault"
)

// written says whether a command has made facts of a session durable. Another node may carry
// out a command in the place of this one only as long as it hasn't: it would do the same again.
type written struct {
	facts atomic.Bool
	outer *written // that of the command that this one is a part of
}

type writtenKey struct{}

func withWritten(ctx context.Context) (context.Context, *written) {
	w := &written{}
	w.outer, _ = ctx.Value(writtenKey{}).(*written)
	return context.WithValue(ctx, writtenKey{}, w), w
}

// NoteWritten notes that facts of a session are durable that the context's command decided.
func NoteWritten(ctx context.Context) {
	w, _ := ctx.Value(writtenKey{}).(*written)
	for ; w != nil; w = w.outer {
		w.facts.Store(true)
	}
}

// settle returns how the command ended: if a part of it was carried out, no longer with the
// node that could do all of it.
func (w *written) settle(err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Elsewhere == "" || !w.facts.Load() {
		return err
	}
	return fault.New(fault.Unavailable, "a part of the command was carried out, and the rest was not: %s; look at what there is before you repeat it", f.Detail)
}
