package storetest

import (
	"context"
	"testing"

	"agentd/event/eventtest"
	"agentd/store"
)

// Strict returns a store that checks every appended event against the standard's
// strict schema and agentd's own, and fails the test for one that doesn't fit, and for an
// entry that is said to be fresh and isn't.
// Where the standard's schemas are absent the test's log says so.
func Strict(tb testing.TB, s store.Store) store.Store {
	tb.Helper()
	return &strictStore{Store: s, tb: tb, standard: eventtest.Strict(tb), own: eventtest.Own(tb)}
}

type strictStore struct {
	store.Store
	tb            testing.TB
	standard, own *eventtest.Validator
}

func (s *strictStore) Append(ctx context.Context, batches []*store.Batch) []error {
	s.checkFresh(ctx, batches)
	for _, b := range batches {
		for _, rec := range b.Records {
			s.standard.Accept(s.tb, rec.Data)
			s.own.Accept(s.tb, rec.Data)
		}
	}
	return s.Store.Append(ctx, batches)
}

// checkFresh fails the test for entries that are there already: engines would have to write the
// whole group a second time.
func (s *strictStore) checkFresh(ctx context.Context, batches []*store.Batch) {
	changed := map[store.IndexKey]bool{} // by what comes before
	for _, b := range batches {
		for _, op := range b.Index {
			if op.Fresh && !op.Delete && !changed[op.ID()] {
				if _, err := s.Get(ctx, op.Kind, op.Key); err == nil {
					s.tb.Errorf("an entry is said to be fresh that is there: %s %q", op.Kind, op.Key)
				}
			}
			changed[op.ID()] = true
		}
	}
}
