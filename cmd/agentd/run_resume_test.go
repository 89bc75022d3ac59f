package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentd/event"
)

// killedAt runs agentd until a fact of a type was told, and kills it. It returns
// what was told.
func killedAt(t *testing.T, dir string, typ event.Type, args ...string) []*event.Event {
	t.Helper()
	cmd := playing(t, dir, append([]string{"run", "--json"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var told []*event.Event
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		e, err := event.Decode(lines.Bytes())
		if err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		if told = append(told, e); e.Type == typ {
			return told
		}
	}
	t.Fatalf("it ended before %s", typ)
	return nil
}

// TestContinueAfterAKill: what a process that opened the data itself left in the
// middle of a turn, the next one takes up and goes on.
func TestContinueAfterAKill(t *testing.T) {
	dir := play(t, "answers:\n  - {stall: 1h, text: one}\n")
	killedAt(t, dir, event.TypeModelRequested, "hello")
	writeFile(t, dir, "s.yaml", "answers:\n  - {text: first}\n  - {text: second}\n")
	cmd := playing(t, dir, "run", "--continue", "again")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || string(out) != "second\n" {
		t.Fatalf("%q, %v\n%s", out, err, &errs)
	}
	events := sessionEvents(t, dir)
	var turns []string
	for _, e := range events {
		switch p := e.Payload.(type) {
		case *event.TurnCompleted:
			turns = append(turns, p.Outcome)
		case *event.TurnFailed:
			t.Errorf("a turn failed: %+v", p)
		}
	}
	if len(turns) != 2 {
		t.Errorf("%d turns completed", len(turns))
	}
}

// sessionEvents returns the facts of the one session.
func sessionEvents(t *testing.T, dir string) []*event.Event {
	t.Helper()
	out, err := playing(t, dir, "sessions", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Sessions []struct {
			SessionID string `json:"sessionId"`
		} `json:"sessions"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	id := ""
	for _, s := range list.Sessions {
		if s.SessionID != event.RuntimeSession {
			id = s.SessionID
		}
	}
	if out, err = playing(t, dir, "events", "--json", id).Output(); err != nil {
		t.Fatal(err)
	}
	var events []*event.Event
	for line := range strings.Lines(string(out)) {
		e, err := event.Decode([]byte(strings.TrimSpace(line)))
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		events = append(events, e)
	}
	return events
}

// TestKilledWithAProcessInTheBackground: the next start ends it, and names it.
func TestKilledWithAProcessInTheBackground(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("skipped: the fate of processes; there is no /proc here")
	}
	dir := play(t, `answers:
  - tools: [{name: shell, arguments: {command: "sleep 1000", background: true}}]
  - {stall: 1h, text: one}
`)
	told := killedAt(t, dir, event.TypeToolResult, "--mode", "bypass", "hello")
	var started *event.ProcessStarted
	for _, e := range told {
		if p, ok := e.Payload.(*event.ProcessStarted); ok {
			started = p
		}
	}
	if started == nil || !started.Background {
		t.Fatalf("%+v", started)
	}
	writeFile(t, dir, "s.yaml", "answers:\n  - {text: zero}\n  - {text: first}\n  - {text: second}\n")
	if out, err := playing(t, dir, "run", "--continue", "again").CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	named, ended := false, false
	for _, e := range sessionEvents(t, dir) {
		switch p := e.Payload.(type) {
		case *event.HistoryReconstructed:
			named = named || strings.Contains(strings.Join(p.Recovered, "\n"), started.ProcessID)
		case *event.ProcessTerminated:
			ended = ended || (p.ProcessID == started.ProcessID && p.Reason == "recovery")
		}
	}
	if !named || !ended {
		t.Errorf("named %v, ended %v", named, ended)
	}
	gone := func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.FormatInt(started.Pid, 10) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ") || !strings.Contains(string(stat), "sleep") && !strings.Contains(string(stat), "agentd")
	}
	for i := 0; !gone(); i++ {
		if i == 6000 { // only a defect takes that long
			t.Fatal("it runs on")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestContinueAfterALostCall: what might have happened is not done again by itself.
func TestContinueAfterALostCall(t *testing.T) {
	dir := play(t, "answers:\n  - tools: [{name: shell, arguments: {command: \"sleep 1000\"}}]\n  - {text: done}\n")
	killedAt(t, dir, event.TypeProcessStarted, "--mode", "bypass", "hello")
	cmd := playing(t, dir, "run", "--continue", "again")
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != exitBlocked || !strings.Contains(string(out), "blocked") || !strings.Contains(string(out), "lost") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestContinueAsksForTheTurnBefore: where nobody else could answer, what the turn
// before asks is asked by the run that waits for it, or ends that run.
func TestContinueAsksForTheTurnBefore(t *testing.T) {
	dir := play(t, `answers:
  - {when: {contains: begin}, tools: [{name: write_file, arguments: {path: a, content: "1"}}]}
  - {when: {contains: begin}, tools: [{name: write_file, arguments: {path: b, content: "2"}}]}
  - {when: {contains: begin}, tools: [{name: write_file, arguments: {path: c, content: "3"}}]}
  - {when: {contains: begin}, text: begun}
`)
	config := []string{"--config", filepath.Join(dir, "c.yaml")}
	waiting := func(args ...string) (action string) {
		t.Helper()
		out, errs, code := program(t, append(append(args[:1:1], config...), args[1:]...)...)
		_, after, found := strings.Cut(errs, "waits for action ")
		action, _, _ = strings.Cut(after, ":")
		if code != exitBlocked || !found || out != "" {
			t.Fatalf("exit code %d, %q, %q", code, out, errs)
		}
		return action
	}
	approve := func(action string) {
		t.Helper()
		if _, errs, code := program(t, append([]string{"approve", action}, config...)...); code != 0 {
			t.Fatalf("exit code %d, %q", code, errs)
		}
	}
	first := waiting("run", "begin")
	approve(first)
	second := waiting("run", "--continue", "and then")
	if second == first || !exists(filepath.Join(dir, "ws", "a")) {
		t.Errorf("%s, then %s", first, second)
	}
	approve(second)
	// At a terminal it is asked, and both turns come to their end.
	c := atTerminal(t, 80, 24, playing(t, dir, "run", "--continue", "at last"))
	c.see("? Allow write_file?")
	c.typing("y\r")
	c.see("You said: at last")
	c.see("1 step")
	if code := c.end(); code != 0 || !exists(filepath.Join(dir, "ws", "c")) {
		t.Errorf("exit code %d", code)
	}
	if strings.Contains(c.screen.Text(), "begun") {
		t.Error("what the turn before says is shown")
	}
}
