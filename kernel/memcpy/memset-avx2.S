/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 32-byte AVX registers, 128 bytes a turn, the ends by accesses that overlap
 * requires: avx2
 * source: generated: kdyno memcpy generate memset-avx2-128-overlap --name avx2 -o memset-avx2.S
 * arch: um
 * function: memset
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

ROUTINE_START_OF(memset, avx2)
	movq	%rdi, %rax
	movzbl	%sil, %esi
	movabsq	$0x0101010101010101, %rcx
	imulq	%rcx, %rsi
	vmovq	%rsi, %xmm0
	vpbroadcastq	%xmm0, %xmm0
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
	vmovdqu	%xmm0, (%rdi)
	vmovdqu	%xmm0, -16(%rdi, %rdx)
	RET
	.p2align	4
.Lover_32:
	vpbroadcastq	%xmm0, %ymm0
	cmpq	$64, %rdx
	ja	.Lover_64
	vmovdqu	%ymm0, (%rdi)
	vmovdqu	%ymm0, -32(%rdi, %rdx)
	vzeroupper
	RET
	.p2align	4
.Lover_64:
	cmpq	$128, %rdx
	ja	.Lover_128
	vmovdqu	%ymm0, (%rdi)
	vmovdqu	%ymm0, 32(%rdi)
	vmovdqu	%ymm0, -64(%rdi, %rdx)
	vmovdqu	%ymm0, -32(%rdi, %rdx)
	vzeroupper
	RET
	.p2align	4
.Lover_128:
	cmpq	$256, %rdx
	ja	.Lover_256
	vmovdqu	%ymm0, (%rdi)
	vmovdqu	%ymm0, 32(%rdi)
	vmovdqu	%ymm0, 64(%rdi)
	vmovdqu	%ymm0, 96(%rdi)
	vmovdqu	%ymm0, -128(%rdi, %rdx)
	vmovdqu	%ymm0, -96(%rdi, %rdx)
	vmovdqu	%ymm0, -64(%rdi, %rdx)
	vmovdqu	%ymm0, -32(%rdi, %rdx)
	vzeroupper
	RET
	.p2align	4
.Lover_256:
	vmovdqu	%ymm0, (%rdi)
	leaq	-128(%rdi, %rdx), %r9
	addq	$32, %rdi
	andq	$-32, %rdi
	.p2align	6
.Lloop:
	vmovdqu	%ymm0, (%rdi)
	vmovdqu	%ymm0, 32(%rdi)
	vmovdqu	%ymm0, 64(%rdi)
	vmovdqu	%ymm0, 96(%rdi)
	addq	$128, %rdi
	cmpq	%r9, %rdi
	jb	.Lloop
.Llast:
	vmovdqu	%ymm0, (%r9)
	vmovdqu	%ymm0, 32(%r9)
	vmovdqu	%ymm0, 64(%r9)
	vmovdqu	%ymm0, 96(%r9)
	vzeroupper
	RET
ROUTINE_END_OF(memset, avx2)
