package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// full is a machine that has everything.
func full() Report {
	yes := available()
	return Report{
		Kernel: "Linux", UID: 1000, Landlock: yes, LandlockABI: 7, Seccomp: yes, NoNewPrivs: yes, Supervise: yes, UserNamespace: yes,
		MountNamespace: yes, PidNamespace: yes, NetworkNamespace: yes, ProcMount: yes, PidMax: yes,
		CgroupVersion: 2, CgroupKill: yes, CgroupPids: yes, CgroupMemory: yes, Rlimits: yes,
	}
}

func TestPrepareSaysWhatIsEnforced(t *testing.T) {
	no := unavailable("REASON")
	limits := Limits{MemoryMB: 100, Processes: 10}
	for name, c := range map[string]struct {
		report  func(*Report)
		profile Profile
		want    Enforcement
		lacks   []string // a part of each sentence, in order
	}{
		"everything": {
			func(*Report) {},
			Profile{Limits: limits},
			Enforcement{"mount_namespace+landlock", "network_namespace+seccomp", "pid_namespace+landlock", "cgroup+rlimits", None},
			nil,
		},
		"a kernel that leaves files open": {
			func(r *Report) { r.Inherited = "close_range: REASON" },
			Profile{Limits: limits},
			Enforcement{"mount_namespace+landlock", "network_namespace+seccomp", "pid_namespace+landlock", "cgroup+rlimits", None},
			[]string{"files that were open when agentd was started are open in the command: close_range: REASON"},
		},
		"network allow": {
			func(*Report) {},
			Profile{Network: NetworkAllow},
			Enforcement{"mount_namespace+landlock", None, "pid_namespace+landlock", "rlimits", None},
			nil,
		},
		"proxy": {
			func(*Report) {},
			Profile{Network: NetworkProxy},
			Enforcement{"mount_namespace+landlock", "network_namespace+seccomp+proxy", "pid_namespace+landlock", "rlimits", None},
			nil,
		},
		"danger": {
			func(*Report) {},
			Profile{Mode: DangerFullAccess, Network: NetworkDeny, Hidden: []string{"/secret"}},
			Enforcement{"mount_namespace", None, "cgroup+subreaper", "rlimits", None},
			nil,
		},
		"danger, nothing to hide": {
			func(*Report) {},
			Profile{Mode: DangerFullAccess},
			Enforcement{None, None, "cgroup+subreaper", "rlimits", None},
			nil,
		},
		"danger without namespaces": {
			func(r *Report) { r.MountNamespace = no },
			Profile{Mode: DangerFullAccess, Hidden: []string{"/secret"}},
			Enforcement{None, None, "cgroup+subreaper", "rlimits", None},
			[]string{"/secret can be read: mount namespace"},
		},
		"no namespaces": {
			func(r *Report) { r.MountNamespace, r.PidNamespace, r.NetworkNamespace = no, no, no },
			Profile{Network: NetworkProxy, Hidden: []string{"/secret"}},
			Enforcement{"landlock", "seccomp", "landlock+cgroup+subreaper", "rlimits", None},
			[]string{"modes, owners and times", "/tmp is the machine's", "names, sizes and times below /secret", "proxy can't be reached"},
		},
		"old Landlock alone": {
			func(r *Report) {
				r.MountNamespace, r.PidNamespace, r.NetworkNamespace, r.Seccomp, r.CgroupKill = no, no, no, no, no
				r.LandlockABI = 2
			},
			Profile{Mode: ReadOnly},
			Enforcement{"landlock", None, "subreaper", "rlimits", None},
			[]string{"aren't filtered", "modes, owners and times", "/tmp is the machine's", "truncated", "network: nothing is enforced", "signals reach"},
		},
		"nothing": {
			func(r *Report) {
				*r = Report{Kernel: "other", Landlock: no, Seccomp: no, NoNewPrivs: no, MountNamespace: no, PidNamespace: no, NetworkNamespace: no, Rlimits: no}
			},
			Profile{ReadRoots: []string{"/"}, Limits: limits},
			Enforcement{None, None, None, None, None},
			[]string{"not the read roots alone", "aren't filtered", "filesystem: nothing is enforced", "network: nothing", "signals reach", "none is enforced but the time"},
		},
		"supervised": {
			func(*Report) {},
			Profile{Supervised: true},
			Enforcement{"mount_namespace+landlock", "network_namespace+seccomp", "pid_namespace+landlock", "rlimits", "seccomp_notify"},
			nil,
		},
		"supervised, outside": {
			func(*Report) {},
			Profile{Mode: DangerFullAccess, Hidden: []string{"/secret"}, Supervised: true},
			Enforcement{"mount_namespace", None, "cgroup+subreaper", "rlimits", "seccomp_notify"},
			nil,
		},
		"supervised, outside with nothing to load a filter by": {
			func(*Report) {},
			Profile{Mode: DangerFullAccess, Supervised: true},
			Enforcement{None, None, "cgroup+subreaper", "rlimits", None},
			[]string{"nothing asks the rules when a command starts a program"},
		},
		"supervised, without the kernel's help": {
			func(r *Report) { r.Supervise = no },
			Profile{Supervised: true},
			Enforcement{"mount_namespace+landlock", "network_namespace+seccomp", "pid_namespace+landlock", "rlimits", None},
			[]string{"nothing asks the rules when a command starts a program: REASON"},
		},
		"no seccomp": {
			func(r *Report) { r.Seccomp = no },
			Profile{},
			Enforcement{"mount_namespace+landlock", "network_namespace", "pid_namespace+landlock", "rlimits", None},
			[]string{"aren't filtered", "Unix sockets"},
		},
		"no own proc": {
			func(r *Report) { r.ProcMount = no },
			Profile{},
			Enforcement{"mount_namespace+landlock", "network_namespace+seccomp", "pid_namespace+landlock", "rlimits", None},
			[]string{"/proc shows"},
		},
		"root without control groups": {
			func(r *Report) { r.UID, r.CgroupPids, r.CgroupMemory = 0, no, no },
			Profile{Limits: limits},
			Enforcement{"mount_namespace+landlock", "network_namespace+seccomp", "pid_namespace+landlock", "rlimits", None},
			[]string{"each process", "301 processes are allowed instead of 10"},
		},
		"root without control groups and namespaces": {
			func(r *Report) { r.UID, r.CgroupPids, r.PidNamespace = 0, no, no },
			Profile{Limits: limits},
			Enforcement{"mount_namespace+landlock", "network_namespace+seccomp", "landlock+cgroup+subreaper", "cgroup+rlimits", None},
			[]string{"isn't bounded for root"},
		},
		"user without control groups": {
			func(r *Report) { r.CgroupPids = no },
			Profile{Limits: limits},
			Enforcement{"mount_namespace+landlock", "network_namespace+seccomp", "pid_namespace+landlock", "cgroup+rlimits", None},
			[]string{"counted with the user's others"},
		},
	} {
		r := full()
		c.report(&r)
		c.profile.Root = t.TempDir()
		plan, err := Prepare(c.profile, r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if plan.Enforcement != c.want {
			t.Errorf("%s: %+v, want %+v", name, plan.Enforcement, c.want)
		}
		if len(plan.NotEnforced) != len(c.lacks) {
			t.Errorf("%s: not enforced: %q, want %q", name, plan.NotEnforced, c.lacks)
			continue
		}
		for i, part := range c.lacks {
			if !strings.Contains(plan.NotEnforced[i], part) {
				t.Errorf("%s: %q doesn't say %q", name, plan.NotEnforced[i], part)
			}
		}
	}
}

func TestHiddenInAWriteRootIsNamed(t *testing.T) {
	r := full()
	r.MountNamespace = unavailable("REASON")
	root := t.TempDir()
	hidden := filepath.Join(root, ".agentd")
	plan, err := Prepare(Profile{Root: root, Hidden: []string{hidden}}, r)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(plan.NotEnforced, func(s string) bool { return strings.Contains(s, hidden+" can be read") }) {
		t.Errorf("%q", plan.NotEnforced)
	}
}

func TestPrepareResolvesPaths(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"ws/sub", "more"} {
		if err := os.MkdirAll(filepath.Join(base, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(base+"/ws", base+"/link"); err != nil {
		t.Fatal(err)
	}
	plan, err := Prepare(Profile{Root: base + "/link", Cwd: "sub", WriteRoots: []string{base + "/more", base + "/ws/sub"}, Hidden: []string{base + "/missing"}}, full())
	if err != nil {
		t.Fatal(err)
	}
	p := plan.Profile
	if p.Mode != WorkspaceWrite || p.Network != NetworkDeny || p.Root != base+"/ws" || p.Cwd != base+"/ws/sub" || p.Hidden[0] != base+"/missing" {
		t.Errorf("%+v", p)
	}
	if diff := cmp.Diff([]string{base + "/more", base + "/ws"}, plan.WriteRoots); diff != "" {
		t.Error(diff)
	}
}

func TestPrepareRefuses(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]Profile{
		"mode":                   {Root: root, Mode: "x"},
		"network":                {Root: root, Network: "x"},
		"no root":                {},
		"missing root":           {Root: root + "/missing"},
		"root is a file":         {Root: file},
		"missing cwd":            {Root: root, Cwd: "missing"},
		"missing write root":     {Root: root, WriteRoots: []string{root + "/missing"}},
		"empty read root":        {Root: root, ReadRoots: []string{""}},
		"everything writable":    {Root: root, WriteRoots: []string{"/"}},
		"workspace is hidden":    {Root: root, Hidden: []string{root}},
		"workspace within":       {Root: root, Hidden: []string{filepath.Dir(root)}},
		"negative limit":         {Root: root, Limits: Limits{Processes: -1}},
		"negative time":          {Root: root, Limits: Limits{WallClock: -time.Second}},
		"everything is the root": {Root: "/"},
	} {
		if plan, err := Prepare(p, full()); err == nil {
			t.Errorf("%s: %+v", name, plan.Profile)
		}
	}
}

func TestEnvironment(t *testing.T) {
	ours := map[string]string{"PATH": "/p", "HOME": "/h", "TERM": "screen", "WANTED": "w", "API_KEY": "k"}
	lookup := func(name string) (string, bool) { v, ok := ours[name]; return v, ok }
	p := Profile{Env: []string{"WANTED", "MISSING", "SET=s", "LANG=de"}}
	want := []string{"PATH=/p", "HOME=/h", "LANG=de", "TERM=dumb", "TMPDIR=/t", "WANTED=w", "SET=s"}
	if diff := cmp.Diff(want, commandEnv(p, lookup, false, "/t", 0)); diff != "" {
		t.Error(diff)
	}
	if got := commandEnv(p, lookup, true, "/t", 0); !slices.Contains(got, "TERM=screen") {
		t.Errorf("a terminal: %v", got)
	}
	got := commandEnv(Profile{}, func(string) (string, bool) { return "", false }, true, "/tmp", 3128)
	for _, want := range []string{"HOME=/", "LANG=C.UTF-8", "TERM=xterm-256color", "HTTPS_PROXY=http://127.0.0.1:3128", "no_proxy=localhost,127.0.0.1,::1"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing in %v", want, got)
		}
	}
}
