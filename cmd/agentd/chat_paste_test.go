package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/cmd/agentd/internal/terminal"
)

// seesTimes waits until a text was written so many times.
func (c *console) seesTimes(n int, text string) {
	c.t.Helper()
	c.until(fmt.Sprintf("%q %d times", text, n), func(all string) bool { return strings.Count(all, text) >= n })
}

// TestPlainPastesAnswerNothing: where lines are read, several that come at once answer
// nothing, whatever they say and wherever an answer stands among them; one that is typed
// does.
func TestPlainPastesAnswerNothing(t *testing.T) {
	dir := play(t, workScript)
	made := filepath.Join(dir, "ws", "out.txt")
	c := atTerminal(t, 80, 60, playing(t, dir, "chat", "--plain", "please build"), "NO_COLOR=1")
	asked, refused, wrong := 1, 0, 0
	c.seesTimes(asked, "[y] once")
	for _, paste := range []string{"look at this\ny\nand that\n", "y\nis what they said\n", "is it?\ny\n", "a\r\np\r\n", "y\ny\n", "/status\ny\n", "n\ny\n"} {
		c.typing(paste)
		asked, refused = asked+1, refused+1
		c.seesTimes(refused, terminal.SeveralLines)
		c.seesTimes(asked, "[y] once")
	}
	// The end of a paste that doesn't end with a line is nobody's answer, either.
	c.typing("look here\ny")
	asked, wrong = asked+1, wrong+1
	c.seesTimes(wrong, "answer y, a, p or n")
	c.seesTimes(asked, "[y] once")
	c.typing("\n")
	asked, wrong = asked+1, wrong+1
	c.seesTimes(wrong, "answer y, a, p or n")
	c.seesTimes(asked, "[y] once")
	if exists(made) {
		t.Error("a paste was taken for an answer")
	}
	c.typing("y\n")
	c.see("It is built.")
	c.see("2 steps")
	if !exists(made) {
		t.Error("what was answered wasn't done")
	}
	// The client's own questions.
	c.typing("/undo\n")
	c.see("undo it?")
	c.typing("here\ny\nit is\n")
	c.seesTimes(refused+1, terminal.SeveralLines)
	c.seesTimes(2, "undo it?")
	if !exists(made) {
		t.Error("a paste took a turn back")
	}
	c.typing("n\n")
	c.see("nothing was changed")
	// Lines that come before a question are what they would have been without it.
	c.typing("please build again\ny\n")
	c.see("+ queued: y")
	asked++
	c.seesTimes(asked, "[y] once")
	c.typing("/queue drop 1\n")
	c.see("removed from the queue: y")
	c.typing("n\n")
	c.see("denied")
	c.typing("/quit\n")
	if code := c.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestPastesAnswerNothingInARun: the questions of a single turn, and those of commands.
func TestPastesAnswerNothingInARun(t *testing.T) {
	dir := play(t, workScript)
	made := filepath.Join(dir, "ws", "out.txt")
	c := atTerminal(t, 80, 40, playing(t, dir, "run", "please build"), "NO_COLOR=1")
	c.seesTimes(1, "[y] once")
	for i, paste := range []string{"y\nmore\n", "look\ny\nhere"} {
		c.typing(paste)
		c.seesTimes(i+1, terminal.SeveralLines)
		c.seesTimes(i+2, "[y] once")
	}
	if exists(made) {
		t.Error("a paste was taken for an answer")
	}
	c.typing("y\n")
	c.see("It is built.")
	if code := c.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for i, typed := range []string{"y\nand more\n", "no\ny\n", "y\n"} {
		c = atTerminal(t, 80, 24, playing(t, dir, "undo"), "NO_COLOR=1")
		c.see("Undo it? [y/N]")
		c.typing(typed)
		if code := c.end(); (code == 0) != (i == 2) || exists(made) != (i < 2) {
			t.Errorf("%q: exit code %d, the file is there: %t", typed, code, exists(made))
		}
	}
}

// twoCalls asks for a value, then whether it may call the shell, and whether it may again.
const twoCalls = `answers:
  - ask: {prompt: "Which colour?"}
  - tools: [{name: shell, arguments: {command: "echo made > out.txt; until test -e go; do sleep 0.1; done"}}]
  - tools: [{name: shell, arguments: {command: "echo more >> out.txt"}}]
  - text: That is all.
`

// TestLinesTypedAheadAnswer: what is typed in a run before something is asked answers that;
// what was pasted into a question for a value decides nothing behind it.
func TestLinesTypedAheadAnswer(t *testing.T) {
	dir := play(t, twoCalls)
	made := filepath.Join(dir, "ws", "out.txt")
	c := atTerminal(t, 80, 60, playing(t, dir, "run", "work"), "NO_COLOR=1")
	c.see("? Which colour?") // it is the question, not what goes on
	c.typing("green\ny\ny\n")
	c.seesTimes(1, "[y] once")
	if exists(made) {
		t.Error("the rest of a paste was taken for an answer")
	}
	c.typing("y\n")
	c.see("shell echo made") // it runs
	c.typing("n typed ahead\n")
	c.see("n typed ahead")
	if err := os.WriteFile(filepath.Join(dir, "ws", "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.see("That is all.")
	if code := c.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if b, err := os.ReadFile(made); err != nil || string(b) != "made\n" {
		t.Errorf("%q, %v", b, err)
	}
}
