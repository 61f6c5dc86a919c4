/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 16-byte SSE registers, 128 bytes a turn, the ends by accesses that overlap
 * requires: sse2
 * source: generated: kdyno memcpy generate memset-sse-128-overlap --name sse -o memset-sse.S
 * arch: um
 * function: memset
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

ROUTINE_START_OF(memset, sse)
	movq	%rdi, %rax
	movzbl	%sil, %esi
	movabsq	$0x0101010101010101, %rcx
	imulq	%rcx, %rsi
	movq	%rsi, %xmm0
	punpcklqdq	%xmm0, %xmm0
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
	movb	%sil, (%rdi)
	movb	%sil, (%rdi, %r10)
	movb	%sil, -1(%rdi, %rdx)
.Lnothing:
	RET
	.p2align	4
.Lfrom_8:
	movq	%rsi, (%rdi)
	movq	%rsi, -8(%rdi, %rdx)
	RET
	.p2align	4
.Lfrom_4:
	movl	%esi, (%rdi)
	movl	%esi, -4(%rdi, %rdx)
	RET
	.p2align	4
.Lfrom_16:
	movdqu	%xmm0, (%rdi)
	movdqu	%xmm0, -16(%rdi, %rdx)
	RET
	.p2align	4
.Lover_32:
	cmpq	$64, %rdx
	ja	.Lover_64
	movdqu	%xmm0, (%rdi)
	movdqu	%xmm0, 16(%rdi)
	movdqu	%xmm0, -32(%rdi, %rdx)
	movdqu	%xmm0, -16(%rdi, %rdx)
	RET
	.p2align	4
.Lover_64:
	cmpq	$128, %rdx
	ja	.Lover_128
	movdqu	%xmm0, (%rdi)
	movdqu	%xmm0, 16(%rdi)
	movdqu	%xmm0, 32(%rdi)
	movdqu	%xmm0, 48(%rdi)
	movdqu	%xmm0, -64(%rdi, %rdx)
	movdqu	%xmm0, -48(%rdi, %rdx)
	movdqu	%xmm0, -32(%rdi, %rdx)
	movdqu	%xmm0, -16(%rdi, %rdx)
	RET
	.p2align	4
.Lover_128:
	movdqu	%xmm0, (%rdi)
	leaq	-64(%rdi, %rdx), %r9
	addq	$16, %rdi
	andq	$-16, %rdi
	/* r10: the last place where a whole turn still fits */
	leaq	-64(%r9), %r10
	cmpq	%r10, %rdi
	ja	.Lrest
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
	cmpq	%r10, %rdi
	jbe	.Lloop
.Lrest:
	cmpq	%r9, %rdi
	jae	.Llast
	.p2align	6
.Lrest_loop:
	movdqu	%xmm0, (%rdi)
	movdqu	%xmm0, 16(%rdi)
	movdqu	%xmm0, 32(%rdi)
	movdqu	%xmm0, 48(%rdi)
	addq	$64, %rdi
	cmpq	%r9, %rdi
	jb	.Lrest_loop
.Llast:
	movdqu	%xmm0, (%r9)
	movdqu	%xmm0, 16(%r9)
	movdqu	%xmm0, 32(%r9)
	movdqu	%xmm0, 48(%r9)
	RET
ROUTINE_END_OF(memset, sse)
