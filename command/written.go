package command

import (
	"context"
	"errors"
	"sync/atomic"

	"agentd/fault"
)

// written says what a command has done: made facts of a session durable, or something outside
// of the store. Another node may carry out a command in the place of this one only as long as
// nothing was done, or if it finds by the command's key what was: it would do the same again.
type written struct {
	done, keyed atomic.Bool
	outer       *written // that of the command that this one is a part of
}

type writtenKey struct{}

func withWritten(ctx context.Context) (context.Context, *written) {
	w := &written{}
	w.outer, _ = ctx.Value(writtenKey{}).(*written)
	return context.WithValue(ctx, writtenKey{}, w), w
}

// NoteDone notes that something is done that the context's command decided. Keyed says that
// every node finds its result by the command's idempotency key.
func NoteDone(ctx context.Context, keyed bool) {
	w, _ := ctx.Value(writtenKey{}).(*written)
	for ; w != nil; w = w.outer {
		w.done.Store(true)
		if keyed {
			w.keyed.Store(true)
		}
	}
}

// PassOver returns a context in which facts don't count as a part of the command: those that the
// same command, carried out again, finds and passes over.
func PassOver(ctx context.Context) context.Context {
	return context.WithValue(ctx, writtenKey{}, (*written)(nil))
}

// settle returns how a call ended: if a part of it was carried out, no longer with the node that
// could do all of it, unless that one finds what was done.
func (w *written) settle(p Params, err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Elsewhere == "" || !w.done.Load() {
		return err
	}
	if m, ok := p.(Mutating); ok && m.Key() != "" && w.keyed.Load() {
		return err
	}
	return fault.New(fault.Unavailable, "a part of the command was carried out, and what became of the rest isn't known: %s; look at what there is before you repeat it", f.Detail)
}
