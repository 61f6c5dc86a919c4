/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 32-byte AVX registers; head and tail overlap, no string instruction anywhere
 * requires: avx2
 * source: overlapping head and tail, as C libraries copy short blocks; loop aligned to the target
 * arch: um
 *
 * Every size is covered by loads that may overlap: first all of the block's two ends, then
 * whatever lies between. Up to 256 bytes there is no loop. The upper halves are cleared at the end
 * wherever they were used, else every later SSE instruction of the process would pay for them.
 */
#include "routine.h"

ROUTINE_START(avx2)
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
	/* 1 to 3: first, middle and last byte, which may be the same one */
	movzbl	(%rsi), %ecx
	movl	%edx, %r10d
	shrl	$1, %r10d
	movzbl	(%rsi, %r10), %r9d
	movzbl	-1(%rsi, %rdx), %r8d
	movb	%cl, (%rdi)
	movb	%r9b, (%rdi, %r10)
	movb	%r8b, -1(%rdi, %rdx)
.Lnothing:
	RET

	.p2align 4
.Lfrom_16:
	vmovdqu	(%rsi), %xmm0
	vmovdqu	-16(%rsi, %rdx), %xmm1
	vmovdqu	%xmm0, (%rdi)
	vmovdqu	%xmm1, -16(%rdi, %rdx)
	RET

	.p2align 4
.Lfrom_8:
	movq	(%rsi), %rcx
	movq	-8(%rsi, %rdx), %r8
	movq	%rcx, (%rdi)
	movq	%r8, -8(%rdi, %rdx)
	RET

	.p2align 4
.Lfrom_4:
	movl	(%rsi), %ecx
	movl	-4(%rsi, %rdx), %r8d
	movl	%ecx, (%rdi)
	movl	%r8d, -4(%rdi, %rdx)
	RET

	.p2align 4
.Lover_32:
	vmovdqu	(%rsi), %ymm0
	vmovdqu	-32(%rsi, %rdx), %ymm1
	cmpq	$64, %rdx
	ja	.Lover_64
	vmovdqu	%ymm0, (%rdi)
	vmovdqu	%ymm1, -32(%rdi, %rdx)
	vzeroupper
	RET

	.p2align 4
.Lover_64:
	vmovdqu	32(%rsi), %ymm2
	vmovdqu	-64(%rsi, %rdx), %ymm3
	cmpq	$128, %rdx
	ja	.Lover_128
	vmovdqu	%ymm0, (%rdi)
	vmovdqu	%ymm2, 32(%rdi)
	vmovdqu	%ymm3, -64(%rdi, %rdx)
	vmovdqu	%ymm1, -32(%rdi, %rdx)
	vzeroupper
	RET

	.p2align 4
.Lover_128:
	vmovdqu	-96(%rsi, %rdx), %ymm4
	vmovdqu	-128(%rsi, %rdx), %ymm5
	cmpq	$256, %rdx
	ja	.Lover_256
	vmovdqu	64(%rsi), %ymm6
	vmovdqu	96(%rsi), %ymm7
	vmovdqu	%ymm0, (%rdi)
	vmovdqu	%ymm2, 32(%rdi)
	vmovdqu	%ymm6, 64(%rdi)
	vmovdqu	%ymm7, 96(%rdi)
.Llast_128:
	vmovdqu	%ymm5, -128(%rax, %rdx)
	vmovdqu	%ymm4, -96(%rax, %rdx)
	vmovdqu	%ymm3, -64(%rax, %rdx)
	vmovdqu	%ymm1, -32(%rax, %rdx)
	vzeroupper
	RET

	/*
	 * The last 128 bytes wait in ymm5, 4, 3, 1. The first 32 are stored where they belong, then
	 * the loop goes on at the next 32-byte boundary of the target until 128 or less are left.
	 */
	.p2align 4
.Lover_256:
	vmovdqu	%ymm0, (%rdi)
	leaq	-128(%rdi, %rdx), %r9
	subq	%rdi, %rsi
	addq	$32, %rdi
	andq	$-32, %rdi
	.p2align 5
.Lloop:
	vmovdqu	(%rsi, %rdi), %ymm0
	vmovdqu	32(%rsi, %rdi), %ymm2
	vmovdqu	64(%rsi, %rdi), %ymm6
	vmovdqu	96(%rsi, %rdi), %ymm7
	vmovdqu	%ymm0, (%rdi)
	vmovdqu	%ymm2, 32(%rdi)
	vmovdqu	%ymm6, 64(%rdi)
	vmovdqu	%ymm7, 96(%rdi)
	addq	$128, %rdi
	cmpq	%r9, %rdi
	jb	.Lloop
	jmp	.Llast_128
ROUTINE_END(avx2)
