/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 32-byte AVX registers, 128 bytes a turn
 * requires: avx2
 * source: generated: kdyno memcpy generate copy_page-avx2-128 --name avx2 -o copy_page-avx2.S
 * arch: um
 * function: copy_page
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

PAGE_ROUTINE_START(copy_page, avx2)
	movl	$32, %r9d
	.p2align	6
.Lloop:
	vmovdqu	(%rsi), %ymm0
	vmovdqu	32(%rsi), %ymm1
	vmovdqu	64(%rsi), %ymm2
	vmovdqu	96(%rsi), %ymm3
	vmovdqu	%ymm0, (%rdi)
	vmovdqu	%ymm1, 32(%rdi)
	vmovdqu	%ymm2, 64(%rdi)
	vmovdqu	%ymm3, 96(%rdi)
	addq	$128, %rsi
	addq	$128, %rdi
	decl	%r9d
	jnz	.Lloop
	vzeroupper
	RET
PAGE_ROUTINE_END(copy_page, avx2)
