/* SPDX-License-Identifier: MIT */
/* What routines are timed beside: string instructions alone, and a copy that costs nothing. */
	.section .text.rivals, "ax", @progbits
	.p2align 6
	.globl memcpy_rep_movsb
	.type memcpy_rep_movsb, @function
memcpy_rep_movsb:
	movq	%rdi, %rax
	movq	%rdx, %rcx
	rep movsb
	ret

	.p2align 6
	.globl memcpy_rep_movsq
	.type memcpy_rep_movsq, @function
memcpy_rep_movsq:
	movq	%rdi, %rax
	movq	%rdx, %rcx
	shrq	$3, %rcx
	andl	$7, %edx
	rep movsq
	movl	%edx, %ecx
	rep movsb
	ret

	.p2align 6
	.globl memcpy_nothing
	.type memcpy_nothing, @function
memcpy_nothing:
	movq	%rdi, %rax
	ret
	.section .note.GNU-stack, "", @progbits
