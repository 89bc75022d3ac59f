package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"agentd/event"
)

// idWorld is a server with two or more of everything that has an id.
type idWorld struct {
	*testing.T
	dir    string
	server *process
	// whole are ids by the nouns of their kinds.
	whole map[string]string
	// trials are the sessions of trials.
	trials []string
}

const idScript = `answers:
  - {when: {contains: ask me}, ask: {prompt: "Which colour?", schema: {type: object, properties: {colour: {type: string}}}}}
  - {when: {contains: list}, tools: [{name: list_files, arguments: {path: .}}]}
  - {when: {contains: list}, text: That is all.}
`

func newIDWorld(t *testing.T) *idWorld {
	t.Helper()
	w := &idWorld{T: t, dir: t.TempDir(), whole: map[string]string{"session": "asks", "job": "job_one", "item": "item_000001", "thing": "one_session"}}
	script := writeFile(t, w.dir, "s.yaml", idScript)
	config := writeFile(t, w.dir, "c.yaml", "providers:\n  - {id: play, kind: script, script: "+script+", models: [{id: m, capabilities: [tools, streaming]}]}\n")
	w.server = start(t, filepath.Join(w.dir, "data"), "--config", config)
	for _, params := range []string{
		`create_session {"sessionId":"one_session"}`,
		`create_session {"sessionId":"one_session_too"}`,
		`create_job {"jobId":"job_one","sessionId":"one_session","instruction":"x","items":[{"input":"1"},{"input":"2"}],"start":false}`,
		`create_job {"jobId":"job_one_too","sessionId":"one_session","instruction":"x","items":[{"input":"1"}],"start":false}`,
		`create_schedule {"scheduleId":"one_schedule","cron":"@yearly","task":{"objective":"x"}}`,
		`create_schedule {"scheduleId":"one_schedule_too","cron":"@yearly","task":{"objective":"x"}}`,
		`start_benchmark_trial {"benchmark":{"datasetId":"d","datasetVersion":"1","taskId":"t","trialId":"one_trial","configurationId":"c","role":"baseline"},"input":"hello"}`,
		`start_benchmark_trial {"benchmark":{"datasetId":"d","datasetVersion":"1","taskId":"t","trialId":"one_trial_too","configurationId":"c","role":"baseline"},"input":"hello"}`,
		`fork_thread {"sessionId":"one_session"}`,
		`submit_turn {"sessionId":"asks","create":true,"turnId":"one_turn","input":"ask me"}`,
		`submit_turn {"sessionId":"asks_too","create":true,"turnId":"one_turn_too","input":"ask me"}`,
		`create_task {"taskId":"one_task","sessionId":"asks","objective":"x","draft":true}`,
		`create_task {"taskId":"one_task_too","sessionId":"asks","objective":"x","draft":true}`,
		`submit_turn {"sessionId":"asks","turnId":"one_turn_later","input":"hello"}`,
	} {
		w.call(params)
	}
	of := &world{T: t}
	w.whole["action"] = of.await(w.server, "asks", event.TypeActionRequired).ActionID
	of.await(w.server, "asks_too", event.TypeActionRequired)
	for _, trial := range w.trials {
		of.await(w.server, trial, event.TypeBenchmarkTrialCompleted)
	}
	w.call(`submit_turn {"sessionId":"lists","create":true,"input":"list"}`) // what is used last
	w.whole["tool"] = of.await(w.server, "lists", event.TypeToolResult).ToolCallID
	of.await(w.server, "lists", event.TypeTurnCompleted)
	return w
}

// call carries out a command with parameters.
func (w *idWorld) call(params string) {
	w.Helper()
	name, body, _ := strings.Cut(params, " ")
	out, errs, code := w.run("call", name, body)
	if code != 0 && name != "fork_thread" {
		w.Fatalf("%s: %s", params, errs)
	}
	if name == "start_benchmark_trial" {
		session, err := between(out, `"sessionId":"`, `"`)
		if err != nil {
			w.Fatal(err)
		}
		w.trials = append(w.trials, session)
	}
}

