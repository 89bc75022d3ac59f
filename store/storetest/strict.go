package storetest

import (
	"context"
	"testing"

	"agentd/event/eventtest"
	"agentd/store"
)

// Strict returns a store that checks every appended event against the standard's
// strict schema and agentd's own, and fails the test for one that doesn't fit.
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
	for _, b := range batches {
		for _, rec := range b.Records {
			s.standard.Accept(s.tb, rec.Data)
			s.own.Accept(s.tb, rec.Data)
		}
	}
	return s.Store.Append(ctx, batches)
}
