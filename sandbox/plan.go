package sandbox

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Enforcement names, per boundary, the mechanism that the kernel really enforces,
// or "none". Its fields are those of the fact "sandbox.applied".
type Enforcement struct {
	Filesystem string
	Network    string
	Processes  string
	Limits     string
	// Rules is what holds rules where programs start; see [Command.Supervise].
	Rules string
}

// None says that a boundary isn't enforced.
const None = "none"

// Plan is a profile and what will be enforced of it on this machine.
type Plan struct {
	// Profile with defaults filled in and paths resolved. In danger_full_access its
	// network is allow.
	Profile Profile
	// ReadRoots and WriteRoots are what can really be read and written.
	ReadRoots, WriteRoots []string
	// Hidden is what really can't be read of the profile's hidden paths, of those that
	// are there.
	Hidden      []string
	Enforcement Enforcement
	// NotEnforced has a sentence for each thing that was asked for and isn't
	// enforced, with the reason.
	NotEnforced []string
	// Exposed has a sentence for each hidden path that can be read nevertheless.
	// They are in NotEnforced, too.
	Exposed []string

	report Report
	use    mechanisms
}

// mechanisms are those that a plan uses.
type mechanisms struct {
	user, mount, pid, net, ipc bool
	proc                       bool
	landlock, seccomp          bool
	dropCaps, noNewPrivs       bool
	cover                      bool // hidden paths are covered, nothing else is done to files
	proxy                      bool
	supervise                  bool // starts of programs are asked about
	denySockets                bool // by seccomp alone
	denyAttributes             bool // by seccomp alone
	cgroupPids, cgroupMemory   bool
	cgroupV2                   bool
	pidMax, nproc              bool
}

// Prepare decides how a profile is enforced with what the report offers. It fails
// only for a profile that makes no sense; what can't be enforced is named in the
// plan.
func Prepare(profile Profile, report Report) (*Plan, error) {
	resolved, err := profile.resolve()
	if err != nil {
		return nil, fmt.Errorf("prepare sandbox: %w", err)
	}
	if resolved.Mode == DangerFullAccess {
		resolved.Network = NetworkAllow
	}
	p := &Plan{Profile: resolved, report: report}
	for _, path := range resolved.Hidden {
		if _, there := resolved.Identities[path]; there {
			p.Hidden = append(p.Hidden, path)
		}
	}
	p.decideFiles()
	p.decideNetwork()
	p.decideProcesses()
	p.decideLimits()
	p.decideRules()
	return p, nil
}

// Confined tells whether the plan has boundaries at all.
func (p *Plan) Confined() bool { return p.Profile.Mode != DangerFullAccess }

// lacksf notes what isn't enforced.
func (p *Plan) lacksf(format string, args ...any) {
	p.NotEnforced = append(p.NotEnforced, fmt.Sprintf(format, args...))
}

func (p *Plan) decideFiles() {
	p.ReadRoots, p.WriteRoots = []string{"/"}, p.Profile.writeRoots()
	if !p.Confined() {
		p.WriteRoots = []string{"/"}
		p.Enforcement.Filesystem = None
		p.decideCover()
		return
	}
	r := p.report
	p.use.mount, p.use.landlock = r.MountNamespace.Available, r.Landlock.Available
	p.use.dropCaps, p.use.noNewPrivs = r.NoNewPrivs.Available, r.NoNewPrivs.Available
	p.use.seccomp = r.Seccomp.Available && r.NoNewPrivs.Available
	p.Enforcement.Filesystem = mechanism(name{"mount_namespace", p.use.mount}, name{"landlock", p.use.landlock})
	if len(p.Profile.ReadRoots) > 0 {
		p.ReadRoots = outermost(append(append([]string{p.Profile.Root}, p.Profile.ReadRoots...), p.Profile.WriteRoots...))
		if !p.use.landlock {
			p.ReadRoots = []string{"/"}
			p.lacksf("filesystem: everything can be read, not the read roots alone: Landlock: %s", r.Landlock.Reason)
		}
	}
	if !p.use.seccomp {
		p.lacksf("processes: system calls aren't filtered: %s", firstNonEmpty(r.Seccomp.Reason, r.NoNewPrivs.Reason))
	}
	if r.Inherited != "" {
		p.lacksf("filesystem: files that were open when agentd was started are open in the command: %s", r.Inherited)
	}
	if !p.use.mount {
		p.lackMount()
	}
}

// decideCover hides the hidden paths where nothing else is confined.
func (p *Plan) decideCover() {
	r := p.report
	if len(p.Profile.Hidden) == 0 && len(p.Profile.Protected) == 0 {
		return
	}
	if !r.MountNamespace.Available {
		for _, h := range p.Profile.Hidden {
			p.exposesf(h, "filesystem: %s can be read: mount namespace: %s", h, r.MountNamespace.Reason)
		}
		p.lackProtection()
		return
	}
	p.use.mount, p.use.cover = true, true
	// An ordinary user has none outside of its namespace either.
	p.use.dropCaps = r.InUserNamespace && r.UID != 0
	p.Enforcement.Filesystem = "mount_namespace"
}

