/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 32-byte AVX-512 registers, 128 bytes a turn, the ends by accesses that overlap, up to 64 bytes by a masked register
 * requires: avx512f avx512vl avx512bw bmi2
 * source: generated: kdyno memcpy generate avx512vl-128-overlap-mask64 --name best-amd-zen4 -o best-amd-zen4.S
 * arch: um
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

ROUTINE_START(best_amd_zen4)
	movq	%rdi, %rax
	cmpq	$64, %rdx
	ja	.Lover_64
	movq	$-1, %rcx
	bzhiq	%rdx, %rcx, %rcx
	kmovq	%rcx, %k1
	vmovdqu8	(%rsi), %zmm16{%k1}{z}
	vmovdqu8	%zmm16, (%rdi){%k1}
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
	vmovdqu64	(%rsi), %ymm16
	vmovdqu64	-128(%rsi, %rdx), %ymm24
	vmovdqu64	-96(%rsi, %rdx), %ymm25
	vmovdqu64	-64(%rsi, %rdx), %ymm26
	vmovdqu64	-32(%rsi, %rdx), %ymm27
	vmovdqu64	%ymm16, (%rdi)
	leaq	-128(%rdi, %rdx), %r9
	subq	%rdi, %rsi
	addq	$32, %rdi
	andq	$-32, %rdi
	.p2align	6
.Lloop:
	vmovdqu64	(%rsi, %rdi), %ymm16
	vmovdqu64	32(%rsi, %rdi), %ymm17
	vmovdqu64	64(%rsi, %rdi), %ymm18
	vmovdqu64	96(%rsi, %rdi), %ymm19
	vmovdqu64	%ymm16, (%rdi)
	vmovdqu64	%ymm17, 32(%rdi)
	vmovdqu64	%ymm18, 64(%rdi)
	vmovdqu64	%ymm19, 96(%rdi)
	addq	$128, %rdi
	cmpq	%r9, %rdi
	jb	.Lloop
.Llast:
	vmovdqu64	%ymm24, (%r9)
	vmovdqu64	%ymm25, 32(%r9)
	vmovdqu64	%ymm26, 64(%r9)
	vmovdqu64	%ymm27, 96(%r9)
	RET
ROUTINE_END(best_amd_zen4)
