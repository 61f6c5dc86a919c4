/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 64-byte AVX-512 registers, 256 bytes a turn, the ends by accesses that overlap, 32-byte registers below the loop
 * requires: avx512f avx512vl
 * source: generated: kdyno memcpy generate memmove-avx512-256-overlap-small32 --name avx512 -o memmove-avx512.S
 * arch: um
 * function: memmove
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

ROUTINE_START_OF(memmove, avx512)
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
	vmovdqu64	(%rsi), %xmm16
	vmovdqu64	-16(%rsi, %rdx), %xmm17
	vmovdqu64	%xmm16, (%rdi)
	vmovdqu64	%xmm17, -16(%rdi, %rdx)
	RET
	.p2align	4
.Lover_32:
	cmpq	$64, %rdx
	ja	.Lover_64
	vmovdqu64	(%rsi), %ymm16
	vmovdqu64	-32(%rsi, %rdx), %ymm17
	vmovdqu64	%ymm16, (%rdi)
	vmovdqu64	%ymm17, -32(%rdi, %rdx)
	RET
	.p2align	4
.Lover_64:
	cmpq	$128, %rdx
	ja	.Lover_128
	vmovdqu64	(%rsi), %ymm16
	vmovdqu64	32(%rsi), %ymm17
	vmovdqu64	-64(%rsi, %rdx), %ymm18
	vmovdqu64	-32(%rsi, %rdx), %ymm19
	vmovdqu64	%ymm16, (%rdi)
	vmovdqu64	%ymm17, 32(%rdi)
	vmovdqu64	%ymm18, -64(%rdi, %rdx)
	vmovdqu64	%ymm19, -32(%rdi, %rdx)
	RET
	.p2align	4
.Lover_128:
	cmpq	$256, %rdx
	ja	.Lover_256
	vmovdqu64	(%rsi), %ymm16
	vmovdqu64	32(%rsi), %ymm17
	vmovdqu64	64(%rsi), %ymm18
	vmovdqu64	96(%rsi), %ymm19
	vmovdqu64	-128(%rsi, %rdx), %ymm20
	vmovdqu64	-96(%rsi, %rdx), %ymm21
	vmovdqu64	-64(%rsi, %rdx), %ymm22
	vmovdqu64	-32(%rsi, %rdx), %ymm23
	vmovdqu64	%ymm16, (%rdi)
	vmovdqu64	%ymm17, 32(%rdi)
	vmovdqu64	%ymm18, 64(%rdi)
	vmovdqu64	%ymm19, 96(%rdi)
	vmovdqu64	%ymm20, -128(%rdi, %rdx)
	vmovdqu64	%ymm21, -96(%rdi, %rdx)
	vmovdqu64	%ymm22, -64(%rdi, %rdx)
	vmovdqu64	%ymm23, -32(%rdi, %rdx)
	RET
	.p2align	4
.Lover_256:
	cmpq	$512, %rdx
	ja	.Lover_512
	vmovdqu64	(%rsi), %ymm16
	vmovdqu64	32(%rsi), %ymm17
	vmovdqu64	64(%rsi), %ymm18
	vmovdqu64	96(%rsi), %ymm19
	vmovdqu64	128(%rsi), %ymm20
	vmovdqu64	160(%rsi), %ymm21
	vmovdqu64	192(%rsi), %ymm22
	vmovdqu64	224(%rsi), %ymm23
	vmovdqu64	-256(%rsi, %rdx), %ymm24
	vmovdqu64	-224(%rsi, %rdx), %ymm25
	vmovdqu64	-192(%rsi, %rdx), %ymm26
	vmovdqu64	-160(%rsi, %rdx), %ymm27
	vmovdqu64	-128(%rsi, %rdx), %ymm28
	vmovdqu64	-96(%rsi, %rdx), %ymm29
	vmovdqu64	-64(%rsi, %rdx), %ymm30
	vmovdqu64	-32(%rsi, %rdx), %ymm31
	vmovdqu64	%ymm16, (%rdi)
	vmovdqu64	%ymm17, 32(%rdi)
	vmovdqu64	%ymm18, 64(%rdi)
	vmovdqu64	%ymm19, 96(%rdi)
	vmovdqu64	%ymm20, 128(%rdi)
	vmovdqu64	%ymm21, 160(%rdi)
	vmovdqu64	%ymm22, 192(%rdi)
	vmovdqu64	%ymm23, 224(%rdi)
	vmovdqu64	%ymm24, -256(%rdi, %rdx)
	vmovdqu64	%ymm25, -224(%rdi, %rdx)
	vmovdqu64	%ymm26, -192(%rdi, %rdx)
	vmovdqu64	%ymm27, -160(%rdi, %rdx)
	vmovdqu64	%ymm28, -128(%rdi, %rdx)
	vmovdqu64	%ymm29, -96(%rdi, %rdx)
	vmovdqu64	%ymm30, -64(%rdi, %rdx)
	vmovdqu64	%ymm31, -32(%rdi, %rdx)
	RET
	.p2align	4
