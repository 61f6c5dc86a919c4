/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What surrounds a memory routine: the same lines of assembly become __memcpy and memcpy of an
 * x86-64 kernel (6.1 to 7.3), or memcpy_NAME, System V ABI, in a program that tests or times it.
 *
 *	memcpy, memmove	rdi  target	rsi  source	rdx  bytes	rax  target again
 *	memset		rdi  target	esi  byte	rdx  bytes	rax  target again
 *	copy_page	rdi  target	rsi  source	4096 bytes, both at their multiples
 *	clear_page	rdi  target			4096 bytes at a multiple of 4096
 *
 * Source and target of memcpy do not overlap, or are the same address: compilers emit
 * memcpy(p, p, n) when a structure is assigned to itself.
 *
 * ROUTINE_START(name) and ROUTINE_END(name) are for memcpy; the other functions are written
 * ROUTINE_START_OF(memset, name), pages PAGE_ROUTINE_START(copy_page, name).
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
#define ROUTINE_PIC_ALIAS(function) SYM_PIC_ALIAS(function)
#else
#define ROUTINE_PIC_ALIAS(function)
#endif

/* clang-format off */
#define ROUTINE_START_OF(function, name)	\
	.pushsection .noinstr.text, "ax" ;	\
	.p2align 6 ;				\
	SYM_TYPED_FUNC_START(__##function)

#define ROUTINE_END_OF(function, name)		\
	SYM_FUNC_END(__##function) ;		\
	EXPORT_SYMBOL(__##function) ;		\
	SYM_FUNC_ALIAS_MEMFUNC(function, __##function) ; \
	ROUTINE_PIC_ALIAS(function) ;		\
	EXPORT_SYMBOL(function) ;		\
	.popsection

#define PAGE_ROUTINE_START(function, name)	\
	.pushsection .text, "ax" ;		\
	.p2align 6 ;				\
	SYM_TYPED_FUNC_START(function)

#define PAGE_ROUTINE_END(function, name)	\
	SYM_FUNC_END(function) ;		\
	EXPORT_SYMBOL(function) ;		\
	.popsection

#else /* a program */

#define RET ret

#define ROUTINE_START_OF(function, name)	\
	.section .text.function##_##name, "ax", @progbits ; \
	.p2align 6 ;				\
	.globl function##_##name ;		\
	.type function##_##name, STT_FUNC ;	\
	function##_##name:

#define ROUTINE_END_OF(function, name)		\
	.size function##_##name, . - function##_##name ; \
	.section .note.GNU-stack, "", @progbits

#define PAGE_ROUTINE_START(function, name) ROUTINE_START_OF(function, name)
#define PAGE_ROUTINE_END(function, name) ROUTINE_END_OF(function, name)

#endif

#define ROUTINE_START(name) ROUTINE_START_OF(memcpy, name)
#define ROUTINE_END(name) ROUTINE_END_OF(memcpy, name)
