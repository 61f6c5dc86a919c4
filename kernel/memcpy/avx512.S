/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 64-byte AVX-512 registers; head and tail overlap, no string instruction anywhere
 * requires: avx512f avx512vl
 * source: overlapping head and tail, as C libraries copy short blocks; loop aligned to the target
 * arch: um
 *
 * Only registers 16 to 31 are used. No SSE or AVX instruction can name them, so they cannot leave
 * the state that makes later SSE instructions slow, and no vzeroupper is needed.
 *
 * One masked register would cover 0 to 64 bytes without a branch. Measured on Zen 4, whoever then
 * reads what was copied waits 9 ns instead of 3: a masked store is not forwarded to a load. In User
 * Mode Linux get_user() is a memcpy whose result is read at once, so small sizes branch.
 */
#include "routine.h"

ROUTINE_START(avx512)
	movq	%rdi, %rax
	cmpq	$16, %rdx
	jb	.Lunder_16
	cmpq	$32, %rdx
	ja	.Lover_32
	vmovdqu64 (%rsi), %xmm16
	vmovdqu64 -16(%rsi, %rdx), %xmm17
	vmovdqu64 %xmm16, (%rdi)
	vmovdqu64 %xmm17, -16(%rdi, %rdx)
	RET

	.p2align 6
.Lunder_16:
	cmpl	$8, %edx
	jb	.Lunder_8
	movq	(%rsi), %rcx
	movq	-8(%rsi, %rdx), %r8
	movq	%rcx, (%rdi)
	movq	%r8, -8(%rdi, %rdx)
	RET

	.p2align 6
.Lunder_8:
	cmpl	$4, %edx
	jb	.Lunder_4
	movl	(%rsi), %ecx
	movl	-4(%rsi, %rdx), %r8d
	movl	%ecx, (%rdi)
	movl	%r8d, -4(%rdi, %rdx)
	RET

	/* 1 to 3: first, middle and last byte, which may be the same one */
	.p2align 6
.Lunder_4:
	testl	%edx, %edx
	jz	.Lnothing
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

	.p2align 6
.Lover_32:
	cmpq	$64, %rdx
	ja	.Lover_64
	vmovdqu64 (%rsi), %ymm16
	vmovdqu64 -32(%rsi, %rdx), %ymm17
	vmovdqu64 %ymm16, (%rdi)
	vmovdqu64 %ymm17, -32(%rdi, %rdx)
	RET

	.p2align 6
.Lover_64:
	vmovdqu64 (%rsi), %zmm16
	vmovdqu64 -64(%rsi, %rdx), %zmm17
	cmpq	$128, %rdx
	ja	.Lover_128
	vmovdqu64 %zmm16, (%rdi)
	vmovdqu64 %zmm17, -64(%rdi, %rdx)
	RET

	.p2align 6
.Lover_128:
	vmovdqu64 64(%rsi), %zmm18
	vmovdqu64 -128(%rsi, %rdx), %zmm19
	cmpq	$256, %rdx
	ja	.Lover_256
	vmovdqu64 %zmm16, (%rdi)
	vmovdqu64 %zmm18, 64(%rdi)
	vmovdqu64 %zmm19, -128(%rdi, %rdx)
	vmovdqu64 %zmm17, -64(%rdi, %rdx)
	RET

	.p2align 6
.Lover_256:
	vmovdqu64 -192(%rsi, %rdx), %zmm20
	vmovdqu64 -256(%rsi, %rdx), %zmm21
	cmpq	$512, %rdx
	ja	.Lover_512
	vmovdqu64 128(%rsi), %zmm22
	vmovdqu64 192(%rsi), %zmm23
	vmovdqu64 %zmm16, (%rdi)
	vmovdqu64 %zmm18, 64(%rdi)
	vmovdqu64 %zmm22, 128(%rdi)
	vmovdqu64 %zmm23, 192(%rdi)
.Llast_256:
	vmovdqu64 %zmm21, -256(%rax, %rdx)
	vmovdqu64 %zmm20, -192(%rax, %rdx)
	vmovdqu64 %zmm19, -128(%rax, %rdx)
	vmovdqu64 %zmm17, -64(%rax, %rdx)
	RET

	/* The last 256 bytes wait in zmm21, 20, 19, 17; the loop stores whole lines before them. */
	.p2align 6
.Lover_512:
	vmovdqu64 %zmm16, (%rdi)
	leaq	-256(%rdi, %rdx), %r9
	subq	%rdi, %rsi
	addq	$64, %rdi
	andq	$-64, %rdi
	.p2align 6
.Lloop:
	vmovdqu64 (%rsi, %rdi), %zmm16
	vmovdqu64 64(%rsi, %rdi), %zmm18
	vmovdqu64 128(%rsi, %rdi), %zmm22
	vmovdqu64 192(%rsi, %rdi), %zmm23
	vmovdqu64 %zmm16, (%rdi)
	vmovdqu64 %zmm18, 64(%rdi)
	vmovdqu64 %zmm22, 128(%rdi)
	vmovdqu64 %zmm23, 192(%rdi)
	addq	$256, %rdi
	cmpq	%r9, %rdi
	jb	.Lloop
	jmp	.Llast_256
ROUTINE_END(avx512)
