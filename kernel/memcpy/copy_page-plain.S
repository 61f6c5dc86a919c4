/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: what User Mode Linux does by itself: memcpy of 4096 bytes
 * requires: sse2
 * source: arch/um/include/asm/page.h, where copy_page is a macro for memcpy
 * arch: um
 * function: copy_page
 */
#include "routine.h"

PAGE_ROUTINE_START(copy_page, plain)
	movl	$4096, %edx
	jmp	memcpy
PAGE_ROUTINE_END(copy_page, plain)
