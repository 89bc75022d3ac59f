package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"agentd/cmd/agentd/internal/config"
	"agentd/event"
	"agentd/loop"
	"agentd/sandbox"
)

// tinyMCP is an MCP server with one tool, which reads or writes a file and gives its
// content or the error.
func tinyMCP() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Arguments tinyArguments `json:"arguments"`
			} `json:"params"`
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		var result string
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"tiny","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"touch","description":"d","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			text, _ := json.Marshal(tinyCall(&m.Params.Arguments))
			result = `{"content":[{"type":"text","text":` + string(text) + `}]}`
		default:
			fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32601,\"message\":\"unknown\"}}\n", m.ID)
			continue
		}
		fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", m.ID, result)
	}
}

// tinyArguments say what the tool is to do: one of them.
type tinyArguments struct {
	Read, Write, Env string
	// Eat is memory in MiB, Fork and Open are numbers.
	Eat, Fork, Open, Exit int
}

func tinyCall(a *tinyArguments) string {
	switch {
	case a.Env != "":
		return "env " + os.Getenv(a.Env)
	case a.Exit != 0:
		os.Exit(a.Exit)
	case a.Eat+a.Fork+a.Open != 0:
		return tinyGreed(a)
	case a.Write != "":
		if err := os.WriteFile(a.Write, []byte("x"), 0o600); err != nil {
			return "not written: " + err.Error()
		}
		return "written"
	}
	b, err := os.ReadFile(a.Read)
	if err != nil {
		return "not read: " + err.Error()
	}
	return "read " + string(b)
}

// tinyGreed takes more than is good, until it is refused, and says how much it got.
func tinyGreed(a *tinyArguments) string {
	var kept [][]byte
	for range a.Eat {
		kept = append(kept, bytes.Repeat([]byte{1}, 1<<20))
	}
	for n := range a.Fork {
		if err := exec.Command("sleep", "300").Start(); err != nil {
			return fmt.Sprintf("forked %d: %v", n, err)
		}
	}
	for n := range a.Open {
		if _, err := os.Open("/dev/null"); err != nil {
			return fmt.Sprintf("opened %d: %v", n, err)
		}
	}
	return fmt.Sprintf("took all, and %d MiB", len(kept))
}

// withServer adds the tiny MCP server to a configuration.
func withServer(t *testing.T, dir, more string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	// Within the workspace: /tmp is the server's own.
	program := filepath.Join(dir, "ws", "tinymcp")
	to, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(dir, "c.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "c.yaml", string(config)+"mcp:\n  - {id: tiny, command: ["+program+"]"+more+"}\n")
}

// calls is a script that calls the server's tool with each of the arguments.
func calls(arguments ...string) string {
	var b strings.Builder
	b.WriteString("answers:\n")
	for _, a := range arguments {
		fmt.Fprintf(&b, "  - tools: [{name: mcp__tiny__touch, arguments: %s}]\n", a)
	}
	b.WriteString("  - {text: done}\n")
	return b.String()
}

// serverFacts runs a turn and returns the results of its calls, and how they were
// confined.
func serverFacts(t *testing.T, dir string) (results []string, applied []*event.SandboxApplied) {
	t.Helper()
	for _, e := range serverEvents(t, dir) {
		switch p := e.Payload.(type) {
		case *event.ToolResult:
			results = append(results, p.Preview)
		case *event.ToolFailed:
			t.Errorf("%+v", p)
		case *event.SandboxApplied:
			applied = append(applied, p)
		}
	}
	return results, applied
}

// serverEvents runs a turn and returns its facts.
func serverEvents(t *testing.T, dir string) []*event.Event {
	t.Helper()
	cmd := playing(t, dir, "run", "--json", "--mode", "bypass", "go")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, &errs)
	}
	var events []*event.Event
	for line := range strings.Lines(string(out)) {
		e, err := event.Decode([]byte(strings.TrimSpace(line)))
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// TestServersAreConfined: an MCP server runs in a profile of its own, which its
// calls tell, and never sees the data directory.
func TestServersAreConfined(t *testing.T) {
	plan, err := sandbox.Prepare(sandbox.Profile{Root: t.TempDir()}, sandbox.Probe())
	if err != nil || !strings.Contains(plan.Enforcement.Filesystem, "mount_namespace") {
		t.Skipf("skipped: MCP servers in the sandbox; the kernel doesn't confine them here: %v", err)
	}
	outside, err := os.MkdirTemp(".", "outside") //nolint:usetesting // a server has a /tmp of its own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(outside) })
	if outside, err = filepath.Abs(outside); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config  string
		outside string
		mode    string
		network string
	}{
		"default":   {"", "not written", "workspace_write", "allow"},
		"writable":  {", sandbox: {network: deny, writeRoots: [" + outside + "]}", "written", "workspace_write", "deny"},
		"read only": {", sandbox: {mode: read_only}", "not written", "read_only", "allow"},
		"open":      {", sandbox: {mode: danger_full_access}", "written", "danger_full_access", "allow"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := play(t, "")
			writeFile(t, dir, "s.yaml", calls(
				"{read: "+dir+"/data/token}", "{read: "+dir+"/data/undo.key}", "{write: "+outside+"/f}", "{write: "+dir+"/ws/f}", "{env: AGENTD_CONFINE}", "{env: AGENTD_TOKEN}"))
			withServer(t, dir, c.config)
			if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(dir, "data"), "token", "planted")
			accepted(t, filepath.Join(dir, "data"))
			got, applied := serverFacts(t, dir)
			if len(got) != 6 || !strings.HasPrefix(got[0], "not read") || !strings.HasPrefix(got[1], "not read") {
				t.Fatalf("%q", got)
			}
			if !strings.HasPrefix(got[2], c.outside) || (strings.HasPrefix(got[3], "written") != (c.mode != "read_only")) || got[4] != "env " || got[5] != "env " {
				t.Errorf("%q", got)
			}
			if len(applied) != 6 || applied[0].Mode != c.mode || applied[0].Network != c.network || !strings.Contains(applied[0].Enforcement.Filesystem, "mount_namespace") {
				t.Errorf("%+v", applied)
			}
		})
	}
}

