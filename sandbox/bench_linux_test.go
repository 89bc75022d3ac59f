package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkTrue compares "true" without a sandbox and in each profile, one after
// the other in the same round, and reports medians.
func BenchmarkTrue(b *testing.B) {
	dir := b.TempDir()
	hidden := b.TempDir()
	limits := Limits{MemoryMB: 2048, Processes: 256}
	var warm Warm
	defer warm.Close()
	cases := []struct {
		name string
		run  func()
	}{{"bare", func() {
		if err := exec.Command("true").Run(); err != nil {
			b.Fatal(err)
		}
	}}}
	for _, p := range []Profile{
		{Mode: ReadOnly, Root: dir, Hidden: []string{hidden}, Limits: limits},
		{Mode: WorkspaceWrite, Root: dir, Hidden: []string{hidden}, Limits: limits},
		{Mode: WorkspaceWrite, Root: dir, Hidden: []string{hidden}},
		{Mode: WorkspaceWrite, Root: dir, Hidden: []string{hidden}, Network: NetworkAllow, Limits: limits},
		{Mode: DangerFullAccess, Root: dir},
	} {
		plan, err := Prepare(p, report())
		if err != nil {
			b.Fatal(err)
		}
		name := string(p.Mode)
		if p.Network == NetworkAllow {
			name += "+net"
		}
		if p.Limits == (Limits{}) {
			name += "-limits"
		}
		cases = append(cases, struct {
			name string
			run  func()
		}{name, func() { runTrue(b, plan) }})
	}
	plan, err := Prepare(Profile{Mode: WorkspaceWrite, Root: dir, Hidden: []string{hidden}, Limits: limits}, report())
	if err != nil {
		b.Fatal(err)
	}
	cases = append(cases, struct {
		name string
		run  func()
	}{"warm", func() { finishTrue(b, func(c Command) (*Child, error) { return warm.Start(plan, c) }) }})
	times, cpu := make([][]time.Duration, len(cases)), make([]time.Duration, len(cases))
	for b.Loop() {
		for i, c := range cases {
			before, start := processorTime(&warm), time.Now()
			c.run()
			times[i] = append(times[i], time.Since(start))
			settle()
			cpu[i] += processorTime(&warm) - before
		}
	}
	for i, c := range cases {
		b.ReportMetric(float64(cpu[i].Microseconds())/float64(b.N), c.name+"-cpu-µs")
	}
	bare := median(times[0])
	b.ReportMetric(float64(bare.Microseconds()), "bare-p50-µs")
	for i, c := range cases[1:] {
		b.ReportMetric(float64((median(times[i+1]) - bare).Microseconds()), c.name+"-added-p50-µs")
	}
}

// pending are children whose namespaces are still being taken down: their trees
// have ended, and nobody waits for the rest.
var pending []*Child

// settle waits for them, outside of what is measured.
func settle() {
	for _, c := range pending {
		c.Close()
	}
	pending = pending[:0]
}

// processorTime is ours, that of the children that were waited for, and that of the
// launcher.
func processorTime(w *Warm) time.Duration {
	var total time.Duration
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.launcher != nil {
		const scheduled = 2 // which of a process's clocks: all that it ran
		var t unix.Timespec
		if unix.ClockGettime(int32(^w.launcher.proc.Pid<<3|scheduled), &t) == nil {
			total += time.Duration(t.Nano())
		}
	}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return total
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func runTrue(b *testing.B, plan *Plan) { finishTrue(b, plan.Start) }

func finishTrue(b *testing.B, start func(Command) (*Child, error)) {
	child, err := start(Command{Argv: []string{"true"}, Stdout: os.Stderr, Stderr: os.Stderr})
	if err != nil {
		b.Fatal(err)
	}
	if err := child.Go(); err != nil {
		b.Error(err)
	}
	if exit := child.Wait(); !exit.Success() {
		b.Errorf("%+v", exit)
	}
	pending = append(pending, child)
}

// BenchmarkSupervision measures what one start of a program costs more when it is
// asked about: the same loop with and without supervision, in turn.
func BenchmarkSupervision(b *testing.B) {
	if !report().Supervise.Available {
		b.Skip("no supervision here: " + report().Supervise.Reason)
	}
	const starts = 200
	line := fmt.Sprintf("i=0; while [ $i -lt %d ]; do /bin/true a b c; i=$((i+1)); done", starts)
	dir := b.TempDir()
	var warm Warm
	defer warm.Close()
	var took [2][]time.Duration
	for b.Loop() {
		for i, supervised := range []bool{false, true} {
			plan, err := Prepare(Profile{Root: dir, Supervised: supervised}, report())
			if err != nil {
				b.Fatal(err)
			}
			cmd := Command{Argv: []string{"/bin/sh", "-c", line}}
			if supervised {
				cmd.Supervise = func(Start) string { return "" }
			}
			child, err := warm.Start(plan, cmd)
			if err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			if err := child.Go(); err != nil {
				b.Fatal(err)
			}
			if e := child.Wait(); !e.Success() {
				b.Fatalf("%+v", e)
			}
			took[i] = append(took[i], time.Since(began))
			child.Close()
		}
	}
	var median [2]float64
	for i := range took {
		slices.Sort(took[i])
		median[i] = float64(took[i][len(took[i])/2].Microseconds()) / starts
	}
	b.ReportMetric(median[0], "µs/start-plain")
	b.ReportMetric(median[1], "µs/start-supervised")
	b.ReportMetric(median[1]-median[0], "µs/start-more")
}
