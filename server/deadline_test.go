package server

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestDeadline(t *testing.T) {
	past := func(d time.Duration) (*deadline, context.CancelFunc) {
		ctx, cancel := context.WithCancel(context.Background())
		return withDeadline(ctx, d), cancel
	}
	t.Run("it passes", func(t *testing.T) {
		d, cancel := past(-time.Second)
		defer cancel()
		defer d.end()
		if !errors.Is(d.Err(), context.DeadlineExceeded) {
			t.Errorf("before anybody waits: %v", d.Err())
		}
		<-d.Done()
		if !errors.Is(d.Err(), context.DeadlineExceeded) {
			t.Errorf("after: %v", d.Err())
		}
	})
	t.Run("somebody waits for it", func(t *testing.T) {
		d, cancel := past(10 * time.Millisecond)
		defer cancel()
		defer d.end()
		child, stop := context.WithCancel(d)
		defer stop()
		<-child.Done()
		if !errors.Is(child.Err(), context.DeadlineExceeded) {
			t.Errorf("a context that was made of it: %v", child.Err())
		}
	})
	t.Run("the caller leaves", func(t *testing.T) {
		for _, wait := range []bool{false, true} {
			d, cancel := past(time.Hour)
			if wait {
				_ = d.Done()
			}
			if d.Err() != nil {
				t.Errorf("before: %v", d.Err())
			}
			cancel()
			<-d.Done()
			if !errors.Is(d.Err(), context.Canceled) {
				t.Errorf("waited %t: %v", wait, d.Err())
			}
			d.end()
		}
	})
	t.Run("it ends", func(t *testing.T) {
		for _, wait := range []bool{false, true} {
			d, cancel := past(time.Hour)
			if wait {
				_ = d.Done()
			}
			d.end()
			if !errors.Is(d.Err(), context.Canceled) {
				t.Errorf("waited %t: %v", wait, d.Err())
			}
			<-d.Done()
			cancel()
		}
	})
	t.Run("the caller's own is sooner", func(t *testing.T) {
		ctx, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
		defer cancel()
		d := withDeadline(ctx, time.Hour)
		defer d.end()
		if at, ok := d.Deadline(); !ok || !at.Equal(time.Unix(1, 0)) || !errors.Is(d.Err(), context.DeadlineExceeded) {
			t.Errorf("%v, %t, %v", at, ok, d.Err())
		}
	})
}
