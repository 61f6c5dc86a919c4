/* SPDX-License-Identifier: MIT */
/*
 * help: wrong on purpose, each in one way: the checker must name that way
 * requires: sse2
 * source: none
 * arch: um
 */
#include "routine.h"

/* the last byte of every block of 100 bytes or more stays behind */
ROUTINE_START(broken_bytes)
	movq	%rdi, %rax
	movq	%rdx, %rcx
	cmpq	$100, %rdx
	jb	1f
	decq	%rcx
1:	rep movsb
	RET
ROUTINE_END(broken_bytes)

/* writes one byte more, when there is room before the next page */
ROUTINE_START(broken_canary)
	movq	%rdi, %rax
	movq	%rdx, %rcx
	rep movsb
	testq	$4095, %rdi
	jz	1f
	movb	$0, (%rdi)
1:	RET
ROUTINE_END(broken_canary)

/* writes into the source */
ROUTINE_START(broken_source)
	movq	%rdi, %rax
	movq	%rdx, %rcx
	rep movsb
	cmpq	$40, %rdx
	jne	1f
	incb	-1(%rsi)
1:	RET
ROUTINE_END(broken_source)

/* reads eight bytes even where there are fewer */
ROUTINE_START(broken_guard)
	movq	(%rsi), %r8
	movq	%rdi, %rax
	movq	%rdx, %rcx
	rep movsb
	RET
ROUTINE_END(broken_guard)

/* returns the end of the target */
ROUTINE_START(broken_return)
	movq	%rdx, %rcx
	rep movsb
	movq	%rdi, %rax
	RET
ROUTINE_END(broken_return)

/* uses a register that belongs to the caller */
ROUTINE_START(broken_saved)
	movq	%rdi, %rax
	movq	%rdx, %rcx
	movq	%rdx, %r13
	rep movsb
	RET
ROUTINE_END(broken_saved)

/* copies backwards and leaves the direction so */
ROUTINE_START(broken_direction)
	movq	%rdi, %rax
	movq	%rdx, %rcx
	leaq	-1(%rdi, %rdx), %rdi
	leaq	-1(%rsi, %rdx), %rsi
	std
	rep movsb
	RET
ROUTINE_END(broken_direction)

/* leaves the upper half of a vector register in use; needs avx */
ROUTINE_START(broken_upper)
	movq	%rdi, %rax
	movq	%rdx, %rcx
	rep movsb
	vpcmpeqd %xmm0, %xmm0, %xmm0
	vinsertf128 $1, %xmm0, %ymm0, %ymm0
	RET
ROUTINE_END(broken_upper)

/* clears the target first, which is the source when both are one */
ROUTINE_START(broken_same)
	movq	%rdi, %r8
	xorl	%eax, %eax
	movq	%rdx, %rcx
	rep stosb
	movq	%r8, %rdi
	movq	%r8, %rax
	movq	%rdx, %rcx
	rep movsb
	RET
ROUTINE_END(broken_same)

/* waits for ever at one size */
ROUTINE_START(broken_hang)
	movq	%rdi, %rax
	movq	%rdx, %rcx
1:	cmpq	$20, %rdx
	je	1b
	rep movsb
	RET
ROUTINE_END(broken_hang)

/* an instruction that no CPU has */
ROUTINE_START(broken_illegal)
	movq	%rdi, %rax
	movq	%rdx, %rcx
	rep movsb
	cmpq	$33, %rdx
	jne	1f
	ud2
1:	RET
ROUTINE_END(broken_illegal)

/* ends the program that checks it */
ROUTINE_START(broken_died)
	cmpq	$33, %rdx
	jne	1f
	movl	$60, %eax
	movl	$77, %edi
	syscall
1:	movq	%rdi, %rax
	movq	%rdx, %rcx
	rep movsb
	RET
ROUTINE_END(broken_died)

/* the last byte of every block of 256 KiB or more stays behind */
ROUTINE_START(broken_large)
	movq	%rdi, %rax
	movq	%rdx, %rcx
	cmpq	$0x40000, %rdx
	jb	1f
	decq	%rcx
1:	rep movsb
	RET
ROUTINE_END(broken_large)

/* a memset that stops short of the last byte of such blocks */
ROUTINE_START_OF(memset, broken_large)
	movq	%rdi, %r9
	movq	%rdx, %rcx
	movl	%esi, %eax
	cmpq	$0x40000, %rdx
	jb	1f
	decq	%rcx
1:	rep stosb
	movq	%r9, %rax
	RET
ROUTINE_END_OF(memset, broken_large)

/* a memmove that goes upwards from 256 KiB on, whichever way they overlap */
ROUTINE_START_OF(memmove, broken_large)
	movq	%rdi, %rax
	movq	%rdx, %rcx
	cmpq	$0x40000, %rdx
	jae	1f
	movq	%rdi, %r8
	subq	%rsi, %r8
	cmpq	%rdx, %r8
	jae	1f
	leaq	-1(%rdi, %rdx), %rdi
	leaq	-1(%rsi, %rdx), %rsi
	std
	rep movsb
	cld
	RET
1:	rep movsb
	RET
ROUTINE_END_OF(memmove, broken_large)

/* a memmove that always goes upwards */
ROUTINE_START_OF(memmove, broken_overlap)
	movq	%rdi, %rax
	movq	%rdx, %rcx
	rep movsb
	RET
ROUTINE_END_OF(memmove, broken_overlap)

/* a memset that takes the whole of esi */
ROUTINE_START_OF(memset, broken_bytes)
	movq	%rdi, %r9
	movq	%rdx, %rcx
	movl	%esi, %eax
	cmpq	$8, %rdx
	jne	1f
	movl	%esi, 4(%rdi)
1:	rep stosb
	cmpq	$8, %rdx
	jne	2f
	movl	%esi, 4(%r9)
2:	movq	%r9, %rax
	RET
ROUTINE_END_OF(memset, broken_bytes)

/* a page of which the last line stays as it was */
PAGE_ROUTINE_START(clear_page, broken_bytes)
	movl	$4032, %ecx
	xorl	%eax, %eax
	rep stosb
	RET
PAGE_ROUTINE_END(clear_page, broken_bytes)
