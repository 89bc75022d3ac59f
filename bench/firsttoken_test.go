package bench

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentd/bench/rig"
)

// BenchmarkFirstToken is what agentd adds to the time until the first token is
// seen: from the submission of a turn to the first model.delta at a follower,
// against a request to the provider itself until its first token, in turn. The
// provider has no latency, so all of it is agentd's.
func BenchmarkFirstToken(b *testing.B) {
	const scenario = "text"
	model := rig.NewModel(b, map[string]rig.Scenario{scenario: {}})
	s := rig.Start(b, rig.Build(b), model.URL(scenario))
	direct := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer direct.CloseIdleConnections()
	var fresh, later, provider rig.Times
	for b.Loop() {
		c, err := s.Session(b.Context(), rig.Ends+",model.delta")
		if err != nil {
			b.Fatal(err)
		}
		for i := range turnsOfSession {
			time.Sleep(think)
			d, err := firstDelta(b.Context(), c)
			if err != nil {
				b.Fatal(err)
			}
			if i == 0 {
				fresh = append(fresh, d)
			} else {
				later = append(later, d)
			}
			time.Sleep(think)
			if d, err = firstChunk(b.Context(), direct, model.URL(scenario)); err != nil {
				b.Fatal(err)
			}
			provider = append(provider, d)
		}
		c.Close()
	}
	own := provider.Percentile(50)
	b.ReportMetric(rig.Millis(own), "provider-p50-ms")
	b.ReportMetric(rig.Millis(later.Percentile(50)), "p50-ms")
	b.ReportMetric(rig.Millis(later.Percentile(99)), "p99-ms")
	b.ReportMetric(rig.Millis(later.Percentile(50)-own), "added-p50-ms")
	b.ReportMetric(rig.Millis(fresh.Percentile(50)-own), "added-first-turn-p50-ms")
	b.ReportMetric(0, "ns/op")
}

// turnsOfSession is how many turns a session of [BenchmarkFirstToken] has.
const turnsOfSession = 10

// firstDelta submits a turn, tells when its first delta came and waits for its
// end.
func firstDelta(ctx context.Context, c *rig.Session) (time.Duration, error) {
	began := time.Now()
	if err := c.Submit(ctx, "go"); err != nil {
		return 0, err
	}
	var first time.Duration
	for {
		data, err := c.Next()
		switch {
		case err != nil:
			return 0, err
		case rig.Type(data, "model.delta") && first == 0:
			first = time.Since(began)
		case rig.Type(data, "turn.completed") && first > 0:
			return first, nil
		case rig.Type(data, "turn.completed"), rig.Type(data, "turn.failed"):
			return 0, fmt.Errorf("a turn without a delta: %s", data)
		}
	}
}

// firstChunk asks the provider itself, with a request as small as can be.
func firstChunk(ctx context.Context, c *http.Client, url string) (time.Duration, error) {
	began := time.Now()
	body := strings.NewReader(`{"model":"` + rig.ModelName + `","stream":true,"messages":[{"role":"user","content":"go"}]}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/chat/completions", body)
	if err != nil {
		return 0, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var first time.Duration
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if first == 0 && strings.Contains(lines.Text(), `"content"`) {
			first = time.Since(began)
		}
	}
	if first == 0 {
		return 0, fmt.Errorf("no token: %s: %w", resp.Status, lines.Err())
	}
	return first, lines.Err()
}
