package session_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/quota"
	"agentd/session"
	"agentd/store"
	"agentd/store/storetest"
)

// limitOf returns the limit of a quota; -1 for none.
func limitOf(res *command.GetQuotasResult, name quota.Name) int64 {
	for _, q := range res.Quotas {
		if q.Quota == string(name) && q.Limit != nil {
			return *q.Limit
		}
	}
	return -1
}

// TestQuotasThatWereSetHold: at once, after a restart, and when the configuration is read
// again, until they are taken back.
func TestQuotasThatWereSetHold(t *testing.T) {
	configured := limited(quota.Limits{Sessions: 5, Processes: 3})
	k := newKit(t, configured)
	p := &command.SetQuotas{Account: "acme", Limits: &command.QuotaChange{Sessions: new(int64(1)), Schedules: new(int64(7))}}
	p.IdempotencyKey = "set"
	res := call[command.GetQuotasResult](k, p)
	if limitOf(res, quota.Sessions) != 1 || limitOf(res, quota.Processes) != 3 || limitOf(res, quota.Schedules) != 7 {
		t.Errorf("%s", k.json(res))
	}
	if again := call[command.GetQuotasResult](k, p); k.json(again) != k.json(res) {
		t.Errorf("again: %s", k.json(again))
	}
	callAs[command.CreateSessionResult](k, acme, &command.CreateSession{})
	k.refused(acme, &command.CreateSession{}, fault.RateLimited)
	callAs[command.CreateSessionResult](k, other, &command.CreateSession{})
	k.reopen(configured)
	k.refused(acme, &command.CreateSession{}, fault.RateLimited)
	k.m.SetQuotas(quota.Policy{Accounts: quota.Limits{Sessions: 50}})
	k.refused(acme, &command.CreateSession{}, fault.RateLimited)
	k.refused(acme, &command.SetQuotas{Account: "acme", Reset: true}, fault.Forbidden)
	if res := call[command.GetQuotasResult](k, &command.SetQuotas{Account: "acme", Reset: true}); limitOf(res, quota.Sessions) != 50 {
		t.Errorf("after the reset: %s", k.json(res))
	}
	callAs[command.CreateSessionResult](k, acme, &command.CreateSession{})
	k.refused(admin, &command.SetQuotas{Limits: &command.QuotaChange{}}, fault.InvalidParams)
	k.refused(admin, &command.SetQuotas{Account: "acme"}, fault.InvalidParams)
	k.refused(admin, &command.SetQuotas{Account: "acme", Limits: &command.QuotaChange{Sessions: new(int64(-1))}}, fault.InvalidParams)
	facts := k.events(event.RuntimeSession)
	if last := facts[len(facts)-1]; last.Type != event.TypeRuntimeChanged || last.Payload.(*event.RuntimeChanged).Change != "quotas_reset" {
		t.Errorf("the last fact is %s", last.Type)
	}
	k.verified()
}

// limitsUnread is a store in which quotas that were set can't be read for a while.
type limitsUnread struct {
	*storetest.Mem
	unread atomic.Bool
}

func (s *limitsUnread) Scan(ctx context.Context, scan store.Scan) iter.Seq2[store.Entry, error] {
	if scan.Kind == "quota_limits" && s.unread.Load() {
		return func(yield func(store.Entry, error) bool) { yield(store.Entry{}, store.ErrUnavailable) }
	}
	return s.Mem.Scan(ctx, scan)
}

// TestQuotasThatWereSetHoldInTheEnd: where they can't be read when they were stored, they are
// read again until they can.
func TestQuotasThatWereSetHoldInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &limitsUnread{Mem: storetest.NewMem()}
		m := session.New(session.Options{Store: s, RuntimeID: "runtime_test"})
		defer func() { _ = m.Close(context.Background()) }()
		s.unread.Store(true)
		if _, err := runCommand(m, admin, &command.SetQuotas{Account: "acme", Limits: &command.QuotaChange{Sessions: new(int64(1))}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for range 2 { // what held before holds
			if _, err := runCommand(m, acme, &command.CreateSession{}); err != nil {
				t.Fatal(err)
			}
		}
		s.unread.Store(false)
		time.Sleep(time.Minute)
		if _, err := runCommand(m, acme, &command.CreateSession{}); fault.KindOf(err) != fault.RateLimited {
			t.Errorf("a session beyond the limit: %v", err)
		}
	})
}

// TestRetentionIsRunOnDemand: it needs a time, counts before it removes, and tells how far
// it is.
func TestRetentionIsRunOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, func(o *session.Options) { o.ExpireAfter = time.Hour })
		k.finish(k.submit(command.SubmitTurn{SessionID: "sess_old", Create: true}))
		k.submit(command.SubmitTurn{SessionID: "sess_busy", Create: true})
		time.Sleep(48 * time.Hour)
		k.refused(admin, &command.RunRetention{}, fault.InvalidParams)
		k.refused(acme, &command.RunRetention{OlderThanMs: 1}, fault.Forbidden)
		k.refused(acme, &command.GetRetention{}, fault.Forbidden)
		if dry := call[command.RetentionRun](k, &command.RunRetention{OlderThanMs: 1000, DryRun: true}); dry.Total != 1 || dry.Sessions != 0 {
			t.Errorf("dry run: %+v", dry)
		}
		p := &command.RunRetention{OlderThanMs: 1000}
		p.IdempotencyKey = "run"
		if run := call[command.RetentionRun](k, p); run.Status != "running" {
			t.Errorf("%+v", run)
		}
		call[command.RetentionRun](k, p)
		synctest.Wait()
		got := call[command.GetRetentionResult](k, &command.GetRetention{})
		if got.OutputsMs != 3600000 || got.EventsMs != 0 || got.RemovedSessions != 1 || got.Run == nil || got.Run.Status != "completed" || got.Run.Total != 1 || got.Run.Sessions != 1 || got.Run.Events == 0 {
			t.Errorf("%s", k.json(got))
		}
		nodes := call[command.ListNodesResult](k, &command.ListNodes{}).Nodes
		if len(nodes) != 1 || !nodes[0].Self || !nodes[0].Alive {
			t.Errorf("%+v", nodes)
		}
		k.refused(acme, &command.ListNodes{}, fault.Forbidden)
		k.verified()
	})
}