// run carries out a command line in this process, against the world's server.
func (w *idWorld) run(args ...string) (stdout, stderr string, code int) {
	w.Helper()
	return inProcess(w.T, append(ownFolders(w.dir), "AGENTD_DATA="+filepath.Join(w.dir, "data")), args...)
}

// inProcess runs a command line without a process of its own.
func inProcess(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	m := Main{}
	code = m.Run(t.Context(), args, strings.NewReader(""), &out, &errs, env)
	return out.String(), errs.String(), code
}

// TestShortIDsEverywhere gives every command the beginning of several ids wherever it
// takes one: it must have looked, and ask for more.
func TestShortIDsEverywhere(t *testing.T) {
	t.Parallel()
	w := newIDWorld(t)
	begun := map[string]string{
		"session": "one_ses", "turn": "one_t", "action": "action_", "job": "job_on", "item": "item_", "schedule": "one_sch",
		"trial": "one_tri", "task": "one_ta", "thing": "action_", "thread": "thread_",
	}
	places := 0
	for _, c := range commandTree(tree()) {
		for _, u := range idUses(c, idKinds()) {
			if u.kind.noun == "thread" {
				continue // a session has one main thread; TestShortIDs has its threads
			}
			places++
			line := slices.Concat(strings.Fields(c.CommandPath())[1:], w.lineWith(c, &u, begun[u.kind.noun]))
			out, errs, code := w.run(line...)
			if code != exitUsage || out != "" || !strings.Contains(errs, fmt.Sprintf("%s: %q is the beginning of ", u.name, begun[u.kind.noun])) || strings.Count(errs, "\n  ") < 2 {
				t.Errorf("agentd %s: exit code %d, %s%s", strings.Join(line, " "), code, out, errs)
			}
		}
	}
	if places < 50 {
		t.Errorf("only %d places with ids were found", places)
	}
	w.unknownIDs()
}

// lineWith returns the arguments of a command with an id at a place, and whole ids or
// any text where the line needs more.
func (w *idWorld) lineWith(c *cobra.Command, at *idUse, id string) []string {
	var line []string
	for i, word := range argumentsOf(c.Use) {
		name := strings.Trim(word, "[].")
		switch {
		case at.flag == "" && at.arg == i:
			line = append(line, id)
		case strings.HasPrefix(word, "["):
		case w.whole[idArguments[name]] != "":
			line = append(line, w.whole[idArguments[name]])
		default:
			line = append(line, "x")
		}
	}
	if at.flag == "all" { // replay takes it in place of a file
		line = nil
	}
	switch {
	case at.flag == "baseline", at.flag == "candidate":
		line = append(line, "--"+at.flag, "config="+id)
	case at.flag != "":
		line = append(line, "--"+at.flag, id)
	}
	return line
}

