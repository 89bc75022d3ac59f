package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// play writes a configuration whose model plays a script, and returns the folder.
func play(t *testing.T, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "ws"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "s.yaml", script)
	writeFile(t, dir, "c.yaml", `data: `+dir+`/data
workspace: {root: `+dir+`/ws}
providers: [{id: s, kind: script, script: `+dir+`/s.yaml, models: [{id: m, price: {inputPerMTok: 1000, outputPerMTok: 2000}}]}]
`)
	return dir
}

func playing(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	return self(t, append(args[:1:1], append([]string{"--config", filepath.Join(dir, "c.yaml")}, args[1:]...)...)...)
}

const workScript = `answers:
  - when: {contains: build}
    reasoning: The user wants a build.
    text: "I will **build** it."
    tools: [{name: shell, arguments: {command: "echo made > out.txt; echo 'it is made'"}}]
  - when: {contains: build}
    text: "# Done\n\nIt is **built**."
  - when: {contains: wait}
    text: "waiting"
    stall: 1h
`

func TestChat(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}} {
		dir := play(t, workScript)
		c := atTerminal(t, size[0], size[1], playing(t, dir, "chat"))
		c.see("/help lists the commands")
		c.typing("please build\r")
		c.see("? Allow shell?")
		c.see("│ echo made > out.txt; echo 'it is made'")
		c.see("why: in mode default only reads run by themselves")
		c.see("▸ y yes, once")
		c.see("waits for you")
		c.typing("y\r")
		c.see("allowed once")
		c.see("✓ shell echo made > out.txt; echo 'it is made'")
		c.see("│ it is made")
		c.see("1 + made")
		c.see("Done")
		text := c.see("2 steps")
		for _, want := range []string{"› please build", "The user wants a build.", "I will build it.", "It is built."} {
			if !strings.Contains(text, want) {
				t.Errorf("%q isn't seen", want)
			}
		}
		if !exists(filepath.Join(dir, "ws", "out.txt")) {
			t.Error("the file wasn't written")
		}
		c.typing("/diff\r")
		c.until("the diff again", func(s string) bool { return strings.Count(s, "1 + made") == 2 })
		c.typing("/cost\r")
		c.see("2 model calls")
		c.typing("/undo\r")
		c.see("deleted     out.txt")
		c.see("undo it?")
		c.typing("n\r")
		c.see("nothing was changed")
		c.typing("/undo\r")
		c.until("the question again", func(s string) bool {
			return strings.Count(s, "deleted     out.txt") == 2 && strings.Contains(s, "undo it?")
		})
		c.typing("y\r")
		c.see("1 turn taken back")
		if exists(filepath.Join(dir, "ws", "out.txt")) {
			t.Error("the file is still there")
		}
		c.typing("/quit\r")
		c.see("agentd chat --continue resumes it")
		if code := c.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}

