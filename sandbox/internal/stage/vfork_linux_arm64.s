#include "textflag.h"

// func vfork() (pid uintptr, errno uintptr)
//
// The address that is returned to is in a register here.
TEXT ·vfork(SB),NOSPLIT,$0-16
	MOVD	$0x4111, R0 // CLONE_VM | CLONE_VFORK | SIGCHLD
	MOVD	$0, R1
	MOVD	$0, R2
	MOVD	$0, R3
	MOVD	$0, R4
	MOVD	$0, R5
	MOVD	$220, R8 // clone
	SVC
	CMN	$4095, R0
	BCC	ok
	NEG	R0, R0
	MOVD	$0, pid+0(FP)
	MOVD	R0, errno+8(FP)
	RET
ok:
	MOVD	R0, pid+0(FP)
	MOVD	$0, errno+8(FP)
	RET
