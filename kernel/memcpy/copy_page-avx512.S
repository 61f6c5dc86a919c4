/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 64-byte AVX-512 registers, 256 bytes a turn
 * requires: avx512f avx512vl
 * source: generated: kdyno memcpy generate copy_page-avx512-256 --name avx512 -o copy_page-avx512.S
 * arch: um
 * function: copy_page
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

PAGE_ROUTINE_START(copy_page, avx512)
	movl	$16, %r9d
	.p2align	6
.Lloop:
	vmovdqu64	(%rsi), %zmm16
	vmovdqu64	64(%rsi), %zmm17
	vmovdqu64	128(%rsi), %zmm18
	vmovdqu64	192(%rsi), %zmm19
	vmovdqu64	%zmm16, (%rdi)
	vmovdqu64	%zmm17, 64(%rdi)
	vmovdqu64	%zmm18, 128(%rdi)
	vmovdqu64	%zmm19, 192(%rdi)
	addq	$256, %rsi
	addq	$256, %rdi
	decl	%r9d
	jnz	.Lloop
	RET
PAGE_ROUTINE_END(copy_page, avx512)
