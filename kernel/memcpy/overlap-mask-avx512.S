/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 64-byte AVX-512 registers, 256 bytes a turn, the ends by accesses that overlap, up to 64 bytes by a masked register
 * requires: avx512f avx512vl avx512bw bmi2
 * source: generated: kdyno memcpy generate avx512-256-overlap-mask64 --name overlap-mask-avx512 -o overlap-mask-avx512.S
 * arch: um
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

ROUTINE_START(overlap_mask_avx512)
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
	vmovdqu64	(%rsi), %zmm16
	vmovdqu64	-64(%rsi, %rdx), %zmm17
	vmovdqu64	%zmm16, (%rdi)
	vmovdqu64	%zmm17, -64(%rdi, %rdx)
	RET
	.p2align	4
.Lover_128:
	cmpq	$256, %rdx
	ja	.Lover_256
	vmovdqu64	(%rsi), %zmm16
	vmovdqu64	64(%rsi), %zmm17
	vmovdqu64	-128(%rsi, %rdx), %zmm18
	vmovdqu64	-64(%rsi, %rdx), %zmm19
	vmovdqu64	%zmm16, (%rdi)
	vmovdqu64	%zmm17, 64(%rdi)
	vmovdqu64	%zmm18, -128(%rdi, %rdx)
	vmovdqu64	%zmm19, -64(%rdi, %rdx)
	RET
	.p2align	4
.Lover_256:
	cmpq	$512, %rdx
	ja	.Lover_512
	vmovdqu64	(%rsi), %zmm16
	vmovdqu64	64(%rsi), %zmm17
	vmovdqu64	128(%rsi), %zmm18
	vmovdqu64	192(%rsi), %zmm19
	vmovdqu64	-256(%rsi, %rdx), %zmm20
	vmovdqu64	-192(%rsi, %rdx), %zmm21
	vmovdqu64	-128(%rsi, %rdx), %zmm22
	vmovdqu64	-64(%rsi, %rdx), %zmm23
	vmovdqu64	%zmm16, (%rdi)
	vmovdqu64	%zmm17, 64(%rdi)
	vmovdqu64	%zmm18, 128(%rdi)
	vmovdqu64	%zmm19, 192(%rdi)
	vmovdqu64	%zmm20, -256(%rdi, %rdx)
	vmovdqu64	%zmm21, -192(%rdi, %rdx)
	vmovdqu64	%zmm22, -128(%rdi, %rdx)
	vmovdqu64	%zmm23, -64(%rdi, %rdx)
	RET
	.p2align	4
.Lover_512:
	vmovdqu64	(%rsi), %zmm16
	vmovdqu64	-256(%rsi, %rdx), %zmm24
	vmovdqu64	-192(%rsi, %rdx), %zmm25
	vmovdqu64	-128(%rsi, %rdx), %zmm26
	vmovdqu64	-64(%rsi, %rdx), %zmm27
	vmovdqu64	%zmm16, (%rdi)
	leaq	-256(%rdi, %rdx), %r9
	subq	%rdi, %rsi
	addq	$64, %rdi
	andq	$-64, %rdi
	.p2align	6
.Lloop:
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
	jb	.Lloop
.Llast:
	vmovdqu64	%zmm24, (%r9)
	vmovdqu64	%zmm25, 64(%r9)
	vmovdqu64	%zmm26, 128(%r9)
	vmovdqu64	%zmm27, 192(%r9)
	RET
ROUTINE_END(overlap_mask_avx512)
