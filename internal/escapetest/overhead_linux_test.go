package escapetest

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/loop"
	"agentd/model/provider/script"
	"agentd/process"
	"agentd/sandbox"
	"agentd/store"
	"agentd/store/storetest"
)

// BenchmarkShellTrue runs "true" through two runtimes in turn, one that confines
// its commands and decides about them, and one that does neither, and reports what
// the difference costs at the median. The time is that from the model's answer to
// the tool's result, as the facts have it; both keep their facts in memory, so that
// no disk is measured. The bare start of a shell stands beside them.
func BenchmarkShellTrue(b *testing.B) {
	confined := newLane(b, "auto", sandbox.Profile{Mode: sandbox.WorkspaceWrite, Hidden: []string{b.TempDir()}, Limits: sandbox.Limits{MemoryMB: 2048, Processes: 256}})
	open := newLane(b, "bypass", sandbox.Profile{Mode: sandbox.DangerFullAccess})
	var bare []time.Duration
	for range 5 { // the first start is another one
		confined.run(b)
		open.run(b)
	}
	confined.times, open.times = nil, nil
	for b.Loop() {
		confined.run(b)
		open.run(b)
		start := time.Now()
		if err := exec.Command("/bin/sh", "-c", "true").Run(); err != nil {
			b.Fatal(err)
		}
		bare = append(bare, time.Since(start))
	}
	with, without := middle(confined.times), middle(open.times)
	b.ReportMetric(float64(with.Microseconds()), "confined-p50-µs")
	b.ReportMetric(float64(without.Microseconds()), "unconfined-p50-µs")
	b.ReportMetric(float64(middle(bare).Microseconds()), "bare-p50-µs")
	b.ReportMetric(float64((with - without).Microseconds()), "added-p50-µs")
	b.ReportMetric(0, "ns/op") // a round of three is of no interest
}

func middle(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// lane is a runtime whose model always wants "true".
type lane struct {
	r     *agentd.Runtime
	store store.Store
	n     int
	times []time.Duration
}

func newLane(b *testing.B, mode string, profile sandbox.Profile) *lane {
	b.Helper()
	s := storetest.NewMem()
	answers := []script.Answer{{Tools: []script.Tool{{Name: "shell", Arguments: map[string]any{"command": "true"}}}}, {Text: "Done."}}
	r, err := agentd.Open(context.Background(), agentd.Options{
		Store: s, Provider: script.New("script", &script.Script{Answers: answers}), Model: "test",
		Loop: loop.Options{
			Workspace: b.TempDir(), Host: loop.HostPolicy{Mode: mode},
			Governance: loop.Governance{Sandbox: profile, Processes: sync.OnceValue(func() *process.Manager { return process.New(process.Options{Report: report()}) })},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return &lane{r: r, store: s}
}

// run has one turn run in a session of its own and notes what its call took.
func (l *lane) run(b *testing.B) {
	b.Helper()
	ctx := context.Background()
	l.n++
	id := fmt.Sprintf("sess_%d", l.n)
	if _, err := l.r.Do(ctx, command.Local(), &command.SubmitTurn{SessionID: id, Create: true, Input: event.Raw(`"go"`)}); err != nil {
		b.Fatal(err)
	}
	sub, err := l.r.Subscribe(ctx, command.Local(), id, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer sub.Close()
	var answered time.Time
	for {
		records, err := sub.Next(ctx)
		if err != nil {
			b.Fatal(err)
		}
		for _, rec := range records {
			e, err := event.Decode(rec.Data)
			if err != nil {
				b.Fatal(err)
			}
			switch p := e.Payload.(type) {
			case *event.ModelCompleted:
				if answered.IsZero() {
					answered = e.Time
				}
			case *event.ToolResult:
				if !p.ExitCode.Present || p.ExitCode.Value != 0 {
					b.Fatalf("%+v", p)
				}
				l.times = append(l.times, e.Time.Sub(answered))
			case *event.ToolFailed:
				b.Fatalf("%+v", p)
			case *event.TaskCompleted:
				return
			}
		}
	}
}
