package session

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestJointReadsBeginAfterEachQuestion has calls ask while a read is under way: it may have
// missed what they must see, so they share the next one.
func TestJointReadsBeginAfterEachQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j jointReads[int64]
		var reads atomic.Int64
		hold := make(chan struct{})
		read := func() (int64, error) {
			n := reads.Add(1)
			<-hold
			return n, nil
		}
		answers := make(chan int64, 10)
		ask := func() {
			go func() {
				n, err := j.read(t.Context(), "p", read)
				if err != nil {
					t.Error(err)
				}
				answers <- n
			}()
			synctest.Wait()
		}
		ask()
		for range 5 {
			ask()
		}
		hold <- struct{}{}
		if first := <-answers; first != 1 {
			t.Errorf("the call that asked first has the result of read %d", first)
		}
		hold <- struct{}{}
		for range 5 {
			if n := <-answers; n != 2 {
				t.Errorf("a call that asked during read 1 has the result of read %d, not of the next one", n)
			}
		}
		if n := reads.Load(); n != 2 {
			t.Errorf("%d reads for 6 calls", n)
		}
	})
}

// TestJointReadsShareNoFailure has each call that waits try by itself after one that failed.
func TestJointReadsShareNoFailure(t *testing.T) {
	var j jointReads[int]
	broken := errors.New("broken")
	if _, err := j.read(t.Context(), "p", func() (int, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if n, err := j.read(t.Context(), "p", func() (int, error) { return 7, nil }); n != 7 || err != nil {
		t.Errorf("%d, %v after a failure", n, err)
	}
}