.Lover_512:
	movq	%rdi, %rcx
	subq	%rsi, %rcx
	cmpq	%rdx, %rcx
	jb	.Lbackward
	vmovdqu64	-256(%rsi, %rdx), %zmm24
	vmovdqu64	-192(%rsi, %rdx), %zmm25
	vmovdqu64	-128(%rsi, %rdx), %zmm26
	vmovdqu64	-64(%rsi, %rdx), %zmm27
	vmovdqu64	(%rsi), %zmm23
	leaq	-256(%rdi, %rdx), %r9
	subq	%rdi, %rsi
	addq	$64, %rdi
	andq	$-64, %rdi
	.p2align	6
.Lup:
	vmovdqu64	(%rsi, %rdi), %zmm16
	vmovdqu64	64(%rsi, %rdi), %zmm17
	vmovdqu64	128(%rsi, %rdi), %zmm18
	vmovdqu64	192(%rsi, %rdi), %zmm19
	vmovdqu64	%zmm16, (%rdi)
	vmovdqu64	%zmm17, 64(%rdi)
	vmovdqu64	%zmm18, 128(%rdi)
	vmovdqu64	%zmm19, 192(%rdi)
	addq	$256, %rdi
	cmpq	%r9, %rdi
	jb	.Lup
	vmovdqu64	%zmm24, (%r9)
	vmovdqu64	%zmm25, 64(%r9)
	vmovdqu64	%zmm26, 128(%r9)
	vmovdqu64	%zmm27, 192(%r9)
	vmovdqu64	%zmm23, (%rax)
	RET
	.p2align	6
.Lbackward:
	vmovdqu64	(%rsi), %zmm24
	vmovdqu64	64(%rsi), %zmm25
	vmovdqu64	128(%rsi), %zmm26
	vmovdqu64	192(%rsi), %zmm27
	vmovdqu64	-64(%rsi, %rdx), %zmm23
	leaq	256(%rdi), %r9
	leaq	(%rdi, %rdx), %r8
	subq	%rdi, %rsi
	leaq	-1(%r8), %rdi
	andq	$-64, %rdi
	.p2align	6
.Ldown:
	vmovdqu64	-256(%rsi, %rdi), %zmm16
	vmovdqu64	-192(%rsi, %rdi), %zmm17
	vmovdqu64	-128(%rsi, %rdi), %zmm18
	vmovdqu64	-64(%rsi, %rdi), %zmm19
	vmovdqu64	%zmm16, -256(%rdi)
	vmovdqu64	%zmm17, -192(%rdi)
	vmovdqu64	%zmm18, -128(%rdi)
	vmovdqu64	%zmm19, -64(%rdi)
	subq	$256, %rdi
	cmpq	%r9, %rdi
	ja	.Ldown
	vmovdqu64	%zmm24, (%rax)
	vmovdqu64	%zmm25, 64(%rax)
	vmovdqu64	%zmm26, 128(%rax)
	vmovdqu64	%zmm27, 192(%rax)
	vmovdqu64	%zmm23, -64(%r8)
	RET
ROUTINE_END_OF(memmove, avx512)
