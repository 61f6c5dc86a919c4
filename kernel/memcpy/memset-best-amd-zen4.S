/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 32-byte AVX-512 registers, 128 bytes a turn, the ends by accesses that overlap, up to 64 bytes by a masked register
 * requires: avx512f avx512vl avx512bw bmi2
 * source: generated: kdyno memcpy generate memset-avx512vl-128-overlap-mask64 --name best-amd-zen4 -o memset-best-amd-zen4.S
 * arch: um
 * function: memset
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

ROUTINE_START_OF(memset, best_amd_zen4)
	movq	%rdi, %rax
	movzbl	%sil, %esi
	movabsq	$0x0101010101010101, %rcx
	imulq	%rcx, %rsi
	vpbroadcastq	%rsi, %xmm16
	vpbroadcastq	%rsi, %zmm16
	cmpq	$64, %rdx
	ja	.Lover_64
	movq	$-1, %rcx
	bzhiq	%rdx, %rcx, %rcx
	kmovq	%rcx, %k1
	vmovdqu8	%zmm16, (%rdi){%k1}
	RET
	.p2align	4
.Lover_64:
	cmpq	$128, %rdx
	ja	.Lover_128
	vmovdqu64	%ymm16, (%rdi)
	vmovdqu64	%ymm16, 32(%rdi)
	vmovdqu64	%ymm16, -64(%rdi, %rdx)
	vmovdqu64	%ymm16, -32(%rdi, %rdx)
	RET
	.p2align	4
.Lover_128:
	cmpq	$256, %rdx
	ja	.Lover_256
	vmovdqu64	%ymm16, (%rdi)
	vmovdqu64	%ymm16, 32(%rdi)
	vmovdqu64	%ymm16, 64(%rdi)
	vmovdqu64	%ymm16, 96(%rdi)
	vmovdqu64	%ymm16, -128(%rdi, %rdx)
	vmovdqu64	%ymm16, -96(%rdi, %rdx)
	vmovdqu64	%ymm16, -64(%rdi, %rdx)
	vmovdqu64	%ymm16, -32(%rdi, %rdx)
	RET
	.p2align	4
.Lover_256:
	cmpq	$512, %rdx
	ja	.Lover_512
	vmovdqu64	%ymm16, (%rdi)
	vmovdqu64	%ymm16, 32(%rdi)
	vmovdqu64	%ymm16, 64(%rdi)
	vmovdqu64	%ymm16, 96(%rdi)
	vmovdqu64	%ymm16, 128(%rdi)
	vmovdqu64	%ymm16, 160(%rdi)
	vmovdqu64	%ymm16, 192(%rdi)
	vmovdqu64	%ymm16, 224(%rdi)
	vmovdqu64	%ymm16, -256(%rdi, %rdx)
	vmovdqu64	%ymm16, -224(%rdi, %rdx)
	vmovdqu64	%ymm16, -192(%rdi, %rdx)
	vmovdqu64	%ymm16, -160(%rdi, %rdx)
	vmovdqu64	%ymm16, -128(%rdi, %rdx)
	vmovdqu64	%ymm16, -96(%rdi, %rdx)
	vmovdqu64	%ymm16, -64(%rdi, %rdx)
	vmovdqu64	%ymm16, -32(%rdi, %rdx)
	RET
	.p2align	4
.Lover_512:
	vmovdqu64	%ymm16, (%rdi)
	leaq	-128(%rdi, %rdx), %r9
	addq	$32, %rdi
	andq	$-32, %rdi
	.p2align	6
.Lloop:
	vmovdqu64	%ymm16, (%rdi)
	vmovdqu64	%ymm16, 32(%rdi)
	vmovdqu64	%ymm16, 64(%rdi)
	vmovdqu64	%ymm16, 96(%rdi)
	addq	$128, %rdi
	cmpq	%r9, %rdi
	jb	.Lloop
.Llast:
	vmovdqu64	%ymm16, (%r9)
	vmovdqu64	%ymm16, 32(%r9)
	vmovdqu64	%ymm16, 64(%r9)
	vmovdqu64	%ymm16, 96(%r9)
	RET
ROUTINE_END_OF(memset, best_amd_zen4)