func TestChatQueuesSteersAndInterrupts(t *testing.T) {
	dir := play(t, workScript+`
  - when: {contains: louder}
    text: I AM LOUDER
`)
	c := atTerminal(t, 100, 30, playing(t, dir, "chat", "--mode", "auto"))
	c.see("/help lists")
	c.typing("wait for it\r")
	c.see("Enter queues, Alt-Enter steers")
	c.typing("then this\r")
	c.see("+ queued: then this")
	c.see("1 queued")
	c.typing("and that\r")
	c.see("2 queued")
	c.typing("/queue\r")
	c.see("▸ 1  then this")
	c.typing("\x1b[B")
	c.see("▸ 2  and that")
	c.typing("\x1b[3~")
	c.see("removed from the queue: and that")
	c.until("one in the queue", func(s string) bool { return strings.Contains(s, "1 queued ·") && !strings.Contains(s, "2  and that") })
	c.typing("\x1b")
	c.see("› Enter queues")
	c.typing("louder\x1b\r")
	c.see("↪ steered: louder")
	c.typing("\x03")
	c.see("✗ interrupted")
	c.see("You said: then this")
	c.see("› say what to do")
	c.typing("\x04")
	if code := c.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestChatComesBack(t *testing.T) {
	dir := play(t, workScript)
	c := atTerminal(t, 80, 24, playing(t, dir, "chat", "please build"))
	c.see("? Allow shell?")
	c.see("Enter answers")
	c.typing("\x03")
	c.see("✗ interrupted")
	c.see("› say what to do")
	c.typing("/quit\r")
	c.end()
	c = atTerminal(t, 80, 24, playing(t, dir, "chat", "--continue"))
	c.see("› please build")
	c.see("✗ interrupted")
	c.see("› say what to do")
	c.typing("\x1b[A")
	c.see("› please build\n  s/m")
	c.typing("\x03")
	c.see("› say what to do")
	c.typing("\x04")
	if code := c.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestChatOnAServer leaves while a question is open, and comes back to it.
func TestChatOnAServer(t *testing.T) {
	dir := play(t, workScript)
	p := start(t, filepath.Join(dir, "data"), "--config", filepath.Join(dir, "c.yaml"))
	c := atTerminal(t, 80, 24, p.chat(t, dir, "build"))
	c.see("? Allow shell?")
	c.see("Enter answers")
	c.typing("\x04")
	c.see("the server continues the turn")
	c.end()
	c = atTerminal(t, 80, 24, p.chat(t, dir, "--continue"))
	c.see("? Allow shell?")
	c.see("Enter answers")
	c.typing("n ")
	c.see("    why:")
	c.typing("not now\r")
	c.see("denied · not now")
	c.see("✗ shell")
	c.see("It is built.")
	c.see("› say what to do")
	c.typing("\x04")
	if code := c.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p.stop(syscall.SIGTERM)
}

// chat is a client of a server that runs.
func (p *process) chat(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(dir, "data", adminTokenFile))
	if err != nil {
		t.Fatal(err)
	}
	cmd := self(t, append([]string{"chat", "--server", p.url, "--data", filepath.Join(t.TempDir(), "none")}, args...)...)
	cmd.Env = append(cmd.Env, "AGENTD_TOKEN="+strings.TrimSpace(string(token)))
	return cmd
}

func TestChatNarrowAndResized(t *testing.T) {
	dir := play(t, workScript)
	c := atTerminal(t, 24, 10, playing(t, dir, "chat", "--mode", "auto"))
	c.see("› say what to do")
	c.typing("please build a thing that has a long description")
	c.see("iption")
	c.resize(60, 20)
	c.see("› please build a thing that has a long description")
	c.typing("\r")
	c.see("2 steps")
	c.see("› say what to do")
	// Each key is drawn after what was under way, so that the terminal is at rest then.
	c.does(step{keys: "x", sees: "› x"}, step{keys: "y", sees: "› xy"}, step{keys: "\x7f\x7f", sees: idle})
	c.resize(30, 12)
	c.typing("/help\r")
	text := c.see("@FILE")
	if n := strings.Count(text, "› say what"); n > 1 {
		t.Errorf("what was drawn is left behind %d times:\n%s", n, text)
	}
	c.typing("\x04")
	if code := c.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestChatQuestionIsResized makes the terminal narrower while a question waits: nothing of
// the question that was drawn before is left.
func TestChatQuestionIsResized(t *testing.T) {
	dir := play(t, workScript)
	c := atTerminal(t, 100, 24, playing(t, dir, "chat", "please build"))
	c.see("Enter answers")
	for _, cols := range []int{60, 40, 24, 50, 30, 100} {
		// Each key is drawn after what was under way, so that the terminal is at rest then.
		c.does(step{keys: "\x1b[B", sees: "▸ a"}, step{keys: "\x1b[A", sees: "▸ y"})
		c.resize(cols, 24)
		c.does(step{keys: "\x1b[B", sees: "▸ a"}, step{keys: "\x1b[A", sees: "▸ y"})
		if text := c.screen.Text(); strings.Count(text, "▸") != 1 || strings.Count(text, "Enter answers") > 1 {
			t.Fatalf("at %d columns:\n%s", cols, text)
		}
	}
	c.typing("n\r")
	c.see("› say what to do")
	c.typing("\x04")
	if code := c.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestChatDeadTerminal closes the terminal in mid-turn: the program ends, and so
// does the turn.
func TestChatDeadTerminal(t *testing.T) {
	dir := play(t, workScript)
	c := atTerminal(t, 80, 24, playing(t, dir, "chat", "wait"))
	c.see("Esc interrupts")
	if err := c.pty.Close(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait()
	if code := c.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	out, errs, code := program(t, "sessions", "--json", "--data", filepath.Join(dir, "data"))
	if code != 0 {
		t.Fatalf("sessions: %s", errs)
	}
	id, err := between(out, `"sessionId":"`, `"`)
	if err != nil {
		t.Fatal(err)
	}
	if out, _, _ := program(t, "events", "--data", filepath.Join(dir, "data"), id); !strings.Contains(out, "interrupted") {
		t.Errorf("the turn wasn't interrupted:\n%s", out)
	}
}

// TestChatAnswersLater: what a run in a pipe left open is asked when somebody is
// there, and the turn goes on.
func TestChatAnswersLater(t *testing.T) {
	dir := play(t, workScript)
	if err := playing(t, dir, "run", "please build").Run(); err == nil {
		t.Fatal("the turn didn't block")
	}
	refused := playing(t, dir, "run", "--continue", "and more")
	if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "waits for an answer") {
		t.Errorf("a turn was put behind one that waits: %v\n%s", err, out)
	}
	c := atTerminal(t, 80, 24, playing(t, dir, "chat", "--continue"))
	c.see("? Allow shell?")
	c.see("Enter answers")
	c.typing("a\r")
	c.see("allowed for this session")
	c.see("It is built.")
	c.typing("please build again\r")
	c.until("the second turn", func(s string) bool { return strings.Count(s, "2 steps") == 2 })
	if n := strings.Count(c.screen.Text(), "? Allow shell?"); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	c.see("› say what to do")
	c.typing("\x04")
	c.end()
}

func TestChatUsage(t *testing.T) {
	dir := play(t, workScript)
	for want, args := range map[string][]string{
		"can't be used together":  {"chat", "--continue", "--session", "sess_1"},
		"there is no session yet": {"chat", "--continue"},
		"there is no session x":   {"chat", "--session", "x"},
		"doesn't support --json":  {"chat", "--json"},
		"is not one of default":   {"chat", "--mode", "king"},
	} {
		c := atTerminal(t, 80, 24, playing(t, dir, args...))
		c.see(want)
		if code := c.end(); code == 0 {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}

func TestChatCommands(t *testing.T) {
	dir := play(t, workScript)
	c := atTerminal(t, 80, 40, playing(t, dir, "chat"))
	c.see("/help lists")
	for _, x := range []struct{ typed, want string }{
		{"/nothing", "there is no /nothing"},
		{"/undo", "the conversation is empty"},
		{"/mode sometimes", "unknown mode sometimes; use one of default"},
		{"/mode plan", "the next turns run in mode plan"},
		{"/interrupt", "nothing runs"},
		{"/model nobody/x", "there is no model nobody/x; use one of s/m"},
		{"/model s/m", "the next turns use s/m"},
		{"//path", "You said: /path"},
		{"/steer hello", "You said: hello"},
		{"/queue", "nothing waits"},
		{"/queue drop 7", "/queue drop N"},
		{"/compact", "context compacted"},
		{"/resume", "nothing to resume"},
		{"/why", "turn"},
		{"/tasks", "completed"},
		{"/agents", "there are no subagents"},
	} {
		c.see("› say what to do")
		c.typing(x.typed + "\r")
		c.see(x.want)
	}
	c.see("› say what to do")
	c.typing("\x1b[200~two\r\nlines\x1b[201~\r")
	c.see("› two\n  lines")
	c.see("You said: two lines")
	c.typing("/exit\r")
	if code := c.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
