/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 32-byte AVX registers, 128 bytes a turn, the ends by accesses that overlap
 * requires: avx2
 * source: generated: kdyno memcpy generate memmove-avx2-128-overlap --name avx2 -o memmove-avx2.S
 * arch: um
 * function: memmove
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

ROUTINE_START_OF(memmove, avx2)
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
	vmovdqu	(%rsi), %xmm0
	vmovdqu	-16(%rsi, %rdx), %xmm1
	vmovdqu	%xmm0, (%rdi)
	vmovdqu	%xmm1, -16(%rdi, %rdx)
	RET
	.p2align	4
.Lover_32:
	cmpq	$64, %rdx
	ja	.Lover_64
	vmovdqu	(%rsi), %ymm0
	vmovdqu	-32(%rsi, %rdx), %ymm1
	vmovdqu	%ymm0, (%rdi)
	vmovdqu	%ymm1, -32(%rdi, %rdx)
	vzeroupper
	RET
	.p2align	4
.Lover_64:
	cmpq	$128, %rdx
	ja	.Lover_128
	vmovdqu	(%rsi), %ymm0
	vmovdqu	32(%rsi), %ymm1
	vmovdqu	-64(%rsi, %rdx), %ymm2
	vmovdqu	-32(%rsi, %rdx), %ymm3
	vmovdqu	%ymm0, (%rdi)
	vmovdqu	%ymm1, 32(%rdi)
	vmovdqu	%ymm2, -64(%rdi, %rdx)
	vmovdqu	%ymm3, -32(%rdi, %rdx)
	vzeroupper
	RET
	.p2align	4
.Lover_128:
	cmpq	$256, %rdx
	ja	.Lover_256
	vmovdqu	(%rsi), %ymm0
	vmovdqu	32(%rsi), %ymm1
	vmovdqu	64(%rsi), %ymm2
	vmovdqu	96(%rsi), %ymm3
	vmovdqu	-128(%rsi, %rdx), %ymm4
	vmovdqu	-96(%rsi, %rdx), %ymm5
	vmovdqu	-64(%rsi, %rdx), %ymm6
	vmovdqu	-32(%rsi, %rdx), %ymm7
	vmovdqu	%ymm0, (%rdi)
	vmovdqu	%ymm1, 32(%rdi)
	vmovdqu	%ymm2, 64(%rdi)
	vmovdqu	%ymm3, 96(%rdi)
	vmovdqu	%ymm4, -128(%rdi, %rdx)
	vmovdqu	%ymm5, -96(%rdi, %rdx)
	vmovdqu	%ymm6, -64(%rdi, %rdx)
	vmovdqu	%ymm7, -32(%rdi, %rdx)
	vzeroupper
	RET
	.p2align	4
.Lover_256:
	movq	%rdi, %rcx
	subq	%rsi, %rcx
	cmpq	%rdx, %rcx
	jb	.Lbackward
	vmovdqu	-128(%rsi, %rdx), %ymm8
	vmovdqu	-96(%rsi, %rdx), %ymm9
	vmovdqu	-64(%rsi, %rdx), %ymm10
	vmovdqu	-32(%rsi, %rdx), %ymm11
	vmovdqu	(%rsi), %ymm7
	leaq	-128(%rdi, %rdx), %r9
	subq	%rdi, %rsi
	addq	$32, %rdi
	andq	$-32, %rdi
	.p2align	6
.Lup:
	vmovdqu	(%rsi, %rdi), %ymm0
	vmovdqu	32(%rsi, %rdi), %ymm1
	vmovdqu	64(%rsi, %rdi), %ymm2
	vmovdqu	96(%rsi, %rdi), %ymm3
	vmovdqu	%ymm0, (%rdi)
	vmovdqu	%ymm1, 32(%rdi)
	vmovdqu	%ymm2, 64(%rdi)
	vmovdqu	%ymm3, 96(%rdi)
	addq	$128, %rdi
	cmpq	%r9, %rdi
	jb	.Lup
	vmovdqu	%ymm8, (%r9)
	vmovdqu	%ymm9, 32(%r9)
	vmovdqu	%ymm10, 64(%r9)
	vmovdqu	%ymm11, 96(%r9)
	vmovdqu	%ymm7, (%rax)
	vzeroupper
	RET
	.p2align	6
.Lbackward:
	vmovdqu	(%rsi), %ymm8
	vmovdqu	32(%rsi), %ymm9
	vmovdqu	64(%rsi), %ymm10
	vmovdqu	96(%rsi), %ymm11
	vmovdqu	-32(%rsi, %rdx), %ymm7
	leaq	128(%rdi), %r9
	leaq	(%rdi, %rdx), %r8
	subq	%rdi, %rsi
	leaq	-1(%r8), %rdi
	andq	$-32, %rdi
	.p2align	6
.Ldown:
	vmovdqu	-128(%rsi, %rdi), %ymm0
	vmovdqu	-96(%rsi, %rdi), %ymm1
	vmovdqu	-64(%rsi, %rdi), %ymm2
	vmovdqu	-32(%rsi, %rdi), %ymm3
	vmovdqu	%ymm0, -128(%rdi)
	vmovdqu	%ymm1, -96(%rdi)
	vmovdqu	%ymm2, -64(%rdi)
	vmovdqu	%ymm3, -32(%rdi)
	subq	$128, %rdi
	cmpq	%r9, %rdi
	ja	.Ldown
	vmovdqu	%ymm8, (%rax)
	vmovdqu	%ymm9, 32(%rax)
	vmovdqu	%ymm10, 64(%rax)
	vmovdqu	%ymm11, 96(%rax)
	vmovdqu	%ymm7, -32(%r8)
	vzeroupper
	RET
ROUTINE_END_OF(memmove, avx2)
