package work_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/store/pebble"
)

// The crash test kills a real process, this test binary, while it works on a job.
// Afterwards every item must have ended once.

const (
	crashDir   = "AGENTD_JOB_CRASH_DIR"
	crashItems = "AGENTD_JOB_CRASH_ITEMS"
	crashAfter = "AGENTD_JOB_CRASH_AFTER"
	crashJob   = "job_crash"
	crashSess  = "sess_crash"
)

// badEvery is one item in twenty, which fails at every attempt.
const badEvery = 20

func crashWord(i int) string {
	if i%badEvery == 7 {
		return fmt.Sprintf("bad %d", i)
	}
	return numberWord(i)
}

// pebbleStage is a stage over a store on disk.
func pebbleStage(t testing.TB, dir string) *stage {
	t.Helper()
	s, err := pebble.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := &stage{TB: t, store: s, mode: "bypass", script: &script.Script{Answers: []script.Answer{when("bad", boom(false))}}}
	k.open()
	return k
}

// TestJobCrashChild is the process that is killed; on its own it does nothing.
func TestJobCrashChild(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		t.Skip("it is started by the crash test")
	}
	var n, killAfter, ended int
	if _, err := fmt.Sscan(os.Getenv(crashItems)+" "+os.Getenv(crashAfter), &n, &killAfter); err != nil {
		t.Fatal(err)
	}
	k := pebbleStage(t, dir)
	k.patience = 20 * time.Minute
	_, _ = k.runCommand(command.Local(), &command.CreateSession{SessionID: crashSess})
	k.job(command.CreateJob{
		JobID: crashJob, SessionID: crashSess, Items: items(n, crashWord), Concurrency: 16,
		RetryPolicy: &event.RetryPolicy{MaxAttempts: 2, BackoffMs: 1}, FailuresAllowed: command.Allowance(n),
	})
	k.until(crashSess, func(e *event.Event) bool {
		switch e.Type {
		case event.TypeJobItemCompleted, event.TypeJobItemFailed:
			if ended++; ended == killAfter {
				die(t)
			}
		case event.TypeJobCompleted:
			return true
		}
		return false
	})
	k.stop()
	if err := k.store.Close(); err != nil {
		t.Fatal(err)
	}
	fmt.Println("finished")
}

// die kills this process. It does so itself because another one may come too late.
func die(t *testing.T) {
	t.Helper()
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	select {}
}

// runCrashChild starts the child, which is killed after so many items ended; with 0
// it runs to its end.
func runCrashChild(t *testing.T, dir string, n, killAfter int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestJobCrashChild$", "-test.timeout=20m")
	cmd.Env = append(os.Environ(), crashDir+"="+dir, fmt.Sprintf("%s=%d", crashItems, n), fmt.Sprintf("%s=%d", crashAfter, killAfter),
		"TMPDIR="+t.TempDir()) // it can't clean up
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	finished := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch line := lines.Text(); {
		case line == "finished":
			finished = true
		case strings.Contains(line, "FAIL"):
			t.Error(line)
		}
	}
	err = cmd.Wait()
	if killAfter == 0 && (err != nil || !finished) {
		t.Fatalf("the last child: %v, finished: %v", err, finished)
	}
	if killAfter > 0 && (err == nil || !strings.Contains(err.Error(), "killed")) {
		t.Fatalf("the child was not killed: %v", err)
	}
}

func TestJobOverKills(t *testing.T) { crashOver(t, 300) }

func TestLongJobOverKills(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("10,000 items: set AGENTD_TEST_LONG")
	}
	crashOver(t, 10_000)
}

func crashOver(t *testing.T, n int) {
	dir := t.TempDir()
	start := time.Now()
	for i := 1; i <= 3; i++ {
		runCrashChild(t, dir, n, n*i/4)
	}
	runCrashChild(t, dir, n, 0)
	t.Logf("%d items with 3 kills in %s", n, time.Since(start))
	checkCrashed(t, dir, n)
}

// itemStory is what the facts say of one item.
type itemStory struct{ started, failed, retried, completed int }

// checkCrashed checks the facts against what the items had to give.
func checkCrashed(t *testing.T, dir string, n int) {
	t.Helper()
	s, err := pebble.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	report, err := session.Verify(context.Background(), s, session.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range report.Problems {
		t.Error(p)
	}
	k := &stage{TB: t, store: s}
	stories := map[string]*itemStory{}
	story := func(id string) *itemStory {
		if stories[id] == nil {
			stories[id] = &itemStory{}
		}
		return stories[id]
	}
	var end *event.JobStatusChanged
	for _, e := range k.events(crashSess) {
		switch p := e.Payload.(type) {
		case *event.JobItemStarted:
			x := story(e.JobItemID)
			if x.started++; p.AttemptCount != int64(x.started) {
				t.Errorf("%s: start %d is attempt %d", e.JobItemID, x.started, p.AttemptCount)
			}
		case *event.JobItemFailed:
			x := story(e.JobItemID)
			x.failed++
			if p.WillRetry {
				x.retried++
			}
		case *event.JobItemCompleted:
			story(e.JobItemID).completed++
		case *event.JobStatusChanged:
			end = p
		}
	}
	if len(stories) != n {
		t.Errorf("%d items were worked on", len(stories))
	}
	for i := range n {
		id, want := fmt.Sprintf("item_%06d", i+1), itemStory{started: 1, completed: 1}
		if i%badEvery == 7 {
			want = itemStory{started: 2, failed: 2, retried: 1}
		}
		if got := stories[id]; got == nil || *got != want {
			t.Errorf("%s: %+v, want %+v", id, got, want)
		}
	}
	bad := int64(n / badEvery)
	if end == nil || end.Status != "completed" || *end.Progress != (event.JobCounts{Completed: int64(n) - bad, Failed: bad, Total: int64(n)}) {
		t.Errorf("the end: %+v", end)
	}
}
