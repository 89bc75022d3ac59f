package agentd_test

import (
	"context"
	"testing"

	"agentd"
	"agentd/evidence/replaytest"
)

// replayed counts the sessions of this package's tests that were run again.
var replayed replaytest.Tally

// replayAgain runs every session again that runtimes with these options recorded.
func replayAgain(tb testing.TB, opt agentd.Options) {
	tb.Helper()
	if !tb.Failed() && !tb.Skipped() {
		replayed.Reopened(tb, opt)
	}
}

// replay runs every session that a test recorded again, in a runtime that takes
// nothing up.
func (k *kit) replay() {
	k.Helper()
	if k.Failed() || k.Skipped() {
		return
	}
	change := k.change
	k.change = func(o *agentd.Options) {
		if change != nil {
			change(o)
		}
		o.Recovery, o.Observer = "none", nil
	}
	k.open()
	replayed.Sessions(k, k.r)
	if err := k.r.Close(context.Background()); err != nil {
		k.Error(err)
	}
}
