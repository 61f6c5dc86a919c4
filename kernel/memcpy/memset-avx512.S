/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 64-byte AVX-512 registers, 256 bytes a turn, the ends by accesses that overlap, 32-byte registers below the loop
 * requires: avx512f avx512vl
 * source: generated: kdyno memcpy generate memset-avx512-256-overlap-small32 --name avx512 -o memset-avx512.S
 * arch: um
 * function: memset
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

ROUTINE_START_OF(memset, avx512)
	movq	%rdi, %rax
	movzbl	%sil, %esi
	movabsq	$0x0101010101010101, %rcx
	imulq	%rcx, %rsi
	vpbroadcastq	%rsi, %xmm16
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
	vmovdqu64	%xmm16, (%rdi)
	vmovdqu64	%xmm16, -16(%rdi, %rdx)
	RET
	.p2align	4
.Lover_32:
	vpbroadcastq	%rsi, %ymm16
	cmpq	$64, %rdx
	ja	.Lover_64
	vmovdqu64	%ymm16, (%rdi)
	vmovdqu64	%ymm16, -32(%rdi, %rdx)
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
	vpbroadcastq	%rsi, %zmm16
	vmovdqu64	%zmm16, (%rdi)
	leaq	-256(%rdi, %rdx), %r9
	addq	$64, %rdi
	andq	$-64, %rdi
	.p2align	6
.Lloop:
	vmovdqu64	%zmm16, (%rdi)
	vmovdqu64	%zmm16, 64(%rdi)
	vmovdqu64	%zmm16, 128(%rdi)
	vmovdqu64	%zmm16, 192(%rdi)
	addq	$256, %rdi
	cmpq	%r9, %rdi
	jb	.Lloop
.Llast:
	vmovdqu64	%zmm16, (%r9)
	vmovdqu64	%zmm16, 64(%r9)
	vmovdqu64	%zmm16, 128(%r9)
	vmovdqu64	%zmm16, 192(%r9)
	RET
ROUTINE_END_OF(memset, avx512)
