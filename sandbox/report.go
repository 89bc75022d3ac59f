package sandbox

import (
	"fmt"
	"strings"
)

// Feature is one mechanism: whether it can be had, and if not, why.
type Feature struct {
	Available bool   `json:"available"`
	Reason    string `json:"reason,omitempty"`
}

// available is a feature that works.
func available() Feature { return Feature{Available: true} }

// unavailable is a feature that doesn't.
func unavailable(format string, args ...any) Feature {
	return Feature{Reason: fmt.Sprintf(format, args...)}
}

// Report is what the kernel offered when it was tried.
type Report struct {
	// Kernel is the operating system and its release.
	Kernel string `json:"kernel"`
	// UID of the process that asked.
	UID int `json:"uid"`

	// Landlock limits files; LandlockABI is what the kernel said, 0 without it. From
	// 4 on it has TCP, from 6 on scopes for signals and abstract sockets.
	Landlock    Feature `json:"landlock"`
	LandlockABI int     `json:"landlockAbi"`
	Seccomp     Feature `json:"seccomp"`
	NoNewPrivs  Feature `json:"noNewPrivs"`
	// Supervise asks us before a command starts a program.
	Supervise Feature `json:"supervise"`

	// UserNamespace says whether one can be made. InUserNamespace says that the
	// others below are to be had inside of one only.
	UserNamespace   Feature `json:"userNamespace"`
	InUserNamespace bool    `json:"inUserNamespace"`
	// MountNamespace includes what is done in it: read-only mounts, private
	// directories, a /dev of its own.
	MountNamespace   Feature `json:"mountNamespace"`
	PidNamespace     Feature `json:"pidNamespace"`
	NetworkNamespace Feature `json:"networkNamespace"`
	// ProcMount is a /proc of the pid namespace's own.
	ProcMount Feature `json:"procMount"`
	// PidMax is a bound on the pids of the pid namespace, of 301 at least.
	PidMax Feature `json:"pidMax"`

	// CgroupVersion is 2, 1 or 0.
	CgroupVersion int `json:"cgroupVersion"`
	// CgroupKill ends a tree by its control group, CgroupPids and CgroupMemory
	// bound it.
	CgroupKill   Feature `json:"cgroupKill"`
	CgroupPids   Feature `json:"cgroupPids"`
	CgroupMemory Feature `json:"cgroupMemory"`
	Rlimits      Feature `json:"rlimits"`
	// Inherited says why files that were left open in this process when it was started
	// are open in commands, too; empty if they aren't.
	Inherited string `json:"inherited,omitempty"`

	cgroups cgroups
}

// cgroups are the directories below which control groups can be made.
type cgroups struct {
	unified, pids, memory string
}

// Row is one line of a report.
type Row struct {
	Name string
	Feature
}

// Rows lists the features in the order of a table for people.
func (r Report) Rows() []Row {
	landlock := r.Landlock
	if landlock.Available {
		landlock.Reason = fmt.Sprintf("ABI %d", r.LandlockABI)
	}
	return []Row{
		{"landlock", landlock},
		{"seccomp", r.Seccomp},
		{"no_new_privs", r.NoNewPrivs},
		{"supervised starts", r.Supervise},
		{"user namespace", r.UserNamespace},
		{"mount namespace", r.MountNamespace},
		{"pid namespace", r.PidNamespace},
		{"network namespace", r.NetworkNamespace},
		{"own /proc", r.ProcMount},
		{"pid_max of the namespace", r.PidMax},
		{"cgroup kill", r.CgroupKill},
		{"cgroup pids", r.CgroupPids},
		{"cgroup memory", r.CgroupMemory},
		{"rlimits", r.Rlimits},
	}
}

// String is the report as a table.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, uid %d, cgroup v%d\n", r.Kernel, r.UID, r.CgroupVersion)
	for _, row := range r.Rows() {
		word := "no"
		if row.Available {
			word = "yes"
		}
		fmt.Fprintf(&b, "  %-26s %-4s %s\n", row.Name, word, row.Reason)
	}
	return b.String()
}
