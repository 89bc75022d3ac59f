package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNewcomerReadsWholeWords: what agentd prints without a model is broken at
// the spaces, and names what to type next.
func TestNewcomerReadsWholeWords(t *testing.T) {
	t.Parallel()
	for _, cols := range []int{60, 80} {
		p := newcomer(t)
		for _, args := range [][]string{{}, {"run", "hello"}, {"chat"}, {"submit", "hello"}} {
			c := atTerminal(t, cols, 30, p.command(args...))
			if code := c.end(); code != exitUsage {
				t.Errorf("agentd %v: exit code %d", args, code)
			}
			text := c.screen.Text()
			for _, want := range []string{"no model is configured", `"agentd init"`, "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "--model", "script/script"} {
				if !strings.Contains(text, want) {
					t.Errorf("agentd %v at %d columns: %q isn't in one piece:\n%s", args, cols, want, text)
				}
			}
		}
		c := atTerminal(t, cols, 30, p.command("init"))
		text := c.see("[anthropic]")
		for _, want := range []string{"local", "protocol", "script"} {
			if !strings.Contains(text, want) {
				t.Errorf("init at %d columns: %q isn't in one piece:\n%s", cols, want, text)
			}
		}
		c.typing("\x04")
		if code := c.end(); code == 0 {
			t.Error("an init that was left ends as if something was written")
		}
	}
}

// TestNewcomerIsToldWhatIsMissing: nothing claims that a model answers, and what isn't
// there yet is called by its name.
func TestNewcomerIsToldWhatIsMissing(t *testing.T) {
	t.Parallel()
	p := newcomer(t)
	doctor := p.output("doctor")
	if !strings.Contains(doctor, "model: none is configured") || !strings.Contains(doctor, `"agentd init" sets one up`) {
		t.Errorf("doctor without a model:\n%s", doctor)
	}
	p.output("sessions") // starts the server
	if doctor = p.output("doctor"); !strings.Contains(doctor, "runs and answers at http+unix://") {
		t.Errorf("doctor with a server:\n%s", doctor)
	}
	for _, tt := range []struct{ line, want string }{
		{"why last", "there is no turn yet; \"agentd run\" starts one"},
		{"diff", "\"agentd sessions --all\" lists those of other projects"},
		{"login", "PROVIDER is missing; use one of anthropic, openai, gemini"},
		{"tasks create report", `no model is configured: "agentd init" sets one up`},
		{"schedules create --every 1h --task report", `"agentd init --provider script"`},
		{"job run - --instruction report", `"agentd init --provider script"`},
	} {
		out, err := p.command(strings.Fields(tt.line)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("agentd %s: %v, %s", tt.line, err, out)
		}
	}
	for _, list := range []string{"actions", "turns", "tasks", "jobs", "schedules", "channels"} {
		c := atTerminal(t, 80, 24, p.command(list), "NO_COLOR=1")
		if code := c.end(); code != 0 || strings.TrimSpace(c.screen.Text()) != "no "+list {
			t.Errorf("agentd %s of nothing: exit code %d\n%s", list, code, c.screen.Text())
		}
	}
}

// TestLoginNamesProviders: where no configured provider takes a key, those that could be
// are named.
func TestLoginNamesProviders(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	for _, args := range [][]string{{"login"}, {"login", "nobody"}, {"logout"}} {
		out, err := p.command(args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "use one of ") || !strings.Contains(string(out), "anthropic") {
			t.Errorf("agentd %v: %v, %s", args, err, out)
		}
	}
}

// TestOneIsSingular: whatever counts says "1 turn".
func TestOneIsSingular(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.output("run", "hello")
	watched := p.pipe("stdio") // holds one connection
	watched.call("list_sessions", map[string]any{}, nil)
	backup := filepath.Join(p.home, "backup")
	wrong := regexp.MustCompile(`\b1 (?:[a-z]+ )?[a-z]+[^isu\W]s\b`)
	for _, line := range []string{
		"daemon status", "status", "verify", "why last", "undo --preview", "sessions", "turns", "usage", "quotas", "nodes", "policy suggest",
		"backup " + backup, "restore --data " + filepath.Join(p.home, "restored") + " " + backup,
	} {
		if found := wrong.FindAllString(p.output(strings.Fields(line)...), -1); found != nil {
			t.Errorf("agentd %s says %q", line, found)
		}
	}
}

// TestFailedTurnNamesTheNextStep: a turn that a provider let fail says what to do, in a
// conversation as in a single turn.
func TestFailedTurnNamesTheNextStep(t *testing.T) {
	t.Parallel()
	for category, want := range map[string]string{"auth": "agentd login", "network": "agentd doctor --network"} {
		dir := play(t, "answers:\n  - error: {category: "+category+", message: it does not work}\n")
		out, err := playing(t, dir, "run", "hello").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "it does not work; ") || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %s", category, err, out)
		}
		c := atTerminal(t, 200, 24, playing(t, dir, "chat", "hello"))
		c.see("it does not work; ")
		c.see(want)
		c.see("› say what to do")
		c.typing("\x04")
		c.end()
	}
}

// TestReviewerIsSeen: what a reviewer allowed is said with the call, and what it left to
// the person with the question.
func TestReviewerIsSeen(t *testing.T) {
	t.Parallel()
	dir := play(t, `answers:
  - when: {contains: build}
    tools: [{name: write_file, arguments: {path: a.txt, content: "a\n"}}]
  - when: {contains: build}
    tools: [{name: write_file, arguments: {path: b.txt, content: "b\n"}}]
  - when: {contains: build}
    tools: [{name: write_file, arguments: {path: c.txt, content: "c\n"}}]
  - when: {contains: build}
    text: It is built.
`)
	writeFile(t, dir, "judge.yaml", `repeat: true
answers:
  - when: {contains: b.txt}
    text: '{"decision":"ask","reason":"Nobody asked for it."}'
  - when: {contains: c.txt}
    text: I can't tell.
  - when: {contains: BEGIN}
    text: '{"decision":"allow","reason":"It was asked for."}'
`)
	writeFile(t, dir, "c.yaml", `data: `+dir+`/data
workspace: {root: `+dir+`/ws}
providers:
  - {id: s, kind: script, script: `+dir+`/s.yaml, models: [{id: m}]}
  - {id: j, kind: script, script: `+dir+`/judge.yaml, models: [{id: judge}]}
permissions: {reviewer: {model: j/judge}}
`)
	c := atTerminal(t, 100, 30, playing(t, dir, "chat", "build"), "NO_COLOR=1")
	c.see("✓ write_file a.txt  allowed by the reviewer · ")
	c.see("reviewer: left it to you · Nobody asked for it.")
	c.does(step{sees: "Enter answers"}, step{keys: "y\r", sees: "reviewer: gave no verdict · "}, step{sees: "Enter answers"}, step{keys: "y\r", sees: "It is built."})
	c.leave()
	out, err := playing(t, dir, "why", "last").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "because It was asked for.") || strings.Contains(string(out), "..") {
		t.Errorf("why: %v\n%s", err, out)
	}
}
