package sandbox

import (
	"os"
	"testing"
	"time"
)

// finish lets a child run and returns how it ended.
func finish(t *testing.T, child *Child, err error) Exit {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Go(); err != nil {
		t.Error(err)
	}
	exit := child.Wait()
	child.Close()
	return exit
}

// waiting waits for the spare that is planned or being made and returns it.
func (w *Warm) waiting() *spare {
	for {
		w.mu.Lock()
		spare, coming := w.spare, w.planned || w.filled != nil
		w.mu.Unlock()
		if !coming {
			return spare
		}
		time.Sleep(time.Millisecond)
	}
}

func TestWarm(t *testing.T) {
	var w Warm
	defer w.Close()
	dir := workspace(t)
	limited := prepared(t, Profile{Root: dir, Limits: Limits{Processes: 20, MemoryMB: 512}})
	other := prepared(t, Profile{Mode: DangerFullAccess, Root: dir})
	start := func(plan *Plan, line string) (*Child, error) {
		return w.Start(plan, Command{Argv: []string{"sh", "-c", line}})
	}
	if exit := finish(t, must(start(limited, "echo x > first")), nil); !exit.Success() {
		t.Fatalf("%+v", exit)
	}
	spare := w.waiting()
	if spare == nil {
		t.Fatal("no spare was made")
	}
	// The spare becomes the next child of its kind, with that child's own profile.
	changed := prepared(t, Profile{Mode: ReadOnly, Root: dir, Limits: Limits{Processes: 20, MemoryMB: 512}})
	child, err := start(changed, "echo x > second")
	if err != nil || child != spare.Child {
		t.Fatalf("the spare was not used: %v", err)
	}
	if exit := finish(t, child, nil); changed.Enforcement.Filesystem != None && exit.Success() {
		t.Error("the spare had the earlier profile")
	}
	if _, err := os.Stat(dir + "/second"); changed.Enforcement.Filesystem != None && err == nil {
		t.Error("written")
	}

	// Another kind gets a stage of its own.
	spare = w.waiting()
	child, err = start(other, "exit 0")
	if err != nil || child == spare.Child {
		t.Fatalf("a spare of another kind was used: %v", err)
	}
	finish(t, child, nil)

	// A spare that died is not used, and nobody notices.
	spare = w.waiting()
	_ = spare.Kill()
	spare.Wait()
	if exit := finish(t, must(start(other, "exit 0")), nil); !exit.Success() {
		t.Errorf("%+v", exit)
	}
	if _, err := w.Start(other, Command{}); err == nil {
		t.Error("nothing was started")
	}
	w.Close()
	if w.waiting() != nil {
		t.Error("a spare is left")
	}
	// Closed, it still starts, without a spare.
	if exit := finish(t, must(start(other, "exit 0")), nil); !exit.Success() || w.waiting() != nil {
		t.Errorf("%+v", exit)
	}
}

func must(c *Child, err error) *Child {
	if err != nil {
		panic(err)
	}
	return c
}
