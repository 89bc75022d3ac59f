//go:build linux && !amd64 && !arm64

package sandbox

// No table of system calls for this architecture: there is no filter.
const (
	auditArch  = 0
	foreignBit = 0
)

var deniedArch, deniedAttributesArch []uint32
