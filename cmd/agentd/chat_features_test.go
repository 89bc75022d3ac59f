package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

const featureScript = `answers:
  - when: {contains: edit}
    tools: [{name: edit_file, arguments: {path: a.txt, old: "two\n", new: "TWO\n"}}]
  - when: {contains: edit}
    text: "Edited."
  - when: {contains: form}
    ask:
      prompt: "Tell me about it"
      schema:
        type: object
        required: [name, size]
        properties:
          name: {type: string, description: "what it is called"}
          size: {type: integer}
          colour: {enum: [red, green]}
  - when: {contains: form}
    text: "Thank you."
  - when: {contains: pick}
    ask: {prompt: "Which colour?", schema: {enum: [red, green, blue]}}
  - when: {contains: pick}
    text: "A fine colour."
  - when: {contains: delegate}
    tools: [{name: spawn_agent, arguments: {role: helper, input: "wait long", wait: true}}]
  - when: {contains: wait long}
    text: "x"
    stall: 1h
  - when: {contains: noisy}
    tools: [{name: shell, arguments: {command: "seq 1 300"}}]
  - when: {contains: noisy}
    text: "That was loud."
`

// atFeatures opens the client on the script, in the workspace, with files in it.
func atFeatures(t *testing.T, cols, rows int, args []string, env ...string) (*console, string) {
	t.Helper()
	dir := play(t, featureScript)
	ws := filepath.Join(dir, "ws")
	writeFile(t, ws, "a.txt", "one\ntwo\nthree\n")
	if err := os.MkdirAll(filepath.Join(ws, "docs", "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(ws, "docs", "deep"), "manual.md", "# Manual\n")
	png, err := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, ws, "dot.png", string(png))
	cmd := playing(t, dir, append([]string{"chat"}, args...)...)
	cmd.Dir = ws
	c := atTerminal(t, cols, rows, cmd, env...)
	c.see("› say what to do")
	return c, dir
}

func (c *console) leave() {
	c.t.Helper()
	c.see("› say what to do")
	c.typing("\x04")
	if code := c.end(); code != 0 {
		c.t.Errorf("exit code %d", code)
	}
}

// gone waits until a text is no longer on the screen.
func (c *console) gone(text string) {
	c.t.Helper()
	c.until("the end of "+text, func(string) bool { return !strings.Contains(c.screen.Screen(), text) })
}

func TestChatShowsDiffsWithContext(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}} {
		c, _ := atFeatures(t, size[0], size[1], nil)
		c.typing("edit it\r")
		c.see("? Allow edit_file?")
		c.see("  a.txt  +1 -1\n     1   one\n     2 - two\n     2 + TWO\n     3   three")
		c.see("Enter answers")
		c.typing("y\r")
		c.see("✓ edit_file a.txt")
		c.until("the change", func(s string) bool { return strings.Count(s, "     2 + TWO") == 2 })
		c.see("Edited.")
		c.leave()
		if !strings.Contains(c.raw.String(), "\x1b[32m     2 + TWO") || !strings.Contains(c.raw.String(), "\x1b[31m     2 - two") {
			t.Error("the diff has no colours")
		}
	}
}

func TestChatCompletesCommandsAndFiles(t *testing.T) {
	c, _ := atFeatures(t, 80, 24, nil)
	c.typing("/mo")
	c.see("▸ /model")
	c.see("/mode ")
	c.typing("\x1b[B")
	c.see("▸ /mode ")
	c.typing("\t")
	c.see("▸ default")
	c.typing("pla")
	c.see("▸ plan")
	c.typing("\r")
	c.see("the next turns run in mode plan")
	c.see("mode plan")
	c.typing("look at @mnl")
	c.see("▸ @docs/deep/manual.md")
	c.typing("\t")
	c.see("› look at @docs/deep/manual.md")
	c.typing("\r")
	c.see("You said: look at @docs/deep/manual.md")
	c.see("manual.md.")
	c.leave()
}

