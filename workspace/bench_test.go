//go:build unix

package workspace

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"agentd/store/storetest"
)

// BenchmarkLook measures a look at a tree of 10,000 files in 100 folders in
// which nothing changed, and the first look at it.
func BenchmarkLook(b *testing.B) {
	k := &kit{fataler: b, ctx: b.Context(), root: b.TempDir()}
	for i := range 10_000 {
		k.write(fmt.Sprintf("pkg%02d/sub%d/file%04d.go", i%50, i/50%2, i), fmt.Sprintf("package p%d\n%0*d\n", i, i%4000, 0))
	}
	opt := Options{SpoolDir: b.TempDir()}
	opt.setDefaults()
	first := func() *index {
		at, err := opt.Places.Recall(k.root)
		k.must(err)
		x := newIndex(at, &opt, nil)
		k.must(x.refresh(k.ctx))
		return x
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			k.must(first().close())
		}
	})
	b.Run("unchanged", func(b *testing.B) {
		x := first()
		k.must(x.refresh(k.ctx)) // files that were just made are read twice
		b.ReportAllocs()
		start := cpuTime(b)
		for b.Loop() {
			k.must(x.refresh(k.ctx))
		}
		b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op")
		if x.count != 10_150 {
			b.Fatalf("%d entries", x.count)
		}
		k.must(x.close())
	})
}

// BenchmarkFileTool measures what a file tool pays for undo, without the store.
func BenchmarkFileTool(b *testing.B) {
	k := &kit{fataler: b, ctx: b.Context(), root: b.TempDir(), store: storetest.NewMem()}
	k.open(Options{Inline: 64 << 10})
	defer k.close()
	k.write("a/b/c.go", strings.Repeat("package p\n", 400))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r, err := k.v.Record(k.root)
		k.must(err)
		k.must(r.Changing(k.ctx, "a/b/c.go"))
		b.StopTimer()
		k.write("a/b/c.go", fmt.Sprintf("%0*d", 4000, i))
		b.StartTimer()
		c, err := r.Finish(k.ctx)
		k.must(err)
		if len(c.Blobs) != 1 {
			b.Fatalf("%d blobs", len(c.Blobs))
		}
	}
}

// BenchmarkCommand measures what a command in a small workspace pays for undo.
func BenchmarkCommand(b *testing.B) {
	k := &kit{fataler: b, ctx: b.Context(), root: b.TempDir(), store: storetest.NewMem()}
	k.open(Options{SpoolDir: b.TempDir()})
	defer k.close()
	for i := range 100 {
		k.write(fmt.Sprintf("d%d/f%d", i%10, i), "x")
	}
	b.ReportAllocs()
	start := cpuTime(b)
	for b.Loop() {
		k.shell(func() {})
	}
	b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op")
}

// cpuTime returns the CPU time of the process: the machine may be shared.
func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
