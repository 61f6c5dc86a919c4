/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 16-byte SSE registers, 1024 bytes a turn, the rest by string instructions
 * requires: sse2
 * source: generated: kdyno memcpy generate sse-1024-string --name saito-oikawa-1024 -o saito-oikawa-1024.S
 * arch: um
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

ROUTINE_START(saito_oikawa_1024)
	movq	%rdi, %rax
	movq	%rdx, %r9
	shrq	$10, %r9
	jz	.Lrest
	movq	%rdx, %r10
	.p2align	4
.Lloop:
	movdqu	(%rsi), %xmm0
	movdqu	16(%rsi), %xmm1
	movdqu	32(%rsi), %xmm2
	movdqu	48(%rsi), %xmm3
	movdqu	64(%rsi), %xmm4
	movdqu	80(%rsi), %xmm5
	movdqu	96(%rsi), %xmm6
	movdqu	112(%rsi), %xmm7
	movdqu	%xmm0, (%rdi)
	movdqu	%xmm1, 16(%rdi)
	movdqu	%xmm2, 32(%rdi)
	movdqu	%xmm3, 48(%rdi)
	movdqu	%xmm4, 64(%rdi)
	movdqu	%xmm5, 80(%rdi)
	movdqu	%xmm6, 96(%rdi)
	movdqu	%xmm7, 112(%rdi)
	movdqu	128(%rsi), %xmm0
	movdqu	144(%rsi), %xmm1
	movdqu	160(%rsi), %xmm2
	movdqu	176(%rsi), %xmm3
	movdqu	192(%rsi), %xmm4
	movdqu	208(%rsi), %xmm5
	movdqu	224(%rsi), %xmm6
	movdqu	240(%rsi), %xmm7
	movdqu	%xmm0, 128(%rdi)
	movdqu	%xmm1, 144(%rdi)
	movdqu	%xmm2, 160(%rdi)
	movdqu	%xmm3, 176(%rdi)
	movdqu	%xmm4, 192(%rdi)
	movdqu	%xmm5, 208(%rdi)
	movdqu	%xmm6, 224(%rdi)
	movdqu	%xmm7, 240(%rdi)
	movdqu	256(%rsi), %xmm0
	movdqu	272(%rsi), %xmm1
	movdqu	288(%rsi), %xmm2
	movdqu	304(%rsi), %xmm3
	movdqu	320(%rsi), %xmm4
	movdqu	336(%rsi), %xmm5
	movdqu	352(%rsi), %xmm6
	movdqu	368(%rsi), %xmm7
	movdqu	%xmm0, 256(%rdi)
	movdqu	%xmm1, 272(%rdi)
	movdqu	%xmm2, 288(%rdi)
	movdqu	%xmm3, 304(%rdi)
	movdqu	%xmm4, 320(%rdi)
	movdqu	%xmm5, 336(%rdi)
	movdqu	%xmm6, 352(%rdi)
	movdqu	%xmm7, 368(%rdi)
	movdqu	384(%rsi), %xmm0
	movdqu	400(%rsi), %xmm1
	movdqu	416(%rsi), %xmm2
	movdqu	432(%rsi), %xmm3
	movdqu	448(%rsi), %xmm4
	movdqu	464(%rsi), %xmm5
	movdqu	480(%rsi), %xmm6
	movdqu	496(%rsi), %xmm7
	movdqu	%xmm0, 384(%rdi)
	movdqu	%xmm1, 400(%rdi)
	movdqu	%xmm2, 416(%rdi)
	movdqu	%xmm3, 432(%rdi)
	movdqu	%xmm4, 448(%rdi)
	movdqu	%xmm5, 464(%rdi)
	movdqu	%xmm6, 480(%rdi)
	movdqu	%xmm7, 496(%rdi)
	movdqu	512(%rsi), %xmm0
	movdqu	528(%rsi), %xmm1
	movdqu	544(%rsi), %xmm2
	movdqu	560(%rsi), %xmm3
	movdqu	576(%rsi), %xmm4
	movdqu	592(%rsi), %xmm5
	movdqu	608(%rsi), %xmm6
	movdqu	624(%rsi), %xmm7
	movdqu	%xmm0, 512(%rdi)
	movdqu	%xmm1, 528(%rdi)
	movdqu	%xmm2, 544(%rdi)
	movdqu	%xmm3, 560(%rdi)
	movdqu	%xmm4, 576(%rdi)
	movdqu	%xmm5, 592(%rdi)
	movdqu	%xmm6, 608(%rdi)
	movdqu	%xmm7, 624(%rdi)
	movdqu	640(%rsi), %xmm0
	movdqu	656(%rsi), %xmm1
	movdqu	672(%rsi), %xmm2
	movdqu	688(%rsi), %xmm3
	movdqu	704(%rsi), %xmm4
	movdqu	720(%rsi), %xmm5
	movdqu	736(%rsi), %xmm6
	movdqu	752(%rsi), %xmm7
	movdqu	%xmm0, 640(%rdi)
	movdqu	%xmm1, 656(%rdi)
	movdqu	%xmm2, 672(%rdi)
	movdqu	%xmm3, 688(%rdi)
	movdqu	%xmm4, 704(%rdi)
	movdqu	%xmm5, 720(%rdi)
	movdqu	%xmm6, 736(%rdi)
	movdqu	%xmm7, 752(%rdi)
	movdqu	768(%rsi), %xmm0
	movdqu	784(%rsi), %xmm1
	movdqu	800(%rsi), %xmm2
	movdqu	816(%rsi), %xmm3
	movdqu	832(%rsi), %xmm4
	movdqu	848(%rsi), %xmm5
	movdqu	864(%rsi), %xmm6
	movdqu	880(%rsi), %xmm7
	movdqu	%xmm0, 768(%rdi)
	movdqu	%xmm1, 784(%rdi)
	movdqu	%xmm2, 800(%rdi)
	movdqu	%xmm3, 816(%rdi)
	movdqu	%xmm4, 832(%rdi)
	movdqu	%xmm5, 848(%rdi)
	movdqu	%xmm6, 864(%rdi)
	movdqu	%xmm7, 880(%rdi)
	movdqu	896(%rsi), %xmm0
	movdqu	912(%rsi), %xmm1
	movdqu	928(%rsi), %xmm2
	movdqu	944(%rsi), %xmm3
	movdqu	960(%rsi), %xmm4
	movdqu	976(%rsi), %xmm5
	movdqu	992(%rsi), %xmm6
	movdqu	1008(%rsi), %xmm7
	movdqu	%xmm0, 896(%rdi)
	movdqu	%xmm1, 912(%rdi)
	movdqu	%xmm2, 928(%rdi)
	movdqu	%xmm3, 944(%rdi)
	movdqu	%xmm4, 960(%rdi)
	movdqu	%xmm5, 976(%rdi)
	movdqu	%xmm6, 992(%rdi)
	movdqu	%xmm7, 1008(%rdi)
	addq	$1024, %rsi
	addq	$1024, %rdi
	decq	%r9
	jnz	.Lloop
	movq	%r10, %rdx
.Lrest:
	movl	%edx, %ecx
	andl	$1023, %ecx
	shrl	$3, %ecx
	rep movsq
	movl	%edx, %ecx
	andl	$7, %ecx
	rep movsb
	RET
ROUTINE_END(saito_oikawa_1024)