// Unresolved are hidden paths that weren't there when the plan was prepared.
func (p *Plan) Unresolved() []string {
	var out []string
	for _, path := range p.Profile.Hidden {
		if _, known := p.Profile.Identities[path]; !known {
			out = append(out, path)
		}
	}
	return out
}

// Covering returns the plan with more that is hidden, protected and pinned, for one
// command. The paths are absolute and have no links.
func (p *Plan) Covering(hidden, protected, pinned []string) *Plan {
	c := *p
	hidden = slices.DeleteFunc(outermost(hidden), func(path string) bool {
		return slices.ContainsFunc(p.Profile.Hidden, func(h string) bool { return pathWithin(path, h) })
	})
	c.Profile.Hidden = slices.Concat(p.Profile.Hidden, hidden)
	c.Profile.Protected = slices.Concat(p.Profile.Protected, protected)
	c.Profile.Pinned = slices.Concat(p.Profile.Pinned, pinned)
	c.NotEnforced, c.Exposed = slices.Clip(p.NotEnforced), slices.Clip(p.Exposed)
	if p.use.mount {
		c.Hidden = slices.Concat(p.Hidden, hidden)
		return &c
	}
	why := p.report.MountNamespace.Reason
	for _, path := range hidden {
		c.lacksf("rules: %s can be read by commands although a rule denies it: mount namespace: %s", path, why)
	}
	for _, path := range protected {
		c.lacksf("rules: %s can be changed by commands although a rule denies it: mount namespace: %s", path, why)
	}
	return &c
}

// Lacking returns the plan with one more sentence about what isn't enforced.
func (p *Plan) Lacking(sentence string) *Plan {
	c := *p
	c.NotEnforced = append(slices.Clip(p.NotEnforced), sentence)
	return &c
}

// decideRules says what asks before a program starts.
func (p *Plan) decideRules() {
	p.Enforcement.Rules = None
	if !p.Profile.Supervised {
		return
	}
	r := p.report
	// Loading a filter takes no_new_privs, or the capability that the cover needs.
	p.use.supervise = r.Supervise.Available && (p.use.seccomp || p.use.cover)
	if p.use.supervise {
		p.Enforcement.Rules = "seccomp_notify"
		return
	}
	why := r.Supervise.Reason
	if why == "" {
		why = "there is no filter to load it with"
	}
	p.lacksf("rules: nothing asks the rules when a command starts a program: %s", why)
}

// Protected are the protected files and folders that are there now and that a
// command can't change.
func (p *Plan) Protected() []string {
	var out []string
	for _, path := range p.Profile.Protected {
		enforced := p.use.mount || p.use.landlock && !p.inWriteRoot(path)
		if info, err := os.Lstat(path); err == nil && (info.Mode().IsRegular() || info.IsDir()) && enforced {
			out = append(out, path)
		}
	}
	return out
}

// Uncovered says why no file or folder can be covered for a command; empty if they
// can.
func (p *Plan) Uncovered() string {
	if p.use.mount {
		return ""
	}
	return "mount namespace: " + p.report.MountNamespace.Reason
}

// inWriteRoot tells whether a write root holds a path.
func (p *Plan) inWriteRoot(path string) bool {
	return slices.ContainsFunc(p.WriteRoots, func(w string) bool { return pathWithin(path, w) })
}

// lackProtection names the protected files that can be changed: Landlock opens a
// folder with all that is in it, or not at all.
func (p *Plan) lackProtection() {
	for _, path := range p.Profile.Protected {
		if p.inWriteRoot(path) {
			p.lacksf("filesystem: %s can be changed: mount namespace: %s", path, p.report.MountNamespace.Reason)
		}
	}
}

// exposesf notes a hidden path that can be read.
func (p *Plan) exposesf(path, format string, args ...any) {
	p.lacksf(format, args...)
	p.Hidden = slices.DeleteFunc(p.Hidden, func(h string) bool { return h == path })
	p.Exposed = append(p.Exposed, p.NotEnforced[len(p.NotEnforced)-1])
}

// lackMount says what Landlock alone, or nothing at all, leaves open.
func (p *Plan) lackMount() {
	why := p.report.MountNamespace.Reason
	if !p.use.landlock {
		p.lacksf("filesystem: nothing is enforced: mount namespace: %s; Landlock: %s", why, p.report.Landlock.Reason)
		for _, h := range p.Profile.Hidden {
			p.exposesf(h, "filesystem: %s can be read", h)
		}
		return
	}
	if p.Profile.Mode == ReadOnly && p.use.seccomp {
		p.use.denyAttributes = true
	} else {
		p.lacksf("filesystem: modes, owners and times of files outside of the write roots can be changed: mount namespace: %s", why)
	}
	p.lacksf("filesystem: /tmp is the machine's, readable and not writable; a private TMPDIR is given: mount namespace: %s", why)
	if p.report.LandlockABI < 3 {
		p.lacksf("filesystem: files outside of the write roots can be truncated: Landlock ABI %d", p.report.LandlockABI)
	}
	p.lackProtection()
	for _, h := range p.Profile.Hidden {
		p.lacksf("filesystem: names, sizes and times below %s can be seen: mount namespace: %s", h, why)
		for _, w := range p.WriteRoots {
			if pathWithin(h, w) {
				p.exposesf(h, "filesystem: %s can be read, because the write root %s holds it: mount namespace: %s", h, w, why)
			}
		}
	}
}

