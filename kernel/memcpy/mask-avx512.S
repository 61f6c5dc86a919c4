/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 64-byte AVX-512 registers, 256 bytes a turn, the rest by a masked register
 * requires: avx512f avx512vl avx512bw bmi2
 * source: generated: kdyno memcpy generate avx512-256-mask --name mask-avx512 -o mask-avx512.S
 * arch: um
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

ROUTINE_START(mask_avx512)
	movq	%rdi, %rax
	cmpq	$64, %rdx
	ja	.Lover_64
.Ltail:
	movq	$-1, %rcx
	bzhiq	%rdx, %rcx, %rcx
	kmovq	%rcx, %k1
	vmovdqu8	(%rsi), %zmm16{%k1}{z}
	vmovdqu8	%zmm16, (%rdi){%k1}
	RET
	.p2align	6
.Lover_64:
	cmpq	$256, %rdx
	jb	.Lone
	.p2align	6
.Lloop:
	vmovdqu64	(%rsi), %zmm16
	vmovdqu64	64(%rsi), %zmm17
	vmovdqu64	128(%rsi), %zmm18
	vmovdqu64	192(%rsi), %zmm19
	vmovdqu64	%zmm16, (%rdi)
	vmovdqu64	%zmm17, 64(%rdi)
	vmovdqu64	%zmm18, 128(%rdi)
	vmovdqu64	%zmm19, 192(%rdi)
	addq	$256, %rsi
	addq	$256, %rdi
	subq	$256, %rdx
	cmpq	$256, %rdx
	jae	.Lloop
.Lfew:
	cmpq	$64, %rdx
	jbe	.Ltail
	.p2align	6
.Lone:
	vmovdqu64	(%rsi), %zmm16
	vmovdqu64	%zmm16, (%rdi)
	addq	$64, %rsi
	addq	$64, %rdi
	subq	$64, %rdx
	cmpq	$64, %rdx
	ja	.Lone
	jmp	.Ltail
ROUTINE_END(mask_avx512)
