/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 16-byte SSE registers, 128 bytes a turn, the ends by accesses that overlap
 * requires: sse2
 * source: generated: kdyno memcpy generate sse-128-overlap --name overlap-sse -o overlap-sse.S
 * arch: um
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

ROUTINE_START(overlap_sse)
	movq	%rdi, %rax
	cmpq	$32, %rdx
	ja	.Lover_32
	cmpl	$16, %edx
	jae	.Lfrom_16
	cmpl	$8, %edx
	jae	.Lfrom_8
	cmpl	$4, %edx
	jae	.Lfrom_4
	testl	%edx, %edx
	jz	.Lnothing
	movl	%edx, %r10d
	shrl	$1, %r10d
	movzbl	(%rsi), %ecx
	movzbl	(%rsi, %r10), %r9d
	movzbl	-1(%rsi, %rdx), %r8d
	movb	%cl, (%rdi)
	movb	%r9b, (%rdi, %r10)
	movb	%r8b, -1(%rdi, %rdx)
.Lnothing:
	RET
	.p2align	4
.Lfrom_8:
	movq	(%rsi), %rcx
	movq	-8(%rsi, %rdx), %r8
	movq	%rcx, (%rdi)
	movq	%r8, -8(%rdi, %rdx)
	RET
	.p2align	4
.Lfrom_4:
	movl	(%rsi), %ecx
	movl	-4(%rsi, %rdx), %r8d
	movl	%ecx, (%rdi)
	movl	%r8d, -4(%rdi, %rdx)
	RET
	.p2align	4
.Lfrom_16:
	movdqu	(%rsi), %xmm0
	movdqu	-16(%rsi, %rdx), %xmm1
	movdqu	%xmm0, (%rdi)
	movdqu	%xmm1, -16(%rdi, %rdx)
	RET
	.p2align	4
.Lover_32:
	cmpq	$64, %rdx
	ja	.Lover_64
	movdqu	(%rsi), %xmm0
	movdqu	16(%rsi), %xmm1
	movdqu	-32(%rsi, %rdx), %xmm2
	movdqu	-16(%rsi, %rdx), %xmm3
	movdqu	%xmm0, (%rdi)
	movdqu	%xmm1, 16(%rdi)
	movdqu	%xmm2, -32(%rdi, %rdx)
	movdqu	%xmm3, -16(%rdi, %rdx)
	RET
	.p2align	4
.Lover_64:
	cmpq	$128, %rdx
	ja	.Lover_128
	movdqu	(%rsi), %xmm0
	movdqu	16(%rsi), %xmm1
	movdqu	32(%rsi), %xmm2
	movdqu	48(%rsi), %xmm3
	movdqu	-64(%rsi, %rdx), %xmm4
	movdqu	-48(%rsi, %rdx), %xmm5
	movdqu	-32(%rsi, %rdx), %xmm6
	movdqu	-16(%rsi, %rdx), %xmm7
	movdqu	%xmm0, (%rdi)
	movdqu	%xmm1, 16(%rdi)
	movdqu	%xmm2, 32(%rdi)
	movdqu	%xmm3, 48(%rdi)
	movdqu	%xmm4, -64(%rdi, %rdx)
	movdqu	%xmm5, -48(%rdi, %rdx)
	movdqu	%xmm6, -32(%rdi, %rdx)
	movdqu	%xmm7, -16(%rdi, %rdx)
	RET
	.p2align	4
.Lover_128:
	movdqu	(%rsi), %xmm0
	movdqu	-64(%rsi, %rdx), %xmm8
	movdqu	-48(%rsi, %rdx), %xmm9
	movdqu	-32(%rsi, %rdx), %xmm10
	movdqu	-16(%rsi, %rdx), %xmm11
	movdqu	%xmm0, (%rdi)
	leaq	-64(%rdi, %rdx), %r9
	subq	%rdi, %rsi
	addq	$16, %rdi
	andq	$-16, %rdi
	/* r10: the last place where a whole turn still fits */
	leaq	-64(%r9), %r10
	cmpq	%r10, %rdi
	ja	.Lrest
	.p2align	6
.Lloop:
	movdqu	(%rsi, %rdi), %xmm0
	movdqu	16(%rsi, %rdi), %xmm1
	movdqu	32(%rsi, %rdi), %xmm2
	movdqu	48(%rsi, %rdi), %xmm3
	movdqu	64(%rsi, %rdi), %xmm4
	movdqu	80(%rsi, %rdi), %xmm5
	movdqu	96(%rsi, %rdi), %xmm6
	movdqu	112(%rsi, %rdi), %xmm7
	movdqu	%xmm0, (%rdi)
	movdqu	%xmm1, 16(%rdi)
	movdqu	%xmm2, 32(%rdi)
	movdqu	%xmm3, 48(%rdi)
	movdqu	%xmm4, 64(%rdi)
	movdqu	%xmm5, 80(%rdi)
	movdqu	%xmm6, 96(%rdi)
	movdqu	%xmm7, 112(%rdi)
	addq	$128, %rdi
	cmpq	%r10, %rdi
	jbe	.Lloop
.Lrest:
	cmpq	%r9, %rdi
	jae	.Llast
	.p2align	6
.Lrest_loop:
	movdqu	(%rsi, %rdi), %xmm0
	movdqu	16(%rsi, %rdi), %xmm1
	movdqu	32(%rsi, %rdi), %xmm2
	movdqu	48(%rsi, %rdi), %xmm3
	movdqu	%xmm0, (%rdi)
	movdqu	%xmm1, 16(%rdi)
	movdqu	%xmm2, 32(%rdi)
	movdqu	%xmm3, 48(%rdi)
	addq	$64, %rdi
	cmpq	%r9, %rdi
	jb	.Lrest_loop
.Llast:
	movdqu	%xmm8, (%r9)
	movdqu	%xmm9, 16(%r9)
	movdqu	%xmm10, 32(%r9)
	movdqu	%xmm11, 48(%r9)
	RET
ROUTINE_END(overlap_sse)
