package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/bench/rig"
)

// program is another agent that is run headless, one process a turn.
type program struct {
	name, pkg string
	// binary is where the npm package has the program itself, without a launcher.
	binary string
	// scenario is the same work in the words of its tools.
	scenario rig.Scenario
	// prepare writes the configuration into a home folder.
	prepare func(home string, m *rig.Model) error
	// args are those of one turn.
	args func(home string) []string
	env  []string
	// talks is how it is spoken to when it runs for long.
	talks dialect
}

// programs are the other agents, with versions of which this is known to work.
var programs = []program{goose, codex}

var goose = program{
	name: "goose", pkg: "@aaif/goose-binary-linux-x64@1.52.0",
	binary:   "node_modules/@aaif/goose-binary-linux-x64/bin/goose",
	scenario: rig.Scenario{Tool: "shell", Arguments: `{"command":"true"}`},
	prepare: func(home string, m *rig.Model) error {
		config := fmt.Sprintf("GOOSE_PROVIDER: openai\nGOOSE_MODEL: %s\nOPENAI_HOST: %s\nOPENAI_BASE_PATH: v1/chat/completions\n"+
			"GOOSE_TELEMETRY_ENABLED: false\nextensions:\n  developer:\n    type: builtin\n    name: developer\n    enabled: true\n    bundled: true\n    timeout: 300\n",
			rig.ModelName, m.Root("goose"))
		return writeFile(filepath.Join(home, ".config", "goose", "config.yaml"), config)
	},
	args:  func(string) []string { return []string{"run", "--no-session", "--quiet", "--text", "go"} },
	env:   []string{"GOOSE_MODE=auto", "GOOSE_DISABLE_KEYRING=1", "GOOSE_DISABLE_SESSION_NAMING=true"},
	talks: gooseTalks,
}

var codex = program{
	name: "codex", pkg: "@openai/codex@0.166.0",
	binary:   "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
	scenario: rig.Scenario{Tool: "exec_command", Arguments: `{"cmd":"true"}`},
	prepare: func(home string, m *rig.Model) error {
		config := fmt.Sprintf("model = %q\nmodel_provider = \"fake\"\napproval_policy = \"never\"\nsandbox_mode = \"workspace-write\"\ncheck_for_update_on_startup = false\n"+
			"[analytics]\nenabled = false\n[model_providers.fake]\nname = \"fake\"\nbase_url = %q\nwire_api = \"responses\"\n",
			rig.ModelName, m.URL("codex"))
		return writeFile(filepath.Join(home, ".codex", "config.toml"), config)
	},
	args: func(home string) []string {
		return []string{"exec", "--skip-git-repo-check", "--cd", filepath.Join(home, "work"), "go"}
	},
	talks: codexTalks,
}

func writeFile(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o600)
}

// install returns the folder of the npm packages, or why there is none.
func install(tb testing.TB) (string, error) {
	if dir := os.Getenv("AGENTD_BENCH_PEERS"); dir != "" {
		return filepath.Abs(dir)
	}
	if os.Getenv("AGENTD_BENCH_NPM") == "" {
		return "", errors.New("not installed: set AGENTD_BENCH_NPM=1 to install it with npm into a temporary folder, or AGENTD_BENCH_PEERS to a folder that has it")
	}
	dir := tb.TempDir()
	args := []string{"install", "--no-audit", "--no-fund", "--prefix", dir}
	for _, p := range programs {
		args = append(args, p.pkg)
	}
	if out, err := exec.Command("npm", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install: %w: %s", err, bytes.TrimSpace(out))
	}
	return dir, nil
}

// peer is a program that is ready to run.
type peer struct {
	program
	path, home string

	mu  sync.Mutex
	cpu time.Duration
}

// ready prepares a program and does one turn, which shows that it does the work:
// two calls of the model, with a tool between them.
func (p program) ready(tb testing.TB, dir string, m *rig.Model) (*peer, error) {
	out := &peer{program: p, path: filepath.Join(dir, p.binary), home: tb.TempDir()}
	if _, err := os.Stat(out.path); err != nil {
		return nil, fmt.Errorf("not installed: %w", err)
	}
	if err := os.Mkdir(filepath.Join(out.home, "work"), 0o700); err != nil {
		return nil, err
	}
	if err := p.prepare(out.home, m); err != nil {
		return nil, err
	}
	before := m.Calls()
	text, err := out.run(tb.Context())
	if err != nil {
		return nil, err
	}
	if n := m.Calls() - before; n != 2 {
		return nil, fmt.Errorf("a turn made %d calls of the model, want 2:\n%s", n, text)
	}
	return out, nil
}

// run does one turn.
func (p *peer) run(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := p.command(ctx, p.args(p.home))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", p.name, err, tail(out))
	}
	p.mu.Lock()
	p.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	p.mu.Unlock()
	return string(out), nil
}

// command is the program with its configuration and a clean environment.
func (p *peer) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Dir = filepath.Join(p.home, "work")
	// Nothing but loopback is reached: every other address is behind a proxy that
	// nobody runs.
	const nowhere = "http://127.0.0.1:9"
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.home, "LANG=C.UTF-8", "OPENAI_API_KEY=unused",
		"HTTP_PROXY=" + nowhere, "HTTPS_PROXY=" + nowhere, "ALL_PROXY=" + nowhere, "NO_PROXY=127.0.0.1",
	}, p.env...)
	return cmd
}

func tail(b []byte) string {
	b = bytes.TrimSpace(b)
	return strings.ToValidUTF8(string(b[max(0, len(b)-500):]), "?")
}

// measure measures the program, with the time of the processes that it waited for.
func (p *peer) measure(ctx context.Context, at int, d time.Duration) *measured {
	before := p.cpu
	m := repeat(ctx, at, d, func(ctx context.Context) (func() (time.Duration, error), func()) {
		return func() (time.Duration, error) {
			began := time.Now()
			_, err := p.run(ctx)
			return time.Since(began), err
		}, func() {}
	})
	m.cpu = p.cpu - before
	return m
}
