package usage_test

import (
	"fmt"
	"os"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/index/usage"
	"agentd/internal/runtimetest"
	"agentd/model"
	"agentd/store"
)

func TestMain(m *testing.M) { os.Exit(runtimetest.RunTests(m)) }

// TestUsageOfARuntime: turns with tool calls and a question, of two accounts, are counted
// for whom they are; restarts, a lost index and deleted sessions change nothing.
func TestUsageOfARuntime(t *testing.T) {
	k := runtimetest.NewWith(t, func(o *agentd.Options) {
		o.Loop.Models = append(o.Loop.Models, model.Info{
			Provider: "script", Model: "priced", HasCredential: true, Capabilities: []string{model.CapTools}, Price: &model.Price{Rates: model.Rates{InputPerMTok: 1e6, OutputPerMTok: 1e6}},
		})
		o.Loop.DefaultModel = "script/priced"
	})
	acme, other := command.Caller{Account: "acme"}, command.Caller{Account: "other"}
	for i, by := range []command.Caller{acme, acme, other} {
		p := &command.SubmitTurn{SessionID: fmt.Sprint("sess_", i/2), Create: true, Input: event.Raw(`"hello"`)}
		k.Completes(runtimetest.DoAs[command.SubmitTurnResult](k, by, p))
	}
	ask := func(by command.Caller, p command.Usage) []command.UsageRow {
		t.Helper()
		return runtimetest.DoAs[command.UsageResult](k, by, &p).Rows
	}
	check := func() {
		t.Helper()
		rows := ask(command.Local(), command.Usage{GroupBy: []string{"account", "model"}})
		if len(rows) != 2 || rows[0].Account != "acme" || rows[0].Turns != 2 || rows[1].Account != "other" || rows[1].Turns != 1 || rows[0].Model != "script/priced" || rows[0].CostUSD <= 0 {
			t.Errorf("%+v", rows)
		}
		// Sessions without a workspace of their own work in the server's, in every list.
		folder := runtimetest.Do[command.ListTurnsResult](k, &command.ListTurns{}).Turns[0].Workspace
		if rows := ask(command.Local(), command.Usage{GroupBy: []string{"workspace"}}); len(rows) != 1 || rows[0].Workspace != folder || rows[0].Turns != 3 || folder == "" {
			t.Errorf("in %q: %+v", folder, rows)
		}
		if list := runtimetest.DoAs[command.ListSessionsResult](k, acme, &command.ListSessions{Workspace: folder}); list.Total != 1 || list.Sessions[0].Workspace != folder {
			t.Errorf("in %q: %+v", folder, list)
		}
		if rows := ask(acme, command.Usage{GroupBy: []string{"account"}}); len(rows) != 1 || rows[0].Account != "acme" || rows[0].Turns != 2 {
			t.Errorf("%+v", rows)
		}
		if rows := ask(acme, command.Usage{GroupBy: []string{"session"}, Account: "other"}); len(rows) != 0 {
			t.Errorf("an account sees %+v of another", rows)
		}
		if rows := ask(other, command.Usage{Bucket: "month"}); len(rows) != 1 || rows[0].Turns != 1 || rows[0].Bucket.Day() != 1 {
			t.Errorf("%+v", rows)
		}
	}
	check()
	k.Close()
	k.Open()
	check()
	k.Close()
	loseIndex(t, k.Store)
	k.Open()
	check()
	k.Close()
	writeFormer(t, k.Store)
	k.Open()
	check()
	for _, name := range usage.Former {
		for e, err := range k.Store.Scan(t.Context(), store.Scan{Kind: name}) {
			t.Errorf("of a form before there is still %s (%v)", e.Key, err)
		}
	}
	runtimetest.DoAs[command.DeleteSessionResult](k, other, &command.DeleteSession{SessionID: "sess_1"})
	check()
	_, err := k.Runtime.Do(t.Context(), acme, &command.Usage{GroupBy: []string{"colour"}})
	if fault.KindOf(err) != fault.InvalidParams {
		t.Errorf("groupBy colour: %v", err)
	}
	if res := runtimetest.Do[command.UsageResult](k, &command.Usage{GroupBy: []string{"session"}, Limit: 1}); len(res.Rows) != 1 || !res.Truncated || res.Total != 2 {
		t.Errorf("%+v", res)
	}
}

// writeFormer makes the store one that earlier builds wrote: their entries are there, and
// those of this form are not.
func writeFormer(t *testing.T, s store.Store) {
	t.Helper()
	loseIndex(t, s)
	claim, err := s.Claim(t.Context(), "/index")
	if err != nil {
		t.Fatal(err)
	}
	position, err := s.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := &store.Batch{SessionID: "/index", Epoch: claim.Epoch}
	put := func(kind, key, value string) {
		b.Index = append(b.Index, store.IndexOp{Entry: store.Entry{Kind: kind, Key: key, Value: []byte(value)}})
	}
	for _, name := range usage.Former {
		put(name, "l/.acme/2026010203/sess_0", "\x00\x00")
		put(name, "p/m/*/m/202601", "\x00\x00")
		put(name, "s", `{"rows":1}`)
		put("index_state", name, fmt.Sprintf(`{"position":%q,"generation":7}`, position))
	}
	if errs := s.Append(t.Context(), []*store.Batch{b}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if err := s.Release(t.Context(), "/index", claim.Epoch); err != nil {
		t.Fatal(err)
	}
}

// loseIndex removes all entries of the figures, and how far they had come.
func loseIndex(t *testing.T, s store.Store) {
	t.Helper()
	claim, err := s.Claim(t.Context(), "/index")
	if err != nil {
		t.Fatal(err)
	}
	b := &store.Batch{SessionID: "/index", Epoch: claim.Epoch, Index: []store.IndexOp{{Entry: store.Entry{Kind: "index_state", Key: usage.Name}, Delete: true}}}
	for e, err := range s.Scan(t.Context(), store.Scan{Kind: usage.Name}) {
		if err != nil {
			t.Fatal(err)
		}
		b.Index = append(b.Index, store.IndexOp{Entry: e, Delete: true})
	}
	if len(b.Index) < 3 {
		t.Errorf("there were only %d entries", len(b.Index))
	}
	if errs := s.Append(t.Context(), []*store.Batch{b}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if err := s.Release(t.Context(), "/index", claim.Epoch); err != nil {
		t.Fatal(err)
	}
}
