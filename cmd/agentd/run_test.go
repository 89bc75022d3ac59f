package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

func TestRunAtATerminal(t *testing.T) {
	dir := play(t, workScript)
	c := atTerminal(t, 80, 24, playing(t, dir, "run", "please build"))
	c.see("? Allow shell?")
	c.see("│ echo made > out.txt")
	c.see("why: in mode default")
	c.see("if you like:")
	c.typing("perhaps\r")
	c.see("answer y, a, p or n\n")
	c.typing("y\r")
	c.see("2 steps")
	if code := c.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	text := c.screen.Text()
	for _, want := range []string{"  The user wants a build.\n", "\nI will build it.\n", "✓ shell echo made", "  │ it is made\n", "  + out.txt\n", "\nDone\n\nIt is built.\n", "tokens · $"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q isn't seen", want)
		}
	}
	if strings.Contains(text, "thinking") || strings.Contains(text, "**") {
		t.Error("something that should have vanished is still there")
	}
}

func TestRunIsDenied(t *testing.T) {
	dir := play(t, workScript)
	c := atTerminal(t, 80, 24, playing(t, dir, "run", "please build"))
	c.see("if you like:")
	c.typing("n not on a Friday\r")
	c.see("2 steps")
	c.end()
	if text := c.screen.Text(); !strings.Contains(text, "✗ shell") || !strings.Contains(text, "not on a Friday") || exists(filepath.Join(dir, "ws", "out.txt")) {
		t.Error("the call wasn't denied with its reason")
	}
}

