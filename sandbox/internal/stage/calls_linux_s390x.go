package stage

// System calls for sockets. Package syscall knows only the one call for all of them
// here; these came with Linux 4.3.
const (
	sysSocket  = 359
	sysBind    = 361
	sysListen  = 363
	sysSendmsg = 370
	sysRecvmsg = 372
)
