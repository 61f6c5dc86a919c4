/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 32-byte AVX registers, 128 bytes a turn
 * requires: avx2
 * source: generated: kdyno memcpy generate clear_page-avx2-128 --name avx2 -o clear_page-avx2.S
 * arch: um
 * function: clear_page
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

PAGE_ROUTINE_START(clear_page, avx2)
	xorl	%esi, %esi
	vmovq	%rsi, %xmm0
	vpbroadcastq	%xmm0, %xmm0
	vpbroadcastq	%xmm0, %ymm0
	movl	$32, %r9d
	.p2align	6
.Lloop:
	vmovdqu	%ymm0, (%rdi)
	vmovdqu	%ymm0, 32(%rdi)
	vmovdqu	%ymm0, 64(%rdi)
	vmovdqu	%ymm0, 96(%rdi)
	addq	$128, %rdi
	decl	%r9d
	jnz	.Lloop
	vzeroupper
	RET
PAGE_ROUTINE_END(clear_page, avx2)
