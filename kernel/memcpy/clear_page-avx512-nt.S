/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 64-byte AVX-512 registers, 256 bytes a turn, past the caches
 * requires: avx512f avx512vl
 * source: generated: kdyno memcpy generate clear_page-avx512-256-nt --name avx512-nt -o clear_page-avx512-nt.S
 * arch: um
 * function: clear_page
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

PAGE_ROUTINE_START(clear_page, avx512_nt)
	xorl	%esi, %esi
	vpbroadcastq	%rsi, %xmm16
	vpbroadcastq	%rsi, %zmm16
	movl	$16, %r9d
	.p2align	6
.Lloop:
	vmovntdq	%zmm16, (%rdi)
	vmovntdq	%zmm16, 64(%rdi)
	vmovntdq	%zmm16, 128(%rdi)
	vmovntdq	%zmm16, 192(%rdi)
	addq	$256, %rdi
	decl	%r9d
	jnz	.Lloop
	sfence
	RET
PAGE_ROUTINE_END(clear_page, avx512_nt)
