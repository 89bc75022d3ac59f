//go:build linux && !loong64

package stage

import "syscall"

// sysFstat fills a syscall.Stat_t.
const sysFstat = syscall.SYS_FSTAT
