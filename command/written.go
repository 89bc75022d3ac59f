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

// PassOver returns a context in which facts don't count as a part of the command: those that the
// same command, carried out again, finds and passes over.
func PassOver(ctx context.Context) context.Context {
	return context.WithValue(ctx, writtenKey{}, (*written)(nil))
}

// settle returns how a call ended: if a part of it was carried out, no longer with the node that
// could do all of it. With an idempotency key that node finds what was done.
func (w *written) settle(p Params, err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Elsewhere == "" || !w.facts.Load() {
		return err
	}
	if m, ok := p.(Mutating); ok && m.Key() != "" {
		return err
	}
	return fault.New(fault.Unavailable, "a part of the command was carried out, and what became of the rest isn't known: %s; look at what there is before you repeat it", f.Detail)
}
