/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 16-byte SSE registers, 128 bytes a turn
 * requires: sse2
 * source: generated: kdyno memcpy generate clear_page-sse-128 --name sse -o clear_page-sse.S
 * arch: um
 * function: clear_page
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

PAGE_ROUTINE_START(clear_page, sse)
	xorl	%esi, %esi
	movq	%rsi, %xmm0
	punpcklqdq	%xmm0, %xmm0
	movl	$32, %r9d
	.p2align	6
.Lloop:
	movdqu	%xmm0, (%rdi)
	movdqu	%xmm0, 16(%rdi)
	movdqu	%xmm0, 32(%rdi)
	movdqu	%xmm0, 48(%rdi)
	movdqu	%xmm0, 64(%rdi)
	movdqu	%xmm0, 80(%rdi)
	movdqu	%xmm0, 96(%rdi)
	movdqu	%xmm0, 112(%rdi)
	addq	$128, %rdi
	decl	%r9d
	jnz	.Lloop
	RET
PAGE_ROUTINE_END(clear_page, sse)