func TestChatPicksModelsModesAndSessions(t *testing.T) {
	c, _ := atFeatures(t, 80, 24, nil)
	c.typing("/model\r")
	c.see("Model of the next turns")
	c.see("▸ s/m")
	c.typing("\r")
	c.see("the next turns use s/m")
	c.typing("/mode\r")
	c.see("Permission mode of the next turns")
	c.typing("byp")
	c.see("▸ bypass")
	c.typing("\x1b")
	c.gone("Permission mode of")
	c.typing("first words\r")
	c.see("You said: first words")
	c.see("› say what to do")
	c.typing("/new\r")
	c.see("a new session begins")
	c.typing("second words\r")
	c.see("You said: second words")
	c.see("› say what to do")
	c.typing("/sessions\r")
	c.see("type to search")
	c.see("▸ second words  ")
	c.typing("first")
	c.see("▸ first words  ")
	c.typing("\r")
	c.see("• session sess_")
	c.until("the session", func(s string) bool { return strings.Count(s, "You said: first words") == 2 })
	c.leave()
}

func TestChatFindsEarlierPrompts(t *testing.T) {
	c, _ := atFeatures(t, 80, 24, nil)
	c.typing("needle in hay\r")
	c.see("You said: needle in hay")
	c.see("› say what to do")
	c.typing("/new\r")
	c.see("a new session begins")
	c.typing("\x12")
	c.see("History")
	c.typing("need")
	c.see("▸ needle in hay")
	c.typing("\r")
	c.see("› needle in hay\n")
	c.typing("\x03")
	c.leave()
}

func TestChatRunsCommandsOfTheUser(t *testing.T) {
	c, _ := atFeatures(t, 80, 24, nil)
	c.typing("!echo local; exit 3\r")
	c.see("! echo local; exit 3")
	c.see("  local\n")
	c.see("exit status 3")
	c.typing("what was that\r")
	c.see("I ran `echo local; exit 3` (exit status 3):")
	c.see("You said:")
	c.see("› say what to do")
	c.typing("!sleep 1000\r")
	c.see("! sleep 1000")
	c.typing("\x1b")
	c.see("signal: killed")
	c.leave()
}

func TestChatAttachesImages(t *testing.T) {
	c, dir := atFeatures(t, 80, 24, nil)
	c.typing("\x1b[200~'" + filepath.Join(dir, "ws", "dot.png") + "'\x1b[201~")
	c.see("[image 1, dot.png]")
	c.typing("what is it\r")
	c.see("› [image 1, dot.png] what is it")
	c.see("  [image]")
	c.see("› say what to do")
	c.typing("/image nothing.png\r")
	c.see("image nothing.png:")
	c.leave()
}

func TestChatOpensTheEditor(t *testing.T) {
	c, _ := atFeatures(t, 80, 24, nil, `EDITOR=printf "written elsewhere" >`)
	c.typing("draft\x07")
	c.see("› written elsewhere")
	c.typing("\r")
	c.see("You said: written elsewhere")
	c.leave()
}

func TestChatAsksWithForms(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}} {
		c, _ := atFeatures(t, size[0], size[1], nil)
		c.typing("form please\r")
		c.see("? Tell me about it")
		c.see("▸ name  *")
		c.see("what it is called")
		c.typing("thing\r")
		c.see("▸ size  *")
		c.typing("many\r\r")
		c.see("size must be a whole number")
		c.typing("\x7f\x7f\x7f\x7f7\t")
		c.see("▸ colour")
		c.typing("2")
		c.see("[2 green]")
		c.typing("\r")
		c.see(`answered: {"colour":"green","name":"thing","size":7}`)
		c.see("Thank you.")
		c.see("› say what to do")
		c.typing("pick one\r")
		c.see("▸ 1 red")
		c.typing("3")
		c.see("▸ 3 blue")
		c.typing("\r")
		c.see(`answered: "blue"`)
		c.see("A fine colour.")
		c.leave()
	}
}

func TestChatShowsWholeOutputs(t *testing.T) {
	c, _ := atFeatures(t, 80, 24, []string{"--mode", "auto"})
	c.typing("noisy\r")
	c.see("That was loud.")
	c.see("› say what to do")
	if strings.Contains(c.screen.Text(), "\n  │ 299") {
		t.Error("the output isn't cut")
	}
	c.typing("\x0f")
	c.see("call 1 of 1")
	c.typing("G")
	c.see("\n300")
	c.typing("q")
	c.until("the conversation", func(string) bool { return !c.screen.Alternate() })
	c.leave()
}

