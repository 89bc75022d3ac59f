package sandbox

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestInheritedDescriptorsStayOutside: whoever started us may have left files open,
// as shells and supervisors do. A folder among them would lead out of the sandbox.
func TestInheritedDescriptorsStayOutside(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(outside+"/kept", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// Not through package os, which would mark it.
	fd, err := unix.Open(outside, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	plan := prepared(t, Profile{Root: workspace(t)})
	how := map[string]starter{"executed": executed}
	if canFork && plan.use.pid {
		l, err := startLauncher()
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		how["forked"] = func(p *Plan, cmd Command) (*Child, error) {
			c, err := p.beginStage(l)
			if err != nil {
				return nil, err
			}
			return c.become(p, cmd)
		}
	}
	line := `for f in /proc/$$/fd/*; do echo ${f##*/}; done; ls /proc/self/fd/` + strconv.Itoa(fd) + `/`
	has := func(r result) bool {
		return strings.Contains(r.stdout, "kept") || strings.Contains("\n"+r.stdout, "\n"+strconv.Itoa(fd)+"\n")
	}
	lesser := *plan // on a kernel that can't, which the plan says
	lesser.report.Inherited = "close_range: it can't"
	for name, start := range how {
		if r := runBy(t, start, plan, line); plan.report.Inherited == "" && has(r) {
			t.Errorf("%s: the command has descriptor %d:\n%s", name, fd, r.stdout)
		}
		if r := runBy(t, start, &lesser, line); !has(r) {
			t.Errorf("%s: nothing can leak here, so nothing was shown:\n%s\n%s", name, r.stdout, r.stderr)
		}
	}
}
