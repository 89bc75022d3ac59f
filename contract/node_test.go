package contract_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"agentd/internal/answertest"
	"agentd/internal/gen"
	"agentd/internal/nodetest"
)

const (
	prismProgram    = "@stoplight/prism-cli/dist/index.js"
	redoclyProgram  = "@redocly/cli/bin/cli.js"
	compilerProgram = "typescript/bin/tsc"
	document        = "../internal/gen/openapi.json"
)

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
	cmd := exec.CommandContext(context.Background(), "node", append(args, closedDocument(t), upstream)...)
	cmd.Env = nodetest.Environment()
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

// closedDocument writes the document with every answer closed and returns its path: what
// clients pass over, because a later release may add it, this one must not have.
func closedDocument(t *testing.T) string {
	t.Helper()
	var doc any
	if err := json.Unmarshal(gen.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	answertest.Close(doc.(map[string]any)["components"])
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// freePort returns a port that was free a moment ago: the proxy can't choose one.
// It lies below those that the kernel gives to connections, so that none of them
// takes it in the meantime.
func freePort(t *testing.T) int {
	t.Helper()
	var err error
	for range 100 {
		port := 15000 + rand.IntN(15000)
		var l net.Listener
		if l, err = new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal(err)
	return 0
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
