//go:build !unix

package loop

import "syscall"

// signals that a caller may name: none, because processes run on Linux only.
var signals map[string]syscall.Signal
