//go:build unix

package work_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"agentd/command"
	"agentd/session"
)

// BenchmarkJob works on jobs of growing length, on a store on disk: the cost of an
// item must not depend on their number.
func BenchmarkJob(b *testing.B) {
	sizes := []int{100, 1000, 10_000}
	if os.Getenv("AGENTD_TEST_LONG") != "" {
		sizes = append(sizes, 100_000)
	}
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var cpu time.Duration
			for i := range b.N {
				b.StopTimer()
				k := pebbleStage(b, b.TempDir())
				id := fmt.Sprintf("sess_%d", i)
				k.session(id)
				before := cpuTime(b)
				b.StartTimer()
				k.job(command.CreateJob{JobID: "job_bench", SessionID: id, Items: items(n, numberWord), Concurrency: 32})
				k.jobDone(id)
				b.StopTimer()
				cpu += cpuTime(b) - before
				k.stop()
				report, err := session.Verify(context.Background(), k.store, session.VerifyOptions{})
				if err != nil || len(report.Problems) > 0 {
					b.Fatal(err, report.Problems)
				}
				b.ReportMetric(float64(report.Bytes)/float64(n), "factB/item")
				b.ReportMetric(float64(report.Events)/float64(n), "facts/item")
				if err := k.store.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N*n), "cpu-ns/item")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/item")
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "items/s")
		})
	}
}

// cpuTime is what the process has used of the processors: unlike the time on the
// wall it doesn't depend on what else the machine does.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// jobDone waits for the end of the session's job without decoding its facts.
func (k *stage) jobDone(sessionID string) {
	k.Helper()
	ctx := context.Background()
	sub, err := k.m.Subscribe(ctx, sessionID, 0)
	if err != nil {
		k.Fatal(err)
	}
	defer sub.Close()
	for {
		records, err := sub.Next(ctx)
		if err != nil {
			k.Fatal(err)
		}
		for _, rec := range records {
			if bytes.Contains(rec.Data, []byte(`"type":"job.completed"`)) {
				return
			}
		}
	}
}
