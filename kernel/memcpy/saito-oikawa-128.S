/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 16-byte SSE registers, 128 bytes a turn, the rest by string instructions
 * requires: sse2
 * source: generated: kdyno memcpy generate sse-128-string --name saito-oikawa-128 -o saito-oikawa-128.S
 * arch: um
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

ROUTINE_START(saito_oikawa_128)
	movq	%rdi, %rax
	movq	%rdx, %r9
	shrq	$7, %r9
	jz	.Lrest
	movq	%rdx, %r10
	.p2align	4
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
	decq	%r9
	jnz	.Lloop
	movq	%r10, %rdx
.Lrest:
	movl	%edx, %ecx
	andl	$127, %ecx
	shrl	$3, %ecx
	rep movsq
	movl	%edx, %ecx
	andl	$7, %ecx
	rep movsb
	RET
ROUTINE_END(saito_oikawa_128)