// TestRunSaysThatAnAnswerIsCut: a part of an answer is not taken for the whole.
func TestRunSaysThatAnAnswerIsCut(t *testing.T) {
	dir := play(t, "answers:\n  - {text: half a sent, stopReason: max_tokens}\n")
	c := atTerminal(t, 80, 24, playing(t, dir, "run", "hello"))
	c.see("half a sent")
	c.see("the answer is cut off")
	c.see("1 step")
	if code := c.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestRunWithoutColour(t *testing.T) {
	dir := play(t, workScript)
	for variable, live := range map[string]bool{"NO_COLOR=1": true, "TERM=dumb": false} {
		c := atTerminal(t, 80, 24, playing(t, dir, "run", "--mode", "auto", "please build"), variable)
		c.see("2 steps")
		c.end()
		raw := c.raw.String()
		if regexp.MustCompile(`\x1b\[[0-9;]*m`).MatchString(raw) {
			t.Errorf("%s: there is colour: %q", variable, raw)
		}
		if got := strings.Contains(raw, "\x1b["); got != live {
			t.Errorf("%s: the cursor is moved: %v", variable, got)
		}
	}
}

// TestRunInterrupted presses Ctrl-C once: the turn is interrupted and its end
// awaited.
func TestRunInterrupted(t *testing.T) {
	dir := play(t, "answers:\n  - {text: a b, delay: 1h}\n")
	c := atTerminal(t, 80, 24, playing(t, dir, "run", "hello"))
	c.see("thinking")
	c.typing("\x03")
	c.see("agentd: interrupted")
	if code := c.end(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	out, errs, _ := program(t, "sessions", "--data", filepath.Join(dir, "data"))
	if !strings.Contains(out, "cancelled") {
		t.Errorf("the session is not at rest:\n%s%s", out, errs)
	}
}

// TestRunTwiceInterrupted presses Ctrl-C again while a tool takes its time to end.
func TestRunTwiceInterrupted(t *testing.T) {
	dir := play(t, "answers:\n  - tools: [{name: shell, arguments: {command: \"trap '' TERM INT; echo going; sleep 1000\"}}]\n")
	c := atTerminal(t, 80, 24, playing(t, dir, "run", "--mode", "bypass", "hello"))
	c.see("│ going")
	c.typing("\x03")
	c.typing("\x03")
	if code := c.end(); code == 0 {
		t.Errorf("exit code %d", code)
	}
}

// silentInput says that it is read, and then has nothing for anybody.
type silentInput struct{ read func() }

func (s silentInput) Read([]byte) (int, error) {
	s.read()
	select {}
}

// TestInterruptedInput stops commands that wait for standard input.
func TestInterruptedInput(t *testing.T) {
	dir := play(t, workScript)
	for _, args := range [][]string{
		{"run", "-"},
		{"submit", "-"},
		{"tasks", "create", "-"},
		{"call", "list_sessions", "-"},
		{"job", "run", "--instruction", "x", "-"},
		{"schedules", "create", "--every", "1h", "--instruction", "x", "--items", "-"},
	} {
		ctx, stop := context.WithCancel(t.Context())
		var out, errs bytes.Buffer
		code := (&Main{}).Run(ctx, append(args, "--config", filepath.Join(dir, "c.yaml")), silentInput{stop}, &out, &errs, nil)
		if code != 1 || !strings.Contains(errs.String(), "interrupted") {
			t.Errorf("%v: exit code %d\n%s", args, code, errs.String())
		}
	}
}

// TestUndoInterrupted presses Ctrl-C where undo asks.
func TestUndoInterrupted(t *testing.T) {
	dir := play(t, workScript)
	if out, errs, code := program(t, "run", "--config", filepath.Join(dir, "c.yaml"), "hello"); code != 0 {
		t.Fatalf("run: %d\n%s%s", code, out, errs)
	}
	c := atTerminal(t, 80, 24, playing(t, dir, "undo"))
	c.see("Undo it?")
	c.typing("\x03")
	c.see("nothing was changed")
	if code := c.end(); code != 1 {
		t.Errorf("exit code %d", code)
	}
}

func TestRunChoosesAmongValues(t *testing.T) {
	dir := play(t, "answers:\n  - ask: {prompt: Which colour?, schema: {enum: [terminal.Red, blue]}}\n  - text: fine\n")
	c := atTerminal(t, 80, 24, playing(t, dir, "run", "--json=false", "hello"))
	c.see("? Which colour?")
	c.see("  2 blue")
	c.see("number or value:")
	c.typing("3\r")
	c.see("choose 1 to 2\nnumber or value:")
	c.typing("2\r")
	c.see("fine")
	if code := c.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestRunAnsweredElsewhere: while it is asked here, somebody else answers.
func TestRunAnsweredElsewhere(t *testing.T) {
	dir := play(t, workScript)
	p := start(t, filepath.Join(dir, "data"), "--config", filepath.Join(dir, "c.yaml"))
	c := atTerminal(t, 80, 24, playing(t, dir, "run", "please build"))
	c.see("if you like:")
	out, _, _ := program(t, "actions", "--json", "--data", p.data)
	id, err := between(out, `"actionId":"`, `"`)
	if err != nil {
		t.Fatal(err)
	}
	if _, errs, code := program(t, "approve", "--data", p.data, id); code != 0 {
		t.Fatal(errs)
	}
	c.see("answered elsewhere")
	c.see("2 steps")
	if code := c.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p.stop(syscall.SIGTERM)
}

// TestRunWaitsForOthers: in a pipe --wait leaves the answer to somebody else.
func TestRunWaitsForOthers(t *testing.T) {
	dir := play(t, workScript)
	p := start(t, filepath.Join(dir, "data"), "--config", filepath.Join(dir, "c.yaml"))
	cmd := playing(t, dir, "run", "--wait", "please build")
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 4096)
	n, err := io.ReadAtLeast(errs, said, 200)
	if err != nil {
		t.Fatal(err)
	}
	id, err := between(string(said[:n]), "waits for action ", ":")
	if err != nil {
		t.Fatal(err)
	}
	if _, errs, code := program(t, "approve", "--data", p.data, id); code != 0 {
		t.Fatal(errs)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "It is **built**.") {
		t.Errorf("%v\n%s", err, out.String())
	}
	p.stop(syscall.SIGTERM)
}

// TestRunWhenTheServerDies: the loss is said, and a server that is gone is given
// up; one that comes back finishes the turn.
func TestRunWhenTheServerDies(t *testing.T) {
	for name, back := range map[string]bool{"gone": false, "back": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := play(t, "answers:\n  - {text: a b, delay: 1h}\n")
			p := start(t, filepath.Join(dir, "data"), "--config", filepath.Join(dir, "c.yaml"))
			cmd := playing(t, dir, "run", "-v", "hello")
			if back {
				cmd.Env = append(cmd.Env, followOn) // however long the next server takes to begin
			}
			c := atTerminal(t, 80, 24, cmd)
			c.see("thinking")
			p.stop(syscall.SIGKILL)
			c.see("the connection to the server is lost")
			if !back {
				if code := c.end(); code != 1 {
					t.Errorf("exit code %d", code)
				}
				return
			}
			writeFile(t, dir, "s.yaml", "answers:\n  - {text: here I am}\n")
			p = start(t, filepath.Join(dir, "data"), "--config", filepath.Join(dir, "c.yaml"))
			c.see("here I am")
			if code := c.end(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			p.stop(syscall.SIGTERM)
		})
	}
}

func TestRunWrongServer(t *testing.T) {
	dir := play(t, workScript)
	p := start(t, filepath.Join(dir, "data"), "--config", filepath.Join(dir, "c.yaml"))
	cmd := self(t, "run", "--server", p.url, "--data", filepath.Join(t.TempDir(), "none"), "hello")
	cmd.Env = append(cmd.Env, "AGENTD_TOKEN=wrong")
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "set AGENTD_TOKEN") {
		t.Errorf("wrong token: %v\n%s", err, out)
	}
	if out, errs, code := program(t, "run", "--server", "http://127.0.0.1:1", "hello"); code != 1 || !strings.Contains(errs, "the server can't be reached") {
		t.Errorf("no server: %d\n%s%s", code, out, errs)
	}
	p.stop(syscall.SIGTERM)
}

