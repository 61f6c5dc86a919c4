/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 8-byte general registers, 32 bytes a turn, the ends by accesses that overlap
 * requires: sse2
 * source: generated: kdyno memcpy generate general-32-overlap --name overlap-general -o overlap-general.S
 * arch: um x86_64
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

ROUTINE_START(overlap_general)
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
	movq	(%rsi), %rcx
	movq	8(%rsi), %r8
	movq	-16(%rsi, %rdx), %r9
	movq	-8(%rsi, %rdx), %r10
	movq	%rcx, (%rdi)
	movq	%r8, 8(%rdi)
	movq	%r9, -16(%rdi, %rdx)
	movq	%r10, -8(%rdi, %rdx)
	RET
	.p2align	4
.Lover_32:
	leaq	-32(%rdi, %rdx), %r9
	subq	%rdi, %rsi
	.p2align	6
.Lloop:
	movq	(%rsi, %rdi), %rcx
	movq	8(%rsi, %rdi), %r8
	movq	16(%rsi, %rdi), %r11
	movq	24(%rsi, %rdi), %rdx
	movq	%rcx, (%rdi)
	movq	%r8, 8(%rdi)
	movq	%r11, 16(%rdi)
	movq	%rdx, 24(%rdi)
	addq	$32, %rdi
	cmpq	%r9, %rdi
	jb	.Lloop
.Llast:
	movq	(%rsi, %r9), %rcx
	movq	8(%rsi, %r9), %r8
	movq	16(%rsi, %r9), %r11
	movq	24(%rsi, %r9), %rdx
	movq	%rcx, (%r9)
	movq	%r8, 8(%r9)
	movq	%r11, 16(%r9)
	movq	%rdx, 24(%r9)
	RET
ROUTINE_END(overlap_general)
