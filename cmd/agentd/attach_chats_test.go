package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// chats opens a session in several terminals.
func (p *person) chats(n int, sessionID string) []*console {
	p.Helper()
	open := make([]*console, n)
	for i := range open {
		open[i] = atTerminal(p.T, 80, 24, p.command("chat", "--session", sessionID))
	}
	for _, c := range open {
		c.see("› say what to do")
	}
	return open
}

// Chats in as many terminals, and editors, are in one session on one server: what one
// asks all see, what one answers settles in all, and the server is killed under them.
func shareSession(t *testing.T, terminals, editors int) {
	p := newPerson(t)
	p.output("run", "hello")
	id := p.sessions()[0].SessionID
	open := p.chats(terminals, id)
	agents := make([]*pipe, editors)
	for i := range agents {
		agents[i] = p.editor()
	}
	first, last := open[0], open[len(open)-1]
	first.typing("please build\r")
	for _, c := range open {
		c.see("? Allow write_file?")
		c.see("Enter answers")
	}
	last.typing("y\r")
	for _, c := range open {
		c.see("It is built.")
		c.gone("Enter answers")
	}
	if made, err := os.ReadFile(filepath.Join(p.project, "out.txt")); err != nil || string(made) != "made\n" {
		t.Errorf("%q, %v", made, err)
	}
	p.killServer()
	first.typing("after\r")
	for _, c := range open {
		c.see("You said: after")
	}
	// The question of another turn, asked on the next server.
	last.typing("please build\r")
	for _, c := range open {
		c.until("the second question", func(text string) bool {
			return strings.Count(text, "please build") >= 2 && strings.Contains(c.screen.Screen(), "Enter answers")
		})
	}
	first.typing("n ")
	first.see("    why:")
	first.typing("not again\r")
	for _, c := range open {
		c.gone("Enter answers")
	}
	for i, e := range agents {
		if got := e.sessions(); got != 1 {
			t.Errorf("editor %d sees %d sessions", i, got)
		}
	}
	for i, c := range open {
		c.leave()
		for _, once := range []string{"You said: after", "› after"} {
			if n := strings.Count(c.screen.Text(), once); n != 1 {
				t.Errorf("terminal %d shows %q %d times", i, once, n)
			}
		}
	}
	if got := p.sessions(); len(got) != 1 || got[0].TurnCount != 4 {
		t.Errorf("%+v", got)
	}
	if n := p.starts(); n != 2 {
		t.Errorf("%d servers were started", n)
	}
}

func TestChatsShareOneSession(t *testing.T) { shareSession(t, 3, 1) }

func TestLongManyChatsShareOneSession(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("set AGENTD_TEST_LONG to open twenty terminals and five editors")
	}
	shareSession(t, 20, 5)
}

// Without a command, agentd is the chat at a terminal and the help in a pipe.
func TestPlainAgentd(t *testing.T) {
	p := newPerson(t)
	c := atTerminal(t, 80, 24, p.command())
	c.see("› say what to do")
	c.typing("hello\r")
	c.see("You said: hello")
	c.leave()
	if out := p.output(); !strings.Contains(out, "Usage:") {
		t.Error(out)
	}
	if c := atTerminal(t, 80, 24, p.command("--json")); !strings.Contains(c.see("Usage:"), "agentd") || c.end() != 0 {
		t.Error("with --json it isn't the help")
	}
}

// A list for people has the sessions of the project that they are in.
func TestSessionsOfTheProject(t *testing.T) {
	p := newPerson(t)
	p.output("run", "alpha")
	other := *p
	other.project = filepath.Join(p.home, "other")
	if err := os.MkdirAll(filepath.Join(other.project, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	list := func(p *person, args ...string) string {
		t.Helper()
		out, err := p.command(append([]string{"sessions"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if text := list(&other); !strings.Contains(text, "No sessions in "+other.project) || !strings.Contains(text, "1 more in other folders: agentd sessions --all") {
		t.Error(text)
	}
	other.output("run", "beta")
	inside := other
	inside.project = filepath.Join(other.project, "deep")
	if err := os.Mkdir(inside.project, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, in := range []*person{&other, &inside} {
		if text := list(in); !strings.Contains(text, "beta") || strings.Contains(text, "alpha") || !strings.Contains(text, "1 more") {
			t.Error(text)
		}
	}
	if text := list(&other, "--all"); !strings.Contains(text, "beta") || !strings.Contains(text, "alpha") || strings.Contains(text, "more in") {
		t.Error(text)
	}
	if text := list(&other, "--workspace", p.project); strings.Contains(text, "beta") || !strings.Contains(text, "alpha") {
		t.Error(text)
	}
	if n := len(other.sessions()); n != 2 { // with --json
		t.Errorf("%d sessions", n)
	}
}

// Two terminals with different configurations, or keys, don't take the server away from
// each other in turn.
func TestTwoConfigurations(t *testing.T) {
	p := newPerson(t)
	user := filepath.Join(p.home, ".config", "agentd", "config.yaml")
	text, err := os.ReadFile(user)
	if err != nil {
		t.Fatal(err)
	}
	second := writeFile(t, p.home, "second.yaml", strings.ReplaceAll(string(text), "id: m,", "id: n,"))
	run := func(env ...string) (string, int) {
		t.Helper()
		cmd := p.command("run", "hello")
		cmd.Env = append(cmd.Env, env...)
		out, _ := cmd.CombinedOutput() // the exit code says it
		return string(out), cmd.ProcessState.ExitCode()
	}
	works := func(starts int, env ...string) {
		t.Helper()
		if out, code := run(env...); code != 0 || !strings.Contains(out, "You said: hello") || strings.Contains(out, "warning") {
			t.Errorf("%d: %s", code, out)
		}
		if n := p.starts(); n != starts {
			t.Errorf("%d servers were started, want %d", n, starts)
		}
	}
	works(1)
	open := p.pipe("stdio") // of the first configuration
	open.call("subscribe", map[string]any{}, nil)
	works(2, "AGENTD_CONFIG="+second) // what is new counts at once
	// Whether the first one has found the new server yet or not, it is there.
	if out, code := run(); code != 1 || !strings.Contains(out, second) || !strings.Contains(out, "agentd daemon restart") || !strings.Contains(out, "--data") {
		t.Errorf("%d: %s", code, out)
	}
	works(2, "AGENTD_CONFIG="+second)
	if out := p.output("sessions", "--json"); !strings.Contains(out, "sess") {
		t.Error(out)
	}
	p.output("daemon", "restart")
	works(3)
	// A change of the file counts, also one back.
	writeFile(t, filepath.Dir(user), "config.yaml", string(text)+"daemon: {idle: 29m}\n")
	works(4)
	writeFile(t, filepath.Dir(user), "config.yaml", string(text))
	works(5)
	// A key that differs is used once; then the server stays as it is, and says so.
	works(6, "NO_PROXY=one")
	works(7, "NO_PROXY=two")
	out, code := run("NO_PROXY=one")
	if code != 0 || !strings.Contains(out, "another value of NO_PROXY") || !strings.Contains(out, "agentd daemon restart") || p.starts() != 7 {
		t.Errorf("%d, %d starts: %s", code, p.starts(), out)
	}
	// Nobody else is there: nobody is disturbed.
	if err := open.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open.end(); err != nil {
		t.Error(err)
	}
	works(8, "NO_PROXY=one")
}
