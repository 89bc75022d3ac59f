package process

import (
	"context"
	"os"
	"runtime"
	"testing"

	"agentd/sandbox"
)

// TestLongFlood writes a gigabyte and looks at our memory in the meantime.
func TestLongFlood(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("AGENTD_TEST_LONG is not set: a gigabyte of output is not written")
	}
	flood(t, "1G")
}

func TestFlood(t *testing.T) { flood(t, "64M") }

func flood(t *testing.T, size string) {
	m := New(Options{Report: report()})
	defer m.Close(context.Background())
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	handed, next := int64(0), int64(0)
	p := start(t, m, Spec{
		Line: "head -c " + size + " /dev/zero; echo end", MaxOutput: 64 << 10, Profile: sandbox.Profile{Root: t.TempDir()},
		Output: func(c Chunk) {
			if c.Offset < next {
				t.Errorf("offset %d after %d", c.Offset, next)
			}
			next = c.Offset + int64(len(c.Data))
			handed += int64(len(c.Data))
		},
	})
	exit := wait(t, p)
	runtime.ReadMemStats(&after)
	if exit.Code != 0 || exit.Stdout.Total < 64<<20 || string(exit.Stdout.Tail[len(exit.Stdout.Tail)-4:]) != "end\n" {
		t.Errorf("%d, %d bytes", exit.Code, exit.Stdout.Total)
	}
	if kept := len(exit.Stdout.Head) + len(exit.Stdout.Tail); kept > 64<<10 {
		t.Errorf("kept %d", kept)
	}
	// The longer it takes, the more is handed on.
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20+2*uint64(handed) {
		t.Errorf("%d bytes were allocated, %d handed on", grown, handed)
	}
	if handed >= exit.Stdout.Total/2 {
		t.Errorf("%d of %d bytes were handed on", handed, exit.Stdout.Total)
	}
}
