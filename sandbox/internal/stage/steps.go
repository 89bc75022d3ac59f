package stage

// Names of steps. A probe's report is read by them.
const (
	StepFiles      = "take over the command's files"
	StepDumpable   = "hide the stage from the command"
	StepSubreaper  = "adopt orphans"
	StepTasks      = "enter the control group"
	StepPrivate    = "make mounts private"
	StepClone      = "clone a tree"
	StepReadOnly   = "make mounts read-only"
	StepTmpfs      = "mount a private file system"
	StepDev        = "mount /dev"
	StepProc       = "mount /proc"
	StepPidMax     = "bound the pids"
	StepAttach     = "attach a tree"
	StepSame       = "find a path as it was when it was resolved"
	StepPin        = "pin a directory"
	StepProtect    = "protect a file"
	StepHide       = "hide a path"
	StepEnterNet   = "enter the network namespace"
	StepLoopback   = "bring up the loopback device"
	StepListen     = "listen for the proxy"
	StepLimits     = "set resource limits"
	StepNoNewPrivs = "set no_new_privs"
	StepCaps       = "drop capabilities"
	StepLandlock   = "restrict by Landlock"
	StepSeccomp    = "load the seccomp filter"
	StepSupervise  = "supervise the start of programs"
	StepStart      = "start the command"
)

// stepNames are the steps by the numbers that stand for them where there is no
// room for names.
var stepNames = [...]string{
	StepFiles, StepDumpable, StepSubreaper, StepTasks, StepPrivate, StepClone, StepReadOnly, StepTmpfs, StepDev, StepProc,
	StepPidMax, StepAttach, StepSame, StepPin, StepProtect, StepHide, StepEnterNet, StepLoopback, StepListen, StepLimits, StepNoNewPrivs,
	StepCaps, StepLandlock, StepSeccomp, StepSupervise, StepStart,
}

// stepStart is the number of [StepStart].
const stepStart = uint32(len(stepNames) - 1)

// numberOf is the number of a step.
func numberOf(name string) uint16 {
	for i, n := range stepNames {
		if n == name {
			return uint16(i)
		}
	}
	return 0
}

// stepName is the step of a number.
func stepName(n uint32) string {
	if n < uint32(len(stepNames)) {
		return stepNames[n]
	}
	return "unknown step"
}