// TestRunBlockedIsAFailureOfItsOwn: for a program it is one JSON object, like every
// failure, and its code tells it from the others.
func TestRunBlockedIsAFailureOfItsOwn(t *testing.T) {
	dir := play(t, "answers:\n  - tools: [{name: write_file, arguments: {path: a.txt, content: x}}]\n")
	cmd := playing(t, dir, "run", "--json", "hello")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, _ := cmd.Output()
	var said failure
	if err := json.Unmarshal([]byte(errs.String()), &said); err != nil || cmd.ProcessState.ExitCode() != exitBlocked {
		t.Fatalf("exit code %d, %v:\n%s", cmd.ProcessState.ExitCode(), err, errs.String())
	}
	if said.Code != codeBlocked || said.ExitCode != exitBlocked || !strings.Contains(said.Error, "agentd approve action_") {
		t.Errorf("%+v", said)
	}
	for line := range strings.Lines(string(out)) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no event: %s", line)
		}
	}
}

// TestRunUnread: who reads the answer goes away in mid-turn. The turn is
// interrupted, not left behind.
func TestRunUnread(t *testing.T) {
	for _, form := range []string{"--json=false", "--json"} {
		// However late the reader goes, there is more to say.
		dir := play(t, "answers:\n  - {text: "+strings.Repeat("word ", 20_000)+", delay: 100ms}\n")
		cmd := playing(t, dir, "run", form, "hello")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("%s: %v", form, err)
		}
		if out, errs, _ := program(t, "sessions", "--data", filepath.Join(dir, "data")); !strings.Contains(out, "cancelled") {
			t.Errorf("%s: the session is not at rest:\n%s%s", form, out, errs)
		}
	}
}

// TestRunSilentPipe: a pipe that nobody writes to doesn't hold a prompt up for ever.
func TestRunSilentPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	cmd := self(t, "run", "hello")
	cmd.Stdin = r
	cmd.Env = append(cmd.Env, hurry)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "no input on standard input") || !strings.Contains(string(out), "You said: hello") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestServerAddress(t *testing.T) {
	for address, want := range map[string][2]string{
		"http://127.0.0.1:8700":  {"http://127.0.0.1:8700", ""},
		"http://127.0.0.1:8700/": {"http://127.0.0.1:8700", ""},
		"https://agents.example": {"https://agents.example", ""},
		"unix:/run/s":            {"http://localhost", "/run/s"},
		"unix:///run/s":          {"http://localhost", "/run/s"},
		"unix:s":                 {"http://localhost", "s"},
		"http+unix:///run/s":     {"http://localhost", "/run/s"},
		"https+unix:///run/s":    {"https://localhost", "/run/s"},
	} {
		base, socket := serverAddress(address)
		if got := [2]string{base, socket}; got != want {
			t.Errorf("%s is %q, want %q", address, got, want)
		}
	}
}

// TestEventsFollowNamedServer follows a session over an address while the data
// directory has the note of a server on a socket: the address is what counts.
func TestEventsFollowNamedServer(t *testing.T) {
	dir := t.TempDir()
	p := start(t, filepath.Join(dir, "data"))
	r := p.submit("hello")
	p.completed(r)
	socket := filepath.Join(dir, "s")
	other := start(t, filepath.Join(dir, "other"), "--socket", socket)
	token, err := os.ReadFile(filepath.Join(p.data, adminTokenFile))
	if err != nil {
		t.Fatal(err)
	}
	follow := func(server, token string) string {
		cmd := self(t, "events", "-f", "--server", server, "--data", other.data, r.SessionID)
		cmd.Env = append(cmd.Env, "AGENTD_TOKEN="+token)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var seen strings.Builder
		buf := make([]byte, 4096)
		for !strings.Contains(seen.String(), "turn.completed") {
			n, err := out.Read(buf)
			seen.Write(buf[:n])
			if err != nil {
				break
			}
		}
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		return seen.String() + errs.String()
	}
	if got := follow(p.url, strings.TrimSpace(string(token))); !strings.Contains(got, "turn.completed") {
		t.Errorf("over %s:\n%s", p.url, got)
	}
	// What the other server says of itself is an address too; it has no such session.
	for _, address := range []string{other.url, "unix:" + socket} {
		if got := follow(address, ""); !strings.Contains(got, "there is no session "+r.SessionID) {
			t.Errorf("over %s:\n%s", address, got)
		}
	}
	p.stop(syscall.SIGTERM)
	other.stop(syscall.SIGTERM)
}
