package main

import (
	"encoding/base64"
	"fmt"
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
  - when: {contains: roadmap}
    tools: [{name: present_plan, arguments: {plan: "# The way\n\n1. Read the code\n2. Change **all** of it"}}]
  - when: {contains: roadmap}
    tools: [{name: present_plan, arguments: {plan: "1. Change less"}}]
  - when: {contains: roadmap}
    text: "As planned."
  - when: {contains: hidden}
    tools: [{name: shell, arguments: {command: "echo ` + longWord + `; rm -rf precious"}}]
  - when: {contains: hidden}
    text: "It is gone."
  - when: {contains: wide}
    tools: [{name: write_file, arguments: {path: ` + wideName + `.txt, content: "你好\n"}}]
  - when: {contains: wide}
    text: "# 标题\n\n` + wideName + wideName + wideName + wideName + wideName + `"
`

const (
	longWord = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	wideName = "很长很长很长很长很长很长很长很长很长很长很长很长很长很长很长很长很长"
)

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

// step is what a person does at a terminal, and what is seen then.
type step struct {
	keys string
	// sees is what is seen then, so often, or once.
	sees  string
	times int
	// loses is what is no longer on the screen then.
	loses string
}

func (c *console) does(steps ...step) {
	c.t.Helper()
	for _, s := range steps {
		if s.keys != "" {
			c.typing(s.keys)
		}
		if s.sees != "" {
			c.until(s.sees, func(text string) bool { return strings.Count(text, s.sees) >= max(s.times, 1) })
		}
		if s.loses != "" {
			c.gone(s.loses)
		}
	}
}

// idle is what is seen when nothing runs and nothing is typed.
const idle = "› say what to do"

const (
	escape, tab, down, enter           = "\x1b", "\t", "\x1b[B", "\r"
	ctrlC, ctrlG, ctrlO, ctrlR         = "\x03", "\x07", "\x0f", "\x12"
	pasteBegins, pasteEnds             = "\x1b[200~", "\x1b[201~"
	lightBackground, focusIn, focusOut = "\x1b]11;rgb:ffff/ffff/ffff\x1b\\", "\x1b[I", "\x1b[O"
)

// feature is something that the client can do. The table in docs/terminals.md names them.
type feature struct {
	args, env []string
	steps     []step
	// check looks at the rest: what was written, and the folder of the test.
	check func(t *testing.T, c *console, dir string)
}

var features = map[string]feature{
	"diffs": {
		steps: []step{
			{keys: "edit it\r", sees: "? Allow edit_file?"},
			{sees: "  a.txt  +1 -1\n     1   one\n     2 - two\n     2 + TWO\n     3   three"},
			{sees: "Enter answers"},
			{keys: "y\r", sees: "✓ edit_file a.txt"},
			{sees: "     2 + TWO", times: 2},
			{sees: "Edited."},
		},
		check: func(t *testing.T, c *console, _ string) {
			wantWritten(t, c, "\x1b[32m     2 + TWO", "\x1b[31m     2 - two")
		},
	},
	"approvals": {
		steps: []step{
			{keys: "hidden\r", sees: "destructive"},
			{sees: "│ echo aaaa"},
			{sees: "; rm -rf precious\n"},
			{sees: "impact: deletes precious"},
			{sees: "Enter answers"},
			{keys: ctrlO, sees: "call 1 of 1"},
			{sees: "Allow shell?"},
			{keys: "q", sees: "Enter answers"},
			{keys: "n", sees: "Space says why"},
			{keys: " I need it", sees: "    why: I need it"},
			{keys: enter, sees: "denied · I need it"},
			{sees: "It is gone."},
		},
	},
	"plans": {
		args: []string{"--mode", "plan"},
		steps: []step{
			{keys: "roadmap\r", sees: "? Approve this plan?"},
			{sees: "  1. Read the code\n  2. Change all of it"},
			{sees: "▸ y approve, ask before each change"},
			{keys: "n ", sees: "    why:"},
			{keys: "smaller\r", sees: "plan sent back · smaller"},
			{sees: "  1. Change less"},
			{sees: "▸ y approve"},
			{sees: "mode plan"},
			{keys: "a\r", sees: "plan approved · mode auto"},
			{sees: "As planned."},
			{sees: idle},
			{loses: "· mode plan"}, // also in the turns that follow
		},
	},
	"completion": {
		steps: []step{
			{keys: "/mo", sees: "▸ /model"},
			{sees: "/mode "},
			{keys: down, sees: "▸ /mode "},
			{keys: tab, sees: "▸ default"},
			{keys: "pla", sees: "▸ plan"},
			{keys: enter, sees: "the next turns run in mode plan"},
			{sees: "mode plan"},
			{keys: "look at @mnl", sees: "▸ @docs/deep/manual.md"},
			{keys: tab, sees: "› look at @docs/deep/manual.md"},
			{keys: enter, sees: "You said: look at @docs/deep/manual.md"},
			{sees: "manual.md."},
			{keys: "/help\r", sees: "/export"},
			{sees: "@FILE"},
		},
	},
	"pickers": {
		steps: []step{
			{keys: "/model\r", sees: "Model of the next turns"},
			{sees: "▸ s/m"},
			{keys: enter, sees: "the next turns use s/m"},
			{keys: "/mode\r", sees: "Permission mode of the next turns"},
			{keys: "byp", sees: "▸ bypass"},
			{keys: escape, loses: "Permission mode of"},
			{keys: "first words\r", sees: "You said: first words"},
			{sees: idle},
			{keys: "/new\r", sees: "a new session begins"},
			{keys: "second words\r", sees: "You said: second words"},
			{sees: idle},
			{keys: "/sessions\r", sees: "type to search"},
			{sees: "▸ second words  "},
			{keys: "first", sees: "▸ first words  "},
			{keys: enter, sees: "• session sess_"},
			{sees: "You said: first words", times: 2},
		},
	},
	"history": {
		steps: []step{
			{keys: "needle in hay\r", sees: "You said: needle in hay"},
			{sees: idle},
			{keys: "/new\r", sees: "a new session begins"},
			{keys: ctrlR, sees: "History"},
			{keys: "need", sees: "▸ needle in hay"},
			{keys: enter, sees: "› needle in hay\n"},
			{keys: ctrlC},
		},
	},
	"commands of the user": {
		steps: []step{
			{keys: "!echo local; exit 3\r", sees: "! echo local; exit 3"},
			{sees: "  local\n"},
			{sees: "exit status 3"},
			{keys: "what was that\r", sees: "I ran `echo local; exit 3` (exit status 3):"},
			{sees: "You said:"},
			{sees: idle},
			{keys: "!sleep 1000\r", sees: "! sleep 1000"},
			{keys: escape, sees: "signal: killed"},
		},
	},
	"images": {
		steps: []step{
			{keys: pasteBegins + "'dot.png'" + pasteEnds, sees: "[image 1, dot.png]"},
			{keys: "what is it\r", sees: "› [image 1, dot.png] what is it"},
			{sees: "  [image]"},
			{sees: idle},
			{keys: "and @dot.png \r", sees: "  [image]", times: 2},
			{sees: idle},
			{keys: "/image nothing.png\r", sees: "image nothing.png:"},
		},
	},
	"pastes": {
		steps: []step{
			{keys: pasteBegins + "two\r\nlines" + pasteEnds, sees: "› two\n  lines"},
			{keys: enter, sees: "You said: two lines"},
			{sees: idle},
			{keys: pasteBegins + strings.Repeat("again\n", 500) + pasteEnds, sees: "[pasted text 1, 500 lines]"},
			{keys: " end\r", sees: "more lines"},
			{sees: "1 step", times: 2},
		},
	},
	"editor": {
		env:   []string{`EDITOR=printf "written elsewhere" >`},
		steps: []step{{keys: "draft" + ctrlG, sees: "› written elsewhere"}, {keys: enter, sees: "You said: written elsewhere"}},
	},
	"editor at a terminal": { // it is gone before the client stopped drawing, and that again and again
		env: []string{`EDITOR=test -t 0 && test -t 1 && printf x >>`},
		steps: func() (s []step) {
			for i := range 15 {
				s = append(s, step{keys: ctrlG, sees: "› " + strings.Repeat("x", i+1)})
			}
			return append(s, step{keys: enter, sees: "You said: xxx"})
		}(),
	},
	"forms": {
		steps: []step{
			{keys: "form please\r", sees: "? Tell me about it"},
			{sees: "▸ name  *"},
			{sees: "what it is called"},
			{sees: "Enter goes on"},
			{keys: "thing\r", sees: "▸ size  *"},
			{keys: "many\r\r", sees: "size must be a whole number"},
			{keys: "\x7f\x7f\x7f\x7f7\t", sees: "▸ colour"},
			{keys: "2", sees: "[2 green]"},
			{keys: enter, sees: "answered: name: thing, size: 7, colour: green"},
			{sees: "Thank you."},
			{sees: idle},
			{keys: "pick one\r", sees: "▸ 1 red"},
			{keys: "3", sees: "▸ 3 blue"},
			{keys: enter, sees: "answered: blue"},
			{sees: "A fine colour."},
		},
	},
	"outputs": {
		args: []string{"--mode", "auto"},
		steps: []step{
			{keys: "noisy\r", sees: "That was loud."},
			{sees: idle},
			{keys: ctrlO, sees: "call 1 of 1"},
			{keys: "G", sees: "\n300"},
			// Keys that follow the one that closes it are the input's.
			{keys: "qa draft", loses: "call 1 of 1"},
			{sees: "› a draft"},
			// What is said behind it is there afterwards, once.
			{keys: ctrlC, sees: idle},
			{keys: "behind\r" + ctrlO, sees: "call 1 of 1"},
			{keys: "q", sees: "You said: behind"},
			{sees: idle},
		},
		check: func(t *testing.T, c *console, _ string) {
			if strings.Contains(c.screen.Text(), "\n  │ 299") {
				t.Error("the output isn't cut")
			}
			if n := strings.Count(c.screen.Text(), "You said: behind"); n != 1 {
				t.Errorf("the answer is there %d times", n)
			}
		},
	},
	"pager search": {
		args: []string{"--mode", "auto"},
		steps: []step{
			{keys: "noisy\r", sees: "That was loud."},
			{sees: idle},
			{keys: ctrlO, sees: "/ finds"},
			{keys: "/", sees: "Enter keeps it"},
			{keys: "15x", sees: "/15x: not found"},
			{keys: "\x7f", sees: "/15: 13 lines"}, // 15, 115, 150 to 159, 215
			{sees: "seq 1 300\n15\n16"},
			{keys: "\r", sees: "n/N next"},
			{keys: "n", sees: "seq 1 300\n115\n116"},
			{keys: "nn", sees: "seq 1 300\n151\n152"},
			{keys: "N", sees: "seq 1 300\n150\n151"},
			{keys: "g", sees: "seq 1 300\n1\n2"},
			{keys: "/29" + enter, sees: "seq 1 300\n29\n30"},
			{keys: "NN", sees: "\n300"}, // the last two stand on the last page
			{keys: "nn", sees: "seq 1 300\n29\n30"},
			{keys: "/" + escape, sees: "/ finds"},
			{keys: "q", sees: idle},
		},
	},
	"subagents": {
		args:  []string{"--mode", "bypass"},
		steps: []step{{keys: "delegate it\r", sees: "└ ● helper thinking"}, {keys: escape, sees: "✗ interrupted"}, {keys: "/agents\r", sees: "helper", times: 2}},
	},
	"going back": {
		steps: []step{
			{keys: "one thing\r", sees: "You said: one thing"},
			{sees: idle},
			{keys: "other thing\r", sees: "You said: other thing"},
			{sees: idle},
			{keys: escape + escape, sees: "Go back to before"},
			{sees: "▸ other thing"},
			{keys: down, sees: "▸ one thing"},
			{keys: enter, sees: "undo it?"},
			{sees: "▸ n no"}, // Enter alone changes nothing
			{keys: "y\r", sees: "2 turns taken back"},
			{sees: "› one thing\n", times: 2}, // as it was said, and in the input
			{keys: ctrlC},
		},
	},
	"drafts": {
		steps: []step{
			{keys: "edit it\ryes, go on", sees: "Tab answers"},
			{keys: "y", sees: "› yes, go ony"},
			{keys: tab, sees: "Enter answers"},
			{keys: down + down + down, sees: "    why:"},
			{keys: "because\r", sees: "denied · because"},
			{sees: "2 steps"}, // while the turn runs, Ctrl-C interrupts it
			{sees: "› yes, go ony"},
			{keys: ctrlC},
		},
	},
	"words are no answer": { // although each letter of an answer is in them
		steps: []step{
			{keys: "edit it\r", sees: "Enter answers"},
			{keys: "pay\r", sees: "+ queued: pay"},
			{keys: "\x15" + tab, sees: "Enter answers"},
			{keys: "yap", sees: "› yap"},
			{keys: "\x15" + tab, sees: "Enter answers"},
			{keys: "never mind", sees: "› never mind"},
			{keys: "\x15" + tab, sees: "Enter answers"},
			{keys: pasteBegins + "y" + pasteEnds + enter, sees: "+ queued: y"},
			{keys: tab, sees: "Enter answers"},
			{keys: "pay attention to a schema\r", sees: "+ queued: pay attention to a schema"},
			{sees: "Tab answers"},
			{keys: tab, sees: "Enter answers"},
			{keys: pasteBegins + "pasted, yes" + pasteEnds, sees: "› pasted, yes"},
			{sees: "Tab answers"},
			{keys: "\x15", sees: "Enter queues"},
			{keys: tab, sees: "Enter answers"},
			{keys: "no, not now\r", sees: "denied · not now"},
			{sees: "You said: pay attention to a schema"},
			{sees: idle},
			{keys: "edit it\r", sees: "Enter answers"},
			{keys: "yes\r", sees: "allowed once"},
			{sees: idle},
			{keys: "/undo\r", sees: "undo it?"},
			{keys: "you\r", sees: "You said: you"}, // nothing was undone
			{sees: "? undo it?  Tab answers"},
			{keys: tab + enter, sees: "nothing was changed"},
			{sees: idle},
		},
	},
	"names of other terminals": {
		steps: []step{
			{keys: "hello there\r", sees: "You said: hello there"},
			{sees: idle},
			{keys: "/status\r", sees: "1 model call"},
			{keys: "/permissions plan\r", sees: "mode plan"},
			{keys: "/clear\r", sees: "new session", times: 2},
		},
	},
	"reports": {
		steps: []step{
			{keys: "report this\r", sees: "You said: report this"},
			{sees: idle},
			{keys: "/why\r", sees: "The host submitted the turn"},
			{keys: "/tasks\r", sees: "completed   report this"},
			{keys: "/agents\r", sees: "there are no subagents"},
			{keys: "/cost\r", sees: "1 model call"},
			{keys: "/compact\r", sees: "context compacted"},
			{keys: "/status\r", sees: "mode       default"},
			{keys: "/review report.html\r", sees: "• written: "},
			{keys: "/review report.pdf\r", sees: "ends with .md, .html"},
		},
		check: func(t *testing.T, _ *console, dir string) {
			if text, err := os.ReadFile(filepath.Join(dir, "ws", "report.html")); err != nil || !strings.Contains(string(text), "report this") {
				t.Errorf("%v, %d bytes", err, len(text))
			}
		},
	},
	"exports": {
		steps: []step{
			{keys: "edit with " + exportedSecret + "\r", sees: "Enter answers"},
			{keys: "y\r", sees: "Edited."},
			{sees: idle},
			{keys: "/export\r", sees: "• written: "},
			{keys: "/export talk.json\r", sees: "• written: ", times: 2},
			{keys: "/export talk.pdf\r", sees: "ends with .md or .json"},
			{keys: "/export docs\r", sees: "• written: ", times: 3}, // a folder
			{keys: "/export talk.json\r", sees: "? replace talk.json?"},
			{keys: enter, sees: "nothing was written"},
			{keys: "and more\r", sees: "You said: and more"},
			{sees: idle},
			{keys: "/export talk\r", sees: "• written: ", times: 4},
			{keys: "/export talk\r", sees: "? replace talk.md?"},
			{keys: "yes\r", sees: "• written: ", times: 5},
		},
		check: wantExports,
	},
	"wide characters": {
		steps: []step{
			{keys: "wide\r", sees: "Enter answers"}, {keys: "y\r", sees: "allowed once"}, {sees: "标题"}, {sees: "2 steps"},
		},
		check: func(t *testing.T, c *console, _ string) {
			if !regexp.MustCompile(`✓ write_file 很.*  [\d.]+m?s\n`).MatchString(c.screen.Text()) {
				t.Error("the line of the call has no duration")
			}
		},
	},
	"no colour":      {env: []string{"NO_COLOR=1"}, steps: editSteps, check: wantNoColour},
	"theme none":     {env: []string{"AGENTD_THEME=none"}, steps: editSteps, check: wantNoColour},
	"theme dark":     {env: []string{"AGENTD_THEME=dark", "COLORFGBG=0;15"}, steps: editSteps, check: wantDark},
	"theme light":    {env: []string{"AGENTD_THEME=light"}, steps: editSteps, check: wantLight},
	"light terminal": {env: []string{"COLORFGBG=0;15"}, steps: editSteps, check: wantLight},
	"light answer":   {steps: append([]step{{keys: lightBackground}}, editSteps...), check: wantLight},
	"theme picked": {
		steps: append([]step{
			{keys: "/theme pink\r", sees: "unknown theme pink; use one of auto, dark, light, none"},
			{keys: "/theme\r", sees: "Enter chooses"},
			{keys: "lig", sees: "▸ light"},
			{keys: enter, sees: "• theme light"},
		}, editSteps...),
		check: func(t *testing.T, c *console, dir string) {
			wantLight(t, c, dir)
			if kept, err := os.ReadFile(filepath.Join(c.home(), ".config", "agentd", "theme")); string(kept) != "light\n" {
				t.Errorf("%q is kept, %v", kept, err)
			}
		},
	},
	"notifications":     {steps: askedSteps, check: wantNotice("9;agentd waits for you: Allow edit_file?", true)},
	"osc 777":           {env: []string{"AGENTD_NOTIFY=osc777"}, steps: askedSteps, check: wantNotice("777;notify;agentd;agentd waits for you: Allow edit_file?", true)},
	"no notification":   {env: []string{"AGENTD_NOTIFY=off"}, steps: askedSteps, check: wantNotice("", false)},
	"looked at":         {steps: append([]step{{keys: focusIn}}, askedSteps...), check: wantNotice("", true)},
	"looked away again": {steps: append([]step{{keys: focusIn + focusOut}}, askedSteps...), check: wantNotice("9;agentd waits for you: Allow edit_file?", true)},
}

var (
	editSteps  = []step{{keys: "edit it\r", sees: "     2 + TWO"}, {sees: "Enter answers"}, {keys: "y\r", sees: "Edited."}}
	askedSteps = []step{{keys: "edit it\r", sees: "Enter answers"}, {keys: escape, sees: "✗ interrupted"}}
)

func wantWritten(t *testing.T, c *console, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(c.raw.String(), want) {
			t.Errorf("%q wasn't written", want)
		}
	}
}

func wantNoColour(t *testing.T, c *console, _ string) {
	if colour := regexp.MustCompile("\x1b\\[[1-9][0-9;]*m").FindString(c.raw.String()); colour != "" {
		t.Errorf("%q was written", colour)
	}
}

func wantDark(t *testing.T, c *console, _ string) { wantWritten(t, c, "\x1b[32m     2 + TWO") }

func wantLight(t *testing.T, c *console, _ string) {
	wantWritten(t, c, "\x1b[38;5;22m     2 + TWO", "\x1b[38;5;124m     2 - two")
	if strings.Contains(c.raw.String(), "\x1b[32m") {
		t.Error("a colour for dark backgrounds was written")
	}
}

func wantNotice(want string, bell bool) func(*testing.T, *console, string) {
	return func(t *testing.T, c *console, _ string) {
		if got := strings.Join(c.screen.Notices, ","); got != want || (c.screen.Bells > 0) != bell {
			t.Errorf("%q and %d bells", got, c.screen.Bells)
		}
	}
}

// exportedSecret is said in a conversation that is written down.
var exportedSecret = "ghp_" + strings.Repeat("a1B2", 9)

// wantExports looks at what was written: the conversation, whole and without its secret.
func wantExports(t *testing.T, _ *console, dir string) {
	pages, err := filepath.Glob(filepath.Join(dir, "ws", "agentd-sess_*.md"))
	inFolder, _ := filepath.Glob(filepath.Join(dir, "ws", "docs", "agentd-sess_*.md"))
	if err != nil || len(pages) != 1 || len(inFolder) != 1 {
		t.Fatalf("%v, %v, %v", pages, inFolder, err)
	}
	for file, want := range map[string][]string{
		pages[0]:                              {"> edit with [redacted:github_token]", "`edit_file` (ok", "a.txt", "**Asked:** Allow edit_file?", "**Answer:** allow", "Edited."},
		filepath.Join(dir, "ws", "talk.md"):   {"## Turn 2", "> and more", "You said: and more"},
		filepath.Join(dir, "ws", "talk.json"): {`"format": "agentd.transcript/1"`, `"role": "user"`, `"name": "edit_file"`, `"decision": "allow"`, `"text": "Edited."`},
	} {
		text, err := os.ReadFile(file)
		info, _ := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%s: %v, %v", file, err, info)
		}
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s has no %q:\n%s", file, part, text)
			}
		}
		if strings.Contains(string(text), exportedSecret) || filepath.Ext(file) == ".json" && strings.Contains(string(text), "and more") {
			t.Errorf("%s:\n%s", file, text)
		}
	}
}

// home is the home folder of the program.
func (c *console) home() string {
	for _, v := range c.cmd.Env {
		if dir, ok := strings.CutPrefix(v, "HOME="); ok {
			return dir
		}
	}
	c.t.Fatal("the program has no home")
	return ""
}

// TestChatFeatures drives every feature in terminals of two sizes.
func TestChatFeatures(t *testing.T) {
	for name, f := range features {
		for _, size := range [][2]int{{80, 24}, {120, 40}} {
			t.Run(fmt.Sprintf("%s/%dx%d", name, size[0], size[1]), func(t *testing.T) {
				t.Parallel()
				c, dir := atFeatures(t, size[0], size[1], f.args, f.env...)
				c.does(f.steps...)
				c.leave()
				if f.check != nil {
					f.check(t, c, dir)
				}
			})
		}
	}
}

// TestChatServerKilled kills the server under the client: it says so, connects again, and
// nothing is lost or doubled.
func TestChatServerKilled(t *testing.T) {
	dir := play(t, featureScript)
	// A port that was let go may be another's.
	args := []string{"--config", filepath.Join(dir, "c.yaml"), "--socket", filepath.Join(dir, "s")}
	p := start(t, filepath.Join(dir, "data"), args...)
	c := atTerminal(t, 80, 24, p.chat(t, dir))
	c.does(step{sees: idle}, step{keys: "before\r", sees: "You said: before"}, step{sees: idle})
	p.stop(syscall.SIGKILL)
	c.does(step{sees: "the connection to the server is lost"}, step{sees: "waits for the server"}, step{keys: "after\r"})
	p = start(t, filepath.Join(dir, "data"), args...)
	c.see("connected again")
	text := c.see("You said: after")
	if strings.Count(text, "You said: after") != 1 || strings.Count(text, "You said: before") != 1 {
		t.Errorf("something was doubled:\n%s", text)
	}
	// An idle client is told, too, without a fact to tell.
	c.see(idle)
	p.stop(syscall.SIGKILL)
	c.does(step{sees: "the connection to the server is lost", times: 2}, step{sees: "waits for the server"})
	p = start(t, filepath.Join(dir, "data"), args...)
	c.does(step{sees: "connected again", times: 2}, step{loses: "waits for the server"})
	c.leave()
	p.stop(syscall.SIGTERM)
}
