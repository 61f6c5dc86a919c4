/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: what User Mode Linux does by itself: memset of 4096 bytes
 * requires: sse2
 * source: arch/um/include/asm/page.h, where clear_page is a macro for memset
 * arch: um
 * function: clear_page
 */
#include "routine.h"

PAGE_ROUTINE_START(clear_page, plain)
	xorl	%esi, %esi
	movl	$4096, %edx
	jmp	memset
PAGE_ROUTINE_END(clear_page, plain)
