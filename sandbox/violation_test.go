package sandbox

import (
	"strings"
	"testing"
	"time"
)

func TestClassify(t *testing.T) {
	root := t.TempDir()
	limits := Limits{MemoryMB: 100, Processes: 10, FileSizeMB: 10, OpenFiles: 10, CPU: time.Second}
	plans := map[string]*Plan{}
	for name, p := range map[string]Profile{
		"write":  {Root: root, Hidden: []string{"/data/store"}, Limits: limits},
		"read":   {Root: root, Mode: ReadOnly},
		"allow":  {Root: root, Network: NetworkAllow},
		"danger": {Root: root, Mode: DangerFullAccess},
	} {
		plan, err := Prepare(p, full())
		if err != nil {
			t.Fatal(err)
		}
		plans[name] = plan
	}
	failed := Exit{Code: 1}
	for _, c := range []struct {
		name, plan string
		exit       Exit
		tail       string
		want       string // boundary, and path or host if it has one
		fact       bool
	}{
		{"nothing", "write", failed, "make: *** [all] Error 1", "", false},
		{"success in spite of noise", "write", Exit{}, "sh: /etc/x: Permission denied", "", false},
		{"read-only", "write", failed, "touch: cannot touch '/etc/x': Read-only file system", "filesystem /etc/x", false},
		{"denied", "write", failed, "sh: 1: cannot create /etc/x: Permission denied", "filesystem /etc/x", false},
		{"python", "write", failed, "PermissionError: [Errno 13] Permission denied: '/srv/x'", "filesystem /srv/x", false},
		{"relative", "write", failed, "sh: 1: cannot create " + strings.Repeat("../", 20) + "etc/x: Read-only file system", "filesystem /etc/x", false},
		{"an ordinary refusal in the workspace", "write", failed, "cat: " + root + "/x: Permission denied", "", false},
		{"in /tmp", "write", failed, "cat: /tmp/x: Permission denied", "", false},
		{"hidden", "write", failed, "cat: /data/store/token: Permission denied", "filesystem /data/store/token", false},
		{"read-only workspace", "read", failed, "touch: cannot touch 'a/x': Read-only file system", "filesystem " + root + "/a/x", false},
		{"without boundary", "danger", failed, "touch: cannot touch '/etc/x': Permission denied", "", false},
		{"resolve", "write", failed, "curl: (6) Could not resolve host: example.org", "network", false},
		{"unreachable", "write", failed, "connect: Network is unreachable", "network", false},
		{"refused", "write", failed, "dial tcp 127.0.0.1:80: connect: connection refused", "network", false},
		{"Unix socket", "write", failed, "dial unix /run/x.sock: socket: operation not permitted", "network", false},
		{"resolve when allowed", "allow", failed, "curl: (6) Could not resolve host: example.org", "", false},
		{"proxy", "write", Exit{Code: 1, RefusedHosts: []string{"evil.test:443"}}, "", "network evil.test:443", true},
		{"memory", "write", Exit{Code: 137, OutOfMemory: 1}, "Killed", "limit", true},
		{"forks", "write", Exit{Code: 2, ForksRefused: 3}, "", "limit", true},
		{"forks that did no harm", "write", Exit{ForksRefused: 3}, "", "", false},
		{"fork said", "write", failed, "sh: 1: Cannot fork", "limit", false},
		{"memory said", "write", failed, "MemoryError", "limit", false},
		{"memory without limit", "read", failed, "MemoryError", "", false},
		{"file size", "write", Exit{Code: 153, Signal: 25}, "", "limit", true},
		{"file size in a shell", "write", Exit{Code: 153}, "", "limit", true},
		{"processor", "write", Exit{Code: 152, Signal: 24}, "", "limit", true},
		{"files", "write", failed, "open: too many open files", "limit", false},
		{"foreign system call", "write", Exit{Code: 159, Signal: 31}, "", "process", true},
		{"kill", "write", failed, "kill: (1) - Operation not permitted", "process", false},
		{"sudo", "write", failed, "sudo: The \"no new privileges\" flag is set", "process", false},
		{"killed by us", "write", Exit{Code: 137, Signal: 9, Killed: true}, "", "", false},
	} {
		v := Classify(c.exit, c.tail, plans[c.plan])
		got := ""
		if v != nil {
			got = strings.TrimSpace(v.Boundary + " " + v.Path + v.Host)
			if strings.HasPrefix(v.Detail, inferred) == c.fact || v.Detail == "" {
				t.Errorf("%s: %q", c.name, v.Detail)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q (%+v)", c.name, got, c.want, v)
		}
	}
}
