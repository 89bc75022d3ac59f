package process

import (
	"os"
	"runtime"
	"testing"
	"time"
)

// lingering has a reader at a pipe whose other end is w.
func lingering(t *testing.T, emit func(Chunk)) (s *streams, w *os.File) {
	t.Helper()
	opened, err := openStreams(&Spec{Merge: true, MaxOutput: 1 << 20, Output: emit}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	opened.read()
	t.Cleanup(opened.closeOurs)
	return &opened, opened.stdout
}

// TestSlowStoreLosesNoOutput: a reader that is held up for longer than output is waited for
// reads all of it all the same.
func TestSlowStoreLosesNoOutput(t *testing.T) {
	entered, release := make(chan struct{}, 10), make(chan struct{})
	s, w := lingering(t, func(Chunk) {
		entered <- struct{}{}
		<-release
	})
	write := func(text string) {
		if _, err := w.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	<-entered
	write("two\n")
	s.closeTheirs()
	first, seen := make([]int64, len(s.inputs)), make([]int64, len(s.inputs))
	for range 5 {
		s.closeHeld(first, seen)
	}
	close(release)
	s.finish()
	if out, _ := s.output(); string(out.Head) != "one\ntwo\n" {
		t.Errorf("%q", out.Head)
	}
}

// TestHeldStreamIsGivenUp: a process that got away with a stream doesn't keep its call from
// ending.
func TestHeldStreamIsGivenUp(t *testing.T) {
	s, w := lingering(t, nil)
	defer w.Close()
	for s.gather[0].reads.Load() == 0 {
		runtime.Gosched()
	}
	first, seen := make([]int64, len(s.inputs)), make([]int64, len(s.inputs))
	s.closeHeld(first, seen)
	s.closeHeld(first, seen)
	s.wg.Wait()
}

// TestFloodedStreamIsGivenUp: nor does one that never stops writing to it.
func TestFloodedStreamIsGivenUp(t *testing.T) {
	s, w := lingering(t, nil)
	defer w.Close()
	written := make(chan struct{})
	go func() {
		defer close(written)
		for {
			if _, err := w.WriteString("more\n"); err != nil {
				return
			}
		}
	}()
	first, seen := make([]int64, len(s.inputs)), make([]int64, len(s.inputs))
	for s.gather[0].reads.Load() <= 2*drainReads {
		runtime.Gosched()
	}
	s.closeHeld(first, seen)
	s.wg.Wait()
	<-written
}
