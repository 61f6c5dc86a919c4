/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: rep movsb, but for 128 to 383 bytes, where it starts slowly, a loop of general registers
 * requires: fsrm
 * source: this project: on a Zen 4 rep movsb takes the same time up to 127 bytes, then three times it
 * arch: um x86_64
 *
 * What kernel/patches/zen4-memcpy.patch does to a native kernel. The last 32 bytes are moved by
 * accesses that may overlap what is copied already.
 */
#include "routine.h"

ROUTINE_START(fsrm_loop)
	movq	%rdi, %rax
	leaq	-128(%rdx), %rcx
	cmpq	$256, %rcx
	jb	.Lfrom_128
	movq	%rdx, %rcx
	rep movsb
	RET
.Lfrom_128:
	/* rdx: the last 32 bytes of the target; rsi: the source's distance from it */
	leaq	-32(%rdi, %rdx), %rdx
	subq	%rdi, %rsi
	.p2align	4
.Lloop:
	movq	(%rsi, %rdi), %rcx
	movq	8(%rsi, %rdi), %r8
	movq	16(%rsi, %rdi), %r9
	movq	24(%rsi, %rdi), %r10
	movq	%rcx, (%rdi)
	movq	%r8, 8(%rdi)
	movq	%r9, 16(%rdi)
	movq	%r10, 24(%rdi)
	addq	$32, %rdi
	cmpq	%rdx, %rdi
	jb	.Lloop
	movq	(%rsi, %rdx), %rcx
	movq	8(%rsi, %rdx), %r8
	movq	16(%rsi, %rdx), %r9
	movq	24(%rsi, %rdx), %r10
	movq	%rcx, (%rdx)
	movq	%r8, 8(%rdx)
	movq	%r9, 16(%rdx)
	movq	%r10, 24(%rdx)
	RET
ROUTINE_END(fsrm_loop)
