package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch  = unix.AUDIT_ARCH_AARCH64
	foreignBit = 0
)

var deniedArch, deniedAttributesArch []uint32
