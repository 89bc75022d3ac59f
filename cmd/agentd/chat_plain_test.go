package main

import (
	"strings"
	"testing"
)

// TestChatPlain: without drawing, nothing but lines is written, and everything can be
// done by lines.
func TestChatPlain(t *testing.T) {
	dir := play(t, workScript)
	for _, how := range [][]string{{"chat", "--plain"}, {"chat", "--screen-reader"}, {"chat"}} {
		env := "X=1"
		if len(how) == 1 {
			env = "TERM=dumb"
		}
		c := atTerminal(t, 80, 24, playing(t, dir, how...), env, "NO_COLOR=1")
		c.see("/help lists the commands")
		c.typing("please build\n")
		c.see("? Allow shell?")
		c.see("[y] once  [a] this session  [p] this project")
		c.typing("yes please\n")
		c.see("answer y, a, p or n")
		c.typing("y\n")
		c.see("It is built.")
		c.see("2 steps")
		c.typing("/model\n")
		c.see("1 s/m")
		c.typing("1\n")
		c.see("the next turns use s/m")
		c.typing("two \\\nlines\n")
		c.see("You said: two")
		c.see("1 step")
		c.typing("/undo\n")
		c.see("undo it?")
		c.typing("n\n")
		c.see("nothing was changed")
		c.typing("/help\n")
		c.see("/quit")
		c.typing("/quit\n")
		c.see("resumes it")
		if code := c.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if strings.Contains(c.raw.String(), "\x1b") {
			t.Errorf("%v: something was drawn: %q", how, c.raw.String())
		}
	}
}

// TestPlainQuestionIsLeft leaves the chat while a question waits. The question is still
// there for the next client.
func TestPlainQuestionIsLeft(t *testing.T) {
	dir := play(t, workScript)
	c := atTerminal(t, 80, 24, playing(t, dir, "chat", "--plain", "please build"), "NO_COLOR=1")
	c.see("[y] once")
	c.typing("/quit\n")
	c.see("resumes it")
	if code := c.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestPlainCommandsAtAQuestion: commands work while a question waits, lists are chosen from
// without answering it, and the question is asked again behind them.
func TestPlainCommandsAtAQuestion(t *testing.T) {
	dir := play(t, workScript)
	c := atTerminal(t, 100, 40, playing(t, dir, "chat", "--plain", "please build"), "NO_COLOR=1")
	asked := 0
	again := func() {
		t.Helper()
		asked++
		c.until("the question again", func(text string) bool { return strings.Count(text, "[y] once") >= asked })
	}
	again()
	for _, line := range []struct{ typed, sees string }{
		{"/status", "waits for  you: Allow shell?"},
		{"/why", "shell was to be asked about"},
		{"/mode auto", "the next turns run in mode auto"},
		{"/cost", "1 model call"},
		{"/help", "/interrupt"},
		{"/undo", "a turn runs; /interrupt it first"},
		{"/nonsense", "there is no /nonsense"},
		{"go on, please", "answer y, a, p or n; commands such as /why"},
	} {
		c.typing(line.typed + "\n")
		c.see(line.sees)
		again()
	}
	c.typing("/model\n")
	c.see("number, or nothing to leave it:")
	c.typing("y\n") // not the question's
	c.see("choose 1 to 1")
	c.typing("1\n")
	c.see("the next turns use s/m")
	again()
	c.typing("y\n")
	c.see("It is built.")
	c.see("2 steps")
	c.typing("/quit\n")
	if code := c.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	// In a pipe, too, and what commands say is there before the program ends.
	cmd := playing(t, dir, "chat")
	cmd.Stdin = strings.NewReader("please build\n/status\ny\n/cost\n/export\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v", err)
	}
	at := 0
	for _, want := range []string{"? Allow shell?", "waits for  you", "It is built.", "2 model calls", "written: "} {
		i := strings.Index(string(out)[at:], want)
		if i < 0 {
			t.Fatalf("%q is missing or not in order:\n%s", want, out)
		}
		at += i
	}
}

// TestPlainForms: what a schema describes is asked for field by field where lines are read,
// in a conversation as in a single turn; in a pipe the object may come whole.
func TestPlainForms(t *testing.T) {
	dir := play(t, featureScript)
	for _, args := range [][]string{{"chat", "--plain", "form please"}, {"run", "form please"}} {
		c := atTerminal(t, 100, 24, playing(t, dir, args...), "NO_COLOR=1")
		c.see("? Tell me about it")
		c.see("name (what it is called):")
		c.typing("thing\n")
		c.see("size (a whole number):")
		c.typing("many\n")
		c.see("size must be a whole number")
		c.typing("7\n")
		c.see("colour (1 red, 2 green; may be left empty):")
		c.typing("\n")
		c.see("Thank you.")
		if args[0] == "chat" {
			c.see("answered: name: thing, size: 7")
			c.typing("/quit\n")
		}
		if code := c.end(); code != 0 {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
	for _, in := range []string{"form please\n{\"name\":\"thing\",\"size\":7}\n", "form please\nthing\n7\n\n"} {
		cmd := playing(t, dir, "chat")
		cmd.Stdin = strings.NewReader(in)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "answered: name: thing, size: 7") || !strings.Contains(string(out), "Thank you.") {
			t.Errorf("%q: %v\n%s", in, err, out)
		}
	}
}

// TestChatInAPipe: each line is a turn, or answers what the turn before asked.
func TestChatInAPipe(t *testing.T) {
	dir := play(t, workScript)
	for _, tt := range []struct {
		in   string
		code int
		want []string
	}{
		{"hello\nand bye\n", 0, []string{"You said: hello", "You said: and bye"}},
		{"please build\ny\nlast\n", 0, []string{"It is built.", "You said: last"}},
		{"please build\n", 3, []string{"? Allow shell?", "waits for an answer"}},
		{"", 0, []string{"new session"}},
	} {
		cmd := playing(t, dir, "chat")
		cmd.Stdin = strings.NewReader(tt.in)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != tt.code {
			t.Errorf("%q: exit code %d, want %d", tt.in, code, tt.code)
		}
		at := 0
		for _, want := range tt.want {
			i := strings.Index(string(out)[at:], want)
			if i < 0 {
				t.Fatalf("%q: %q is missing or not in order:\n%s", tt.in, want, out)
			}
			at += i
		}
		if strings.Contains(string(out), "\x1b") {
			t.Errorf("%q: something was drawn:\n%q", tt.in, out)
		}
	}
}
