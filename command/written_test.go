package command

import (
	"context"
	"errors"
	"testing"

	"agentd/fault"
)

// TestCommandThatWroteIsNotDoneElsewhere: a fault names the node that can carry a command out in
// the place of this one only while nothing of it was carried out here, in no part of it.
func TestCommandThatWroteIsNotDoneElsewhere(t *testing.T) {
	owned := &fault.Error{Kind: fault.Unavailable, Detail: "it is another node's", Elsewhere: "http://127.0.0.1:1"}
	for name, c := range map[string]struct {
		writes, nested, passed, kept bool
		key                          string
		err                          error
		elsewhere                    bool
	}{
		"nothing was written": {err: owned, elsewhere: true},
		"something was":       {writes: true, err: owned},
		"a part wrote":        {writes: true, nested: true, err: owned},
		"what is passed over": {writes: true, passed: true, err: owned, elsewhere: true},
		"with a key":          {writes: true, kept: true, key: "k", err: owned, elsewhere: true},
		"not by its key":      {writes: true, key: "k", err: owned},
		"another fault":       {writes: true, err: fault.New(fault.Conflict, "no")},
		"no fault":            {writes: true},
	} {
		t.Run(name, func(t *testing.T) {
			table, _ := newLedgerTable(TableOptions{})
			Handle(table, func(ctx context.Context, _ Caller, _ *ListNodes) (*ListNodesResult, error) {
				if c.writes {
					NoteDone(ctx, c.kept)
				}
				return &ListNodesResult{}, nil
			})
			Handle(table, func(ctx context.Context, caller Caller, _ *SetQuotas) (*GetQuotasResult, error) {
				if c.passed {
					ctx = PassOver(ctx)
				}
				if c.nested {
					if _, err := table.Do(ctx, caller, &ListNodes{}); err != nil {
						return nil, err
					}
				} else if c.writes {
					NoteDone(ctx, c.kept)
				}
				return &GetQuotasResult{}, c.err
			})
			_, err := table.Do(t.Context(), Local(), &SetQuotas{Mutation: Mutation{IdempotencyKey: c.key}, Account: "acme", Reset: true})
			if (err == nil) != (c.err == nil) {
				t.Fatalf("got %v, want %v", err, c.err)
			}
			f, _ := errors.AsType[*fault.Error](err)
			if got := f != nil && f.Elsewhere != ""; got != c.elsewhere {
				t.Errorf("%v names a node: %v, want %v", err, got, c.elsewhere)
			}
		})
	}
	NoteDone(t.Context(), false) // outside of a command there is nothing to note
}
