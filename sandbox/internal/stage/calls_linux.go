//go:build linux && !s390x

package stage

import "syscall"

// System calls for sockets.
const (
	sysSocket  = syscall.SYS_SOCKET
	sysBind    = syscall.SYS_BIND
	sysListen  = syscall.SYS_LISTEN
	sysSendmsg = syscall.SYS_SENDMSG
	sysRecvmsg = syscall.SYS_RECVMSG
)
