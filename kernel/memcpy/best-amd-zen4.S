/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 64-byte AVX-512 registers, 256 bytes a turn, the rest by a masked register, a loop of 32-byte registers at the target's boundaries, past the caches from 1048576 bytes
 * requires: avx512f avx512vl avx512bw bmi2
 * source: generated: kdyno memcpy generate avx512-256-mask-small32-nt-1048576 --name best-amd-zen4 -o best-amd-zen4.S
 * arch: um
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

ROUTINE_START(best_amd_zen4)
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
	cmpq	$1048576, %rdx
	jae	.Llarge
	cmpq	$288, %rdx
	jb	.Lone
	vmovdqu64	(%rsi), %ymm16
	vmovdqu64	%ymm16, (%rdi)
	movq	%rdi, %r8
	andl	$31, %r8d
	subq	$32, %r8
	/* r8: minus the bytes that are done with, 1 to the register's */
	subq	%r8, %rdi
	subq	%r8, %rsi
	addq	%r8, %rdx
	.p2align	6
.Lloop:
	vmovdqu64	(%rsi), %ymm16
	vmovdqu64	32(%rsi), %ymm17
	vmovdqu64	64(%rsi), %ymm18
	vmovdqu64	96(%rsi), %ymm19
	vmovdqu64	128(%rsi), %ymm20
	vmovdqu64	160(%rsi), %ymm21
	vmovdqu64	192(%rsi), %ymm22
	vmovdqu64	224(%rsi), %ymm23
	vmovdqu64	%ymm16, (%rdi)
	vmovdqu64	%ymm17, 32(%rdi)
	vmovdqu64	%ymm18, 64(%rdi)
	vmovdqu64	%ymm19, 96(%rdi)
	vmovdqu64	%ymm20, 128(%rdi)
	vmovdqu64	%ymm21, 160(%rdi)
	vmovdqu64	%ymm22, 192(%rdi)
	vmovdqu64	%ymm23, 224(%rdi)
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
	.p2align	6
.Llarge:
	movl	%edi, %r8d
	negl	%r8d
	andl	$63, %r8d
	movq	$-1, %rcx
	bzhiq	%r8, %rcx, %rcx
	kmovq	%rcx, %k1
	vmovdqu8	(%rsi), %zmm16{%k1}{z}
	vmovdqu8	%zmm16, (%rdi){%k1}
	addq	%r8, %rdi
	addq	%r8, %rsi
	subq	%r8, %rdx
	.p2align	6
.Lstream:
	vmovdqu64	(%rsi), %zmm16
	vmovdqu64	64(%rsi), %zmm17
	vmovdqu64	128(%rsi), %zmm18
	vmovdqu64	192(%rsi), %zmm19
	vmovntdq	%zmm16, (%rdi)
	vmovntdq	%zmm17, 64(%rdi)
	vmovntdq	%zmm18, 128(%rdi)
	vmovntdq	%zmm19, 192(%rdi)
	addq	$256, %rsi
	addq	$256, %rdi
	subq	$256, %rdx
	cmpq	$256, %rdx
	jae	.Lstream
	sfence
	cmpq	$64, %rdx
	jbe	.Ltail
	jmp	.Lone
ROUTINE_END(best_amd_zen4)
