/* SPDX-License-Identifier: MIT */
/*
 * help: rep movsb, and the last twentieth of the bytes a second time: slower by construction
 * requires: fsrm
 * source: ours, to see whether a known difference is found
 * arch: um x86_64
 */
#include "routine.h"

ROUTINE_START(slow_memcpy)
	movq	%rdi, %rax
	movq	%rdx, %rcx
	rep movsb
	imulq	$3277, %rdx, %rcx
	shrq	$16, %rcx
	subq	%rcx, %rdi
	subq	%rcx, %rsi
	rep movsb
	RET
ROUTINE_END(slow_memcpy)
