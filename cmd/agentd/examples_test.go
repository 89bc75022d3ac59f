package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"agentd/event"
	"agentd/telemetry/otlp/otlptest"
)

// notRun are examples that need what no test brings; their flags and arguments
// are checked all the same.
var notRun = map[string]string{
	"agentd chat":                    "needs a terminal; TestChat has one",
	"--data postgres://":             "needs PostgreSQL; TestServePostgres has it",
	"agentd tasks create --peer":     "needs another agent; the tests of peers have one",
	"agentd conformance check http":  "needs a server at that port; the script conformance.txtar has one",
	"agentd nodes drain":             "needs a node of that name; TestRollingRestart has one",
	"agentd nodes undrain":           "as nodes drain",
	"agentd nodes forget":            "needs a node that is gone; TestNodesThatNeverComeBack has one",
	"agentd nodes move":              "as nodes forget",
	"agentd completion":              "cobra's own",
	"agentd policy accept --session": "needs rules that wait; the script rules.txtar has them",
	"agentd approve --mode":          "needs a plan that waits; the script plan.txtar has one",
	"agentd data accept ./":          "asks at a terminal; the script data.txtar has --yes",
	"agentd init":                    "writes the user's configuration; the script init.txtar does",
	"agentd login":                   "calls a provider; the script init.txtar has one that isn't there",
	"agentd import":                  "is about the user's own server; the script init.txtar has one",
	"agentd daemon":                  "is about the user's own server; the script daemon.txtar has one",
	"agentd console":                 "opens a browser; the tests of the console log in",
	"agentd policy test --reviewer":  "asks a model of the configuration; the tests of test_reviewer have one",
	"agentd audit -f":                "goes on until it is stopped; TestAuditGoesOn stops it",
	"agentd approve --credential":    "needs a server that wants a credential; its own tests have one",
}

// exitsWith are the examples that don't end with 0 in the world of the test.
var exitsWith = map[string]int{
	"agentd status":        exitFailed, // no server holds the data
	"agentd status --json": exitFailed,
	// No such rule was kept.
	"agentd policy forget rule_1f0c2b7d9a3e4c5d": exitFailed,
}

// world is a folder with everything that the examples name.
type world struct {
	*testing.T
	dir    string
	names  *strings.Replacer
	server *process
}

// TestExamples runs every example of every help text as a shell would, in a copy
// of the same world each.
func TestExamples(t *testing.T) {
	t.Parallel()
	lines := exampleLines()
	if len(lines) < 100 {
		t.Fatalf("only %d examples were found", len(lines))
	}
	runExamples(t, lines)
}

// TestLongExamplesAsJSON runs them again with --json.
func TestLongExamplesAsJSON(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("skipped: all examples with --json; set AGENTD_TEST_LONG")
	}
	var lines []string
	for _, line := range exampleLines() {
		if strings.HasPrefix(line, "agentd ") && !strings.HasPrefix(line, "agentd serve") && !strings.ContainsAny(line, "|>") && !strings.Contains(line, "--json") {
			lines = append(lines, line+" --json")
		}
	}
	runExamples(t, lines)
}

// exampleLines returns the examples of all commands, each once.
func exampleLines() []string {
	var lines []string
	for _, c := range commandTree(tree()) {
		for line := range strings.SplitSeq(c.Example, "\n") {
			if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

func runExamples(t *testing.T, lines []string) {
	t.Helper()
	w := newWorld(t)
	t.Run("lines", func(t *testing.T) { // ends when those that run beside each other have
		for _, line := range lines {
			t.Run(line, func(t *testing.T) { w.example(t, line) })
		}
	})
}

// newWorld makes the world: a server writes the facts, and commands the files.
func newWorld(t *testing.T) *world {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", "examples", "world.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := txtar.Write(archive, dir); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, dir: dir}
	first := w.serve(dir)
	w.sh(dir, string(archive.Comment))
	w.await(first, "sess_01", event.TypeJobCompleted, event.TypeJobFailed)
	for _, trial := range []string{"trial_01", "trial_1", "trial_2", "trial_3", "trial_4"} {
		w.await(first, trial, event.TypeBenchmarkTrialCompleted)
	}
	action := w.await(first, "sess_02", event.TypeActionRequired).ActionID
	input := w.await(first, "sess_03", event.TypeActionRequired).ActionID
	tool := w.await(first, "sess_01", event.TypeToolResult).ToolCallID
	if code := first.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("the server ended with %d", code)
	}
	w.sh(dir, `agentd export evidence sess_01 > pack.json
agentd export evidence sess_01 --out evidence.zip
agentd export evidence sess_01 --out evidence
agentd export replay sess_01 --turn turn_01 > case.json
agentd sessions export sess_01 --out kept.jsonl
agentd backup kept.tar
gzip < kept.tar > agentd.tar.gz`)
	key, err := between(w.sh(dir, "agentd evidence verify --json pack.json"), `"keyId":"`, `"`)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "served")
	w.copyTo(t, copied)
	w.server = w.serve(copied)
	w.names = strings.NewReplacer(
		"http://127.0.0.1:8700", w.server.url, "127.0.0.1:8700", "127.0.0.1:0",
		"http://127.0.0.1:4318", otlptest.NewCollector(t, nil).URL, "sha256:…", key,
		`--input '{"colour":"blue"}' action_01`, `--input '{"colour":"blue"}' `+input,
		"action_01", action, "action_02", action, "tool_01", tool, "SESSION", "sess_01",
		"import --data /var/lib/agentd", "import --data ./other", "/var/lib/agentd", "./.agentd",
		"/usr/local/share/man/man1", "./man", "anthropic/claude-sonnet-4-5", "play/m",
		"job cancel job_01", "job cancel job_02", `"wrong language" job_01`, `"wrong language" job_02`,
		"| jq .type", "| cat", "git diff", "echo diff",
	)
	return w
}

