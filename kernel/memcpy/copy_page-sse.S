/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 16-byte SSE registers, 128 bytes a turn
 * requires: sse2
 * source: generated: kdyno memcpy generate copy_page-sse-128 --name sse -o copy_page-sse.S
 * arch: um
 * function: copy_page
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

PAGE_ROUTINE_START(copy_page, sse)
	movl	$32, %r9d
	.p2align	6
.Lloop:
	movdqu	(%rsi), %xmm0
	movdqu	16(%rsi), %xmm1
	movdqu	32(%rsi), %xmm2
	movdqu	48(%rsi), %xmm3
	movdqu	64(%rsi), %xmm4
	movdqu	80(%rsi), %xmm5
	movdqu	96(%rsi), %xmm6
	movdqu	112(%rsi), %xmm7
	movdqu	%xmm0, (%rdi)
	movdqu	%xmm1, 16(%rdi)
	movdqu	%xmm2, 32(%rdi)
	movdqu	%xmm3, 48(%rdi)
	movdqu	%xmm4, 64(%rdi)
	movdqu	%xmm5, 80(%rdi)
	movdqu	%xmm6, 96(%rdi)
	movdqu	%xmm7, 112(%rdi)
	addq	$128, %rsi
	addq	$128, %rdi
	decl	%r9d
	jnz	.Lloop
	RET
PAGE_ROUTINE_END(copy_page, sse)
