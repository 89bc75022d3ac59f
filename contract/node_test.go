package contract_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	prismProgram   = "@stoplight/prism-cli/dist/index.js"
	redoclyProgram = "@redocly/cli/bin/cli.js"
	document       = "../internal/gen/openapi.json"
)

// programs returns the folder of the installed Node.js programs, or ends the test.
func programs(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if os.Getenv("AGENTD_TEST_NODE") == "require" {
			t.Fatalf("%s is not in PATH; run scripts/node.sh", name)
		}
		t.Skipf("skipped: holding the OpenAPI document against real traffic needs Node.js, and %s is not in PATH; run scripts/node.sh", name)
	}
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	dir, err := filepath.Abs(filepath.Join(".node", hex.EncodeToString(sum[:8])))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		install(t, dir)
	}
	return filepath.Join(dir, "node_modules")
}

// install fills a folder beside dir and renames it: two runs at the same time
// don't disturb each other, and one that is cut off leaves nothing half done.
func install(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "new-") //nolint:usetesting // renaming needs the same file system
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(work) }() // it is gone when all went well
	for _, name := range []string{"package.json", "package-lock.json"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// No package's own scripts: nothing here needs one.
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	if err := os.Rename(work, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			t.Fatal(err)
		}
	}
}

// environment is that of the programs: plain output, and no talk with their makers.
func environment() []string {
	return append(os.Environ(), "NO_COLOR=1", "FORCE_COLOR=0", "NODE_ENV=test",
		"REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "CI=true")
}

// proxy starts the contract-checking proxy in front of upstream and returns its
// address. Answers that don't fit the document become problems of the proxy's own.
func proxy(t *testing.T, modules, upstream string, flags ...string) string {
	t.Helper()
	port := freePort(t)
	args := append([]string{
		"--require", "./leash.cjs", filepath.Join(modules, prismProgram), "proxy", "--errors",
		"--multiprocess=false", "--host", "127.0.0.1", "--port", strconv.Itoa(port),
	}, flags...)
	// Not the test's context: it ends before the cleanup that waits for the process.
	cmd := exec.CommandContext(context.Background(), "node", append(args, document, upstream)...)
	cmd.Env = environment()
	leash, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := &lines{}
	listening, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		said.read(stdout, "Prism is listening", listening)
	}()
	t.Cleanup(func() {
		_ = leash.Close()
		_ = cmd.Process.Kill() // it keeps nothing that a kill could harm
		<-ended
		_ = cmd.Wait() // killed
		if t.Failed() {
			t.Logf("the proxy said:\n%s", said.String())
		}
	})
	select {
	case <-listening:
	case <-ended:
		t.Fatalf("the proxy ended:\n%s", said.String())
	}
	return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// freePort returns a port that was free a moment ago: the proxy can't choose one.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// lines keeps what a program says.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// read copies to the end and closes seen at the first line with the text.
func (l *lines) read(from io.Reader, text string, seen chan<- struct{}) {
	r := bufio.NewReader(from)
	for {
		line, err := r.ReadString('\n')
		l.mu.Lock()
		fmt.Fprint(&l.b, line)
		l.mu.Unlock()
		if seen != nil && strings.Contains(line, text) {
			close(seen)
			seen = nil
		}
		if err != nil {
			return
		}
	}
}

// String returns the last of it, without the requests that went well.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 4000
	var b strings.Builder
	for line := range strings.Lines(l.b.String()) {
		if !strings.Contains(line, " info ") {
			b.WriteString(line)
		}
	}
	s := b.String()
	return s[max(0, len(s)-most):]
}
