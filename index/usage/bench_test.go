//go:build unix

package usage_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/index"
	"agentd/index/usage"
	"agentd/store/pebble"
)

// benchTurns is how many turns of a year the benchmark asks about; AGENTD_BENCH_TURNS
// says otherwise.
const benchTurns = 50_000

// yearFacts calls fold with batches of the facts of a year: turns in sessions of ten, of
// a hundred accounts, each with two model calls and two tool calls.
func yearFacts(turns int, fold func([]index.Fact)) time.Time {
	rng := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	var batch []index.Fact
	for i := range turns {
		at := start.Add(time.Duration(i) * (365 * 24 * time.Hour / time.Duration(turns)))
		n := i/100*10 + rng.IntN(10) // ten sessions are busy at a time, with ten turns each
		session, account := fmt.Sprint("sess_", n), fmt.Sprint("account_", n%100)
		turn, model := fmt.Sprint("turn_", i), fmt.Sprint("model-", n%5)
		fact := func(t event.Type, p event.Payload) {
			e := &index.Event{Type: t, Time: at, TurnID: turn, Payload: p}
			batch = append(batch, index.Fact{SessionID: session, Account: account, Workspace: fmt.Sprint("/srv/project_", n%300), Event: e})
		}
		cost := 0.01
		for step := range 2 {
			id := fmt.Sprint("mreq_", i, "_", step)
			fact(event.TypeModelRequested, &event.ModelRequested{Provider: "vendor", Model: model, ModelRequestID: id})
			fact(event.TypeModelCompleted, &event.ModelCompleted{Provider: "vendor", Model: model, ModelRequestID: id, Usage: event.Usage{InputTokens: 1000, OutputTokens: 100}})
			fact(event.TypeCostRecorded, &event.CostRecorded{ModelRequestID: id, CostUSD: &cost})
			fact(event.TypeToolStarted, &event.ToolStarted{ToolName: fmt.Sprint("tool_", rng.IntN(12))})
		}
		fact(event.TypeTurnCompleted, &event.TurnCompleted{})
		if len(batch) >= 8192 || i == turns-1 {
			fold(batch)
			batch = batch[:0]
		}
	}
	return start
}

// cpuTime is what the process has used of the processors.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkUsage asks for the figures of a year, and says what a turn costs to count.
func BenchmarkUsage(b *testing.B) {
	turns := benchTurns
	if n, err := strconv.Atoi(os.Getenv("AGENTD_BENCH_TURNS")); err == nil {
		turns = n
	}
	s, err := pebble.Open(filepath.Join(b.TempDir(), "data"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	f, p, written := newFeederOn(b, s), usage.New(), 0
	began := cpuTime(b)
	start := yearFacts(turns, func(facts []index.Fact) {
		ops, err := p.Fold(context.Background(), &index.Batch{Facts: facts}, s)
		for err == nil && len(ops) > 0 {
			for i := range ops {
				written += len(ops[i].Key) + len(ops[i].Value)
			}
			f.apply(ops, nil)
			ops, err = p.Maintain(context.Background(), s, false)
		}
		if err != nil {
			b.Fatal(err)
		}
	})
	built := cpuTime(b) - began
	end := start.AddDate(1, 0, 0)
	for _, c := range []struct {
		name string
		q    usage.Query
	}{
		{"all", usage.Query{Everyone: true}},
		{"byModelAndDay", usage.Query{Everyone: true, By: usage.ByModel, Bucket: usage.Day}},
		{"byModelAndHour", usage.Query{Everyone: true, By: usage.ByModel, Bucket: usage.Hour}},
		{"byAccount", usage.Query{Everyone: true, By: usage.ByAccount}},
		{"byAccountAndDay", usage.Query{Everyone: true, By: usage.ByAccount, Bucket: usage.Day}},
		{"byAccountAndModel", usage.Query{Everyone: true, By: usage.ByAccount | usage.ByModel, Bucket: usage.Month}},
		{"byTool", usage.Query{Everyone: true, By: usage.ByTool, Bucket: usage.Month}},
		{"byWorkspace", usage.Query{Everyone: true, By: usage.ByWorkspace}},
		{"bySession", usage.Query{Everyone: true, By: usage.BySession}},
		{"bySessionAndTool", usage.Query{Everyone: true, By: usage.BySession | usage.ByTool}},
		{"ownByModelAndDay", usage.Query{Account: "account_7", By: usage.ByModel, Bucket: usage.Day}},
		{"ownByModelAndHour", usage.Query{Account: "account_7", By: usage.ByModel, Bucket: usage.Hour}},
		{"ownBySession", usage.Query{Account: "account_7", By: usage.BySession}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.q.From, c.q.To = start, end
			before, rows := cpuTime(b), 0
			for b.Loop() {
				var err error
				if _, rows, err = c.q.First(context.Background(), s, command.MaxPage); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N)/1e6, "cpu-ms/op")
			b.ReportMetric(float64(rows), "rows")
			b.ReportMetric(float64(built)/float64(turns)/1e3, "count-µs/turn")
			b.ReportMetric(float64(written)/float64(turns), "written-B/turn")
		})
	}
	b.Run("slowestOfAll", func(b *testing.B) { benchEvery(b, s, start, end) })
}

// benchEvery makes every query that there is over the year, and says how long the slowest
// takes at its best.
func benchEvery(b *testing.B, s *pebble.Store, start, end time.Time) {
	best := map[string]time.Duration{}
	for b.Loop() {
		for by := range usage.ByTool << 1 {
			for _, bucket := range []usage.Bucket{usage.NoBucket, usage.Month, usage.Day, usage.Hour} {
				for _, account := range []string{"", "account_7"} {
					q := usage.Query{By: by, Bucket: bucket, From: start, To: end, Account: account, Everyone: account == ""}
					began := time.Now()
					if _, _, err := q.First(context.Background(), s, command.MaxPage); err != nil {
						b.Fatal(err)
					}
					name, took := fmt.Sprintf("parts %05b, bucket %q, account %q", by, bucket, account), time.Since(began)
					if had, ok := best[name]; !ok || took < had {
						best[name] = took
					}
				}
			}
		}
	}
	slowest := ""
	for name, took := range best {
		if slowest == "" || took > best[slowest] {
			slowest = name
		}
	}
	b.ReportMetric(float64(best[slowest])/1e6, "slowest-ms")
	b.Log(slowest)
}
