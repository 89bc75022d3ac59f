#include "textflag.h"

// func vfork() (pid uintptr, errno uintptr)
//
// The new process returns first, and uses the stack on from here: the address that the
// old one returns to is kept in a register meanwhile, as package syscall does it.
TEXT ·vfork(SB),NOSPLIT|NOFRAME,$0-16
	MOVQ	$0x4111, DI // CLONE_VM | CLONE_VFORK | SIGCHLD
	MOVQ	$0, SI
	MOVQ	$0, DX
	MOVQ	$0, R10
	MOVQ	$0, R8
	MOVQ	$0, R9
	MOVQ	$56, AX // clone
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $0xfffffffffffff001
	JLS	ok
	NEGQ	AX
	MOVQ	$0, pid+0(FP)
	MOVQ	AX, errno+8(FP)
	RET
ok:
	MOVQ	AX, pid+0(FP)
	MOVQ	$0, errno+8(FP)
	RET
