package sandbox

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Violation says that a command hit a boundary. Its boundaries are those of the
// fact "sandbox.violation".
type Violation struct {
	// Boundary is filesystem, network, process, limit or rule.
	Boundary string
	Path     string
	Host     string
	// Permanent says that nothing lifts the boundary: it holds outside of the sandbox, too.
	Permanent bool
	// Detail for people. It begins with "inferred from the output:" where the kernel
	// did not say it to us.
	Detail string
}

// Signals that a limit or a filter ends a process with, by their numbers on Linux.
const (
	sigKill = 9
	sigXCPU = 24
	sigXFSZ = 25
	sigSys  = 31
)

// BoundaryRule is the boundary of a program that a rule didn't let start.
const BoundaryRule = "rule"

const inferred = "inferred from the output: "

// Classify says which boundary made a command fail, as far as that can be known,
// or nothing. It looks at facts first: counters of the control group, refusals of
// the proxy, the signal. Only then does it read the last of what the command wrote
// to standard error; what it finds there is marked as inferred, and found only if
// the plan really has that boundary.
func Classify(exit Exit, stderrTail string, plan *Plan) *Violation {
	if v := exit.facts(plan); v != nil {
		return v
	}
	if exit.Code == 0 || exit.Failure != nil {
		return nil
	}
	for _, infer := range []func(string, *Plan) *Violation{inferFiles, inferMissing, inferNetwork, inferLimits, inferProcesses} {
		if v := infer(stderrTail, plan); v != nil {
			v.Detail = inferred + v.Detail
			return v
		}
	}
	return nil
}

// facts classifies by what isn't prose.
func (e Exit) facts(plan *Plan) *Violation {
	// A shell says 128 and the number of the signal that ended its last command.
	signal := e.Signal
	if signal == 0 && e.Code > 128 && e.Code < 128+64 {
		signal = e.Code - 128
	}
	l := plan.Profile.Limits
	switch {
	case len(e.Refused) > 0:
		return &Violation{Boundary: BoundaryRule, Path: e.Refused[0].Start.Path, Detail: e.Refused[0].Reason}
	case e.OutOfMemory > 0:
		return &Violation{Boundary: "limit", Detail: "memory: the control group's limit ended a process"}
	case e.Code != 0 && e.ForksRefused > 0:
		return &Violation{Boundary: "limit", Detail: "processes: the control group refused a fork"}
	case signal == sigXFSZ && l.FileSizeMB > 0:
		return &Violation{Boundary: "limit", Detail: "file size: SIGXFSZ"}
	case (signal == sigXCPU || signal == sigKill && !e.Killed && l.CPU > 0 && e.CPU >= l.CPU) && l.CPU > 0:
		return &Violation{Boundary: "limit", Detail: "processor time: the limit ended a process"}
	case signal == sigSys && plan.use.seccomp:
		return &Violation{Boundary: "process", Detail: "seccomp: a system call of a foreign table (SIGSYS)"}
	case e.Code != 0 && len(e.RefusedHosts) > 0:
		host := e.RefusedHosts[len(e.RefusedHosts)-1]
		return &Violation{Boundary: "network", Host: host, Detail: "the proxy refused " + strings.Join(e.RefusedHosts, ", ")}
	}
	return nil
}

var (
	fileRefusal = regexp.MustCompile(`(?i)permission denied|read-only file system|operation not permitted|cross-device link|EACCES|EROFS|EPERM|EXDEV|PermissionError`)
	busy        = regexp.MustCompile(`(?i)device or resource busy|EBUSY`) // a protected file is a mount
	absolute    = regexp.MustCompile(`(?:^|[\s'"` + "`" + `:=,;()<>|&\x{2018}\x{2019}])(/[^\s'"` + "`" + `:,;()<>|&\x{2018}\x{2019}]+)`)
	networkDown = regexp.MustCompile(`(?i)network is unreachable|could not resolve host|temporary failure in name resolution|` +
		`name or service not known|no address associated with hostname|ENETUNREACH|EAI_AGAIN|ENOTFOUND|server misbehaving|` +
		`bad address|failed to lookup address|could not resolve hostname|lookup [^ ]+.*(connection refused|no such host)`)
	socketRefusal = regexp.MustCompile(`(?i)(socket|connect|bind|AF_UNIX)[^\n]*(operation not permitted|EPERM)|(operation not permitted|EPERM)[^\n]*(socket|connect|bind)`)
	refusedThere  = regexp.MustCompile(`(?i)connection refused|ECONNREFUSED|couldn't connect to server|failed to connect to`)
	diskFull      = regexp.MustCompile(`(?i)no space left on device|ENOSPC`)
	fileTooLarge  = regexp.MustCompile(`(?i)file too large|EFBIG|file size limit exceeded`)
	forkRefusal   = regexp.MustCompile(`(?i)(fork|clone|thread|spawn)[^\n]*(resource temporarily unavailable|EAGAIN|cannot allocate memory)|` +
		`cannot fork|can't start new thread|resource temporarily unavailable`)
	noMemory      = regexp.MustCompile(`(?i)cannot allocate memory|out of memory|MemoryError|memory exhausted|ENOMEM`)
	tooManyFiles  = regexp.MustCompile(`(?i)too many open files|EMFILE`)
	killRefusal   = regexp.MustCompile(`(?i)(kill|ptrace|strace|unshare|mount|chroot|sudo|setuid|setgid)[^\n]*(operation not permitted|permission denied|no new privileges|EPERM|must be superuser)|no new privileges`)
	socketMention = regexp.MustCompile(`(?i)socket|connect`)
)

