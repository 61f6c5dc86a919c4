/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: rep movsb for every size, as the kernel itself does where it can patch its code
 * requires: fsrm
 * source: Linux on CPUs with FSRM; User Mode Linux never patches its alternatives in
 * arch: um x86_64
 *
 * A CPU with erms but without fsrm copies long blocks well and takes tens of cycles to start: the
 * kernel leaves such a CPU with its scalar loop, and so this routine is refused there.
 */
#include "routine.h"

ROUTINE_START(fsrm)
	movq	%rdi, %rax
	movq	%rdx, %rcx
	rep movsb
	RET
ROUTINE_END(fsrm)