func (p *Plan) decideNetwork() {
	r := p.report
	wanted := p.Profile.Network
	if wanted == NetworkAllow {
		p.Enforcement.Network = None
		return
	}
	p.use.net = r.NetworkNamespace.Available
	p.use.proxy = wanted == NetworkProxy && p.use.net
	if wanted == NetworkProxy && !p.use.net {
		p.lacksf("network: the proxy can't be reached, everything is denied: network namespace: %s", r.NetworkNamespace.Reason)
	}
	p.use.denySockets = !p.use.net && p.use.seccomp
	p.Enforcement.Network = mechanism(
		name{"network_namespace", p.use.net}, name{"seccomp", p.use.seccomp}, name{"proxy", p.use.proxy})
	switch {
	case !p.use.net && !p.use.seccomp:
		p.lacksf("network: nothing is enforced: network namespace: %s; seccomp: %s", r.NetworkNamespace.Reason, r.Seccomp.Reason)
	case !p.use.seccomp:
		p.lacksf("network: Unix sockets of other programs can be reached: seccomp: %s", r.Seccomp.Reason)
	}
}

func (p *Plan) decideProcesses() {
	r := p.report
	p.use.cgroupV2 = r.CgroupVersion == 2 && r.CgroupKill.Available
	p.use.cgroupPids, p.use.cgroupMemory = r.CgroupPids.Available, r.CgroupMemory.Available
	if p.Confined() {
		p.use.pid = r.PidNamespace.Available
		p.use.proc = p.use.pid && p.use.mount && r.ProcMount.Available
		p.use.ipc = p.use.pid
	}
	p.use.user = r.InUserNamespace && (p.use.mount || p.use.pid || p.use.net)
	landlock := p.use.landlock && r.LandlockABI >= 6
	p.Enforcement.Processes = mechanism(
		name{"pid_namespace", p.use.pid}, name{"landlock", landlock},
		name{"cgroup", r.CgroupKill.Available && !p.use.pid}, name{"subreaper", !p.use.pid && r.Rlimits.Available})
	if !p.Confined() {
		return
	}
	if !p.use.pid && !landlock {
		p.lacksf("processes: signals reach other processes of the same user: pid namespace: %s; Landlock ABI %d has no scope for signals",
			r.PidNamespace.Reason, r.LandlockABI)
	}
	if p.use.pid && p.use.mount && !p.use.proc {
		p.lacksf("processes: /proc shows the machine's processes: %s", r.ProcMount.Reason)
	}
}

func (p *Plan) decideLimits() {
	r, l := p.report, p.Profile.Limits
	if !r.Rlimits.Available {
		p.Enforcement.Limits = None
		if l != (Limits{}) {
			p.lacksf("limits: none is enforced but the time: %s", r.Rlimits.Reason)
		}
		return
	}
	p.use.cgroupPids = p.use.cgroupPids && l.Processes > 0
	p.use.cgroupMemory = p.use.cgroupMemory && l.MemoryMB > 0
	p.Enforcement.Limits = mechanism(
		name{"cgroup", p.use.cgroupPids || p.use.cgroupMemory}, name{"rlimits", true})
	if l.MemoryMB > 0 && !p.use.cgroupMemory {
		p.lacksf("limits: memory is bounded for each process, not for all together: cgroup: %s", r.CgroupMemory.Reason)
	}
	if l.Processes == 0 || p.use.cgroupPids {
		return
	}
	switch {
	case r.UID != 0:
		p.use.nproc = true
		if !p.use.user {
			p.lacksf("limits: processes are counted with the user's others: cgroup: %s", r.CgroupPids.Reason)
		}
	case p.use.proc && r.PidMax.Available:
		p.use.pidMax = true
		if l.Processes < minPidMax {
			p.lacksf("limits: %d processes are allowed instead of %d: cgroup: %s", minPidMax, l.Processes, r.CgroupPids.Reason)
		}
	default:
		p.lacksf("limits: the number of processes isn't bounded for root: cgroup: %s; pid_max: %s", r.CgroupPids.Reason, r.PidMax.Reason)
	}
}

// minPidMax is the smallest bound that the kernel takes for a pid namespace.
const minPidMax = 301

// name is a mechanism and whether it is used.
type name struct {
	text string
	used bool
}

// mechanism joins the names of what is used.
func mechanism(names ...name) string {
	var used []string
	for _, n := range names {
		if n.used {
			used = append(used, n.text)
		}
	}
	if len(used) == 0 {
		return None
	}
	return strings.Join(used, "+")
}

// firstNonEmpty returns the first text that isn't empty.
func firstNonEmpty(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