// TestServersAreLimited: a server that takes more memory, processes or files than its
// limits allow is ended or refused, which the facts of the call say; agentd goes on,
// and starts the server again.
func TestServersAreLimited(t *testing.T) {
	report := sandbox.Probe()
	if !report.CgroupMemory.Available || !report.CgroupPids.Available {
		t.Skipf("skipped: limits of MCP servers; there are no control groups: %s %s", report.CgroupMemory.Reason, report.CgroupPids.Reason)
	}
	const ended = `a limit of its sandbox ended the MCP server "tiny" during the call: .*`
	for name, c := range map[string]struct{ calls, said []string }{
		"memory": {
			[]string{"{eat: 600}", "{env: HOME}"},
			[]string{"^limit violated: " + ended + "memory: the control group's limit ended a process", "^lost: " + ended + "memory", "^env /"},
		},
		"processes": {
			[]string{"{fork: 500}", "{env: HOME}", "{exit: 3}"},
			[]string{"^forked [1-5]?[0-9]: .*resource temporarily unavailable", "^env /", "^limit violated: " + ended + "processes: the control group refused a fork", "^lost: " + ended + "processes"},
		},
		"files": {[]string{"{open: 500}", "{env: HOME}"}, []string{"^opened [1-8]?[0-9]: .*too many open files", "^env /"}},
		// The keeper's own exit code from the server says nothing.
		"none": {[]string{"{exit: 121}", "{env: HOME}"}, []string{`^lost: the MCP server "tiny" was lost`, "^env /"}},
	} {
		t.Run(name, func(t *testing.T) {
			said, applied := greedyCalls(t, c.calls)
			if len(said) != len(c.said) || applied != len(c.calls) {
				t.Fatalf("%d facts of the boundary; %q", applied, said)
			}
			for i, pattern := range c.said {
				if !regexp.MustCompile(pattern).MatchString(said[i]) {
					t.Errorf("%q isn't %s", said[i], pattern)
				}
			}
		})
	}
}

// greedyCalls has the calls made by a server with narrow limits, and returns what came
// of them and how many facts stated the limits.
func greedyCalls(t *testing.T, arguments []string) (said []string, applied int) {
	t.Helper()
	dir := play(t, "")
	writeFile(t, dir, "s.yaml", calls(arguments...))
	withServer(t, dir, ", sandbox: {limits: {memoryMB: 192, processes: 60, openFiles: 90}}")
	for _, e := range serverEvents(t, dir) {
		switch p := e.Payload.(type) {
		case *event.ToolResult:
			said = append(said, p.Preview)
		case *event.ToolFailed:
			said = append(said, p.ErrorCategory+": "+p.Message)
		case *event.SandboxViolation:
			said = append(said, p.Boundary+" violated: "+p.Detail)
		case *event.SandboxApplied:
			applied++
			want := map[string]int64{"memoryMB": 192, "processes": 60, "openFiles": 90, "wallClockMs": 0}
			if !maps.Equal(p.ProcessLimits, want) || p.Enforcement.Limits != "cgroup+rlimits" {
				t.Errorf("%+v", p)
			}
		}
	}
	return said, applied
}

// TestServersHaveLimitsByDefault: a server of which the configuration says nothing is
// bounded, and only the word takes a bound away.
func TestServersHaveLimitsByDefault(t *testing.T) {
	var c config.MCP
	c.Command = []string{"x"}
	a := &app{}
	if got, want := a.serverProfile(&c, "/", &loop.Options{}).Limits, (sandbox.Limits{MemoryMB: 8192, Processes: 2048, OpenFiles: 16384}); got != want {
		t.Errorf("%+v", got)
	}
	c.Sandbox.Limits.MemoryMB, c.Sandbox.Limits.Processes = config.Unlimited, "7"
	if got, want := a.serverProfile(&c, "/", &loop.Options{}).Limits, (sandbox.Limits{Processes: 7, OpenFiles: 16384}); got != want {
		t.Errorf("%+v", got)
	}
}

