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
	seen := make([]int64, len(s.inputs))
	for range 5 {
		s.closeQuiet(seen)
	}
	close(release)
	s.finish()
	if out, _ := s.output(); string(out.Head) != "one\ntwo\n" {
		t.Errorf("%q", out.Head)
	}
}

// TestHeldStreamIsGivenUp: nobody waits for ever for who got away with a stream.
func TestHeldStreamIsGivenUp(t *testing.T) {
	s, w := lingering(t, nil)
	defer w.Close()
	for s.gather[0].reads.Load() == 0 {
		runtime.Gosched()
	}
	seen := make([]int64, len(s.inputs))
	s.closeQuiet(seen)
	s.closeQuiet(seen)
	s.wg.Wait()
}
