package interop_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"agentd/evidence/replaytest"
)

// replayFolder has the program run every session again that programs recorded in a
// folder, once they have ended: the facts must be the same.
func replayFolder(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "data")); err != nil {
		return // nothing was recorded
	}
	program, err := protoBuild()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, program)
	}
	replaytest.Program(t, func(args ...string) *exec.Cmd {
		cmd := exec.Command(program, append(args, "--config", "config.yaml")...)
		cmd.Dir, cmd.Env = dir, protoEnvironment()
		return cmd
	})
}
