package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestSweepLeavesGroupsThatMayBeInUse: only what a process of this pid namespace
// left when it died is removed. From another namespace every process looks dead.
func TestSweepLeavesGroupsThatMayBeInUse(t *testing.T) {
	const dead = 1<<22 + 1 // more than any process may have
	here := pidNamespace()
	if here == "" {
		t.Skip("skipped: sweeping; the kernel doesn't tell the pid namespace")
	}
	base := t.TempDir()
	for name, left := range map[string]bool{
		fmt.Sprintf("agentd-%d-1-aa%s", dead, here):        false,
		fmt.Sprintf("agentd-%d-1-aa%s0", dead, here):       true,
		fmt.Sprintf("agentd-%d-1-aa-4026531000", dead):     true,
		fmt.Sprintf("agentd-%d-1-aa", dead):                true,
		fmt.Sprintf("agentd-%d-1-aa%s", os.Getpid(), here): true,
		fmt.Sprintf("another-%d-1-aa%s", dead, here):       true,
		fmt.Sprintf("agentd-probe-%d-1-aa%s", dead, here):  true,
	} {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		sweepGroups(base)
		if _, err := os.Stat(dir); (err == nil) != left {
			t.Errorf("%s: %v, want it left: %v", name, err, left)
		}
	}
}
