package main

import (
	"bufio"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const liveConfig = `data: data
providers:
  - {id: script, kind: script, script: s.yaml, models: [{id: test, capabilities: [tools, streaming]}]}
routing: {default: script/test}
`

const liveScript = `answers:
  - {when: {contains: forever}, text: slow, stall: 1h}
`

// besides is a command of agentd in the directory of another.
func besides(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := self(t, append(args, "--config", filepath.Join(dir, "c.yaml"))...)
	cmd.Dir = dir
	return cmd
}

// says runs a command to its end and returns what it wrote.
func says(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// exitCode waits for the program. What is drawn again uses more of a terminal than
// the emulator knows.
func exitCode(c *console) int {
	c.done.Wait()
	_ = c.cmd.Wait() // the code says it
	return c.cmd.ProcessState.ExitCode()
}

// TestJobShowsABarAtATerminal has a job whose last item doesn't end: the bar stands
// at two of three, and Ctrl-C ends the job with what is done.
func TestJobShowsABarAtATerminal(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "c.yaml", liveConfig)
	writeFile(t, dir, "s.yaml", liveScript)
	writeFile(t, dir, "items.jsonl", "\"one\"\n\"two\"\n\"forever\"\n")
	c := atTerminal(t, 120, 30, besides(t, dir, "job", "run", "items.jsonl", "--instruction", "Say it."))
	c.see("] 2/3  1 running  0 failed")
	c.see(`"output":"You said: Say it.`)
	c.mu.Lock()
	raw := c.raw.String()
	c.mu.Unlock()
	if !strings.Contains(raw, "\r\x1b[K") {
		t.Errorf("the bar is not drawn again: %q", raw)
	}
	c.until("one bar", func(text string) bool { return strings.Count(text, "] ") == 1 })
	c.typing("\x03")
	c.see("was cancelled; finished items stay")
	if code := exitCode(c); code != 1 {
		t.Errorf("the exit code is %d", code)
	}
	if out := says(t, besides(t, dir, "jobs")); !strings.Contains(out, "cancelled") || !strings.Contains(out, "3/3") {
		t.Errorf("afterwards: %s", out)
	}
}

// serveIn runs a server over the directory until the test ends.
func serveIn(t *testing.T, dir string) {
	t.Helper()
	server := besides(t, dir, "serve", "--listen", "127.0.0.1:0")
	listens, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = server.Wait()
	})
	first := bufio.NewReader(listens)
	if line, err := first.ReadString('\n'); err != nil || !strings.Contains(line, "listens") {
		t.Fatalf("the server said %q: %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, first) }() // it ends with the server
}

// piped starts a command whose output is a pipe; until reads it to a line with a
// text.
func piped(t *testing.T, cmd *exec.Cmd) (running *exec.Cmd, until func(text string)) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	return cmd, func(text string) {
		t.Helper()
		var all []string
		for lines.Scan() {
			all = append(all, lines.Text())
			if strings.Contains(lines.Text(), "\x1b[2J") {
				t.Errorf("a pipe is drawn like a terminal: %q", lines.Text())
			}
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("the pipe ended without %q: %q", text, all)
	}
}

// TestJobsAndSubagentsAreFollowed is TestTasksAreFollowed for the other two.
func TestJobsAndSubagentsAreFollowed(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "c.yaml", liveConfig)
	writeFile(t, dir, "s.yaml", liveScript)
	serveIn(t, dir)
	says(t, besides(t, dir, "call", "create_session", `{"sessionId":"sess_f"}`))
	says(t, besides(t, dir, "call", "create_job", `{"jobId":"job_f","sessionId":"sess_f","instruction":"Say it.","start":false,"items":[{"input":"one"},{"input":"two"},{"input":"forever"}]}`))
	main := says(t, besides(t, dir, "call", "get_session", `{"sessionId":"sess_f"}`))
	thread, err := between(main, `"threadId":"`, `"`)
	if err != nil {
		t.Fatal(err)
	}
	jobs := atTerminal(t, 120, 20, besides(t, dir, "jobs", "-f", "--session", "sess_f"))
	jobs.see("[..........]  0/3")
	children := atTerminal(t, 120, 20, besides(t, dir, "subagents", "-f", "sess_f"))
	children.see("no subagents")
	jobLines, untilJob := piped(t, besides(t, dir, "jobs", "-f", "--session", "sess_f"))
	untilJob("job_f")
	childLines, untilChild := piped(t, besides(t, dir, "subagents", "-f", "sess_f"))
	untilChild("SUBAGENT")

	says(t, besides(t, dir, "call", "start_job", `{"jobId":"job_f"}`))
	jobs.see("[######....]  2/3")
	untilJob("job_f 2/3  1 running  0 failed")
	says(t, besides(t, dir, "call", "cancel_job", `{"jobId":"job_f"}`))
	jobs.see("cancelled  [##########]  3/3")
	untilJob("job_f 3/3  0 running  1 failed")
	says(t, besides(t, dir, "call", "spawn_subagent", `{"subagentId":"sub_f","sessionId":"sess_f","threadId":"`+thread+`","role":"helper","input":"hello"}`))
	children.see("You said: hello")
	untilChild("sub_f")

	for _, c := range []*exec.Cmd{jobLines, childLines} {
		_ = c.Process.Signal(syscall.SIGINT)
		if err := c.Wait(); err != nil {
			t.Errorf("the pipe ended with %v", err)
		}
	}
	for _, c := range []*console{jobs, children} {
		c.typing("\x03")
		if code := exitCode(c); code != 0 {
			t.Errorf("the exit code is %d", code)
		}
	}
}

// TestTasksAreFollowed shows changes as they come: lines in a pipe, the list drawn
// anew at a terminal.
func TestTasksAreFollowed(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "c.yaml", liveConfig)
	writeFile(t, dir, "s.yaml", liveScript)
	serveIn(t, dir)
	says(t, besides(t, dir, "call", "create_session", `{"sessionId":"sess_f"}`))
	says(t, besides(t, dir, "call", "create_task", `{"taskId":"task_f","sessionId":"sess_f","objective":"Ship it","worker":"external","start":true}`))

	screen := atTerminal(t, 120, 20, besides(t, dir, "tasks", "-f", "--session", "sess_f"))
	screen.see("running")
	pipe, until := piped(t, besides(t, dir, "tasks", "-f", "--session", "sess_f"))
	until("task_f")
	says(t, besides(t, dir, "call", "append_task_progress", `{"taskId":"task_f","progress":{"percent":40,"phase":"working"}}`))
	until("task_f 40% working")
	screen.see("[####......]  40% working")
	says(t, besides(t, dir, "call", "complete_task", `{"taskId":"task_f"}`))
	until("task.completed")
	screen.see("completed")
	_ = pipe.Process.Signal(syscall.SIGINT)
	if err := pipe.Wait(); err != nil {
		t.Errorf("the pipe ended with %v", err)
	}
	screen.typing("\x03")
	if code := exitCode(screen); code != 0 {
		t.Errorf("the exit code is %d", code)
	}
}
