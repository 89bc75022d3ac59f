package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"agentd/bench/rig"
)

// The streams of [BenchmarkStreams]; AGENTD_BENCH_STREAMS sets another number.
const (
	streams     = 500
	tokenEvery  = 20 * time.Millisecond
	streamToken = 500 // ten seconds
)

// BenchmarkStreams has many turns stream at once at 50 tokens a second each, every
// one with a follower, and measures how late each token arrives: from the moment
// at which the provider was to write it to the moment at which the follower has
// it. The provider and the followers are in this process, on the same processors,
// so its own lateness is told beside it. The memory is what the server has more
// than before, for each turn.
func BenchmarkStreams(b *testing.B) {
	const scenario = "stream"
	n := streams
	if v := os.Getenv("AGENTD_BENCH_STREAMS"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			b.Fatal(err)
		}
	}
	model := rig.NewModel(b, map[string]rig.Scenario{scenario: {Tokens: streamToken, Every: tokenEvery}})
	s := rig.Start(b, rig.Build(b), model.URL(scenario))
	sessions := followed(b, s, n)
	defer func() {
		for _, c := range sessions {
			c.Close()
		}
	}()
	before := s.Usage(b)
	began := time.Now()
	late, events, peak := streamAll(b, s, sessions)
	elapsed := time.Since(began)
	used := s.Usage(b).Sub(before)
	b.ReportMetric(rig.Millis(late.Percentile(50)), "late-p50-ms")
	b.ReportMetric(rig.Millis(late.Percentile(99)), "late-p99-ms")
	b.ReportMetric(rig.Millis(late.Percentile(100)), "late-max-ms")
	b.ReportMetric(rig.Millis(model.Late().Percentile(99)), "provider-late-p99-ms")
	b.ReportMetric(float64(peak-before.RSS)/float64(n)/1024, "KiB/turn")
	b.ReportMetric(float64(peak)/(1<<20), "rss-MiB")
	b.ReportMetric(used.CPU.Seconds()/elapsed.Seconds(), "cores")
	b.ReportMetric(float64(events)/elapsed.Seconds(), "deltas/s")
	b.ReportMetric(0, "ns/op")
}

// followed makes sessions with a follower each.
func followed(b *testing.B, s *rig.Server, n int) []*rig.Session {
	b.Helper()
	sessions := make([]*rig.Session, n)
	for i := range sessions {
		var err error
		if sessions[i], err = s.Session(b.Context(), rig.Ends+",model.delta"); err != nil {
			b.Fatal(err)
		}
	}
	return sessions
}

// streamAll runs one turn in each session, begun evenly over a second as turns of
// many users are, and returns how late the tokens were, how many deltas carried
// them, and the most memory that the server had.
func streamAll(b *testing.B, s *rig.Server, sessions []*rig.Session) (late rig.Times, events int, peak int64) {
	b.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i, c := range sessions {
		wg.Go(func() {
			time.Sleep(time.Second * time.Duration(i) / time.Duration(len(sessions)))
			times, n, err := streamOne(b.Context(), c)
			if err != nil {
				b.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			late, events = append(late, times...), events+n
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	watch := time.NewTicker(100 * time.Millisecond)
	defer watch.Stop()
	for {
		select {
		case <-watch.C:
			peak = max(peak, s.Usage(b).RSS)
		case <-done:
			return late, events, peak
		}
	}
}

// streamOne runs a turn and follows it to the end.
func streamOne(ctx context.Context, c *rig.Session) (late rig.Times, events int, err error) {
	if err := c.Submit(ctx, "go"); err != nil {
		return nil, 0, err
	}
	due := rig.NewDue(tokenEvery)
	for {
		data, err := c.Next()
		if err != nil {
			return nil, 0, err
		}
		now := time.Now()
		var e struct {
			Type    string `json:"type"`
			Payload struct {
				Text string `json:"text"`
			} `json:"payload"`
		}
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, 0, err
		}
		switch e.Type {
		case "model.delta":
			events++
			if err := due.Add(e.Payload.Text, func(at time.Time) { late = append(late, now.Sub(at)) }); err != nil {
				return nil, 0, err
			}
		case "turn.completed":
			if due.Tokens() != streamToken {
				return nil, 0, fmt.Errorf("%d tokens arrived, want %d", due.Tokens(), streamToken)
			}
			return late, events, nil
		default:
			return nil, 0, fmt.Errorf("the turn did not go as planned: %s", data)
		}
	}
}
