/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 32-byte AVX registers, 128 bytes a turn, past the caches
 * requires: avx2
 * source: generated: kdyno memcpy generate copy_page-avx2-128-nt --name avx2-nt -o copy_page-avx2-nt.S
 * arch: um
 * function: copy_page
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

PAGE_ROUTINE_START(copy_page, avx2_nt)
	movl	$32, %r9d
	.p2align	6
.Lloop:
	vmovdqu	(%rsi), %ymm0
	vmovdqu	32(%rsi), %ymm1
	vmovdqu	64(%rsi), %ymm2
	vmovdqu	96(%rsi), %ymm3
	vmovntdq	%ymm0, (%rdi)
	vmovntdq	%ymm1, 32(%rdi)
	vmovntdq	%ymm2, 64(%rdi)
	vmovntdq	%ymm3, 96(%rdi)
	addq	$128, %rsi
	addq	$128, %rdi
	decl	%r9d
	jnz	.Lloop
	sfence
	vzeroupper
	RET
PAGE_ROUTINE_END(copy_page, avx2_nt)
