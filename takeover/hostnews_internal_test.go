package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentd/event"
	"agentd/session"
	"agentd/store"
	"agentd/store/storetest"
)

// limitsStore counts the reads of limits that were set, and has some of them fail.
type limitsStore struct {
	*storetest.Mem
	reads, failing atomic.Int64
}

func (s *limitsStore) Scan(ctx context.Context, scan store.Scan) iter.Seq2[store.Entry, error] {
	if scan.Kind == "quota_limits" {
		s.reads.Add(1)
		if s.failing.Add(-1) >= 0 {
			return func(yield func(store.Entry, error) bool) { yield(store.Entry{}, errors.New("the database is slow")) }
		}
	}
	return s.Mem.Scan(ctx, scan)
}

// TestLimitsOfOtherNodesAreReadBesideTheFollower: a hint that another node changed something
// costs the one who passes it on no read. Limits that can't be read are read later.
func TestLimitsOfOtherNodesAreReadBesideTheFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &limitsStore{Mem: storetest.NewMem()}
		m := session.New(session.Options{Store: s, RuntimeID: "runtime_test"})
		defer func() { _ = m.Close(context.Background()) }()
		news := NewHostNews(HostNewsOptions{
			Sessions: func() *session.Manager { return m }, ShareTokens: func(context.Context) error { return nil },
			Logger: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(t.Context())
		go news.Follow(ctx)
		value, err := json.Marshal(event.QuotaLimits{Sessions: 7})
		if err != nil {
			t.Fatal(err)
		}
		entry := store.Entry{Kind: "quota_limits", Key: "@acme", Value: value}
		if err := store.WriteEntries(ctx, s, "another", []store.IndexOp{{Entry: entry}}); err != nil {
			t.Fatal(err)
		}
		before := s.reads.Load()
		m.Hint(store.Appended{SessionID: event.RuntimeSession, Sequence: 3})
		if n := s.reads.Load() - before; n > 0 {
			t.Errorf("a hint read the limits %d times before the next could be passed on", n)
		}
		s.failing.Store(5)
		news.NoteAll()
		time.Sleep(time.Minute)
		if got := m.Limits("acme").Sessions; got != 7 {
			t.Errorf("the limit is %d after it could be read", got)
		}
		cancel()
		synctest.Wait()
	})
}
