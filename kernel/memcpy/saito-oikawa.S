/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 512-byte blocks through the 16-byte SSE registers, the rest by string instructions
 * requires: sse2
 * source: the SIMD copy that Saito and Oikawa published for User Mode Linux
 * arch: um
 *
 * Written from the description. What is shorter than a block never sees an SSE register, and a
 * string instruction takes long to start: that is the routine that was published, kept so on
 * purpose.
 */
#include "routine.h"

.macro COPY_128 at
	movdqu	\at+0x00(%rsi), %xmm0
	movdqu	\at+0x10(%rsi), %xmm1
	movdqu	\at+0x20(%rsi), %xmm2
	movdqu	\at+0x30(%rsi), %xmm3
	movdqu	\at+0x40(%rsi), %xmm4
	movdqu	\at+0x50(%rsi), %xmm5
	movdqu	\at+0x60(%rsi), %xmm6
	movdqu	\at+0x70(%rsi), %xmm7
	movdqu	%xmm0, \at+0x00(%rdi)
	movdqu	%xmm1, \at+0x10(%rdi)
	movdqu	%xmm2, \at+0x20(%rdi)
	movdqu	%xmm3, \at+0x30(%rdi)
	movdqu	%xmm4, \at+0x40(%rdi)
	movdqu	%xmm5, \at+0x50(%rdi)
	movdqu	%xmm6, \at+0x60(%rdi)
	movdqu	%xmm7, \at+0x70(%rdi)
.endm

ROUTINE_START(saito_oikawa)
	movq	%rdi, %rax
	movq	%rdx, %rcx
	shrq	$9, %rcx
	jz	.Lrest
	.p2align 4
.Lblock:
	COPY_128 0x000
	COPY_128 0x080
	COPY_128 0x100
	COPY_128 0x180
	addq	$0x200, %rsi
	addq	$0x200, %rdi
	decq	%rcx
	jnz	.Lblock
.Lrest:
	movl	%edx, %ecx
	andl	$0x1ff, %ecx
	shrl	$3, %ecx
	rep movsq
	movl	%edx, %ecx
	andl	$7, %ecx
	rep movsb
	RET
ROUTINE_END(saito_oikawa)
