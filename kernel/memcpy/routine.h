/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What surrounds a memory routine: the same lines of assembly become __memcpy and memcpy of an
 * x86-64 kernel (6.1 to 7.3), or memcpy_NAME, System V ABI, in a program that tests or times it.
 *
 *	rdi  destination	rsi  source	rdx  bytes	rax  destination again
 *
 * Source and destination do not overlap, or are the same address: compilers emit memcpy(p, p, n)
 * when a structure is assigned to itself.
 */
#ifdef __KERNEL__

#include <linux/linkage.h>
#if __has_include(<linux/cfi_types.h>)
#include <linux/cfi_types.h>
#endif
/* Until 6.5 assembly found EXPORT_SYMBOL in a header of its own. */
#if __has_include(<asm/export.h>)
#include <asm/export.h>
#else
#include <linux/export.h>
#endif

#ifndef SYM_TYPED_FUNC_START
#define SYM_TYPED_FUNC_START SYM_FUNC_START
#endif
#ifndef SYM_FUNC_ALIAS_MEMFUNC
#define SYM_FUNC_ALIAS_MEMFUNC SYM_FUNC_ALIAS_WEAK
#endif
/* Early boot code of 6.16 and later calls memcpy by a second name. */
#ifdef SYM_PIC_ALIAS
#define ROUTINE_PIC_ALIAS SYM_PIC_ALIAS(memcpy)
#else
#define ROUTINE_PIC_ALIAS
#endif

/* clang-format off */
#define ROUTINE_START(name)			\
	.pushsection .noinstr.text, "ax" ;	\
	.p2align 6 ;				\
	SYM_TYPED_FUNC_START(__memcpy)

#define ROUTINE_END(name)			\
	SYM_FUNC_END(__memcpy) ;		\
	EXPORT_SYMBOL(__memcpy) ;		\
	SYM_FUNC_ALIAS_MEMFUNC(memcpy, __memcpy) ; \
	ROUTINE_PIC_ALIAS ;			\
	EXPORT_SYMBOL(memcpy) ;			\
	.popsection

#else /* a program */

#define RET ret

#define ROUTINE_START(name)			\
	.section .text.memcpy_##name, "ax", @progbits ; \
	.p2align 6 ;				\
	.globl memcpy_##name ;			\
	.type memcpy_##name, @function ;	\
	memcpy_##name:

#define ROUTINE_END(name)			\
	.size memcpy_##name, . - memcpy_##name ; \
	.section .note.GNU-stack, "", @progbits

#endif