// TestShortIDs: beginnings and places mean what the lists show, shells complete them, and
// what is wrong is said.
func TestShortIDs(t *testing.T) {
	t.Parallel()
	w := newIDWorld(t)
	for _, c := range []struct {
		line, want string // in what is written
		code       int
	}{
		{"events one_session_t", "session.created", 0},
		{"events last --types session.created", "session.created              list\n", 0}, // used last, whatever was created last
		{"job show last", "job_one_too  pending", 0},
		{"job show last~1", "job_one  pending", 0},
		{"job show one_t", "job_one_too  pending", 0}, // without the prefix
		{"why " + w.whole["tool"][:20], "list_files", 0},
		{"why " + w.whole["tool"][5:], "list_files", 0},
		{"why last", "turn.completed", 0},
		{"actions " + w.whole["action"][:30], "Which colour?", 0}, // the two may be of one millisecond
		{"turns --session asks --json", `"turnId":"one_turn"`, 0},
		{"diff one_turn", "no finished turn one_turn in session asks", 1}, // the session is that of the turn
		{"deny --cancel last", ": cancel", 0},
		{"deny --cancel last~1", "there are only 1 pending action", 2},
		{"deny --cancel last", ": cancel", 0},
		{"deny --cancel last", "there is no pending action", 1},
		{"events last~100", "there is no last~100, there are only", 2},
		{"events nothing_like_it", `there is no session nothing_like_it; "agentd sessions" lists them`, 1},
		{"submit --model nobody/x hello", `--model: "nobody/x" is not a configured model`, 2}, // as run
		{"verify one_session_t", "1 session,", 0},
		{"verify one_", "is the beginning of 2 sessions", 2},
		{"sessions archive one_session_t --json", `"sessionId":"one_session_too"`, 0},
		{"events one_session_t", "session.created", 0}, // also once it is archived
		{"bench export one_trial_t --json", `"evidenceId"`, 0},
		{"schedules pause one_schedule_t", "one_schedule_too  paused", 0},
		{"tasks --parent one_task_t --json", `"tasks":[]`, 0},
		{"__complete events one_", "one_session\t", 0},
		{"__complete turns --session ask", "asks_too\t", 0},
		{"__complete job retry job_one ite", "item_000002\t", 0},
		{"__complete job retry job_one_t ite", "item_000001\t", 0},
		{"__complete schedules pause ", "one_schedule\t", 0},
		{"__complete export lists --turn ", "turn_", 0},
		{"__complete bench compare --baseline c=one_trial,", "c=one_trial,one_trial_too\t", 0},
	} {
		out, errs, code := w.run(strings.Split(c.line, " ")...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("agentd %s: exit code %d, want %d and %q:\n%s%s", c.line, code, c.code, c.want, out, errs)
		}
	}
	// A server that isn't there is no reason to fail: a shell is offered nothing.
	if out, _, code := inProcess(t, append(ownFolders(t.TempDir()), "AGENTD_DATA="+t.TempDir()), "__complete", "events", ""); code != 0 || out != ":4\n" {
		t.Errorf("completion without data: exit code %d, %q", code, out)
	}
}

// TestTablesAtATerminal: lists fit the terminal, and the ids that they show can be typed.
func TestTablesAtATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	p := start(t, data)
	p.completed(p.submit(strings.Repeat("a rather long prompt ", 20)))
	p.completed(p.submit("short"))
	shown := func(cols int, line string) string {
		c := atTerminal(t, cols, 24, self(t, append(strings.Fields(line), "--data", data)...), "NO_COLOR=1")
		if code := c.end(); code != 0 {
			t.Fatalf("agentd %s: exit code %d", line, code)
		}
		return c.raw.String()
	}
	for _, list := range []string{"sessions", "turns"} {
		whole, _, _ := program(t, list, "--data", data)
		for _, cols := range []int{60, 80, 120} {
			text := shown(cols, list)
			lines := strings.Split(strings.TrimSpace(text), "\r\n")
			if len(lines) != 3 || strings.ContainsRune(text, '\x1b') {
				t.Fatalf("agentd %s:\n%s", list, text)
			}
			for i, line := range lines {
				if ansi.StringWidth(line) > cols {
					t.Errorf("agentd %s at %d columns writes %d: %s", list, cols, ansi.StringWidth(line), line)
				}
				if i == 0 {
					continue
				}
				id, full := strings.Fields(line)[0], strings.Fields(strings.Split(whole, "\n")[i])[0]
				if len(id) > 20 || !strings.HasPrefix(full, id) {
					t.Errorf("agentd %s shows %s for %s", list, id, full)
				}
				if out, errs, code := program(t, "why", "--data", data, id); list == "turns" && (code != 0 || !strings.Contains(out, "turn.completed")) {
					t.Errorf("agentd why %s: exit code %d, %s", id, code, errs)
				}
				if out, errs, code := program(t, "events", "--data", data, id); list == "sessions" && (code != 0 || !strings.Contains(out, "session.created")) {
					t.Errorf("agentd events %s: exit code %d, %s", id, code, errs)
				}
			}
		}
		for line := range strings.Lines(whole) {
			if ansi.StringWidth(strings.TrimSpace(line)) > 80 {
				t.Errorf("agentd %s in a pipe: %s", list, line)
			}
		}
	}
}