// TestHooksHaveAProfileOfTheirOwn: what tools may do says nothing about hooks.
func TestHooksHaveAProfileOfTheirOwn(t *testing.T) {
	plan, err := sandbox.Prepare(sandbox.Profile{Root: t.TempDir()}, sandbox.Probe())
	if err != nil || plan.Enforcement.Filesystem == sandbox.None {
		t.Skipf("skipped: hooks in the sandbox; the kernel doesn't confine them here: %v", err)
	}
	for name, c := range map[string]struct {
		config  string
		written bool
		env     string
	}{
		"default":   {"", true, "unset"},
		"read only": {", sandbox: {mode: read_only}", false, "unset"},
		"variable":  {", sandbox: {env: [PLANTED=here]}", true, "here"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := play(t, "answers:\n  - {text: done}\n")
			config, err := os.ReadFile(filepath.Join(dir, "c.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			// It says what it could do by its context for the model.
			script := `if echo x > f; then w=true; else w=false; fi 2>/dev/null; cat ` + dir + `/data/undo.key >/dev/null 2>&1 && d=true || d=false; printf '{"decision":"block","reason":"written=%s data=%s env=%s"}' $w $d ${PLANTED-unset}`
			hook, err := json.Marshal([]string{"sh", "-c", script})
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, dir, "c.yaml", string(config)+"sandbox: {mode: danger_full_access, env: [PLANTED=tools]}\nhooks:\n  - {point: user_prompt_submit, command: "+string(hook)+c.config+"}\n")
			cmd := playing(t, dir, "run", "go")
			out, _ := cmd.CombinedOutput()
			want := fmt.Sprintf("written=%v data=false env=%s", c.written, c.env)
			if !strings.Contains(string(out), want) {
				t.Errorf("want %s: %s", want, out)
			}
		})
	}
}

// TestProgramsBelowTmpAreFound: a hook has a /tmp of its own, in which its program
// and what lies beside it can still be read, and nothing more than that.
func TestProgramsBelowTmpAreFound(t *testing.T) {
	plan, err := sandbox.Prepare(sandbox.Profile{Root: t.TempDir()}, sandbox.Probe())
	if err != nil || !strings.Contains(plan.Enforcement.Filesystem, "mount_namespace") {
		t.Skipf("skipped: hooks in the sandbox; the kernel doesn't confine them here: %v", err)
	}
	if !strings.HasPrefix(t.TempDir(), "/tmp/") {
		t.Skip("skipped: programs below /tmp; temporary files are elsewhere here")
	}
	alone, err := os.CreateTemp("/tmp", "agentd-hook-*.sh") // it must lie in /tmp itself
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(alone.Name()) })
	if err := alone.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ program, want string }{
		"beside the workspace": {"", "beside=true data=false"},
		"in tmp itself":        {alone.Name(), "beside=false data=false"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := play(t, "answers:\n  - {text: done}\n")
			program := c.program
			if program == "" {
				program = filepath.Join(dir, "check.sh")
			}
			writeFile(t, dir, "beside", "x")
			writeFile(t, filepath.Dir(program), filepath.Base(program), "#!/bin/sh\n"+
				"can() { if \"$@\" >/dev/null 2>&1; then echo true; else echo false; fi; }\n"+
				`b=$(can cat `+dir+`/beside); d=$(can cat `+dir+`/data/undo.key); can touch `+dir+`/new >/dev/null`+"\n"+
				`printf '{"decision":"block","reason":"beside=%s data=%s"}' $b $d`+"\n")
			if err := os.Chmod(program, 0o755); err != nil {
				t.Fatal(err)
			}
			config, err := os.ReadFile(filepath.Join(dir, "c.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, dir, "c.yaml", string(config)+"hooks:\n  - {point: user_prompt_submit, command: ["+program+"]}\n")
			out, _ := playing(t, dir, "run", "go").CombinedOutput()
			if !strings.Contains(string(out), c.want) {
				t.Errorf("want %s: %s", c.want, out)
			}
			if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
				t.Error("the hook wrote beside its program")
			}
		})
	}
}

// TestServeHasTheToolsOfServersOnceItIsReady: the first turn after the start finds
// them.
func TestServeHasTheToolsOfServersOnceItIsReady(t *testing.T) {
	dir := play(t, "")
	withServer(t, dir, ", sandbox: {mode: danger_full_access}")
	cmd := playing(t, dir, "serve", "--listen", "127.0.0.1:0")
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || !strings.Contains(line, "listens on") {
		t.Fatalf("%q: %v", line, err)
	}
	out, err := playing(t, dir, "call", "get_tool_inventory").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "mcp__tiny__touch") {
		t.Errorf("the inventory right after the start: %v: %s", err, out)
	}
}