// example runs one line of a help text.
func (w *world) example(t *testing.T, line string) {
	w.parse(t, line)
	for text, why := range notRun {
		if strings.Contains(line, text) {
			t.Logf("not run: %s", why)
			return
		}
	}
	if strings.Contains(line, "bench run") {
		needsConfinement(t)
	}
	if strings.HasPrefix(line, "agentd undo") {
		writeFile(t, w.dir, "out.txt", "written") // the facts name this folder, wherever they are
	} else {
		t.Parallel()
	}
	dir := filepath.Join(t.TempDir(), "world")
	w.copyTo(t, dir)
	script := w.names.Replace(line)
	if strings.HasPrefix(line, "agentd serve") {
		cmd := w.command(t, dir, "exec "+script)
		cmd.Env = append(cmd.Env, "AGENTD_LISTEN=127.0.0.1:0") // somebody may have the usual port, such as another line
		p := serveLine(t, cmd)
		if code := p.stop(syscall.SIGTERM); code != 0 {
			t.Errorf("exit code %d", code)
		}
		return
	}
	for text, first := range before {
		if strings.Contains(line, text) {
			script = first + "\n" + script
		}
	}
	var out, errs bytes.Buffer
	cmd := w.command(t, dir, "set -e\n"+script)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	code := cmd.ProcessState.ExitCode()
	t.Logf("%s\n%s%s", script, out.String(), errs.String())
	if last := line[strings.LastIndex(line, "|")+1:]; strings.Contains(last, "--json") {
		checkJSON(t, out.Bytes())
	}
	if want := exitsWith[line]; code != want && !strings.HasPrefix(line, "agentd doctor") {
		t.Errorf("exit code %d (%v), want %d", code, err, want)
	}
}

// checkJSON wants JSON values and nothing else.
func checkJSON(t *testing.T, data []byte) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	for {
		var v any
		err := dec.Decode(&v)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("standard output isn't JSON: %v", err)
		}
	}
}

// before says what is done in the copy of the world before the lines with a text
// are run.
var before = map[string]string{
	"agentd restore":         "mv kept.tar agentd-2026-11-15.tar",
	"agentd sessions import": "mv kept.jsonl sess_01.jsonl && mv .agentd other-data",
	"agentd tokens revoke":   "agentd tokens create laptop > token.txt",
	"agentd tokens rotate":   "agentd tokens create laptop > token.txt",
}

// substituted is what a shell puts the output of a command into.
var substituted = regexp.MustCompile(`\$\([^)]*\)`)

// parse holds the command of a line against its flags and its number of arguments.
func (w *world) parse(t *testing.T, line string) {
	t.Helper()
	line = substituted.ReplaceAllString(line, "word")
	at := strings.Index(line, "agentd ")
	if at < 0 {
		return // "agentd" alone
	}
	first, _, _ := strings.Cut(line[at:], " | ")
	first, _, _ = strings.Cut(first, " > ")
	first, _, _ = strings.Cut(first, " < ")
	if strings.HasSuffix(line[:at], "<(") {
		first, _, _ = strings.Cut(first, ")")
	}
	out, err := exec.Command("sh", "-c", "for word in "+strings.TrimPrefix(first, "agentd ")+`; do printf '%s\0' "$word"; done`).Output()
	if err != nil {
		t.Fatalf("the shell doesn't read it: %v", err)
	}
	words := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	cmd, rest, err := tree().Find(words)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		t.Errorf("it is not how agentd is called: %v", err)
	}
}

// command is a shell that runs in a folder, with agentd in its path.
func (w *world) command(t *testing.T, dir, script string) *exec.Cmd {
	t.Helper()
	shell := []string{"sh", "-c", script}
	if bash, err := exec.LookPath("bash"); err == nil {
		shell = []string{bash, "-o", "pipefail", "-c", script}
	}
	cmd := exec.CommandContext(w.Context(), shell[0], shell[1:]...)
	cmd.Dir = dir
	cmd.Env = append(ownEnv(t, dir), "AGENTD_CONFIG=agentd.yaml", "AGENTD_DATA=./.agentd")
	return cmd
}

func (w *world) sh(dir, script string) string {
	w.Helper()
	var errs bytes.Buffer
	cmd := w.command(w.T, dir, "set -e\n"+script)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		w.Fatalf("%v\n%s\n%s", err, out, errs.String())
	}
	return string(out)
}

// serve runs a server over the world in a folder.
func (w *world) serve(dir string) *process {
	w.Helper()
	return serveLine(w.T, w.command(w.T, dir, "exec agentd serve --listen 127.0.0.1:0"))
}

// serveLine starts a command that serves, and waits until it is ready.
func serveLine(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, data: filepath.Join(cmd.Dir, ".agentd"), lines: make(chan string, 10_000)}
	p.begin()
	return p
}

// await returns the first fact of one of some types.
func (w *world) await(p *process, session string, types ...event.Type) *event.Event {
	w.Helper()
	for e, err := range p.client().Follow(w.Context(), session, 0, nil) {
		if err != nil {
			w.Fatal(err)
		}
		if !slices.Contains(types, e.Type) {
			continue
		}
		found, err := e.Decode()
		if err != nil {
			w.Fatal(err)
		}
		return found
	}
	w.Fatal("the stream ended")
	return nil
}

// copyTo copies the world.
func (w *world) copyTo(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command("cp", "-Rp", w.dir, dir).CombinedOutput(); err != nil { // os.CopyFS forgets who may read
		t.Fatalf("%v\n%s", err, out)
	}
	if data := filepath.Join(dir, ".agentd"); exists(data) { // a copy is another directory
		accepted(t, data)
	}
}