// TestChatShowsSubagents: what children do stands below what goes on.
func TestChatShowsSubagents(t *testing.T) {
	c, _ := atFeatures(t, 80, 24, []string{"--mode", "bypass"})
	c.typing("delegate it\r")
	c.see("└ ● helper thinking")
	c.typing("\x1b")
	c.see("✗ interrupted")
	c.leave()
}

// TestChatGoesBack takes an earlier turn back and says something else.
func TestChatGoesBack(t *testing.T) {
	c, _ := atFeatures(t, 80, 24, nil)
	c.typing("one thing\r")
	c.see("You said: one thing")
	c.see("› say what to do")
	c.typing("other thing\r")
	c.see("You said: other thing")
	c.see("› say what to do")
	c.typing("\x1b\x1b")
	c.see("Go back to before")
	c.see("▸ other thing")
	c.typing("\x1b[B")
	c.see("▸ one thing")
	c.typing("\r")
	c.see("undo it?")
	c.typing("y")
	c.see("2 turns taken back")
	c.see("› one thing\n")
	c.typing("\x03")
	c.leave()
}

// TestChatDraftIsNoAnswer: a question that comes while something is typed doesn't take
// the keys.
func TestChatDraftIsNoAnswer(t *testing.T) {
	c, _ := atFeatures(t, 80, 24, nil)
	c.typing("edit it\ryes, go on")
	c.see("Tab answers")
	c.typing("y")
	c.see("› yes, go ony")
	c.typing("\t")
	c.see("Enter answers")
	c.typing("n")
	c.see("    why:")
	c.typing("because\r")
	c.see("denied · because")
	c.see("2 steps") // while the turn runs, Ctrl-C interrupts it
	c.see("› yes, go ony")
	c.typing("\x03")
	c.leave()
}

// TestChatNotifies: the bell, and a notification in the way that the terminal knows.
func TestChatNotifies(t *testing.T) {
	for _, tt := range []struct{ env, want string }{
		{"X=1", "9;agentd waits for you: Allow edit_file?"},
		{"AGENTD_NOTIFY=osc777", "777;notify;agentd;agentd waits for you: Allow edit_file?"},
		{"AGENTD_NOTIFY=off", ""},
	} {
		c, _ := atFeatures(t, 80, 24, nil, tt.env)
		c.typing("edit it\r")
		c.see("Enter answers")
		c.typing("\x1b")
		c.see("✗ interrupted")
		c.leave()
		if got := strings.Join(c.screen.Notices, ","); got != tt.want || (c.screen.Bells > 0) != (tt.want != "") {
			t.Errorf("%s: %q and %d bells", tt.env, got, c.screen.Bells)
		}
	}
}

func TestChatWithoutColour(t *testing.T) {
	c, _ := atFeatures(t, 80, 24, nil, "NO_COLOR=1")
	c.typing("edit it\r")
	c.see("     2 + TWO")
	c.see("Enter answers")
	c.typing("y\r")
	c.see("Edited.")
	c.leave()
	if colour := regexp.MustCompile("\x1b\\[[1-9][0-9;]*m").FindString(c.raw.String()); colour != "" {
		t.Errorf("%q was written", colour)
	}
}

// TestChatServerKilled kills the server under the client: it says so, connects again, and
// nothing is lost or doubled.
func TestChatServerKilled(t *testing.T) {
	dir := play(t, featureScript)
	args := []string{"--config", filepath.Join(dir, "c.yaml")}
	p := start(t, filepath.Join(dir, "data"), args...)
	listen := strings.TrimPrefix(p.url, "http://")
	c := atTerminal(t, 80, 24, p.chat(t, dir))
	c.see("› say what to do")
	c.typing("before\r")
	c.see("You said: before")
	c.see("› say what to do")
	p.stop(syscall.SIGKILL)
	c.see("the connection to the server is lost")
	c.see("waits for the server")
	c.typing("after\r")
	p = start(t, filepath.Join(dir, "data"), append(args, "--listen", listen)...)
	c.see("connected again")
	text := c.see("You said: after")
	if strings.Count(text, "You said: after") != 1 || strings.Count(text, "You said: before") != 1 {
		t.Errorf("something was doubled:\n%s", text)
	}
	c.leave()
	p.stop(syscall.SIGTERM)
}