// inferFiles finds a refusal beside a path that the plan doesn't let be written,
// or that is hidden.
func inferFiles(tail string, plan *Plan) *Violation {
	if plan.Enforcement.Filesystem == None {
		return nil
	}
	for line := range strings.Lines(tail) {
		if v := plan.protects(line); v != nil {
			return v
		}
		if !fileRefusal.MatchString(line) || killRefusal.MatchString(line) || socketMention.MatchString(line) {
			continue
		}
		for _, match := range absolute.FindAllStringSubmatch(line, -1) {
			if v := plan.refuses(filepath.Clean(match[1])); v != nil {
				return v
			}
		}
		if v := relativeViolation(line, plan); v != nil {
			return v
		}
	}
	return nil
}

// protects finds a refusal that names a protected file.
func (p *Plan) protects(line string) *Violation {
	if !p.use.mount || !fileRefusal.MatchString(line) && !busy.MatchString(line) {
		return nil
	}
	for _, path := range p.Profile.Protected {
		if strings.Contains(line, filepath.Base(path)) {
			return &Violation{Boundary: "filesystem", Path: path, Detail: "the file is protected"}
		}
	}
	return nil
}

// refuses tells what the plan has against a path.
func (p *Plan) refuses(path string) *Violation {
	for _, h := range p.Profile.Hidden {
		if pathWithin(path, h) {
			return &Violation{Boundary: "filesystem", Path: path, Permanent: true, Detail: hiddenDetail}
		}
	}
	writable := p.WriteRoots
	if !pathWithin(path, p.Profile.Root) {
		writable = append(slices.Clone(writable), privateRoots...)
	}
	for _, w := range writable {
		if pathWithin(path, w) {
			return nil
		}
	}
	if pathWithin(path, "/proc") && path != "/proc" || path == "/bin/sh" {
		return nil // a program's own name, or what isn't a file
	}
	return &Violation{Boundary: "filesystem", Path: path, Detail: "the path is outside of the write roots"}
}

// privateRoots are writable in every plan.
var privateRoots = []string{"/tmp", "/var/tmp", "/dev/null", "/dev/tty", "/dev/shm", "/dev/pts"}

// relativeViolation finds a refusal for a path that the command gave relative to its
// working directory: a word with a slash, or one in quotation marks.
func relativeViolation(line string, plan *Plan) *Violation {
	for word := range strings.FieldsSeq(line) {
		name := strings.Trim(word, `'":,;()`+"`\u2018\u2019")
		named := strings.Contains(name, "/") || strings.ContainsAny(word, `'"`+"`\u2018")
		if name == "" || strings.HasPrefix(name, "/") || !named {
			continue
		}
		if v := plan.refuses(filepath.Join(plan.Profile.Cwd, name)); v != nil {
			return v
		}
	}
	if strings.Contains(strings.ToLower(line), "read-only file system") {
		return &Violation{Boundary: "filesystem", Detail: "a read-only file system"}
	}
	return nil
}

// inferNetwork finds what programs say when there is no network.
func inferNetwork(tail string, plan *Plan) *Violation {
	if plan.Enforcement.Network == None {
		return nil
	}
	for line := range strings.Lines(tail) {
		line = strings.TrimSpace(line)
		if networkDown.MatchString(line) || socketRefusal.MatchString(line) {
			return &Violation{Boundary: "network", Detail: "the network is " + string(plan.Profile.Network) + ": " + line}
		}
		if plan.use.net && refusedThere.MatchString(line) {
			return &Violation{Boundary: "network", Detail: "the loopback device is the sandbox's own: " + line}
		}
	}
	return nil
}

// inferLimits finds what programs say when a limit is reached.
func inferLimits(tail string, plan *Plan) *Violation {
	l := plan.Profile.Limits
	for _, c := range []struct {
		set  bool
		says *regexp.Regexp
		what string
	}{
		{l.Processes > 0, forkRefusal, "processes"},
		{l.MemoryMB > 0, noMemory, "memory"},
		{l.FileSizeMB > 0, fileTooLarge, "file size"},
		{l.OpenFiles > 0, tooManyFiles, "open files"},
		{plan.use.mount, diskFull, "space of the private directories"},
	} {
		if line := c.says.FindString(tail); c.set && line != "" {
			return &Violation{Boundary: "limit", Detail: c.what + ": " + line}
		}
	}
	return nil
}

// inferProcesses finds refusals that concern other processes and privileges.
func inferProcesses(tail string, plan *Plan) *Violation {
	if !plan.Confined() {
		return nil
	}
	if line := killRefusal.FindString(tail); line != "" {
		return &Violation{Boundary: "process", Detail: line}
	}
	return nil
}
